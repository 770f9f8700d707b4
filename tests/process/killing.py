"""A broker and the workers of a queue, which are killed with SIGKILL again and again while a producer goes on.

Kills are not timed but counted: each comes after some number of further acks, so it always hits processes that work. The broker comes
back on the same port; a killed worker is replaced, at times under its old name. The workers write what they get and what they settle
(`queue_worker`), and promises are checked on these lines.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import bowstring.aio
from tests.process.queue_worker import GATHERED, LEASE_SECONDS
from tests.process.serving import environment, start
from tests.process.test_sigkill import free_port, killed_and_back

ROOT = Path(__file__).parents[2]
TOPIC, SUBSCRIPTION, PARTITIONS, WORKERS = "orders", "billing", 3, 3
LIMIT_SECONDS = 900
LOOK_AGAIN_SECONDS = 1.0
"""So long it waits for the next ack before it asks for the backlog again. The last ack may be told between the two, and that of a
killed worker is never told."""
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

    def begun(self) -> int:
        """How many messages some worker has said that it acks. That they are acked it may not have lived to say."""
        said = (line["rows"] for line in self.lines if line["kind"] == "acking")
        return len({(partition, offset) for rows in said for partition, offset, *_ in rows})

    async def kill_one(self) -> None:
        """Kills a worker. Another one takes its place, under its name or under a new one."""
        victim = self._source.choice(self.workers)
        await asyncio.to_thread(victim.end, kill=True)
        name = victim.name if self._source.random() < 0.5 else None
        self.workers[self.workers.index(victim)] = self._hire(name)

    async def leave(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(worker.end, kill=False) for worker in self.workers))


class Load(Protocol):
    """A producer."""

    over: bool
    """It ends when someone sets this."""

    async def run(self) -> None: ...


SomeLoad = TypeVar("SomeLoad", bound=Load)


async def worked_off(
    folder: Path,
    seed: str,
    kills: int,
    load: Callable[[str, Crew, random.Random], SomeLoad],
    *,
    mode: str = "shared",
    gathered: int = GATHERED,
) -> tuple[SomeLoad, list[Line]]:
    """All that the load has published was worked off, while broker and workers were killed so often. The load, and what the workers have
    written.
    """
    source = random.Random(os.environ.get("BOWSTRING_KILL_SEED", seed))
    arguments = ("--data", str(folder), "--listen", f"127.0.0.1:{free_port()}", "--segment-bytes-first", "1MiB")
    served = await asyncio.to_thread(start, *arguments)
    try:
        async with asyncio.timeout(LIMIT_SECONDS), bowstring.aio.connect(served.address) as client:
            await client.create_topic(TOPIC, partitions=PARTITIONS)
            await client.create_subscription(TOPIC, SUBSCRIPTION, mode=mode)
            crew = Crew(served.address, source, gathered)
            publishing = load(served.address, crew, source)
            running = asyncio.create_task(publishing.run())
            for _ in range(kills):
                await while_running(running, crew.acks(source.randrange(1, 40)))
                if source.random() < 0.5:
                    served = await killed_and_back(served, arguments)
                else:
                    await crew.kill_one()
            publishing.over = True
            await running
            while (await client.subscription(TOPIC, SUBSCRIPTION)).backlog:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                        await crew.acks(1)
            await crew.leave()
    finally:
        served.process.kill()
        served.process.communicate()
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in crew.lines), "utf-8")
    return publishing, crew.lines


async def while_running(running: asyncio.Task[None], steps: Coroutine[Any, Any, None]) -> None:
    """Waits for these steps, which need a producer: its error would otherwise look like a broker that stands still."""
    waiting = asyncio.create_task(steps)
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        running.result()
        raise AssertionError("the producer has ended")
    waiting.result()


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
