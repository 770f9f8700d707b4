"""Shared parts of the tests of load: a broker observed from outside, producers that remember their
answers, and a check that everything acknowledged survives a SIGKILL.

Sizes are for an idle machine with two cores. BOWSTRING_LOAD_SHARE=0.1 makes every number a tenth,
to try a test.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

import bowstring.aio
from tests.history.events import label, label_in, value_of
from tests.process.serving import start

KIB, MIB = 1024, 1024 * 1024
LIMIT_SECONDS = 600
SHARE = float(os.environ.get("BOWSTRING_LOAD_SHARE", "1"))


def scaled(number: int) -> int:
    """So many, or the share of it that was asked for."""
    return max(2, int(number * SHARE))


def tell(**figures: object) -> None:
    """Prints figures; pytest shows them with -s or -rP."""
    print("  ".join(f"{name.replace('_', ' ')}: {value}" for name, value in figures.items()))


def spread(seconds: list[float]) -> str:
    """Median, 99th percentile and maximum of waits."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"median {statistics.median(ordered) * 1e3:.1f} ms, 99 % {high * 1e3:.1f} ms, most {ordered[-1] * 1e3:.1f} ms"


def mib(size: float) -> str:
    return f"{size / MIB:.0f} MiB"


class LoadedBroker:
    """`bowstring serve` in a child, on one port for all its lives, and what the system says of it."""

    def __init__(self, data: Path, *arguments: str, before: list[str] | None = None) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            listen = f"127.0.0.1:{taken.getsockname()[1]}"
        self._arguments = ("--data", str(data), "--listen", listen, *arguments)
        self._served = start(*self._arguments, before=before)
        self.address = self._served.address
        process = psutil.Process(self._served.process.pid)
        self._process = process.children()[0] if before and before[0] == "strace" else process
        self.begun = self.memory()

    def memory(self) -> int:
        """Bytes of memory that it has now."""
        return self._process.memory_info().rss

    def memory_most(self) -> int:
        """The most that it ever had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * KIB

    def files(self) -> int:
        return self._process.num_fds()

    def threads(self) -> int:
        return self._process.num_threads()

    def kill(self) -> None:
        """SIGKILL, whatever it is doing."""
        if self._process.is_running():
            self._process.send_signal(signal.SIGKILL)
        self._served.process.communicate(timeout=LIMIT_SECONDS)

    def killed_and_back(self) -> None:
        """The same directory, served by another process."""
        self.kill()
        self._served = start(*self._arguments)
        self._process = psutil.Process(self._served.process.pid)


@asynccontextmanager
async def loaded(data: Path, *arguments: str, before: list[str] | None = None) -> AsyncIterator[LoadedBroker]:
    """A broker for the length of a block, which may take so long at most."""
    broker = await asyncio.to_thread(LoadedBroker, data, *arguments, before=before)
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            yield broker
    finally:
        await asyncio.to_thread(broker.kill)


class Ledger:
    """The answers that producers got about a topic."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.places: dict[str, tuple[int, int]] = {}
        """Partition and offset of every message that was acknowledged, by the label in it."""
        self.by_producer: dict[str, int] = {}
        self.waits: list[float] = []
        """From each send to its acknowledgement."""
        self.over = asyncio.Event()

    async def produce(self, client: bowstring.aio.Client, name: str, *, size: int, ahead: int = 1, messages: int | None = None) -> None:
        """A producer that has so many messages under way, until it has sent all or everything is
        over.
        """
        producer = client.producer(self.topic, group=name, timeout=300)
        self.by_producer[name] = 0
        waiting: set[asyncio.Task[None]] = set()
        sequence = 0
        while not self.over.is_set() and sequence != messages:
            sequence += 1
            await producer.ready()
            waiting.add(asyncio.create_task(self._send(producer, name, sequence, size)))
            if len(waiting) >= ahead:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*waiting)
        await producer.close()

    async def _send(self, producer: bowstring.aio.Producer, name: str, sequence: int, size: int) -> None:
        text = label(name, sequence)
        began = time.monotonic()
        stored = await producer.send(value_of(text, size))
        self.waits.append(time.monotonic() - began)
        self.places[text] = (stored.partition, stored.offset)
        self.by_producer[name] += 1

    @property
    def slowest_share(self) -> float:
        """What the slowest producer got stored, as a part of what all of them got on average."""
        return min(self.by_producer.values()) / statistics.mean(self.by_producer.values())

    async def check(self, address: str) -> None:
        """Everything that was acknowledged is where it was said to be, once, and nothing else is
        there.
        """
        found: dict[str, tuple[int, int]] = {}
        async with bowstring.aio.connect(address) as client:
            async for batch in client.reader(self.topic, end="latest").batches():
                for message in batch:
                    text = label_in(message.value)
                    assert text not in found, f"{text} is there twice"
                    assert message.value == value_of(text, len(message.value or b""))
                    found[text] = (message.partition, message.offset)
        missing = self.places.keys() - found.keys()
        assert not missing, f"{len(missing)} of {len(self.places)} acknowledged messages are gone, such as {min(missing)}"
        assert found == self.places
