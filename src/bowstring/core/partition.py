"""The machine that owns one partition's log.

`publish` decides about a batch. It gives one of:

- `Accept`: the change to persist, and which rows of the batch are new (all, or a list). The change is applied already: the machine runs
  ahead of the disk, and whoever calls it holds every answer until the flush that it rests on is committed.
- `Answered`: nothing is stored; the batch, or its number, is known. The answer rests on committed state only.
- `Refused`: an error. Nothing changes.
- `Lookup`: some ids, or the batch itself, may be known. Read what is stored, compare, and call again with what was `Found`. Later
  batches of the partition wait meanwhile.
- `Wait`: it depends on something that is not committed yet. Call again after the next commit. (An answer "duplicate of offset 7" must not
  be given, nor even decided, while the publish of offset 7 can still miss its deadline and be taken back.)

State changes only in `apply`, which the loader calls with the changes of the journal: so what runs is what loads (invariant 6). Three
things are not durable and not in `apply`: how far the log is committed, the page index, which grows in `committed`, and how much of
the log is sealed. `sealed` forgets what sections of the store tell from then on: pages, ids, batches. Every time that something has
moved its place `moves` goes up, and whoever has looked for it meanwhile looks again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import assert_never

import numpy as np

from bowstring import errors
from bowstring.core import known_messages
from bowstring.core.answers import Repeat, ResendAfter, Stored, repeats_of
from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason, Runs
from bowstring.core.decisions import Accept, Answered, BatchName, Decision, Found, Ids, Lookup, Publish, Refused, Rows, Wait
from bowstring.core.deletions import Deletions
from bowstring.core.natural_ids import NO_HITS, NaturalIds
from bowstring.core.pages import PageIndex, entry_of
from bowstring.core.positions import Positions
from bowstring.core.producers import Absent, Batches, Producers
from bowstring.core.retained import Retained
from bowstring.core.sieve import Hashes

MINUTE = 60_000_000
"""Batches are recognised by their number for at least this long, whatever the window for ids."""


class Partition:
    """One partition's log: offsets, arrival, deduplication, deletions, retention."""

    def __init__(self, topic: int, number: int, window: int) -> None:
        self.topic = topic
        self.number = number
        self.window = self.shortest_window = window
        """The deduplication window, and the shortest that it has been since the load: ids beyond that may be forgotten."""
        self.next_offset = 1
        """The offset of the next row, 1 more than the last one given."""
        self.committed_offset = 1
        """Rows below this are committed."""
        self._deleting: list[Delete] = []
        """Deletions that are not committed yet."""
        self.arrived = 0
        """When the last batch arrived. Never falls."""
        self.blind_until = 0
        """A page whose ids could not be read at load may hold any id that arrived up to a window before this moment."""
        self.producers = Producers()
        self.ids = NaturalIds(window)
        self.deletions = Deletions()
        self.retained = Retained()
        self.positions = Positions()
        self.pages = PageIndex()
        """The committed pages that are not sealed."""
        self.sealed_end = 1
        """Rows below this are in extents."""
        self.sealed_bytes = 0
        self.bytes_behind = 0
        """Of these bytes those that are below the floor, where somebody has counted them."""
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

    # Deciding

    def publish(self, batch: Publish, now: int, found: Found | None = None) -> Decision:
        """Decides about a batch; see above."""
        if found is not None and found.moves != self.moves:
            found = None
        known = self.producers.get(batch.producer)
        if known is not None and batch.number <= known.last:
            return self._repeated(batch, known, found)
        refusal = self._too_late(batch, now)
        if refusal is not None:
            return refusal
        last = known.last if known is not None else 0
        if batch.previous != last:
            return Answered(ResendAfter(last))
        if batch.ids is None:
            return self._accept(batch, now, None, ())
        return self._publish_ids(batch, batch.ids, now, found)

    def is_new(self, batch: Publish, now: int) -> bool:
        """Whether it would be stored, as far as its ids do not matter: nothing of that number is known, and it is in time."""
        known = self.producers.get(batch.producer)
        return (known is None or batch.number > known.last) and self._too_late(batch, now) is None

    def _repeated(self, batch: Publish, batches: Batches, found: Found | None) -> Decision:
        known = batches.find(batch.number)
        if known is Absent.SEALED:
            name = BatchName(batch.producer, batch.number)
            if found is None:
                return Lookup(NO_HITS, sealed=False, batches=(name,))
            sealed = found.batches.get(name)
            if sealed is not None and not self.deletions.is_freed(sealed.first_offset):
                return Answered(Stored(sealed.first_offset, sealed.rows, (), duplicate=True))
            known = Absent.PASSED_OVER if sealed is not None else batches.unfound(batch.number) if found.complete else Absent.FORGOTTEN
        if known is Absent.FORGOTTEN:
            return Refused(errors.OutcomeUnknown(f"batch {batch.number} is older than the deduplication window of this topic."))
        if isinstance(known, Absent):
            return Refused(errors.DeadlinePassed(f"batch {batch.number} was not stored: {known.value}."))
        if known.end > self.committed_offset:
            return Wait()
        return Answered(known.stored)

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

    def _publish_ids(self, batch: Publish, ids: Ids, now: int, found: Found | None) -> Decision:
        if self.is_blind(now):
            return Refused(errors.Corrupt("stored ids could not be read, so a repeated id could not be recognised; it is not stored."))
        if found is None:  # what was found rests on committed rows only, and batches come one after the other
            lookup = known_messages.look_for(self, ids)
            if lookup is None:
                return Wait()
            if len(lookup.hits.rows) or lookup.sealed or lookup.batches:
                return lookup
        offsets = np.zeros(batch.rows, np.int64)
        if found is not None:
            recent = known_messages.recognised(self, found, now)
            offsets[recent.rows] = recent.offsets
        for given in ids.given_back:
            offset = known_messages.offset_of(self, given, found)
            if offset >= self.committed_offset:
                return Wait()
            offsets[given.row] = offset or offsets[given.row]
        return self._accept_new(batch, ids, now, offsets)

    def _accept_new(self, batch: Publish, ids: Ids, now: int, offsets: Rows) -> Accept:
        """`offsets` has the offset of each row that is known, and 0 for the others."""
        if ids.firsts is None and not offsets.any():
            offsets = self.next_offset + np.arange(batch.rows)
            accepted = self._accept(batch, now, None, ())
            self.ids.add(ids.hashes, offsets, accepted.change.arrived, ids.order)
            return accepted
        firsts = ids.firsts if ids.firsts is not None else np.arange(batch.rows)
        new = (offsets == 0) & (firsts == np.arange(batch.rows))
        kept = np.flatnonzero(new)
        offsets[kept] = self.next_offset + np.arange(len(kept))
        offsets = np.where(offsets == 0, offsets[firsts], offsets)
        repeats = repeats_of(np.flatnonzero(~new), offsets)
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
            expires=batch.expires,
            due=batch.due,
        )
        self.apply(change)
        return Accept(change, kept)

    def delete(self, runs: Runs, reason: Reason) -> Delete:
        """Deletes runs of (offset, rows), ascending."""
        self.apply(change := Delete(self.topic, self.number, runs, reason))
        self._deleting.append(change)
        return change

    def move(self, name: str, offset: int, now: int) -> Position:
        """A named position is there from here on; at 0 it is deleted. Whether it may be, `positions.refusal` says."""
        self.apply(change := Position(self.topic, self.number, name, offset, now))
        return change

    def raise_floor(self, offset: int, kept: Runs = (), released: Runs = ()) -> Floor:
        """Retention has come to the offset; `kept` are runs below it that stay from here on, `released` those that did until now."""
        self.apply(change := Floor(self.topic, self.number, offset, kept, released))
        return change

    # Applying: live and at load

    def apply(self, change: Change) -> None:
        """The one place where durable state changes."""
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
            case _:
                assert_never(change)

    def _apply_append(self, change: Append) -> None:
        if change.rows:
            assert change.first_offset == self.next_offset, f"offsets must be dense: {change.first_offset} after {self.next_offset - 1}"
            self.next_offset += change.rows
        self.arrived = max(self.arrived, change.arrived)
        self.producers.add(change.producer, change.number, change.first_offset, change.rows, change.arrived, change.repeats)
        self.producers.forget_before(self.arrived - max(self.window, MINUTE), change.producer)
        self.ids.forget_before(self.arrived - self.window)

    def _apply_delete(self, change: Delete) -> None:
        runs = [(max(offset, self.retained.first), offset + rows) for offset, rows in change.runs]
        self.deletions.add([(offset, end - offset) for offset, end in runs if offset < end], freed=change.reason.frees_ids)
        if change.reason.frees_ids:
            for offset, rows in change.runs:
                self.producers.free(offset, offset + rows)
                self.ids.free(offset, offset + rows)

    def committed(self, change: Change, sequence: int) -> None:
        """The flush of a change was committed: appended rows can be read, deleted ones can be passed over."""
        self.changed_sequence = sequence
        match change:
            case Append():
                if change.rows:
                    assert change.first_offset == self.committed_offset, "flushes commit in order"
                    self.pages.add(entry_of(change, sequence))
                    self.committed_offset = change.first_offset + change.rows
            case Delete():
                if change in self._deleting:
                    self._deleting.remove(change)
            case Floor():
                self._drop_pages_below_floor()
            case Position():
                pass
            case _:
                assert_never(change)

    def _drop_pages_below_floor(self) -> None:
        if self.pages.start is not None and self.pages.start < self.retained.first:
            self.pages.drop_below(self.retained.first)
            self.moves += 1

    def sealed(self, end: int, size: int) -> None:
        """Rows below the offset are in extents now, of that many bytes in all: what those tell is forgotten here."""
        self.sealed_end, self.sealed_bytes = max(self.sealed_end, end), size
        self.pages.drop_below(end)
        self.ids.free(0, end)
        self.producers.sealed(end)
        self.seals += 1
        self.moves += 1

    def moved(self, sealed_bytes: int) -> None:
        """Extents have changed: copied to another place, or gone."""
        self.sealed_bytes = sealed_bytes
        self.moves += 1

    # Loading

    def replay(self, change: Change, sequence: int) -> None:
        """A change out of the journal. What the snapshot holds already is not applied again; pages that are not sealed are indexed."""
        if sequence > self.snapshot_sequence:
            self.apply(change)
        self.committed_offset = self.next_offset
        self.changed_sequence = sequence
        if isinstance(change, Append) and change.rows and change.first_offset >= self.sealed_end:
            self.pages.add(entry_of(change, sequence))
        self._drop_pages_below_floor()

    def restore_ids(self, first_offset: int, hashes: Hashes, arrived: int) -> None:
        """At load: the ids of a page, read from its bytes. Those that are free again are left out."""
        offsets = np.arange(first_offset, first_offset + len(hashes), dtype=np.int64)
        taken = ~np.isin(offsets, self.deletions.freed(first_offset, first_offset + len(hashes)))
        if taken.any():
            self.ids.add(hashes[taken], offsets[taken], arrived)

    def cannot_restore_ids(self, arrived: int) -> None:
        """At load: the ids of a page that arrived then cannot be read. No id is taken until the window has passed."""
        self.blind_until = max(self.blind_until, arrived + self.window)

    def alter(self, *, window: int) -> None:
        """The topic has another deduplication window from here on."""
        self.window = self.ids.window = window
        self.shortest_window = min(window, self.shortest_window)

    # Looking

    @property
    def readable_offset(self) -> int:
        """The end, for whoever asks: behind it is what is not committed, or is just being taken back.

        Only rows at the very end of the log count as behind it. An older row that is taken back has others behind it that are read
        and acknowledged, and those do not go because of it.
        """
        end = self.committed_offset
        runs = [run for change in self._deleting if change.reason.frees_ids for run in change.runs] if self._deleting else ()
        for offset, rows in sorted(runs, reverse=True):
            if offset + rows < end:
                break
            end = min(end, offset)
        return end

    def readable_upto(self, offset: int) -> int:
        """How far a reader may go that is at the offset: neither to what is not committed, nor past a deletion that is not. If that got
        lost with a crash, the rows would be there after all, and a reader that had passed them would never see them."""
        upto = self.committed_offset
        for change in self._deleting:
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
    def is_ahead_of_snapshot(self) -> bool:
        """Whether the snapshot lacks something that is not in extents, or not for ever: those may go when nothing in them lives, and
        then only a snapshot tells how far the log is sealed."""
        return self.changed_sequence > self.snapshot_sequence or self.sealed_end > self.snapshot_end

    def is_blind(self, now: int) -> bool:
        """Are there ids within the window that could not be read at load?"""
        return max(now, self.arrived) < self.blind_until

    def check(self) -> None:
        """The machine's own invariants, for tests and for the end of a load."""
        assert self.committed_offset <= self.next_offset
        assert self.sealed_end <= self.committed_offset
        assert self.retained.floor <= self.next_offset
        self.pages.check(self.committed_offset)
        start = self.pages.start if self.pages.start is not None else self.committed_offset
        assert start <= max(self.sealed_end, self.retained.first), f"pages are missing before {start}"
        assert all(1 <= offset < self.next_offset for offset, _ in self.ids.pairs())

    def state(self, window: int | None = None) -> dict[str, object]:
        """Everything durable, in a form that can be compared: what was loaded against what runs. Ids that the window has passed
        are left out, because whole runs of them fall out at a time."""
        horizon = self.arrived - (self.shortest_window if window is None else window)
        recent = {offset for entry in self.pages.since(horizon) for offset in range(entry.first_offset, entry.end)}
        return {
            "next_offset": self.next_offset,
            "arrived": self.arrived,
            "producers": self.producers.state(),
            "deletions": self.deletions.state(),
            "retained": self.retained.state(),
            "positions": self.positions.state(),
            "ids": [pair for pair in self.ids.pairs() if pair[0] in recent],
        }
