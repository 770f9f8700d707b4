"""Key-shared consuming beside shared, with 100,000 keys whose load is Zipf's with exponent 1.1, and 8
consumers: how fast, how well balanced, and what one key costs the others that is nacked for ever.

The consumers live in one process on uvloop, with a connection each, and ack batches. Two more that
join live in another one. A process tells what each of its consumers has got whenever a line comes
from its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import uvloop

import bowstring
from benchmarks import server
from benchmarks.clients import ROOT
from benchmarks.turns import Setting, take_turns

KEYS, EXPONENT = 100_000, 1.1
CONSUMERS, JOINING = 8, 2
PARTITIONS = 4
MESSAGES, QUICK_MESSAGES = 1_000_000, 200_000
BATCH = 10_000
SIZE = 100
RATE = 20_000
SETTLED_SECONDS, WINDOW_SECONDS = 10, 5
LIMIT_SECONDS = 300
TOPIC = "keys"
HEAVIEST, POISON = b"k0", b"k100"
NOTHING = b""

Counts = list[tuple[int, int]]
"""Of each consumer: messages, and those of the heaviest key."""


def measure(setting: Setting) -> dict[str, Any]:
    count = QUICK_MESSAGES if setting.quick else MESSAGES
    turns = {
        "shared": lambda: _drain(setting, count, "shared"),
        "key_shared": lambda: _drain(setting, count, "key_shared"),
        "poisoned": lambda: _drain(setting, count, "key_shared", POISON),
    }
    return {"rates": take_turns(setting.rounds, turns), "balance": _balance(setting)}


def _drain(setting: Setting, count: int, mode: str, poison: bytes = NOTHING) -> dict[str, Any]:
    """How fast a backlog is worked off, but for the messages of a key that is nacked."""
    with _topic(setting, mode) as (address, client):
        with client.producer(TOPIC) as producer:
            batches = list(_batches(count))
            for batch in batches:
                producer.send_batch(batch)
        kept = sum(pc.sum(pc.equal(batch["key"], poison)).as_py() or 0 for batch in batches) if poison else 0
        with _consumers(address, CONSUMERS, poison, "first") as consumers:
            began = time.monotonic()
            while client.subscription(TOPIC, mode).backlog > kept:
                if time.monotonic() - began > LIMIT_SECONDS:
                    raise SystemExit(f"the backlog of {mode} was not worked off in {LIMIT_SECONDS} s")
                time.sleep(0.01)
            seconds = time.monotonic() - began
            _ask(consumers)
        return {"messages_per_second": round((count - kept) / seconds), "seconds": round(seconds, 2), "kept": kept}


def _balance(setting: Setting) -> dict[str, Any]:
    """What each consumer gets of a steady load, before and after two have joined."""
    with _topic(setting, "key_shared") as (address, client), contextlib.ExitStack() as stack:
        first = stack.enter_context(_consumers(address, CONSUMERS, NOTHING, "first"))
        publishing = stack.enter_context(_publishing(address))
        time.sleep(SETTLED_SECONDS)
        before = _window([first])
        second = stack.enter_context(_consumers(address, JOINING, NOTHING, "second"))
        time.sleep(SETTLED_SECONDS)
        after = _window([first, second])
        publishing.kill()
        backlog = client.subscription(TOPIC, "key_shared").backlog
    return {"before": _shares(before), "after": _shares(after), "backlog": backlog}


def _window(processes: list[Any]) -> Counts:
    """What came to each within the window."""
    start = [count for process in processes for count in _ask(process)]
    time.sleep(WINDOW_SECONDS)
    end = [count for process in processes for count in _ask(process)]
    return [(after[0] - before[0], after[1] - before[1]) for before, after in zip(start, end, strict=True)]


def _shares(counts: Counts) -> dict[str, float]:
    heaviest = max(range(len(counts)), key=lambda number: counts[number][1])
    others = [every for number, (every, _) in enumerate(counts) if number != heaviest]
    mean = max(1.0, sum(others) / len(others))
    every, of_key = counts[heaviest]
    figures = {"else": (every - of_key) / mean, "heaviest": every / mean, "least": min(others) / mean, "most": max(others) / mean}
    return {name: round(figure, 3) for name, figure in figures.items()}


@contextlib.contextmanager
def _topic(setting: Setting, mode: str) -> Generator[tuple[str, Any]]:
    with server.running(setting.folder) as broker, bowstring.connect(broker.address) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS)
        client.create_subscription(TOPIC, mode, mode=mode, max_deliveries=None)
        yield f"{broker.address} {mode}", client


def _batches(count: int, seed: int = 1) -> Generator[pa.Table]:
    source = np.random.default_rng(seed)
    weights = np.arange(1, KEYS + 1) ** -EXPONENT
    bounds, names = np.cumsum(weights / weights.sum()), pa.array([f"k{number}".encode() for number in range(KEYS)])
    for _ in range(0, count, BATCH):
        drawn = np.minimum(np.searchsorted(bounds, source.random(BATCH)), KEYS - 1)
        yield pa.table({"key": names.take(pa.array(drawn)), "value": pa.array([bytes(SIZE)] * BATCH)})


# ---- processes


@contextlib.contextmanager
def _running(*arguments: str) -> Generator[Any]:
    command = [sys.executable, "-m", "benchmarks.queue.keys", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _consumers(place: str, count: int, poison: bytes, name: str) -> Generator[Any]:
    with _running("consume", *place.split(), str(count), poison.decode(), name) as process:
        process.stdout.readline()
        yield process


@contextlib.contextmanager
def _publishing(place: str) -> Generator[Any]:
    with _running("publish", place.split()[0]) as process:
        yield process


def _ask(process: Any) -> Counts:
    process.stdin.write(b"\n")
    process.stdin.flush()
    return [(every, heaviest) for every, heaviest in json.loads(process.stdout.readline())]


async def consume(address: str, subscription: str, count: str, poison: str, name: str) -> None:
    """Consumes until it is killed."""
    counts = [[0, 0] for _ in range(int(count))]

    async def work(found: list[int], consumer: Any) -> None:
        async for batch in consumer.batches():
            keys = batch.column("key")
            found[0] += len(batch)
            found[1] += pc.sum(pc.equal(keys, HEAVIEST)).as_py() or 0
            bad = pc.equal(keys, poison.encode()) if poison else None
            if bad is not None and pc.any(bad).as_py():
                batch.nack(bad)
            batch.ack()

    async with contextlib.AsyncExitStack() as stack:
        tasks: list[asyncio.Task[None]] = []
        print("ready", flush=True)
        for number, found in enumerate(counts):
            client = await stack.enter_async_context(bowstring.aio.connect(address))
            consumer = await stack.enter_async_context(client.consumer(TOPIC, subscription, name=f"{name}-{number}"))
            tasks.append(asyncio.create_task(work(found, consumer)))
        while await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            print(json.dumps(counts), flush=True)


def publish(address: str) -> None:
    """Publishes by the clock until it is killed."""
    with bowstring.connect(address) as client, client.producer(TOPIC) as producer:
        moment, step = time.monotonic(), 2_000
        while True:
            for batch in _batches(50 * BATCH, seed=2):
                for start in range(0, BATCH, step):
                    moment += step / RATE
                    time.sleep(max(0.0, moment - time.monotonic()))
                    producer.send_batch(batch.slice(start, step))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.keys", description=__doc__)
    parser.add_argument("work", choices=("consume", "publish"))
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.work == "publish":
        publish(*options.arguments)
    else:
        uvloop.run(consume(*options.arguments))


if __name__ == "__main__":
    main()
