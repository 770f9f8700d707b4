"""A real broker and real workers of a queue, killed with SIGKILL again and again under load.

Kills are not timed but counted: each comes after some number of further acks, so it always hits processes that work. The broker comes
back on the same port; a killed worker is replaced, at times under its old name. The workers write what they get and what they settle
(`queue_worker`), and the promises are checked on these lines.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bowstring.aio
from bowstring import errors
from tests.process.queue_worker import GATHERED, LEASE_SECONDS
from tests.process.serving import environment, start
from tests.process.test_sigkill import free_port, killed_and_back

ROOT = Path(__file__).parents[2]
TOPIC, SUBSCRIPTION, PARTITIONS, WORKERS = "orders", "billing", 3, 3
LIMIT_SECONDS = 900
LEASE_MICROSECONDS = round(LEASE_SECONDS * 1e6)

Line = dict[str, Any]


class Worker:
    """A worker, and the lines that it has written."""

    def __init__(
        self, address: str, name: str, gathered: int, lines: list[Line], came: asyncio.Event, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.name = name
        command = [sys.executable, "-m", "tests.process.queue_worker", address, TOPIC, SUBSCRIPTION, name, str(gathered)]
        paths = {**environment(), "PYTHONPATH": f"{environment()['PYTHONPATH']}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(command, env=paths, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._hearing = threading.Thread(target=self._hear, args=(lines, came, loop))
        self._hearing.start()

    def _hear(self, lines: list[Line], came: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(json.loads(line))
            loop.call_soon_threadsafe(came.set)

    def end(self, *, kill: bool) -> None:
        """Kills it, or lets it close its consumer."""
        if kill:
            self.process.send_signal(signal.SIGKILL)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self._hearing.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Crew:
    """The workers, and everything that any of them has written."""

    def __init__(self, address: str, source: random.Random, gathered: int = GATHERED) -> None:
        self._address = address
        self._source = source
        self._gathered = gathered
        self.lines: list[Line] = []
        self._came = asyncio.Event()
        self._hired = 0
        self.workers = [self._hire() for _ in range(WORKERS)]

    def _hire(self, name: str | None = None) -> Worker:
        self._hired += 1
        return Worker(self._address, name or f"w{self._hired}", self._gathered, self.lines, self._came, asyncio.get_running_loop())

    async def acks(self, more: int) -> None:
        """Waits for some further ones."""
        wanted = self.acked() + more
        while self.acked() < wanted:
            self._came.clear()
            await self._came.wait()

    def acked(self) -> int:
        return sum(line["kind"] == "acked" for line in self.lines)

    async def kill_one(self) -> None:
        """Kills a worker. Another one takes its place, under its name or under a new one."""
        victim = self._source.choice(self.workers)
        await asyncio.to_thread(victim.end, kill=True)
        name = victim.name if self._source.random() < 0.5 else None
        self.workers[self.workers.index(victim)] = self._hire(name)

    async def leave(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(worker.end, kill=False) for worker in self.workers))


class Stream:
    """A producer that goes on until it is told to stop, and what it has stored."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.stored: set[tuple[int, int]] = set()
        self.over = False

    async def run(self) -> None:
        async with bowstring.aio.connect(self._address, timeout=30) as client, client.producer(TOPIC, timeout=60) as producer:
            while not self.over:
                receipts = [producer.send(os.urandom(100)) for _ in range(20)]
                for outcome in await asyncio.gather(*receipts, return_exceptions=True):
                    if isinstance(outcome, errors.Error):
                        continue
                    assert not isinstance(outcome, BaseException), outcome
                    self.stored.add((outcome.partition, outcome.offset))


class Hold:
    """A message that one worker got once, with all that the worker has written of it.

    Leases of a message are compared by the one clock by which the broker grants them, and not by the moments at which workers write:
    the message may have waited in the kit before, and the worker may have stood still after.
    """

    def __init__(self, got: Line, grant: int, end: int) -> None:
        self.at: float = got["at"]
        self.name: str = got["name"]
        self.process: int = got["process"]
        self.retry_count: int = got["retry_count"]
        self.grant = grant
        """The lease's number. Numbers rise with the time."""
        self.end = end
        """The lease's end, as far as it was extended when the worker wrote last."""
        self.granted = end - LEASE_MICROSECONDS
        """When the broker granted the lease, or extended it before the worker got the message."""
        self.nacked_at = math.inf
        self.acking = self.acked = False

    def add(self, line: Line, end: int) -> None:
        """Takes what the worker has written next."""
        self.end = max(self.end, end)
        self.acking |= line["kind"] == "acking"
        self.acked |= line["kind"] == "acked"
        if line["kind"] == "nacking":
            self.nacked_at = line["at"]

    def is_over_before(self, other: Hold) -> bool:
        """Whether this lease had ended when the other one was granted."""
        return self.end <= other.granted or self.nacked_at < other.at

    def is_passed_on_as(self, other: Hold) -> bool:
        """Whether another worker got the same lease, because it came under the name of this one."""
        return other.grant == self.grant and other.name == self.name and other.process != self.process


def held(lines: list[Line]) -> dict[tuple[int, int], list[Hold]]:
    """Who held each message, in the order of the leases."""
    holds: dict[tuple[int, int], list[Hold]] = defaultdict(list)
    latest: dict[tuple[int, int, int], Hold] = {}
    for line in sorted(lines, key=lambda line: line["at"]):
        for partition, offset, grant, end in line["rows"]:
            key = line["process"], partition, offset
            if line["kind"] == "got":
                latest[key] = Hold(line, grant, end)
                holds[partition, offset].append(latest[key])
            else:
                latest[key].add(line, end)
    return {place: sorted(some, key=lambda hold: (hold.grant, hold.at)) for place, some in holds.items()}


def broken_promises(lines: list[Line], stored: set[tuple[int, int]]) -> Iterator[str]:
    """What is wrong with what the workers were given."""
    holds = held(lines)
    for place, some in holds.items():
        for before, after in itertools.pairwise(some):
            yield from _of_two(place, before, after)
    for place in sorted(stored - {place for place, some in holds.items() if any(hold.acking for hold in some)}):
        yield f"{place} was stored, and nobody has acked it"


def _of_two(place: tuple[int, int], before: Hold, after: Hold) -> Iterator[str]:
    """Two holds of one message, one after the other."""
    if before.acked:
        yield f"{place} came again by grant {after.grant} to {after.name}, after {before.name} had acked it by grant {before.grant}"
    same = before.is_passed_on_as(after)
    if not same and not before.is_over_before(after):
        early = (before.end - after.granted) / 1e6
        yield f"{place} was granted to {after.name} {early:.6f} s before the lease of {before.name} had ended"
    if after.retry_count < before.retry_count + (not same):
        yield f"{place} came with retry count {after.retry_count} after {before.retry_count}"


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.long)])
async def test_no_message_is_lost_or_worked_on_twice_when_broker_and_workers_are_killed(tmp_path: Path, kills: int) -> None:
    source = random.Random(os.environ.get("BOWSTRING_KILL_SEED", "bowstring"))
    arguments = ("--data", str(tmp_path), "--listen", f"127.0.0.1:{free_port()}", "--segment-bytes-first", "1MiB")
    served = await asyncio.to_thread(start, *arguments)
    try:
        async with asyncio.timeout(LIMIT_SECONDS), bowstring.aio.connect(served.address) as client:
            await client.create_topic(TOPIC, partitions=PARTITIONS)
            await client.create_subscription(TOPIC, SUBSCRIPTION)
            stream, crew = Stream(served.address), Crew(served.address, source)
            producing = asyncio.create_task(stream.run())
            for _ in range(kills):
                await crew.acks(source.randrange(1, 40))
                if source.random() < 0.5:
                    served = await killed_and_back(served, arguments)
                else:
                    await crew.kill_one()
            stream.over = True
            await producing
            while (await client.subscription(TOPIC, SUBSCRIPTION)).backlog:
                await crew.acks(1)
            await crew.leave()
    finally:
        served.process.kill()
        served.process.communicate()
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in crew.lines), "utf-8")
    assert len(stream.stored) > 5 * kills
    assert list(broken_promises(crew.lines, stream.stored)) == []


def test_the_promises_are_told_apart_from_what_breaks_them():
    def line(kind: str, at: float, end: float, name: str, retry_count: int = 0, process: int | None = None) -> Line:
        row = [0, 1, retry_count + 1, round(end * 1e6)]
        return {"kind": kind, "at": at, "rows": [row], "name": name, "process": process or ord(name), "retry_count": retry_count}

    def told(*lines: Line, stored: bool = False) -> str:
        return "; ".join(broken_promises([*lines], {(0, 1)} if stored else set()))

    got, nacked = line("got", 1.0, 2.0, "a"), line("nacking", 1.1, 2.0, "a")
    again, acking, acked = line("got", 1.2, 2.2, "b", 1), line("acking", 1.25, 2.2, "b"), line("acked", 1.3, 2.2, "b")
    assert not told(got, nacked, again, acking, acked, stored=True)
    assert "nobody has acked it" in told(got, nacked, again, stored=True)
    assert "0.800000 s before the lease of a had ended" in told(got, again, acking, acked)
    assert "after b had acked it" in told(got, nacked, again, acking, acked, line("got", 9.0, 10.0, "c", 2))
    uncounted = line("got", 9.0, 10.0, "c", 2) | {"retry_count": 1}
    assert "retry count 1 after 1" in told(got, nacked, again, uncounted)

    prefetched = line("got", 1.9, 2.0, "a")
    assert not told(prefetched, line("got", 2.01, 3.0, "b", 1)), "the lease began when it was granted, long before the program got it"
    assert "0.000001 s before" in told(prefetched, line("got", 2.01, 2.999999, "b", 1))
    late = line("got", 2.5, 2.0, "a")
    assert not told(late, line("got", 2.01, 3.0, "b", 1)), "the worker stood still before it wrote"
    longer = line("acking", 1.7, 2.6, "a")
    assert "0.600000 s before" in told(got, longer, line("got", 2.1, 3.0, "b", 1)), "the lease was extended"
    assert not told(got, line("got", 1.5, 2.0, "a", process=1)), "another process took the name over, and its leases"
    assert not told(got, nacked, line("got", 1.5, 2.0, "a", process=1)), "the first was killed before the broker had its word"
    assert "before the lease of a had ended" in told(got, line("got", 1.5, 2.0, "a")), "the same process got it twice"
