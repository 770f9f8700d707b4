"""The machine that owns one partition's log.

`publish` decides about a batch. It gives one of:

- `Accept`: the change to persist, and which rows of the batch are new (all, or a list). The change is applied already: the machine runs
  ahead of the disk, and whoever calls it holds every answer until the flush that it rests on is committed.
- `Answered`: nothing is stored; the batch, or its number, is known. The answer rests on committed state only.
- `Refused`: an error. Nothing changes.
- `Lookup`: some ids may be known. Read the stored ids at these offsets, compare, and call again with what was `confirmed`. Later
  batches of the partition wait meanwhile.
- `Wait`: it depends on something that is not committed yet. Call again after the next commit. (An answer "duplicate of offset 7" must not
  be given, nor even decided, while the publish of offset 7 can still miss its deadline and be taken back.)

State changes only in `apply`, which the loader calls with the changes of the journal: so what runs is what loads (invariant 6). Two
things are not durable and not in `apply`: how far the log is committed, and the page index, which grows in `committed`.

Time. `now` is the broker's clock. It may jump ahead, but within an incarnation it never falls (`broker.steady_clock`), so what came too
late once is too late for ever. Arrival never falls: it is `now` or the last arrival, whichever is later. What is remembered for
deduplication is what arrived within the window before the *last arrival*, so that replay forgets just what was forgotten; a question
also looks at `now`. A batch first sent before what is remembered could have been stored and forgotten: its outcome is unknown, and it is
not stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring import errors
from bowstring.core.answers import Repeat, ResendAfter, Stored
from bowstring.core.changes import Append, Change, Delete
from bowstring.core.deletions import Deletions
from bowstring.core.natural_ids import Hashes, Hits, NaturalIds
from bowstring.core.pages import PageEntry, PageIndex
from bowstring.core.producers import Absent, Batches, Producers

Rows = NDArray[np.int64]

MINUTE = 60_000_000
"""Batches are recognised by their number for at least this long, whatever the window for ids."""


class GivenBack(NamedTuple):
    """A row whose id is one that a kit generated: the caller gives it back to repeat a publish."""

    row: int
    producer: bytes
    number: int
    batch_row: int


class Ids(NamedTuple):
    """The ids of a batch, as far as the machine sees them."""

    hashes: Hashes
    firsts: Rows | None
    """For each row the first row with the very same id, or None if all differ."""
    given_back: tuple[GivenBack, ...] = ()


class Publish(NamedTuple):
    """A batch that wants to be stored. Moments are microseconds."""

    producer: bytes
    number: int
    previous: int
    sent: int
    timeout: int
    rows: int
    columns: int
    ids: Ids | None


class Accept(NamedTuple):
    change: Append
    kept: Rows | None
    """The rows that are new, or None for all of them."""


class Answered(NamedTuple):
    answer: Stored | ResendAfter


class Refused(NamedTuple):
    error: errors.Error


class Lookup(NamedTuple):
    hits: Hits


class Wait(NamedTuple):
    pass


Decision = Accept | Answered | Refused | Lookup | Wait


class Partition:
    """One partition's log: offsets, arrival, deduplication, deletions."""

    def __init__(self, topic: int, number: int, window: int) -> None:
        self.topic = topic
        self.number = number
        self.window = window
        self.next_offset = 1
        """The offset of the next row, 1 more than the last one given."""
        self.committed_offset = 1
        """Rows below this are committed."""
        self._deleting: list[int] = []
        """First offsets of deletions that are not committed yet."""
        self.arrived = 0
        """When the last batch arrived. Never falls."""
        self.blind_until = 0
        """A page whose ids could not be read at load may hold any id that arrived up to a window before this moment."""
        self.producers = Producers()
        self.ids = NaturalIds(window)
        self.deletions = Deletions()
        self.pages = PageIndex()

    # Deciding

    def publish(self, batch: Publish, now: int, confirmed: Hits | None = None) -> Decision:
        """Decides about a batch; see above."""
        known = self.producers.get(batch.producer)
        if known is not None and batch.number <= known.last:
            return self._repeated(batch, known)
        refusal = self._too_late(batch, now)
        if refusal is not None:
            return refusal
        last = known.last if known is not None else 0
        if batch.previous != last:
            return Answered(ResendAfter(last))
        if batch.ids is None:
            return self._accept(batch, now, None, ())
        return self._publish_ids(batch, batch.ids, now, confirmed)

    def _repeated(self, batch: Publish, known: Batches) -> Decision:
        found = known.find(batch.number)
        if found is Absent.FORGOTTEN:
            return Refused(errors.OutcomeUnknown(f"batch {batch.number} is older than the deduplication window of this topic."))
        if isinstance(found, Absent):
            return Refused(errors.DeadlinePassed(f"batch {batch.number} was not stored: {found.value}."))
        if found.end > self.committed_offset:
            return Wait()
        return Answered(found.stored)

    def _too_late(self, batch: Publish, now: int) -> Refused | None:
        memory = max(self.window, MINUTE)
        if batch.sent < max(now, self.arrived) - memory:
            return Refused(
                errors.OutcomeUnknown(
                    f"batch {batch.number} was first sent before the deduplication window of {memory / 1e6:g} s began.",
                    hint="It is not stored now, but may have been stored then: ask find(id).",
                )
            )
        if now > batch.sent + batch.timeout:
            late = (now - batch.sent - batch.timeout) / 1e6
            return Refused(errors.DeadlinePassed(f"the timeout passed {late:.3f} s before the batch arrived; it is not stored."))
        return None

    def _publish_ids(self, batch: Publish, ids: Ids, now: int, confirmed: Hits | None) -> Decision:
        if self.is_blind(now):
            return Refused(errors.Corrupt("stored ids could not be read, so a repeated id could not be recognised; it is not stored."))
        candidates = self._candidates(ids, now)
        if len(candidates.offsets) and int(candidates.offsets.max()) >= self.committed_offset:
            return Wait()
        if len(candidates.rows) and confirmed is None:
            return Lookup(candidates)
        offsets = np.zeros(batch.rows, np.int64)
        if confirmed is not None:
            offsets[confirmed.rows] = confirmed.offsets
        for given in ids.given_back:
            offset = self._given_back(given)
            if offset >= self.committed_offset:
                return Wait()
            offsets[given.row] = offset or offsets[given.row]
        return self._accept_new(batch, ids, now, offsets)

    def _candidates(self, ids: Ids, now: int) -> Hits:
        hits = self.ids.find(ids.hashes)
        committed = hits.offsets < self.committed_offset
        if not committed.all() or not len(hits.rows):
            return hits
        recent = self.pages.arrived(hits.offsets) >= max(now, self.arrived) - self.window
        return Hits(hits.rows[recent], hits.offsets[recent])

    def _given_back(self, given: GivenBack) -> int:
        """The offset of a message by the id that its kit generated, 0 if it is not known."""
        batches = self.producers.get(given.producer)
        found = batches.find(given.number) if batches is not None and given.number <= batches.last else None
        if found is None or isinstance(found, Absent) or given.batch_row >= found.stored.rows or found.stored.repeats:
            return 0
        return found.stored.first_offset + given.batch_row

    def _accept_new(self, batch: Publish, ids: Ids, now: int, offsets: Rows) -> Accept:
        """`offsets` has the offset of each row that is known, and 0 for the others."""
        firsts = ids.firsts if ids.firsts is not None else np.arange(batch.rows)
        new = (offsets == 0) & (firsts == np.arange(batch.rows))
        kept = np.flatnonzero(new)
        offsets[kept] = self.next_offset + np.arange(len(kept))
        offsets = np.where(offsets == 0, offsets[firsts], offsets)
        repeats = _repeats(np.flatnonzero(~new), offsets)
        accepted = self._accept(batch, now, None if new.all() else kept, repeats)
        if len(kept):
            self.ids.add(ids.hashes[kept], offsets[kept], accepted.change.arrived)
        return accepted

    def _accept(self, batch: Publish, now: int, kept: Rows | None, repeats: tuple[Repeat, ...]) -> Accept:
        rows = batch.rows if kept is None else len(kept)
        change = Append(
            topic=self.topic,
            partition=self.number,
            first_offset=self.next_offset if rows else 0,
            rows=rows,
            arrived=max(now, self.arrived),
            columns=batch.columns,
            producer=batch.producer,
            number=batch.number,
            repeats=repeats,
        )
        self.apply(change)
        return Accept(change, kept)

    def delete(self, first: int, rows: int, *, freed: bool) -> Delete:
        """Deletes rows; with `freed` as if they had never been published."""
        change = Delete(self.topic, self.number, ((first, rows),), freed)
        self._deleting.append(first)
        self.apply(change)
        return change

    # Applying: live and at load

    def apply(self, change: Change) -> None:
        """The one place where durable state changes."""
        if isinstance(change, Append):
            self._apply_append(change)
        else:
            self._apply_delete(change)

    def _apply_append(self, change: Append) -> None:
        if change.rows:
            assert change.first_offset == self.next_offset, f"offsets must be dense: {change.first_offset} after {self.next_offset - 1}"
            self.next_offset += change.rows
        self.arrived = max(self.arrived, change.arrived)
        self.producers.add(change.producer, change.number, change.first_offset, change.rows, change.arrived, change.repeats)
        self.producers.forget_before(self.arrived - max(self.window, MINUTE), change.producer)
        self.ids.forget_before(self.arrived - self.window)

    def _apply_delete(self, change: Delete) -> None:
        self.deletions.add(change.runs, freed=change.freed)
        if change.freed:
            for offset, rows in change.runs:
                self.producers.free(offset, offset + rows)
                self.ids.free(offset, offset + rows)

    def committed(self, change: Change, sequence: int) -> None:
        """The flush of a change was committed: appended rows can be read, deleted ones can be passed over."""
        if isinstance(change, Delete):
            if change.runs[0][0] in self._deleting:
                self._deleting.remove(change.runs[0][0])
        elif change.rows:
            assert change.first_offset == self.committed_offset, "flushes commit in order"
            where = (change.segment, change.position, change.length, sequence)
            self.pages.add(PageEntry(change.first_offset, change.rows, change.arrived, *where, change.columns))
            self.committed_offset = change.first_offset + change.rows

    def restore_ids(self, first_offset: int, hashes: Hashes, arrived: int) -> None:
        """At load: the ids of a page, read from its bytes. Those that are free again are left out."""
        offsets = np.arange(first_offset, first_offset + len(hashes), dtype=np.int64)
        taken = ~np.isin(offsets, self.deletions.freed(first_offset, first_offset + len(hashes)))
        if taken.any():
            self.ids.add(hashes[taken], offsets[taken], arrived)

    def cannot_restore_ids(self, arrived: int) -> None:
        """At load: the ids of a page that arrived then cannot be read. No id is taken until the window has passed."""
        self.blind_until = max(self.blind_until, arrived + self.window)

    # Looking

    @property
    def readable_offset(self) -> int:
        """Readers see no further: neither what is not committed, nor past a deletion that is not. If that got lost with a crash, the
        rows would be there after all, and a reader that had passed them would never see them."""
        return min(self._deleting, default=self.committed_offset)

    @property
    def messages(self) -> int:
        """How many messages can be read."""
        return self.committed_offset - 1 - len(self.deletions)

    def is_blind(self, now: int) -> bool:
        """Are there ids within the window that could not be read at load?"""
        return max(now, self.arrived) < self.blind_until

    def find_generated(self, given: GivenBack) -> int | None:
        """The offset of a generated id, 0 if it is not stored, None if that is not decided yet."""
        offset = self._given_back(given)
        if offset >= self.committed_offset:
            return None
        return 0 if self.deletions.is_gone(offset) else offset

    def find_natural(self, hashes: Hashes, now: int) -> Hits | None:
        """Candidates for one id, None if one of them is not committed yet."""
        hits = self._candidates(Ids(hashes, None), now)
        return None if len(hits.offsets) and int(hits.offsets.max()) >= self.committed_offset else hits

    def check(self) -> None:
        """The machine's own invariants, for tests and for the end of a load."""
        assert self.committed_offset <= self.next_offset
        self.pages.check(self.committed_offset)
        assert all(1 <= offset < self.next_offset for offset, _ in self.ids.pairs())

    def state(self) -> dict[str, object]:
        """Everything durable, in a form that can be compared: what was loaded against what runs. Ids that the window has passed
        are left out, because whole runs of them fall out at a time."""
        horizon = self.arrived - self.window
        pairs = self.ids.pairs()
        committed = np.array([offset for offset, _ in pairs if offset < self.committed_offset], np.int64)
        recent = set(committed[self.pages.arrived(committed) >= horizon].tolist()) if len(committed) else set()
        return {
            "next_offset": self.next_offset,
            "arrived": self.arrived,
            "producers": self.producers.state(),
            "deletions": self.deletions.state(),
            "ids": [pair for pair in pairs if pair[0] in recent],
        }


def _repeats(rows: Rows, offsets: Rows) -> tuple[Repeat, ...]:
    """Runs of consecutive rows with consecutive offsets."""
    if not len(rows):
        return ()
    known = offsets[rows]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(known) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    counts = np.diff(np.concatenate((starts, [len(rows)])))
    return tuple(Repeat(int(rows[at]), int(count), int(known[at])) for at, count in zip(starts, counts, strict=True))
