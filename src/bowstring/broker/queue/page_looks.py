"""Looking at the rows of pages, for one subscription: which of them may be granted.

A page is looked at once. Where few of its rows pass a filter they are taken out at the same time, so
that their delivery does not need the page (`sifted_pages`). Rows that were granted without a look are
compared with the filter when they are delivered.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.granted_pages import GrantedPages, PagesFound
from bowstring.broker.queue.look_ahead import LookAhead
from bowstring.broker.queue.scouted_rows import RowLook, ScoutedRows, joined
from bowstring.broker.queue.unseen_rows import UnseenRows
from bowstring.broker.reading.reading import Reading
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.ports.store import Page

AHEAD_ROWS: Final = 65_536
"""It looks no further when it knows so many rows of a partition that can be granted."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""About how many bytes it looks at in the step of a flush; a task does the rest."""
BYTES_A_READ: Final = 8 * 1024 * 1024
"""About how many a task reads ahead at once: a hand-over to a thread costs as much as a look at a page."""
BYTES_A_TURN: Final = 4 * 1024 * 1024
"""About how many it looks at before others have their turn."""


class PagesRead(NamedTuple):
    """Pages that are being read."""

    asked: RowSet
    task: asyncio.Task[PagesFound]


class PageLooks:
    """Looks at pages for one subscription."""

    def __init__(self, subscription: int, reading: Reading, look: RowLook) -> None:
        self._subscription = subscription
        self._look = look
        self._pages = GrantedPages(reading, whole=True)
        self._sifted = reading.caches.sifted
        self._unseen: dict[int, UnseenRows] = {}
        """By the number of a partition; only of those where something was looked at."""

    # Looking ahead

    def begin(self, actor: PartitionActor, start: int) -> None:
        """Rows of a partition are looked at from here on."""
        self._unseen.setdefault(actor.partition.number, UnseenRows(start)).begin(start)

    def look_at_once(self, actor: PartitionActor, ahead: LookAhead, asked: RowSet) -> None:
        """Looks at the next of these rows, if their pages are in memory."""
        found = self._pages.at_once(actor.partition, asked, BYTES_AT_ONCE)
        if found is not None:
            self.look_at(actor, ahead, asked, found)

    def read(self, actor: PartitionActor, rows: RowSet) -> PagesRead:
        """Reads the next pages that hold these rows."""
        task = asyncio.create_task(self._pages.read(actor.partition, rows, BYTES_A_READ))
        task.add_done_callback(_forgotten)
        return PagesRead(rows, task)

    def read_behind(self, actor: PartitionActor, found: PagesFound, end: int) -> PagesRead | None:
        """Reads the pages behind these. Due times may move until they are looked at, so a filter over
        due times does without.
        """
        if self._look.looks_at_dues or found.damaged or not found.entries or found.entries[-1].end >= end:
            return None
        return self.read(actor, RowSet(found.entries[-1].end, end))

    def by_turns(self, found: PagesFound) -> list[PagesFound]:
        """The same pages in parts, between which others have their turn. Due times may move meanwhile,
        so a filter over them looks at all at once.
        """
        return [found] if self._look.looks_at_dues else found.parts(BYTES_A_TURN)

    def look_at(self, actor: PartitionActor, ahead: LookAhead, asked: RowSet, found: PagesFound) -> None:
        """Finds the rows of these pages that can be granted. Rows before them are in no page, and those
        of a damaged one cannot be read: their delivery tells.
        """
        parts, end = list[ScoutedRows](), asked.first
        for entry, page in zip(found.entries, found.pages, strict=True):
            if entry.first_offset > end:
                parts.append(self._without_look(actor, end, entry.first_offset))
                if parts[-1].end < entry.first_offset:
                    return ahead.add(joined(parts))
            parts.append(self._of_page(actor, ahead, max(end, entry.first_offset), entry, page))
            end = entry.end
        if found.damaged:
            parts.append(self._without_look(actor, end, found.damaged.stop))
        elif not parts:
            parts.append(self._without_look(actor, end, asked.stop))
        return ahead.add(joined(parts))

    def _of_page(self, actor: PartitionActor, ahead: LookAhead, first: int, entry: PageEntry, page: Page) -> ScoutedRows:
        looked = self._look.of_page(first, entry, page)
        if looked.sifted is not None:
            self._sifted.put(actor.partition, looked.sifted)
            ahead.add_page(entry.end, 2 * looked.sifted.size)  # some are on their way while others are found
        elif len(looked.rows.offsets):
            ahead.add_page(entry.end, entry.length)
        return looked.rows

    def _without_look(self, actor: PartitionActor, first: int, end: int) -> ScoutedRows:
        ledger = actor.partition.ledgers.get(self._subscription)
        rows = RowSet(first, end) if ledger is None else ledger.settled.unsettled(first, end, AHEAD_ROWS)
        offsets = rows.offsets()
        looked = end if len(offsets) < AHEAD_ROWS else rows.stop
        if rows and self._look.has_filter:
            self._unseen[actor.partition.number].miss(rows, ledger.floor if ledger is not None else 0)
        return self._look.unknown(first, looked, offsets)

    def passed_unseen(self, actor: PartitionActor, rows: RowSet, floor: int) -> None:
        """The cursor has passed these rows, and no one has looked at some of them."""
        if rows and self._look.has_filter:
            self._unseen.setdefault(actor.partition.number, UnseenRows(rows.stop)).miss(rows, floor)

    # Looking again

    def again_at_once(self, actor: PartitionActor, rows: RowSet) -> ScoutedRows | None:
        """Rows before the cursor, which were given back: those of the first pages that hold some,
        up to `end`. None if their pages are not in memory. They are not filtered again: those that the
        filter leaves out were passed unseen, and are set aside when they are to be delivered.
        """
        found = self._pages.at_once(actor.partition, rows, BYTES_AT_ONCE)
        return None if found is None else self._look.among(rows, found)

    async def again(self, actor: PartitionActor, rows: RowSet) -> ScoutedRows:
        """The same, wherever they are."""
        found = await self._pages.read(actor.partition, rows, BYTES_A_TURN)
        return self._look.among(rows, found)

    def left_out_of(self, rows: RowSet, found: PagesFound) -> RowSet:
        """Those of granted rows in these pages that the filter leaves out: they were granted unseen,
        because their pages could not be read, or by an earlier incarnation. Due times may have moved
        since rows were looked at, so a filter over them looks again.
        """
        if not self._look.has_filter or not found.pages:
            return NO_ROWS
        if not self._look.looks_at_dues:
            unseen = self._unseen.get(decode_header(found.pages[0].header).partition)
            rows = rows if unseen is None else unseen.among(rows)
        return self.not_passing(rows, found)

    def not_passing(self, rows: RowSet, found: PagesFound) -> RowSet:
        """Those of any rows in these pages that the filter leaves out."""
        if not self._look.has_filter or not rows:
            return NO_ROWS
        looked = [
            (some, self._look.of_page(entry.first_offset, entry, page).rows)
            for entry, page in zip(found.entries, found.pages, strict=True)
            if (some := rows & RowSet(entry.first_offset, entry.end))
        ]
        return RowSet.union(some - RowSet.of_offsets(seen.offsets) for some, seen in looked)


def _forgotten(task: asyncio.Task[PagesFound]) -> None:
    """A failure of a read without a caller that waits for it is met again by the next one."""
    if not task.cancelled():
        task.exception()
