"""A real broker and real workers of a queue, killed with SIGKILL again and again under load.

Kills are not timed but counted: each comes after some number of further acks, so it always hits processes that work. The broker comes
back on the same port; a killed worker is replaced, at times under its old name. The workers write what they get and what they settle
(`queue_worker`), and the promises are checked on these lines.
"""

from __future__ import annotations

import asyncio
import json
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
from tests.process.queue_worker import LEASE_SECONDS
from tests.process.serving import environment, start
from tests.process.test_sigkill import free_port, killed_and_back

ROOT = Path(__file__).parents[2]
TOPIC, SUBSCRIPTION, PARTITIONS, WORKERS = "orders", "billing", 3, 3
LIMIT_SECONDS = 900
ALLOWANCE = 0.1
"""Two processes read the clock a little apart from what they write down."""

Line = dict[str, Any]


class Worker:
    """A worker, and the lines that it has written."""

    def __init__(self, address: str, name: str, lines: list[Line], came: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        command = [sys.executable, "-m", "tests.process.queue_worker", address, TOPIC, SUBSCRIPTION, name]
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

    def __init__(self, address: str, source: random.Random) -> None:
        self._address = address
        self._source = source
        self.lines: list[Line] = []
        self._came = asyncio.Event()
        self._hired = 0
        self.workers = [self._hire() for _ in range(WORKERS)]

    def _hire(self, name: str | None = None) -> Worker:
        self._hired += 1
        return Worker(self._address, name or f"w{self._hired}", self.lines, self._came, asyncio.get_running_loop())

    async def acks(self, more: int) -> None:
        """Waits for some further ones."""
        wanted = self._acked() + more
        while self._acked() < wanted:
            self._came.clear()
            await self._came.wait()

    def _acked(self) -> int:
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


def broken_promises(lines: list[Line], stored: set[tuple[int, int]]) -> Iterator[str]:
    """What is wrong with what the workers were given."""
    events: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line["at"]):
        for partition, offset in line["rows"]:
            events[partition, offset].append(line)
    for place, told in events.items():
        yield from _of_one(place, told)
    for place in sorted(stored - {place for place, told in events.items() if any(line["kind"] == "acking" for line in told)}):
        yield f"{place} was stored, and nobody has acked it"


def _of_one(place: tuple[int, int], told: list[Line]) -> Iterator[str]:
    """The life of one message."""
    count, got_at, open_since = -1, 0.0, None
    for line in told:
        if line["kind"] == "got":
            if open_since is not None and line["at"] < got_at + LEASE_SECONDS - ALLOWANCE and line["name"] != open_since:
                yield f"{place} was given to {line['name']} {line['at'] - got_at:.3f} s after {open_since} had got it"
            if line["retry_count"] < count:
                yield f"{place} came with retry count {line['retry_count']} after {count}"
            count, got_at, open_since = line["retry_count"], line["at"], line["name"]
        elif line["kind"] == "nacking":
            open_since = None
        elif line["kind"] == "acked" and any(later["kind"] == "got" and later["at"] > line["at"] for later in told):
            yield f"{place} came again after it was acked"


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
    assert len(stream.stored) > 5 * kills
    assert list(broken_promises(crew.lines, stream.stored)) == []


def test_the_promises_are_told_apart_from_what_breaks_them():
    def line(kind: str, at: float, name: str = "", retry_count: int = 0) -> Line:
        return {"kind": kind, "at": at, "rows": [[0, 1]], "name": name, "retry_count": retry_count}

    good = [line("got", 1.0, "a"), line("nacking", 1.1), line("got", 1.2, "b", 1), line("acking", 1.25), line("acked", 1.3)]
    assert not list(broken_promises(good, {(0, 1)}))
    assert "nobody has acked it" in next(broken_promises(good[:3], {(0, 1)}))
    assert "after a had got it" in next(broken_promises([good[0], *good[2:]], {(0, 1)}))
    assert "after it was acked" in next(broken_promises([*good, line("got", 9.0, "c", 1)], {(0, 1)}))
    assert "retry count 0 after 1" in next(broken_promises([*good[:3], line("got", 9.0, "c", 0), line("acking", 9.1)], {(0, 1)}))
