"""Makes a backup for a broker that serves (`ports.archive`), or of a directory that no broker
serves.

Both use the same code: the copying is plain and blocks, on a thread of its own for the broker. It
can be given up between two reads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from bowstring import errors, times
from bowstring.backup import making
from bowstring.backup.making import Making, Progress
from bowstring.inspection.directory import CATALOG, DataDirectory
from bowstring.ports.archive import Filled
from bowstring.ports.clock import Clock
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.ports.worker import Worker

T = TypeVar("T")


class _GivenUp(Exception):
    """The backup was given up."""


class HostArchive:
    """`ports.archive.Archive` for a data directory of this machine."""

    def __init__(self, data: str, target: str, *, worker: Worker, clock: Clock, software: str) -> None:
        self._data = data
        self._target = target
        self._worker = worker
        self._clock = clock
        self._software = software
        self._making: Making | None = None
        self._given_up = False
        self._finished = False
        self._begun = False
        self.done = 0
        self.total = 0

    async def begin(self, proof: str) -> str:
        if not os.path.isabs(self._target):
            raise errors.InvalidArgument(f"the target {self._target} is not absolute.", hint="The broker has another working directory.")
        await self._run(lambda: making.check_claim(self._target, proof))
        self._begun = True
        return os.path.join(self._target, CATALOG)

    async def needed(self) -> frozenset[int]:
        self._making = await self._run(lambda: Making(self._data, self._target, self._progress))
        return self._making.needed

    async def fill(self) -> Filled:
        assert self._making is not None
        return await self._run(self._making.fill)

    async def finish(self) -> None:
        assert self._making is not None
        made = self._making
        await self._run(lambda: made.finish(self._software, times.to_text(self._clock.now())))
        self._finished = True

    async def give_up(self) -> None:
        self._given_up = True
        if self._finished:
            return
        await self._worker.run(self._discard)

    def _discard(self) -> None:
        if self._making is not None:
            self._making.close()
        if self._begun:
            making.discard(self._target)

    def _progress(self, done: int, total: int) -> None:
        if self._given_up:
            raise _GivenUp
        self.done, self.total = done, total

    async def _run(self, call: Callable[[], T]) -> T:
        def translated() -> T:
            with _translating(self._target):
                return call()

        return await self._worker.run(translated)


def back_up_offline(data: str, target: str, *, software: str, made: str, progress: Progress) -> Filled:
    """Makes a backup of a directory. Raises Conflict if a broker serves it; leaves nothing behind
    if it fails.
    """
    with DataDirectory(data) as directory:
        making.claim(target)
        work: Making | None = None
        try:
            with _translating(target):
                directory.catalog.back_up(os.path.join(target, CATALOG))
                work = Making(data, target, progress)
                filled = work.fill()
                work.finish(software, made)
        except BaseException:
            if work is not None:
                work.close()
            making.discard(target)
            raise
    return filled


@contextmanager
def _translating(target: str) -> Generator[None]:
    """The error for a problem with the target, in the words of the product."""
    try:
        yield
    except DiskFull as error:
        raise _full(target) from error
    except (StorageFailed, Damaged) as error:
        raise errors.Unavailable(f"the backup to {target} failed: {error}.") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(target) from error
        raise errors.Conflict(f"the backup to {target} failed: {error.strerror}.", hint="May the broker's user write there?") from error


def _full(target: str) -> errors.Full:
    return errors.Full(f"the disk of {target} is full; there is no backup.", hint="Free some space there, or name another directory.")
