"""What readers at the tail of a log cost while consumers of the same topic settle: 300 settlements
a second, each a flush of its own.

A flush without new messages must not wake anyone who waits for messages. Four spans of time are
compared, in one broker: nothing but the publisher, with readers, with settlements, with both. What
the readers cost is the difference in the broker's CPU, and the CPU of the process that they live
in. Messages come twenty a second, and each reader gets each.

Readers that get nothing are measured too: of a topic to which nobody publishes, while its consumer
settles.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import uvloop

import bowstring
from benchmarks import processes, server
from benchmarks.clients import ROOT
from benchmarks.turns import Setting, say

READERS = 100
RATE = 20
FLUSHES = 300
SPAN_SECONDS = 8.0
QUICK_SECONDS = 2.0
TOPIC = SUBSCRIPTION = "tails"
SIZE = 100
Span = dict[str, float]


def measure(setting: Setting) -> dict[str, Any]:
    """CPU seconds a second, by what there was; medians over the rounds."""
    seconds = QUICK_SECONDS if setting.quick else SPAN_SECONDS
    return {name: _measure(setting, seconds, rate) for name, rate in (("busy", RATE), ("idle", 0))}


def _measure(setting: Setting, seconds: float, rate: int) -> dict[str, Any]:
    kinds = [(False, False), (True, False), (False, True), (True, True)]
    found: dict[str, list[Span]] = {}
    with server.running(setting.folder) as broker, bowstring.connect(broker.address) as client:
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, SUBSCRIPTION)
        backlog = int(4 * (setting.rounds + 1) * FLUSHES * (seconds + 5))
        with client.producer(TOPIC) as producer:
            producer.send_batch([os.urandom(SIZE)] * backlog)
        for number in range(setting.rounds):
            for reads, settles in kinds if number % 2 == 0 else reversed(kinds):
                name = " and ".join([*["readers"] * reads, *["settlements"] * settles]) or "neither"
                span = _span(broker, client, seconds, rate, reads=reads, settles=settles)
                say(f"  {name:24} broker {span['broker']:.3f}, readers {span['readers']:.3f} CPU s/s")
                found.setdefault(name, []).append(span)
    return {name: _medians(spans) for name, spans in found.items()}


def _medians(spans: list[Span]) -> Span:
    return {figure: round(statistics.median(span[figure] for span in spans), 4) for figure in spans[0]}


def _span(broker: server.Server, client: Any, seconds: float, rate: int, *, reads: bool, settles: bool) -> Span:
    with contextlib.ExitStack() as stack:
        readers = stack.enter_context(_running("read", broker.address)) if reads else None
        settler = stack.enter_context(_running("settle", broker.address)) if settles else None
        stack.enter_context(_publishing(client, rate))
        time.sleep(1.0)
        watched = {"broker": broker.pid, "readers": readers.pid if readers else 0, "settler": settler.pid if settler else 0}
        before = {name: processes.cpu_seconds(pid) if pid else 0.0 for name, pid in watched.items()}
        begun = time.perf_counter()
        time.sleep(seconds)
        taken = time.perf_counter() - begun
        span = {name: (processes.cpu_seconds(pid) - before[name]) / taken if pid else 0.0 for name, pid in watched.items()}
        for process in (readers, settler):
            if process is not None and process.poll() is not None:
                raise RuntimeError("readers or consumer have ended")
        return span


@contextlib.contextmanager
def _running(work: str, address: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.queue.tails", work, address]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # ready
            yield process
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _publishing(client: Any, rate: int) -> Generator[None]:
    stopping = threading.Event()

    def publish() -> None:
        value = os.urandom(SIZE)
        with client.producer(TOPIC) as producer:
            while not stopping.wait(1 / rate):
                producer.send(value)

    thread = threading.Thread(target=publish, daemon=True) if rate else None
    if thread is not None:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        if thread is not None:
            thread.join()


# ---- the processes


async def read(address: str) -> None:
    """Readers at the tail, for ever."""

    async def follow(reader: Any) -> None:
        async for message in reader:
            len(message.value)

    async with bowstring.aio.connect(address) as client:
        readers = [client.reader(TOPIC, start="latest") for _ in range(READERS)]
        tasks = [asyncio.create_task(follow(reader)) for reader in readers]
        await asyncio.sleep(1.0)
        print("ready", flush=True)
        await asyncio.gather(*tasks)


async def settle(address: str) -> None:
    """Acks one message after the other by the clock, each when the one before is durable."""
    credit = int(FLUSHES * (SPAN_SECONDS + 5))
    async with bowstring.aio.connect(address) as client, client.consumer(TOPIC, SUBSCRIPTION, credit=credit, lease=600) as consumer:
        moment = 0.0
        async for message in consumer:
            if not moment:
                await asyncio.sleep(1.0)  # the rest of the credit has come by then
                print("ready", flush=True)
                moment = time.monotonic()
            moment += 1 / FLUSHES
            if (early := moment - time.monotonic()) > 0:
                await asyncio.sleep(early)
            await message.ack()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.tails", description=__doc__)
    parser.add_argument("work", choices=("read", "settle"))
    parser.add_argument("address")
    options = parser.parse_args()
    uvloop.run({"read": read, "settle": settle}[options.work](options.address))


if __name__ == "__main__":
    main()
