"""A thousand consumers share one partition: does each get its share, and how large does the broker
get?

The consumers live in a few processes on uvloop, with a connection each; messages come by the clock,
twenty a millisecond. A consumer acks each message when it gets it. What is counted is what each
consumer got from the first message to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import uvloop

import bowstring
from benchmarks import processes, server
from benchmarks.clients import ROOT
from benchmarks.turns import Setting

CONSUMERS = 1_000
PROCESSES = 2
RATE = 20_000
SECONDS = 20
QUICK_SECONDS = 5
SIZE = 100
TOPIC = SUBSCRIPTION = "crowd"
READY_SECONDS_MAX = 120
AFTER_SECONDS = 10
"""What is not delivered so long after the last message was published is late, and counts as
missing.
"""


def measure(setting: Setting) -> dict[str, Any]:
    seconds = QUICK_SECONDS if setting.quick else SECONDS
    settings = {"connections_max": 2 * CONSUMERS}
    with (
        server.running(setting.folder, settings=settings) as broker,
        bowstring.connect(broker.address) as client,
        contextlib.ExitStack() as stack,
    ):
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, SUBSCRIPTION)
        command = [sys.executable, "-m", "benchmarks.queue.crowd", broker.address, str(CONSUMERS // PROCESSES)]
        workers = [stack.enter_context(_running(command)) for _ in range(PROCESSES)]
        for worker in workers:
            worker.stdout.readline()  # ready
        spent = processes.cpu_seconds(broker.pid)
        late = _publish(client, RATE * seconds)
        until = time.monotonic() + AFTER_SECONDS
        while (backlog := client.subscription(TOPIC, SUBSCRIPTION).backlog) and time.monotonic() < until:
            time.sleep(0.2)
        spent = processes.cpu_seconds(broker.pid) - spent
        told = [json.loads(worker.communicate(b"end\n", timeout=READY_SECONDS_MAX)[0]) for worker in workers]
        counts = [count for one in told for count in one["counts"]]
        mean = statistics.mean(counts)
        return {
            "consumers": len(counts),
            "messages": sum(counts),
            "backlog": backlog,
            "publisher_late_ms": round(late * 1e3, 1),
            "least": round(min(counts) / mean, 3),
            "most": round(max(counts) / mean, 3),
            "deviation": round(statistics.pstdev(counts) / mean, 3),
            "peak_bytes": processes.peak_bytes(broker.pid),
            "server_cpu_per_million": round(spent / sum(counts) * 1e6, 3),
            **processes.percentiles([taken for one in told for taken in one["taken"]]),
        }


@contextlib.contextmanager
def _running(command: list[str]) -> Any:
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _publish(client: Any, count: int) -> float:
    """Publishes by the clock, and gives by how much the last message was late."""
    rest, step, some = os.urandom(SIZE - 8), 1_000_000, RATE // 1_000
    with client.producer(TOPIC) as producer:
        moment = time.monotonic_ns() + 10_000_000
        for _ in range(0, count, some):
            moment += step
            if (early := moment - time.monotonic_ns()) > 0:
                time.sleep(early / 1e9)
            for _ in range(some):
                producer.send(moment.to_bytes(8, "little") + rest)
        return (time.monotonic_ns() - moment) / 1e9


# ---- the consumers' process


async def consume(address: str, consumers: int) -> dict[str, Any]:
    """Counts what each of so many consumers gets until a line comes from standard input, and how
    long some of it took.
    """
    counts, taken = [0] * consumers, list[float]()

    async def work(number: int, consumer: Any) -> None:
        async for message in consumer:
            counts[number] += 1
            if not number % 100:
                taken.append((time.monotonic_ns() - int.from_bytes(message.value[:8], "little")) / 1e9)
            message.ack()

    async with contextlib.AsyncExitStack() as stack:
        tasks: list[asyncio.Task[None]] = []
        for number in range(consumers):
            client = await stack.enter_async_context(bowstring.aio.connect(address))
            consumer = await stack.enter_async_context(client.consumer(TOPIC, SUBSCRIPTION))
            tasks.append(asyncio.create_task(work(number, consumer)))
        await asyncio.sleep(1.0)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {"counts": counts, "taken": taken}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.crowd", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("consumers", type=int)
    options = parser.parse_args()
    print(json.dumps(uvloop.run(consume(options.address, options.consumers))))


if __name__ == "__main__":
    main()
