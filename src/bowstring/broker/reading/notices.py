"""Notices to a reader about messages that it has already: deletions, how long the rest is kept, and
the end.

A fetch stream sends ahead of its program, by some megabytes. So its reader may hold messages that
are deleted before the program gets them. Partitions tell their followers when a deletion is
committed, never before (invariant 1), and a follower keeps what concerns its stream until the
stream has room to send it. A stream without deletions pays nothing for this but the registration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring import errors
from bowstring.core.offset_set import runs_of

if TYPE_CHECKING:
    from bowstring.broker.log.actor import PartitionActor
    from bowstring.broker.reading.fetcher import Fetcher

Runs = Sequence[tuple[int, int]]
"""Of (offset, rows)."""

RUNS_MAX: Final = 10_000
"""Of one notice."""


class Notice(NamedTuple):
    """One notice of a stream; fields that are 0 or empty are not sent."""

    retention: int = 0
    partition: int = 0
    deleted: Runs = ()


class Notices:
    """What one stream has to tell beside its messages, from here on. `ended` is called with what
    closes a partition: a deleted topic, mostly.
    """

    def __init__(self, fetcher: Fetcher, ended: Callable[[errors.Error], object]) -> None:
        self._fetcher = fetcher
        self._ended = ended
        self._waiting: list[Notice] = []
        self._arrived = asyncio.Event()
        fetcher.follow(self)

    async def begin(self, held: Mapping[int, int]) -> None:
        """What was deleted of the messages that the reader holds from these offsets on is told
        first: it may have missed that.
        """
        deleted = [(number, self._fetcher.deleted_since(number, first)) for number, first in held.items()]
        if any(runs for _, runs in deleted):
            await self._fetcher.durable()  # some of it may have been decided a moment ago
        self.altered()
        for number, runs in deleted:
            self._add(Notice(partition=number, deleted=some) for some in _parts(runs))

    async def next(self) -> list[Notice]:
        """Waits for something to tell."""
        await self._arrived.wait()
        self._arrived.clear()
        found, self._waiting = self._waiting, []
        return found

    def _add(self, notices: Iterable[Notice]) -> None:
        self._waiting += notices
        self._arrived.set()

    # What partitions tell

    def deleted(self, actor: PartitionActor, runs: Runs) -> None:
        """A deletion is committed."""
        number = actor.partition.number
        upto = self._fetcher.taken_upto(number)
        sent = [(offset, min(rows, upto - offset)) for offset, rows in runs if offset < upto]
        self._add(Notice(partition=number, deleted=some) for some in _parts(sent))

    def altered(self) -> None:
        """The topic has other settings."""
        self._add([Notice(retention=self._fetcher.retention)])

    def closed(self, error: errors.Error) -> None:
        """The partition is no more."""
        self._ended(error)


def _parts(runs: Runs) -> list[Runs]:
    return [runs[start : start + RUNS_MAX] for start in range(0, len(runs), RUNS_MAX)]


def deleted_runs(actor: PartitionActor, first: int, end: int) -> Runs:
    """What is deleted of [first, end)."""
    return runs_of(actor.partition.deletions.between(first, end)) if first < end else []
