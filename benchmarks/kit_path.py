"""What a message costs in the kit alone: `python -m benchmarks.kit_path`.

The transport is one that costs nearly nothing: it lives in the same process, takes a message in the
step in which the kit writes it, and hands over an answer, made before the clock starts, in the next
turn of the loop. What is left is the kit: gathering, encoding, receipts, tasks and threads. CPU
microseconds a message, the best of several rounds.

`--source FOLDER` measures the sources in that folder in turn with those of this tree, each in a
process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import uvloop

from bowstring.client import client as asynchronous
from bowstring.client import sync
from bowstring.host.clock import SystemClock
from bowstring.host.randomness import SystemRandomness
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces, Stream, Take
from bowstring.wire.generated import bowstring_pb2 as pb

CLIENTS = 64
TOPIC = "bench"
ANSWERS_MAX = 60_000
ATTRIBUTES = [{"country": country, "kind": "order"} for country in ("CH", "DE", "FR", "IT", "AT", "ES", "NL", "SE")]


class DirectStream(Stream):
    """Answers every message but the first, which opens the stream. A producer with one partition
    numbers its batches from 1, so the stream need not look into them.
    """

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._count = -1
        self._loop = asyncio.get_running_loop()
        self._take: Take | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._arrived: deque[bytes] = deque()
        self._reading: asyncio.Future[None] | None = None

    def try_write(self, message: Buffer | Pieces) -> bool:
        self._count += 1
        if self._count:
            self._loop.call_soon(self._answer, self._answers[self._count])
        return True

    async def write(self, message: Buffer | Pieces) -> None:
        self.try_write(message)

    def _answer(self, answer: bytes) -> None:
        if self._take is not None:
            self._take(answer)
            return
        self._arrived.append(answer)
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def each(self, take: Take) -> None:
        self._take = take
        await self._ended

    async def read(self) -> Buffer | None:
        while not self._arrived:
            self._reading = self._loop.create_future()
            await self._reading
        return self._arrived.popleft()

    async def end(self) -> None:
        return

    def cancel(self) -> None:
        self._ended.cancel()


class DirectChannel:
    """Implements `ports.transport.Channel`."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        if method == "Hello":
            now = SystemClock().now()
            greeting = pb.HelloAnswer(software="direct", protocol=1, broker_time=now, cluster=b"c" * 16, incarnation=1)
            greeting.batch_bytes_max, greeting.publish_window = 16 * 2**20, 8 * 2**20
            return greeting.SerializeToString()
        return pb.Topic(name=TOPIC, id=1, partitions=1).SerializeToString()

    def stream(self, method: str) -> Stream:
        return DirectStream(self._answers)

    async def close(self) -> None:
        return


class DirectDialer:
    """Implements `ports.transport.Dialer`."""

    def __init__(self) -> None:
        now = SystemClock().now()
        stored = [pb.Stored(first_offset=number + 1, rows=1) for number in range(ANSWERS_MAX)]
        answers = [pb.PublishAnswer(number=number, broker_time=now, stored=where) for number, where in enumerate(stored)]
        self._answers = [answer.SerializeToString() for answer in answers]

    def dial(self, address: str) -> DirectChannel:
        return DirectChannel(self._answers)


def _client(dialer: DirectDialer) -> asynchronous.Client:
    return asynchronous.Client(["direct:1"], dialer=dialer, clock=SystemClock(), randomness=SystemRandomness())


async def _awaited(clients: int, count: int) -> float:
    """`await producer.send(value)`, so many clients, every one with one message under way."""
    dialer, value = DirectDialer(), os.urandom(100)
    opened = [await _client(dialer).open() for _ in range(clients)]
    producers = [client.producer(TOPIC) for client in opened]
    for producer in producers:
        await producer.send(value)

    async def work(producer: Any) -> None:
        for _ in range(count // clients):
            await producer.send(value)

    begun = time.process_time()
    await asyncio.gather(*map(work, producers))
    taken = time.process_time() - begun
    for client in opened:
        await client.close()
    return taken / count


def awaited_by_one() -> float:
    return uvloop.run(_awaited(1, 20_000))


def awaited_by_many() -> float:
    return uvloop.run(_awaited(CLIENTS, 40_000))


def _measured(count: int, work: Callable[[Any, int], object]) -> float:
    thread = sync._loop_thread()
    client = sync.Client(thread.run(_client(DirectDialer()).open()), thread)
    with client, client.producer(TOPIC, timeout=300) as producer:
        work(producer, 100)
        producer.flush()
        begun = time.process_time()
        work(producer, count)
        producer.flush()
        return (time.process_time() - begun) / count


def results() -> float:
    """`send(value).result()` in the sync face."""

    def work(producer: Any, count: int) -> None:
        value = os.urandom(100)
        for _ in range(count):
            producer.send(value).result()

    return _measured(10_000, work)


def sends() -> float:
    """`send(value)`, receipts ignored."""
    values = [os.urandom(100) for _ in range(1024)]

    def work(producer: Any, count: int) -> None:
        send = producer.send
        for number in range(count):
            send(values[number & 1023])

    return _measured(1_000_000, work)


def keyed_sends() -> float:
    """`send(value, key=…, attributes=…)`, receipts ignored."""
    values = [os.urandom(100) for _ in range(1024)]
    keys = [f"customer-{number}" for number in range(10_000)]

    def work(producer: Any, count: int) -> None:
        send = producer.send
        for number in range(count):
            send(values[number & 1023], key=keys[number % 10_000], attributes=dict(ATTRIBUTES[number & 7]))

    return _measured(500_000, work)


WORK: dict[str, Callable[[], float]] = {
    "await, 1 client": awaited_by_one,
    "await, 64 clients": awaited_by_many,
    "result()": results,
    "send()": sends,
    "send() with key and attributes": keyed_sends,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kit_path", description=__doc__)
    parser.add_argument("work", nargs="*", help=f"some of: {'; '.join(WORK)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", action="append", default=[], help="the folder of other sources, to measure in turn")
    parser.add_argument("--once", action="store_true", help="measure once, in this process, and print JSON")
    options = parser.parse_args()
    wanted = options.work or list(WORK)
    if options.once:
        print(json.dumps({name: WORK[name]() for name in wanted}))
        return
    sources = [*options.source, os.environ.get("PYTHONPATH", "")]
    best: dict[tuple[str, str], float] = {}
    for _ in range(options.rounds):
        for source in sources:
            program = [sys.executable, "-m", "benchmarks.kit_path", "--once", *wanted]
            found = subprocess.run(program, env={**os.environ, "PYTHONPATH": source}, check=True, stdout=subprocess.PIPE)
            for name, seconds in json.loads(found.stdout).items():
                best[source, name] = min(seconds, best.get((source, name), seconds))
    for name in wanted:
        print(f"{name:32}" + "".join(f"{best[source, name] * 1e6:10.2f} µs" for source in sources))


if __name__ == "__main__":
    main()
