"""The broker's CPU for small durable publishes, without a network: `python -m benchmarks.publish_path`.

A real broker on a real directory, in this process, with clients that are objects: each opens a publish stream, and has one batch under
way. A batch is handed to the broker in the step in which it comes, and answers are taken in the step in which they are made, as the
port allows (`ports.transport`). `--plain` uses a transport that can only `read` and `write`. All messages are made before the clock
runs, so CPU is the broker's: its loop, its threads, SQLite and the kernel. What the clients themselves cost is measured beside it, with
a broker that answers by itself, and is subtracted.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import shutil
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from bowstring.assembly import assemble
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.host.clock import SystemClock
from bowstring.host.disk import HostDisk
from bowstring.host.worker import ThreadWorker
from bowstring.messages.encoding import Encoded, encode_columns
from bowstring.ports.transport import Caller, Inbound, Take
from bowstring.settings import Settings
from bowstring.wire.codec import join
from bowstring.wire.generated import bowstring_pb2 as pb

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "bench"
TIMEOUT = 3_600_000_000
CALLER = Caller(address="here", transport="none")
FUNCTIONS_TOLD = 45


class Crowd:
    """All clients. Those that got an answer send their next batch in the next turn of the loop, all together, as if their packets had
    come."""

    def __init__(self, total: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._total = total
        self._ready: list[Client] = []
        self.answers = 0
        self.done = asyncio.Event()
        self.seconds: list[float] = []

    def answered(self, client: Client) -> None:
        self.answers += 1
        if self.answers == self._total:
            self.done.set()
        if not self._ready:
            self._loop.call_soon(self._send)
        self._ready.append(client)

    def _send(self) -> None:
        ready, self._ready = self._ready, []
        for client in ready:
            client.send()


class Client(Inbound):
    """A client and its stream, as the broker sees it."""

    def __init__(self, crowd: Crowd, opening: bytes, messages: list[bytes]) -> None:
        self._crowd = crowd
        self._opening = opening
        self._messages = deque(messages)
        self._sent = 0.0
        self._hand: Callable[[bytes], object] = self._keep
        self._kept: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._over = asyncio.Event()

    def send(self) -> None:
        if self._messages:
            self._sent = time.perf_counter()
            self._hand(self._messages.popleft())

    def _keep(self, message: bytes) -> None:
        self._kept.append(message)
        self._arrived.set()

    def _answered(self) -> None:
        self._crowd.seconds.append(time.perf_counter() - self._sent)
        self._crowd.answered(self)

    def end(self) -> None:
        self._over.set()
        self._arrived.set()

    async def read(self) -> bytes | None:
        if self._opening:
            opening, self._opening = self._opening, b""
            return opening
        while not self._kept:
            if self._over.is_set():
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._kept.popleft()

    async def write(self, message: Any) -> None:
        self._answered()


class DirectClient(Client):
    """Hands over and takes at once."""

    async def each(self, take: Take) -> None:
        if (waiting := take(self._opening)) is not None:
            await waiting
        while self._kept:
            take(self._kept.popleft())
        self._hand = take
        await self._over.wait()

    def try_write(self, message: Any) -> bool:
        self._answered()
        return True


def requests(batch: Encoded, count: int) -> tuple[bytes, list[bytes]]:
    """What one producer sends: the opening, and its batches."""
    opened = pb.PublishOpen(topic=TOPIC, producer=os.urandom(16), stream=1, group="default")
    sent = SystemClock().now()
    messages: list[bytes] = []
    for number in range(1, count + 1):
        header = pb.PublishRequest(number=number, previous=number - 1, sent=sent, timeout=TIMEOUT)
        header.schema, header.columns, header.rows = 1, batch.mask, batch.rows
        messages.append(join(header.SerializeToString(), batch.data))
    return pb.PublishRequest(open=opened).SerializeToString(), messages


async def measure(options: argparse.Namespace) -> dict[str, float]:
    data = Path(tempfile.mkdtemp(prefix="path-", dir=options.folder))
    worker = ThreadWorker("bowstring-catalog")
    disk = None if options.memory else HostDisk(data)
    if disk is not None:
        disk.lock("benchmark")
    catalog = SqliteCatalog(":memory:" if options.memory else str(data / "catalog.sqlite"), worker)
    broker, gateway = assemble(Settings(), clock=SystemClock(), catalog=catalog, disk=disk)
    try:
        await broker.start()
        await broker.topics.create(TOPIC)
        found = await _crowded(gateway, lambda: broker.statistics().flushes, options)
        await broker.stop()
        return found
    finally:
        await worker.close()
        if disk is not None:
            disk.unlock()
        shutil.rmtree(data, ignore_errors=True)


class Echo:
    """In place of a gateway: answers every batch at once."""

    async def stream(self, method: str, inbound: Client, caller: Caller) -> None:
        await inbound.each(lambda message: None if len(message) < 50 else inbound.try_write(message) and None)


async def _crowded(gateway: Any, flushes: Callable[[], int], options: argparse.Namespace) -> dict[str, float]:
    values = [os.urandom(options.size) for _ in range(options.rows)]
    keys = {"keys": [os.urandom(12) for _ in range(options.rows)]} if options.key else {}
    batch = encode_columns(options.rows, values=values, created=SystemClock().now(), **keys)
    each = max(1, options.count // options.clients)
    crowd = Crowd(each * options.clients)
    kind = Client if options.plain else DirectClient
    clients = [kind(crowd, *requests(batch, each)) for _ in range(options.clients)]
    streams = [asyncio.create_task(gateway.stream("Publish", client, CALLER)) for client in clients]
    await asyncio.sleep(0.05)
    before, profile = flushes(), cProfile.Profile() if options.profile else None
    if profile is not None:
        profile.enable()
    cpu, begun = time.process_time(), time.perf_counter()
    for client in clients:
        client.send()
    await crowd.done.wait()
    cpu, seconds = time.process_time() - cpu, time.perf_counter() - begun
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(FUNCTIONS_TOLD)
    for client in clients:
        client.end()
    await asyncio.gather(*streams)
    count = len(crowd.seconds)
    return {
        "cpu_us": round(cpu / count * 1e6, 1),
        "batches_per_second": round(count / seconds),
        "batches_per_flush": round(count / max(1, flushes() - before), 1),
        "median_ms": round(statistics.median(crowd.seconds) * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish_path", description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--count", type=int, default=19_200, help="batches in all")
    parser.add_argument("--rows", type=int, default=1, help="messages a batch")
    parser.add_argument("--size", type=int, default=100, help="bytes a value")
    parser.add_argument("--key", action="store_true")
    parser.add_argument("--memory", action="store_true", help="without a disk: what is left is neither files nor syncs")
    parser.add_argument("--plain", action="store_true", help="a transport that can only read and write")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="where the data directory is made; on a real disk")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = uvloop.run(measure(options))
    options.profile = False
    echo = 0.0 if options.plain else uvloop.run(_crowded(Echo(), lambda: 0, options))["cpu_us"]
    print(json.dumps({**found, "clients_us": echo, "broker_us": round(found["cpu_us"] - echo, 1)}))


if __name__ == "__main__":
    main()
