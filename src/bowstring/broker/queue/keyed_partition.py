"""The keys of one partition for a key-shared subscription: what is known about its rows, and how it
gets known.

The ledger has the truth about rows, and `core.keys` what follows from it by key. This module brings
the two together. It looks at rows in the order of their offsets: first at those before the cursor
that nobody holds, then at what the scout finds from the cursor on. It follows the changes of the
ledger. Rows that are chosen are compared with the ledger once more before they are granted.

Before anything is granted, settled or expired the keys of all leased rows have to be known
(`prepare`): which keys are busy follows from them, and which rows a nack takes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.scout import Scout
from bowstring.broker.queue.scouted_rows import ScoutedRows
from bowstring.core.granting import ChosenRows, first_group
from bowstring.core.key_barrier import none_are
from bowstring.core.key_rows import NO_KEY_ROWS, KeyRows
from bowstring.core.keys import KEYLESS, KeyedRows, Owners
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Redrive
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets, are_among
from bowstring.core.row_set import NO_ROWS, RowSet

BLOCK_ROWS: Final = 4_096
"""So many rows are looked at before the front of every consumer is looked at again."""


class KeyChoice(NamedTuple):
    """Rows for one consumer, with their keys."""

    keyed: KeyRows
    chosen: ChosenRows


class NamedKeys(NamedTuple):
    """Named rows by what their keys allow."""

    picked: KeyRows
    """They may be granted, and stand nowhere from here on: `keep` them."""
    busy: dict[int, int]
    """Offsets of rows whose key is held, and by which grant."""
    behind: list[int]
    """Offsets of rows behind others of their key that wait."""


class KeyedPartition:
    """What a subscription knows about the keys of a partition."""

    def __init__(self, actor: PartitionActor, scout: Scout, ledger: Callable[[], Ledger | None], owners: Owners) -> None:
        self.actor = actor
        self.keys = KeyedRows(self._are_suspects)
        self.keys.own(owners)
        self.scout = scout
        self._ledger = ledger
        self._todo = NO_ROWS
        """Rows before the cursor that were not looked at yet."""
        self._due = NO_ROWS
        """Rows that the cursor passed before they were due, and that are due."""
        self._looked = 0
        """Rows from the cursor on were looked at up to here; 0 before the first look."""
        self.holds_back = False
        """Whether rows wait that may come behind one of their key that was not looked at."""
        self._preparing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self.is_prepared = False

    # What is held

    async def prepare(self) -> None:
        """Gets to know the keys of all leased rows."""
        if self.is_prepared:
            return
        if self._preparing is None:
            self._preparing = asyncio.create_task(self._prepare())
        preparing = self._preparing
        try:
            await asyncio.shield(preparing)
        finally:
            if preparing.done():
                self._preparing = None

    async def _prepare(self) -> None:
        while not self.is_prepared:
            ledger = self._ledger()
            if ledger is None:
                return
            todo, found = ledger.leases.rows(), list[ScoutedRows]()
            while todo:
                some = self.scout.again_at_once(self.actor, todo) or await self.scout.again(self.actor, todo)
                found.append(some)
                todo = todo - RowSet(0, some.end)
            self._meet_leased(ledger, found)

    def _meet_leased(self, ledger: Ledger, found: Iterable[ScoutedRows]) -> None:
        """In one step: the ledger may have changed while pages were read."""
        offsets, hashes = _arrays(found)
        keys = KeyedRows(self._are_suspects)
        for grant in sorted({lease.number for lease in ledger.leases}):
            held = RowSet.union(lease.rows for lease in ledger.leases.of_grant(grant)).offsets()
            places = np.searchsorted(offsets, held)
            if not len(offsets) or (offsets[np.minimum(places, len(offsets) - 1)] != held).any():
                return  # a row was leased meanwhile
            keys.meet_leased(grant, held, hashes[places])
        self.keys.take_leases(keys)
        self.is_prepared = True

    def behind(self, grant: int, rows: RowSet) -> RowSet:
        """The rows of a grant that come behind these in the order of their keys (`Behind`)."""
        known = self.keys.leased(grant)
        if not len(known.offsets):
            return NO_ROWS
        return RowSet.of_offsets(known.offsets[self.keys.behind(grant, _among(known.offsets, rows))])

    # What waits

    def look(self, ledger: Ledger, end: int) -> NDArray[np.uint64] | None:
        """Looks at more rows, a few thousand at once, and gives the hashes of the keys of those that
        are new. None if there is nothing more to look at now. Rows from `end` on may not be due.
        """
        if self._reading is not None or not self.is_prepared or (self.keys.is_full and not self.holds_back):
            return None
        if not self._looked:
            self._looked = max(ledger.cursor, ledger.floor)
            self._todo = RowSet.union((ledger.returned.rows(), ledger.timeline.rows()))
        self.look_behind(ledger)
        if self._todo:
            again = self.scout.again_at_once(self.actor, self._todo)
            if again is None:
                self._reading = asyncio.create_task(self._read())
                return None
            self._meet_again(ledger, again)
            return np.empty(0, np.uint64)
        if ledger.lane:
            return None
        found = self.scout.beyond(self.actor, ledger, self._looked, BLOCK_ROWS)
        if found.end > end:
            found = found.rows(0, int(np.searchsorted(found.offsets, end)))._replace(end=end)
        if found.end <= self._looked:
            return None
        self._looked = found.end
        hashes = hashes_of(found)
        self.keys.meet(found.offsets, hashes)
        return hashes

    def look_behind(self, ledger: Ledger) -> None:
        """The cursor has passed rows that are not due, and others between them; and some of those
        that it passed are due. These may come before others of their key that wait.
        """
        if not self._looked:
            return
        if ledger.cursor > self._looked:
            passed = RowSet(self._looked, ledger.cursor)
            self._todo = RowSet.union((self._todo, ledger.returned.among(passed)))
            self._looked = ledger.cursor
        if not ledger.later.due.is_empty or self._due:
            due = ledger.later.due.rows()
            if new := due - self._due:
                self._todo = RowSet.union((self._todo, new))
                self.holds_back = True
            self._due = due

    def come_again(self, ledger: Ledger, redrive: Redrive) -> None:
        """Rows of a lane were redriven."""
        if self._looked:
            self._todo = RowSet.union((self._todo, RowSet.of_spans(redrive.rows)))
            self._looked = max(self._looked, ledger.cursor)

    async def _read(self) -> None:
        try:
            again = await self.scout.again(self.actor, self._todo)
        except Exception as error:
            self._reading = None
            self.scout.failed(error)
            return
        self._reading = None
        ledger = self._ledger()
        if ledger is not None and self._looked:
            self._meet_again(ledger, again)
            self.scout.found(self.actor)

    def _meet_again(self, ledger: Ledger, found: ScoutedRows) -> None:
        self._todo = self._todo - RowSet(0, found.end)
        self.holds_back = False
        hashes, waiting, later = hashes_of(found), self._are_back(ledger, found.offsets), self._come_later(ledger, found.offsets)
        self.keys.meet(found.offsets[waiting], hashes[waiting])
        self.keys.meet_later(found.offsets[later], hashes[later])

    def _are_back(self, ledger: Ledger, offsets: Offsets) -> NDArray[np.bool_]:
        """Which rows before the cursor can be granted, but for those that come back later."""
        back = ledger.returned.of(offsets)
        return back if ledger.later.due.is_empty else back | _among(offsets, ledger.later.due.rows())

    def come_back(self, ledger: Ledger, now: int) -> None:
        """Rows whose moment has come by now can be granted."""
        later = self.keys.later
        if len(later):
            ripe = ledger.timeline.ripe(now)
            waits = _among(later, ripe) | ledger.returned.of(later) if ripe else ledger.returned.of(later)
            gone = ~waits & ~self._come_later(ledger, later)
            if waits.any() or gone.any():
                self.keys.no_longer(waits, gone)

    def _come_later(self, ledger: Ledger, offsets: Offsets) -> NDArray[np.bool_]:
        if ledger.timeline.is_empty or not len(offsets):
            return np.zeros(len(offsets), np.bool_)
        rows = ledger.timeline.among(RowSet.of_offsets(offsets))
        return _among(offsets, rows) if rows else np.zeros(len(offsets), np.bool_)

    def choose(self, ledger: Ledger, owner: int, most: int, keyless_most: int, now: int) -> KeyChoice | None:
        """Rows that a consumer may get. None of them stands behind a row whose key is not known yet."""
        rows = self.keys.choose(owner, most, keyless_most)
        if self._todo and len(rows.offsets) and rows.offsets[-1] >= self._todo.first:
            self.holds_back, stands = True, rows.offsets < self._todo.first
            self.keys.put_back(rows.at(~stands))
            rows = rows.at(stands)
        if not len(rows.offsets):
            return None
        chosen = RowSet.of_offsets(rows.offsets)
        if chosen.stop > ledger.cursor or len(ledger.returned.among(chosen)) < len(chosen):
            can = self._can_be_granted(ledger, rows.offsets, now)
            self.keys.drop(rows.at(~can))
            rows = rows.at(can)
            if not len(rows.offsets):
                return None
            chosen = RowSet.of_offsets(rows.offsets)
        upto = max(ledger.cursor, chosen.stop)
        return KeyChoice(rows, ChosenRows(chosen, upto, self.scout.left_out(self.actor, ledger, upto)))

    def _can_be_granted(self, ledger: Ledger, offsets: Offsets, now: int) -> NDArray[np.bool_]:
        """Whether the ledger agrees: rows may have been deleted, or taken by retention."""
        border = int(np.searchsorted(offsets, ledger.cursor))
        can = np.empty(len(offsets), np.bool_)
        can[:border] = self._are_back(ledger, offsets[:border])
        if ripe := ledger.timeline.ripe(now):
            can[:border] |= _among(offsets[:border], ripe)
        can[border:] = ~ledger.settled.above.of(offsets[border:]) & (offsets[border:] >= ledger.floor)
        return can

    # Suspects of a crash

    def _are_suspects(self, offsets: Offsets) -> NDArray[np.bool_]:
        """`AreSuspects`, by the ledger."""
        ledger = self._ledger()
        if ledger is None or not ledger.expiries.has_two or not len(offsets):
            return none_are(offsets)
        suspects = ledger.suspected(RowSet.of_offsets(offsets))
        return _among(offsets, suspects) if suspects else none_are(offsets)

    def has_suspects(self, ledger: Ledger, now: int) -> bool:
        """Whether suspects may be granted."""
        if not self.is_prepared:
            return False
        self.come_back(ledger, now)
        known = self.keys.all_suspects
        can = self._can_be_granted(ledger, known, now)
        if not can.all():  # retention has reached them
            self.keys.drop(self.keys.take_suspects(known[~can]))
            self.scout.found(self.actor)
        return len(self.keys.suspects().offsets) > 0

    def choose_apart(self, ledger: Ledger, most: int) -> KeyChoice | None:
        """A group of suspects, of at most so many rows, for a consumer that holds nothing."""
        suspects = RowSet.of_offsets(self.keys.suspects().offsets)
        if self._todo:
            suspects = suspects & RowSet(0, self._todo.first)
        group = first_group(ledger, suspects, most)
        return KeyChoice(self.keys.take_suspects(group.offsets()), ChosenRows(group, ledger.cursor)) if group else None

    # Rows that are asked for by name

    def knows(self, ledger: Ledger, named: RowSet, end: int) -> bool:
        """Looks on until it has come to the last of the rows. False if that has to wait; True also
        if too many rows wait to look further. Rows from `end` on may not be due.
        """
        while self.is_prepared:
            if self._looked:
                self.look_behind(ledger)
                if self._looked >= named.stop and not self._todo and self._reading is None:
                    return True
            if self.look(ledger, end) is None:
                return self.keys.is_full
        return False

    def pick(self, ledger: Ledger, named: RowSet, now: int) -> NamedKeys:
        """Takes those of the rows that wait and may be granted."""
        self.come_back(ledger, now)
        if not self._looked or self._todo:
            return NamedKeys(NO_KEY_ROWS, {}, [])
        rows, busy, behind = self.keys.pick(named.offsets())
        can = self._can_be_granted(ledger, rows.offsets, now)
        self.keys.drop(rows.at(~can))
        return NamedKeys(rows.at(can), busy, behind)

    def keep(self, named: NamedKeys, grant: int | None) -> None:
        """The picked rows are granted, or wait again."""
        if grant is not None:
            self.keys.grant(grant, named.picked)
        elif len(named.picked.offsets):
            self.keys.put_back(named.picked)

    # The ledger changes

    def acked(self, ledger: Ledger, grants: Iterable[int]) -> None:
        """Rows of these grants were acked: none of them comes again."""
        for grant in set(grants):
            known = self.keys.leased(grant)
            leases = ledger.leases.of_grant(grant)
            left = sum(len(lease.rows) for lease in leases)
            if not left and len(known.offsets):
                self.keys.all_settled(grant)
            elif left < len(known.offsets):
                gone = ~_among(known.offsets, RowSet.union(lease.rows for lease in leases))
                none = np.zeros(len(gone), np.bool_)
                self.keys.ended(grant, gone, none, none)

    def follow(self, ledger: Ledger, grants: Iterable[int] | None, *, expired: bool = False) -> None:
        """Leases of these grants may have ended, or of any; by their time or not."""
        for grant in self.keys.grants if grants is None else set(grants):
            known = self.keys.leased(grant)
            if not len(known.offsets):
                continue
            leases = ledger.leases.of_grant(grant)
            if sum(len(lease.rows) for lease in leases) == len(known.offsets):
                continue
            held = RowSet.union(lease.rows for lease in leases)
            gone = ~_among(known.offsets, held) if held else np.ones(len(known.offsets), np.bool_)
            if expired:
                self.keys.expired(grant, gone)
            # Before the first look rows are left to it, or they would be met twice.
            back = gone if self._looked else np.zeros(len(gone), np.bool_)
            later = self._come_later(ledger, known.offsets)
            self.keys.ended(grant, gone, ledger.returned.of(known.offsets) & back, later & back)

    def rows_left(self, ledger: Ledger) -> None:
        """Rows were deleted, or retention has taken them."""
        self.follow(ledger, None)
        self.keys.leave(lambda offsets: ~self._can_be_granted(ledger, offsets, NEVER))

    def forget_waiting(self) -> None:
        """There are no consumers: what waits is looked at again when there are."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        self._todo, self._due, self._looked, self.holds_back = NO_ROWS, NO_ROWS, 0, False
        keys = KeyedRows(self._are_suspects)
        keys.own(self.keys.owners)
        keys.take_leases(self.keys)
        self.keys = keys

    @property
    def is_reading(self) -> bool:
        """Whether rows that wait are being read."""
        return self._reading is not None

    @property
    def looked(self) -> int:
        """It has looked at rows up to here."""
        return self._looked

    def not_looked_at(self, ledger: Ledger) -> RowSet:
        """Rows before the cursor that can be granted, now or later, and were not looked at yet."""
        return self._todo if self._looked else RowSet.union((ledger.returned.rows(), ledger.timeline.rows()))

    def stop(self) -> None:
        """The subscription has ended."""
        for task in (self._preparing, self._reading):
            if task is not None:
                task.cancel()


def _among(offsets: Offsets, rows: RowSet) -> NDArray[np.bool_]:
    """Which of the ascending offsets are among the rows."""
    if rows.is_run:
        return (offsets >= rows.first) & (offsets < rows.stop)
    return are_among(offsets, rows.offsets())


def hashes_of(found: ScoutedRows) -> NDArray[np.uint64]:
    """The hashes of keys; that of no key is for rows without one."""
    return np.where(found.keyed, np.maximum(found.hashes, 1), KEYLESS).astype(np.uint64)


def _arrays(found: Iterable[ScoutedRows]) -> tuple[Offsets, NDArray[np.uint64]]:
    parts = list(found)
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    return np.concatenate([part.offsets for part in parts]), np.concatenate([hashes_of(part) for part in parts])
