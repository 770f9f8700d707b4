"""Decides which of the arrived rows may still be handed out.

The broker sends ahead, so rows wait here until the program asks for them. Meanwhile they may
expire, grow too old for the topic's retention, or be deleted. The kit does not look at rows while
none of them can have expired: a page knows the first moment at which one does, and the broker sends
notices of deletions. Otherwise the rows of a page are sifted, all at once.

Time is the broker's own (`broker_time`), by an estimate that is never ahead: the kit drops a row
only when it has certainly expired. The estimate is late by the time that an answer travels, so a
row may be handed out later by as much.

**Threads.** The loop writes, and replaces what it writes as a whole; the taker reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bowstring.client.broker_time import BrokerTime
from bowstring.client.pages import NEVER, Chunk, Remainder

NEAR_MICROSECONDS: Final = 600_000_000
"""If a row can expire within this time, rows are checked one by one while they are handed out."""


class _Deleted(NamedTuple):
    """Deleted rows of one partition, as runs in the order of offsets."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def within(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        at = np.searchsorted(self.starts, offsets, "right") - 1
        return (at >= 0) & (offsets < self.ends[at])


class Freshness:
    """What the kit knows about the arrived rows of one topic."""

    def __init__(self, broker_time: BrokerTime) -> None:
        self._broker_time = broker_time
        self.retention = NEVER
        """How long the topic keeps messages, in microseconds."""
        self._deleted: dict[int, _Deleted] = {}
        self._version = 0
        """Rises with every deletion."""

    def deleted(self, partition: int, runs: Iterable[tuple[int, int]], passed: int) -> None:
        """Notes deleted rows. Rows before `passed` were handed out, so they do not matter any
        more."""
        known = self._deleted.get(partition)
        spans = [] if known is None else list(zip(known.starts.tolist(), known.ends.tolist(), strict=True))
        spans += [(offset, offset + rows) for offset, rows in runs]
        joined: list[tuple[int, int]] = []
        for start, end in sorted(span for span in spans if span[1] > passed):
            if joined and joined[-1][1] >= start:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        rest = {number: deleted for number, deleted in self._deleted.items() if number != partition}
        if joined:
            starts, ends = np.array(joined, np.int64).T
            rest[partition] = _Deleted(starts, ends)
        self._deleted = rest
        self._version += 1

    def over_at(self, chunk: Chunk) -> int:
        """The first moment at which one of its rows may not be handed out, by the broker's
        clock."""
        page = chunk.page
        return min(page.ages_from + self.retention + 1, page.expires_from)

    def doubts(self, chunk: Chunk) -> bool:
        """Whether rows may have to be dropped."""
        page = chunk.page
        if page.partition in self._deleted and page.sifted != self._version:
            return True
        return self.over_at(chunk) <= self._broker_time.keeping()

    def is_near(self, chunk: Chunk) -> bool:
        """Whether a row can expire soon. With a manual clock, any row can."""
        return self._broker_time.followed or self.over_at(chunk) <= self._broker_time.keeping() + NEAR_MICROSECONDS

    def sifted(self, chunk: Chunk) -> Chunk | None:
        """The rows that may be handed out; None if there are none."""
        version, page, now = self._version, chunk.page, self._broker_time.keeping()
        rows = np.arange(chunk.first, chunk.first + chunk.rows)
        stays = (page.ages[rows] + self.retention >= now) & (page.expiries[rows] > now)
        deleted = self._deleted.get(page.partition)
        if deleted is not None:
            stays &= ~deleted.within(page.offsets[rows])
        if not stays.any():
            return None
        if chunk.rows == page.rows and stays.all() and self.over_at(chunk) > now:
            page.sifted = version
            return chunk
        # These rows get a page of their own: the others of their page may be in another thread's
        # hand, and are not compared.
        rest = Remainder(page, rows[stays], chunk.next_offset)
        rest.sifted = version
        return Chunk(rest, 0, rest.rows)
