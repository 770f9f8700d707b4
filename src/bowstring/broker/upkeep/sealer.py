"""What keeps the journal short: its pages move into extents, its changes into snapshots, and its
rows are trimmed.

    for some partitions at a time:
      pages that are inlined in the journal, and small ones ──coalesced──► segment ┐
      index section, ids section                                        ──► segment ┴ sync ──► edit: one extent a partition
    for some partitions at a time: their state as of a flush, once that flush is committed ──► edit: snapshots, chunks of deletions
    edit after edit: rows of the journal go

Each step is small, because flushes wait behind it: the loop is given up after every few pages, a
write to a segment is small and is synced at once (`placing`), an edit has a few dozen rows. The
order makes every crash harmless. An extent is added only after its bytes are durable; while the
journal still has the rows, the loader skips what extents and snapshots tell already
(`Partition.replay`); and the rows go last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.flusher import Flush
from bowstring.broker.log.log import Log
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.capture import Capture
from bowstring.broker.upkeep.extent_drafting import IDS_MAX
from bowstring.broker.upkeep.page_sealing import PageSealing
from bowstring.core.machine import NEVER
from bowstring.messages.schema import ID
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged, DiskFull
from bowstring.ports.journal import Edit

PARTITIONS_A_STEP = 32
HURRY = 2
"""A seal is in a hurry at this many times its threshold."""
ROWS_A_TRIM = 200


class Counts(NamedTuple):
    """The amounts since the last seal."""

    rows: int = 0
    changes: int = 0
    inlined: int = 0
    bytes: int = 0
    ids: int = 0
    """Messages with ids that callers gave."""


class Sealer:
    """Seals what one incarnation writes."""

    def __init__(self, surroundings: Surroundings, log: Log, pages: PageSealing, *, trimmed: int) -> None:
        self._settings = surroundings.settings
        self._clock = surroundings.clock
        self._journal = log.journal
        self._counters = surroundings.counters
        self._observer = surroundings.observer
        self._witness = surroundings.witness
        self._broker = log.fence.broker
        self._flusher = log.flusher
        self._topics = log.topics
        self._pages = pages
        self.trimmed = trimmed
        """The journal has no rows up to this sequence."""
        self._counts = Counts(rows=log.flusher.committed - trimmed)
        self._postponed = False
        """The last seal could not be done."""
        self._sealed_at = self._clock.monotonic()

    def note(self, flush: Flush) -> None:
        """A flush was committed."""
        rows, changes, inlined, size, ids = self._counts
        small = flush.page_bytes if not flush.written else 0
        ids += sum([change.rows for change, _ in flush.pages if change.columns & ID])
        self._counts = Counts(rows + 1, changes + len(flush.changes), inlined + small, size + flush.page_bytes, ids)

    @property
    def is_due(self) -> bool:
        """Is there enough to seal?"""
        settings, counts = self._settings, self._counts
        old = counts.rows > 1 and self._clock.monotonic() - self._sealed_at >= settings.seal_seconds
        full = counts.rows >= settings.seal_rows or counts.changes >= 15 * settings.seal_rows or counts.ids >= IDS_MAX
        return old or full or counts.inlined >= settings.seal_inline_bytes or counts.bytes >= settings.seal_bytes

    @property
    def is_pressed(self) -> bool:
        """Have so many ids come while the last ones were sealed that the next seal is due at once? They take memory until then."""
        return self._counts.ids >= IDS_MAX and not self._postponed

    async def seal(self) -> None:
        """Seals everything that is committed now. Raises DiskFull, Damaged (nothing is lost, and it
        can be tried again), or worse.
        """
        before, self._counts = self._counts, Counts()
        hurry = before.bytes >= HURRY * self._settings.seal_bytes or before.rows >= HURRY * self._settings.seal_rows
        self._witness.seal_began()
        try:
            await self._seal(self._flusher.committed, hurry=hurry)
        except (DiskFull, Damaged):
            self._witness.seal_ended(whole=False)
            self._counts = Counts(*map(sum, zip(before, self._counts, strict=True)))
            self._postponed = True
            raise
        self._postponed = False
        self._sealed_at = self._clock.monotonic()
        self._counters.seals += 1
        self._witness.seal_ended(whole=True)
        self._observer.note("journal-sealed", rows=before.rows, bytes=before.bytes)

    async def _seal(self, sequence: int, *, hurry: bool) -> None:
        """In a hurry, because so much has come, it is better sealed soon than well.

        Of the rows up to that flush some may just be taken back, because they missed their
        deadline. Sections leave those out, so their deletion is committed first: a crash between
        the two would bring the rows back, and no section would know them.
        """
        await self._flusher.commitment()
        actors = self._topics.actors()
        for step in _steps(actor for actor in actors if actor.partition.pages.count_upto(sequence)):
            while step:
                await self._pages.seal(step, sequence, hurry=hurry)
                step = [actor for actor in step if actor.closed is None and actor.partition.pages.count_upto(sequence)]
        actors = self._topics.actors()
        for step in _steps(actor for actor in actors if actor.partition.is_ahead_of_snapshot):
            await self.snapshot(step)
        await self._trim(sequence)

    # Snapshots

    async def snapshot(self, actors: Sequence[PartitionActor]) -> None:
        """Writes the state of some partitions as of a flush, when that flush is committed."""
        capture = Capture([actor.partition for actor in actors if actor.closed is None], self._broker)
        captured: asyncio.Future[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

        def take(sequence: int) -> None:
            if not captured.done():
                capture.take(sequence)
                captured.set_result(self._flusher.commitment())

        self._flusher.at_boundary(take)
        await (await captured)
        await capture.write(self._journal, self._clock)
        self._witness.captured()

    # The journal

    def has_trimmed(self, extent: Extent) -> bool:
        """Is nothing of it in our journal any more? Another broker's is never replayed here."""
        return extent.broker != self._broker or extent.index.sequence <= self.trimmed

    def _oldest_needed(self) -> int:
        """The oldest row that a partition still needs. What became visible late may have been
        written long before.
        """
        return min((actor.partition.oldest_needed() for actor in self._topics.actors() if actor.closed is None), default=NEVER)

    async def _trim(self, sequence: int) -> None:
        last = min(sequence, self._oldest_needed()) - 1
        while self.trimmed < last:
            upto = min(self.trimmed + ROWS_A_TRIM, last)
            await self._journal.edit(Edit(trim=upto))
            self.trimmed = upto


def _steps(actors: Iterable[PartitionActor]) -> Iterable[list[PartitionActor]]:
    rest = iter([actor for actor in actors if actor.closed is None])
    while step := list(islice(rest, PARTITIONS_A_STEP)):
        yield step
