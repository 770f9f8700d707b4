"""The machine that owns one partition: its log, and what subscriptions do with its rows (`ledgers`).

Requests are decided beside it (`publishing`, `deleting`, `moving`), and deciding changes nothing.
`take` then applies what was decided: the machine runs ahead of the disk, and the actor holds every
answer until the flush that it rests on is committed.

State changes only in `apply`, which the loader calls with the changes of the journal: so what runs
is what loads (invariant 6). Three things are not durable and not in `apply`: how far the log is
committed, the page index, which grows in `committed`, and how much of the log is sealed. `sealed`
forgets what sections of the store tell from then on: pages, ids, batches. Whenever a page moves,
`moves` goes up, and a reader that has looked it up meanwhile looks again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple, assert_never

import numpy as np

from bowstring.core.addresses import Runs
from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason, Reschedule
from bowstring.core.decisions import Decided, Rows
from bowstring.core.deletions import Deletions
from bowstring.core.ledger_changes import LedgerStruct
from bowstring.core.ledgers import Ledgers
from bowstring.core.machine import NEVER, Machine
from bowstring.core.moved_rows import MovedRows
from bowstring.core.natural_ids import NaturalIds
from bowstring.core.pages import PageIndex, entry_of
from bowstring.core.positions import Positions
from bowstring.core.producers import Producers
from bowstring.core.retained import Retained
from bowstring.core.sieve import Hashes
from bowstring.core.unread_ids import UnreadIds
from bowstring.core.unsealed_batches import UnsealedBatches

MINUTE = 60_000_000
"""Batches are recognised by their number for at least this long, whatever the window for ids."""


class SealedAtLoad(NamedTuple):
    """The sum of a partition's extents when it was loaded: enough to tell that retention has
    nothing to do yet.
    """

    first_offset: int
    arrived: int
    """When the first page of the oldest arrived."""
    expires: int
    """When the first of those expires that do; 0 if none does."""


class Partition(Machine[Change, tuple[bytes, int]]):
    """One partition's log: offsets, arrival, deduplication, deletions, retention."""

    def __init__(self, topic: int, number: int, window: int) -> None:
        self.topic = topic
        self.number = number
        self.window = window
        self.next_offset = 1
        """The offset of the next row, 1 more than the last one given."""
        self.committed_offset = 1
        """Rows below this are committed."""
        self._deleting: list[Delete] = []
        """Deletions that are not committed yet."""
        self._rescheduling: list[Reschedule] = []
        """The same of other due times."""
        self.arrived = 0
        """When the last batch arrived. Never falls."""
        self.unread = UnreadIds()
        self.producers = Producers()
        self.ids = NaturalIds()
        self.batches = UnsealedBatches()
        self.deletions = Deletions()
        self.retained = Retained()
        self.moved_rows = MovedRows()
        """Rows that are due at another time than their pages say."""
        self.positions = Positions()
        self.ledgers = Ledgers(topic, number)
        """What the subscriptions of its topic have done with its rows."""
        self.pages = PageIndex()
        """The committed pages that are not sealed."""
        self.sealed_end = 1
        """Rows below this are in extents."""
        self.sealed_bytes = 0
        self.sealed_at_load: SealedAtLoad | None = None
        """Known until one of the extents changes."""
        self.bytes_behind = 0
        """The part of these bytes that is below the floor, if it was counted."""
        self.moves = 0
        """How often something has moved to another place: sealed, cleaned, or gone with time."""
        self.seals = 0
        """How often it was sealed since it was loaded."""
        self.changed_sequence = 0
        """The last flush with a change of this partition."""
        self.snapshot_sequence = 0
        """The flush that its snapshot in the catalog stands for."""
        self.snapshot_end = 1
        """How far it was sealed when that snapshot was made."""

    # Changes that may be decided

    def delete(self, runs: Runs, reason: Reason) -> Delete:
        """Deletes runs of (offset, rows), ascending."""
        return Delete(self.topic, self.number, runs, reason)

    def reschedule(self, runs: Runs, due: int) -> Reschedule:
        """Gives runs of (offset, rows), ascending, another due time."""
        return Reschedule(self.topic, self.number, runs, due)

    def move(self, name: str, offset: int, now: int) -> Position:
        """A named position is there from here on; at 0 it is deleted. Whether it may be,
        `positions.refusal` says.
        """
        return Position(self.topic, self.number, name, offset, now)

    def raise_floor(self, offset: int, kept: Runs = (), released: Runs = ()) -> Floor:
        """Retention has come to the offset; `kept` are runs below it that stay from here on,
        `released` those that did until now.
        """
        return Floor(self.topic, self.number, offset, kept, released)

    # Applying: live and at load

    def take(self, decided: Decided[Any]) -> None:
        """Applies a decision. From now on later decisions rest on it."""
        for change in decided.changes:
            self.apply(change)
            if isinstance(change, Delete):
                self._deleting.append(change)
            elif isinstance(change, Reschedule):
                self._rescheduling.append(change)
        if decided.ids is not None:
            self.ids.add(decided.ids.hashes, decided.ids.offsets, decided.ids.order)

    def apply(self, change: Change) -> None:
        """The one place where durable state changes."""
        self._apply(change)
        if isinstance(change, Delete | Floor | LedgerStruct):
            self.ledgers.apply(change)

    def _apply(self, change: Change) -> None:
        """To the log itself."""
        match change:
            case Append():
                self._apply_append(change)
            case Delete():
                self._apply_delete(change)
            case Position():
                self.positions.apply(change)
            case Floor():
                self.retained.apply(change)
                self.deletions.drop_below(self.retained.first)
                self.moved_rows.retain(self.retained.floor, self.retained.of)
            case Reschedule():
                self.moved_rows.apply(change)
            case LedgerStruct():
                pass
            case _:
                assert_never(change)

    def _apply_append(self, change: Append) -> None:
        if change.rows:
            assert change.first_offset == self.next_offset, f"offsets must be dense: {change.first_offset} after {self.next_offset - 1}"
            self.next_offset += change.rows
        self.arrived = max(self.arrived, change.arrived)
        self.producers.add(change.producer, change.number, change.first_offset, change.rows, change.arrived, change.repeats)
        self.producers.forget_before(self.arrived - max(self.window, MINUTE), change.producer)

    def _apply_delete(self, change: Delete) -> None:
        runs = [(max(offset, self.retained.first), offset + rows) for offset, rows in change.runs]
        self.deletions.add([(offset, end - offset) for offset, end in runs if offset < end], freed=change.reason.frees_ids)
        self.moved_rows.remove(change.runs)
        if change.reason.frees_ids:
            for offset, rows in change.runs:
                self.producers.free(offset, offset + rows)
                self.ids.free(offset, offset + rows)

    def committed(self, change: Change, sequence: int) -> None:
        """The flush of a change was committed: appended rows can be read, deleted ones can be
        passed over.
        """
        self.changed_sequence = sequence
        match change:
            case Append():
                if change.rows:
                    assert change.first_offset == self.committed_offset, "flushes commit in order"
                    self._add_page(change, sequence)
                    self.committed_offset = change.first_offset + change.rows
            case Delete():
                if change in self._deleting:
                    self._deleting.remove(change)
            case Floor():
                self._drop_pages_below_floor()
            case Reschedule():
                if change in self._rescheduling:
                    self._rescheduling.remove(change)
            case Position() | LedgerStruct():
                pass
            case _:
                assert_never(change)

    def _add_page(self, change: Append, sequence: int) -> None:
        self.pages.add(entry_of(change, sequence))
        self.batches.add(change.producer, change.number, change.first_offset)

    def _drop_pages_below_floor(self) -> None:
        if self.pages.start is not None and self.pages.start < self.retained.first:
            self.pages.drop_below(self.retained.first)
            start = self.pages.start or self.committed_offset
            self.ids.free(0, start)
            self.batches.drop_below(start)
            self.moves += 1

    def sealed(self, end: int, size: int) -> None:
        """Rows below the offset are in extents now, of that many bytes in all: what those tell is
        forgotten here.
        """
        self.sealed_end, self.sealed_bytes = max(self.sealed_end, end), size
        self.sealed_at_load = None
        self.pages.drop_below(end)
        self.ids.free(0, end)
        self.batches.drop_below(end)
        self.producers.sealed(end)
        self.seals += 1
        self.moves += 1

    def moved(self, sealed_bytes: int) -> None:
        """Extents have changed: copied to another place, or gone."""
        self.sealed_bytes = sealed_bytes
        self.sealed_at_load = None
        self.moves += 1

    # Loading

    def replay(self, change: Change, sequence: int) -> None:
        """A change out of the journal. What the snapshot holds already is not applied again; pages
        that are not sealed are indexed. Ledgers have snapshots of their own.
        """
        if sequence > self.snapshot_sequence:
            self._apply(change)
        if isinstance(change, Delete | Floor | LedgerStruct):
            self.ledgers.replay(change, sequence)
        self.committed_offset = self.next_offset
        self.changed_sequence = sequence
        if isinstance(change, Append) and change.rows and change.first_offset >= self.sealed_end:
            self._add_page(change, sequence)
        self._drop_pages_below_floor()

    def snapshot(self) -> tuple[bytes, int]:
        """The head of its state at rest, and the last flush that counts in it. Deletions and kept
        rows are chunks of their own.
        """
        from bowstring.core import snapshots

        return snapshots.snapshot(self), self.changed_sequence

    def restore(self, parts: tuple[bytes, int]) -> None:
        """At load, before anything else. Raises `snapshots.Unreadable`."""
        from bowstring.core import snapshots

        snapshots.restore(self, *parts)

    def restore_ids(self, first_offset: int, hashes: Hashes) -> None:
        """At load: the ids of a page, read from its bytes. Those that are free again are left out."""
        offsets = np.arange(first_offset, first_offset + len(hashes), dtype=np.int64)
        taken = ~np.isin(offsets, self.deletions.freed(first_offset, first_offset + len(hashes)))
        if taken.any():
            self.ids.add(hashes[taken], offsets[taken])

    def alter(self, *, window: int) -> None:
        """The topic has another deduplication window from here on."""
        self.window = window

    # Looking

    @property
    def readable_offset(self) -> int:
        """The end for readers: rows behind it are not committed, or are just being taken back.

        Only rows at the very end of the log count as behind it. An older row that is taken back has
        others behind it that are read and acknowledged, and those do not go because of it.
        """
        end = self.committed_offset
        runs = [run for change in self._deleting if change.reason.frees_ids for run in change.runs] if self._deleting else ()
        for offset, rows in sorted(runs, reverse=True):
            if offset + rows < end:
                break
            end = min(end, offset)
        return end

    def readable_upto(self, offset: int) -> int:
        """How far a reader may go that is at the offset: neither to what is not committed, nor past
        a deletion or another due time that is not. If a deletion got lost with a crash, the rows
        would be there after all, and a reader that had passed them would never see them.
        """
        upto = self.committed_offset
        for change in (*self._deleting, *self._rescheduling):
            at = bisect_right(change.runs, offset, key=sum)  # the first run that ends behind the offset
            if at < len(change.runs):
                upto = min(upto, max(offset, change.runs[at][0]))
        return upto

    @property
    def messages(self) -> int:
        """How many messages can be read."""
        stored = self.committed_offset - self.retained.first - self.retained.gone
        if not len(self.deletions):
            return stored
        below = self.deletions.between(self.retained.first, self.retained.floor)
        counted_twice = len(below) - len(self.retained.of(below))
        return stored - len(self.deletions) + counted_twice

    @property
    def bytes(self) -> int:
        """Bytes of its pages."""
        return max(0, self.sealed_bytes - self.bytes_behind) + self.pages.bytes

    def live(self, first: int, end: int) -> Rows:
        """The offsets of [first, end) that are neither deleted nor behind retention, ascending."""
        return self.retained.of(self.deletions.live(first, end))

    def is_whole(self, first: int, end: int) -> bool:
        """Are all rows of [first, end) live?"""
        return first >= self.retained.floor and not self.deletions.any(first, end)

    def is_gone(self, offset: int) -> bool:
        return not len(self.live(offset, offset + 1))

    @property
    def sealed_above_floor(self) -> SealedAtLoad | None:
        """The sum of the extents, if they are those of the load and none of them begins below the
        floor.
        """
        at_load = self.sealed_at_load
        return at_load if at_load is not None and at_load.first_offset >= self.retained.floor else None

    @property
    def is_ahead_of_snapshot(self) -> bool:
        """Whether the snapshot lacks something that is not in extents, or not for ever: those may
        go when nothing in them lives, and then only a snapshot tells how far the log is sealed.
        """
        return self.changed_sequence > self.snapshot_sequence or self.sealed_end > self.snapshot_end or self.ledgers.is_behind

    def oldest_needed(self) -> int:
        """The oldest journal row that something here still needs: the bytes of a page, or a change
        that no snapshot has. A snapshot is there when all ledgers are.
        """
        unkept = self.snapshot_sequence + 1 if self.changed_sequence > self.snapshot_sequence else NEVER
        return min(unkept, self.pages.oldest_inlined())

    def next_deadline(self) -> int:
        """Nothing here waits for a moment of the broker's clock: retention goes by turns, because
        what is sealed has to be asked for first. Leases run by a clock of their own
        (`ledgers.next_deadline`).
        """
        return NEVER

    def is_blind(self, now: int) -> bool:
        """Are there ids within the window that could not be read at load?"""
        return max(now, self.arrived) < self.unread.until

    def check(self) -> None:
        """The machine's own invariants, for tests and for the end of a load."""
        assert self.committed_offset <= self.next_offset
        assert self.sealed_end <= self.committed_offset
        assert self.retained.floor <= self.next_offset
        self.pages.check(self.committed_offset)
        start = self.pages.start if self.pages.start is not None else self.committed_offset
        assert start <= max(self.sealed_end, self.retained.first), f"pages are missing before {start}"
        assert all(1 <= offset < self.next_offset for offset, _ in self.ids.pairs())
        self.ledgers.check()
        self.moved_rows.check()
        assert self.ledgers.end <= self.next_offset, "a ledger has granted rows that there are not"

    def state(self) -> dict[str, object]:
        """All durable state in a form that can be compared: loaded state with live state."""
        return {
            "next_offset": self.next_offset,
            "arrived": self.arrived,
            "producers": self.producers.state(),
            "deletions": self.deletions.state(),
            "retained": self.retained.state(),
            "moved_rows": self.moved_rows.state(),
            "positions": self.positions.state(),
            "ledgers": self.ledgers.state(),
            "ids": self.ids.pairs(),
        }
