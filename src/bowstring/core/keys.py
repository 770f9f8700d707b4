"""Keys: which rows of a ledger a consumer of a key-shared subscription may get.

Messages of one key go to one consumer, in order, one consumer at a time. So a key is **busy** while
a row of it is leased, and no other row of it is granted: all leased rows of a key are in one grant.
A row that comes back later, because it was nacked to a moment or backed off, holds back the rows of
its key behind it. Rows without a key go to any consumer, in any order.

A key is a 64-bit hash. Two keys that share it only wait for each other. Keys whose rows are known
have small numbers, so that everything about a key is an entry of an array: choosing a thousand rows
takes a few operations on arrays and none for each row.

**Fronts.** Waiting rows stand in the queue of the consumer that their key prefers, by its slot, or
in the one for rows without a key. A row that turns out to be of a busy key is **parked**. When the
key becomes free its parked rows go to their front again. Rows of one key are chosen in order: a row
in a front counts as blocked while an earlier one of its key is parked.

Nothing here is durable, nor does it decide anything that replay would need: a ledger says which rows
are settled, leased or returned, and this follows it. The caller looks for no more when it `is_full`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.key_rows import NO_KEY_ROWS, Hashes, KeyFront, KeyRows, Numbers, once
from bowstring.core.key_table import KEYLESS, ONE, KeyTable
from bowstring.core.machine import NEVER
from bowstring.core.offset_set import Offsets

Owners = NDArray[np.int16]

SLOTS: Final = 4_096
"""Keys prefer consumers by slot: this many of them, by the last bits of the hash."""
WAITING_MAX: Final = 1 << 18
"""So many rows wait in one partition before the search for free keys stops."""
UNPARKED_MAX: Final = 4_096
"""So many parked rows go to the fronts at once: a key may have all rows that wait."""
NO_OWNER: Final = -1
"""The owner of slots while there is no consumer."""
ANY_OWNER: Final = -2
"""The front of rows without a key."""

BLOCK: Final = 256  # at least so many rows of a front are looked at


class KeyFacts(NamedTuple):
    """What is known about one key."""

    grant: int
    """The grant that holds rows of it; 0 if none does."""
    leased: int
    waiting: Offsets
    """Rows that wait, ascending."""
    later: int
    """The first row that comes back later and holds the others back; 0 if there is none."""
    slot: int


class KeyedRows:
    """The rows of one ledger that are known with their keys."""

    def __init__(self) -> None:
        self._table = KeyTable()
        size = self._table.size
        self._leased = np.zeros(size, np.int32)
        """By the number of a key, as everything that follows: how many rows are leased."""
        self._grants = np.zeros(size, np.int64)
        """The grant that makes it busy; 0 for none."""
        self._parked = np.zeros(size, np.int32)
        """How many rows are parked."""
        self._first_parked = np.full(size, NEVER, np.int64)
        """The first of them."""
        self._first_later = np.full(size, NEVER, np.int64)
        """The first row that comes back later: those behind it wait for it."""
        self._fronts: dict[int, KeyFront] = {}
        self._parked_parts: list[KeyRows] = []
        """Parked rows; the first part is in order, the others came since."""
        self.parked = 0
        self._freed: list[Numbers] = []
        """Keys that have become free, perhaps with rows parked."""
        self._leases: dict[int, KeyRows] = {}
        """Leased rows by grant."""
        self._later = NO_KEY_ROWS
        self._owners = np.full(SLOTS, NO_OWNER, np.int16)

    # Rows come

    def meet(self, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows that can be granted. They were not known."""
        self._wait(KeyRows(offsets, self._numbered(hashes)))

    def meet_leased(self, grant: int, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows of a grant, which were not known, as after a load."""
        rows = KeyRows(offsets, self._numbered(hashes))
        known = self._leases.get(grant)
        self._hold(grant, rows)
        self._leases[grant] = rows if known is None else KeyRows.joined([known, rows])

    def meet_later(self, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows that come back later, which were not known."""
        self._come_later(KeyRows(offsets, self._numbered(hashes)))

    def _numbered(self, hashes: Hashes) -> Numbers:
        """The numbers of keys. Their rows count as known from here on."""
        numbers = self._table.numbered(hashes)
        more = self._table.size - len(self._leased)
        if more > 0:
            none, never = np.zeros(more, np.int32), np.full(more, NEVER, np.int64)
            self._leased, self._parked = np.concatenate((self._leased, none)), np.concatenate((self._parked, none))
            self._grants = np.concatenate((self._grants, np.zeros(more, np.int64)))
            self._first_later = np.concatenate((self._first_later, never))
            self._first_parked = np.concatenate((self._first_parked, never))
        return numbers

    def _wait(self, rows: KeyRows) -> None:
        """Rows wait from here on: in their fronts, or parked if earlier ones of their key are."""
        behind = self._parked[rows.numbers] > 0
        if behind.any():
            self._park(rows.at(behind))
            self._freed.append(rows.numbers[behind])
            rows = rows.at(~behind)
        self._to_fronts(rows)

    def _to_fronts(self, rows: KeyRows) -> None:
        if not len(rows.offsets):
            return
        owners = self._owners[self._slots(rows.numbers)]
        owners[rows.numbers == KEYLESS] = ANY_OWNER
        if (owners == owners[0]).all():
            self._front(int(owners[0])).put(rows)
            return
        order = np.argsort(owners, kind="stable")
        rows, owners = rows.at(order), owners[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(owners)])).tolist()
        for start, end in itertools.pairwise(starts):
            self._front(int(owners[start])).put(rows.at(slice(start, end)))

    def _front(self, owner: int) -> KeyFront:
        front = self._fronts.get(owner)
        if front is None:
            front = self._fronts[owner] = KeyFront()
        return front

    def _slots(self, numbers: Numbers) -> NDArray[np.intp]:
        return slots_of(self._table.hashes[numbers])

    # Choosing

    def choose(self, owner: int, most: int, keyless_most: int = WAITING_MAX) -> KeyRows:
        """The first rows that this consumer may get, at most so many, and of those without a key at
        most so many. They stand nowhere from here on: `grant`, `put_back` or `drop` them.
        """
        if self._freed:
            self._unpark()
        mine = self._free_rows(self._fronts.get(owner), most)
        anyones = self._free_rows(self._fronts.get(ANY_OWNER), min(most, keyless_most))
        found = KeyRows.joined([part for part in (mine, anyones) if len(part.offsets)] or [NO_KEY_ROWS])
        if len(found.offsets) > most:
            self._to_fronts(found.at(slice(most, None)))
            found = found.at(slice(most))
        return found

    def _free_rows(self, front: KeyFront | None, most: int) -> KeyRows:
        found: list[KeyRows] = []
        while front is not None and front.rows and most:
            rows = front.pop(max(most, BLOCK))
            free = self._are_free(rows)
            if not free.all():
                self._park(rows.at(~free))
                rows = rows.at(free)
            if len(rows.offsets) > most:
                front.put(rows.at(slice(most, None)))
                rows = rows.at(slice(most))
            if len(rows.offsets):
                found.append(rows)
                most -= len(rows.offsets)
        return KeyRows.joined(found) if found else NO_KEY_ROWS

    def _are_free(self, rows: KeyRows) -> NDArray[np.bool_]:
        first = np.minimum(self._first_later[rows.numbers], self._first_parked[rows.numbers])
        return (self._grants[rows.numbers] == 0) & (first > rows.offsets)

    def grant(self, grant: int, rows: KeyRows) -> None:
        """Rows that were chosen are leased from here on."""
        self._leases[grant] = rows
        self._hold(grant, rows)

    def put_back(self, rows: KeyRows) -> None:
        """Rows that were chosen wait again."""
        self._wait(rows)

    def drop(self, rows: KeyRows) -> None:
        """Rows that were chosen cannot be granted any more."""
        self._table.forget(rows.numbers)

    # Rows leave

    @property
    def grants(self) -> list[int]:
        """Those whose rows are known."""
        return list(self._leases)

    def leased(self, grant: int) -> KeyRows:
        """The rows of a grant, as they were known last."""
        return self._leases.get(grant, NO_KEY_ROWS)

    def ended(self, grant: int, gone: NDArray[np.bool_], waiting: NDArray[np.bool_], later: NDArray[np.bool_]) -> None:
        """Of the rows of a grant these are not leased any more. Those of them that wait can be
        granted, others come back later, and the rest is settled.
        """
        rows = self._leases[grant]
        left, rows = rows.at(~gone), rows.at(gone)
        if len(left.offsets):
            self._leases[grant] = left
        else:
            del self._leases[grant]
        keyed = rows.numbers[rows.numbers != KEYLESS]
        np.subtract.at(self._leased, keyed, ONE)
        free = once(keyed[self._leased[keyed] == 0])
        self._grants[free] = 0
        self._freed.append(free)
        waiting, later = waiting[gone], later[gone]
        if later.any():
            self._come_later(rows.at(later))
        if waiting.any():
            self._wait(rows.at(waiting))
        self._table.forget(rows.numbers[~(waiting | later)])

    def _come_later(self, rows: KeyRows) -> None:
        self._later = KeyRows.joined([self._later, rows])
        keyed = rows.at(rows.numbers != KEYLESS)
        np.minimum.at(self._first_later, keyed.numbers, keyed.offsets)

    @property
    def later(self) -> Offsets:
        return self._later.offsets

    def no_longer(self, waiting: NDArray[np.bool_], gone: NDArray[np.bool_]) -> None:
        """Of the rows that come back later these can be granted now, and those are settled."""
        over = waiting | gone
        rows, self._later = self._later.at(over), self._later.at(~over)
        self._first_later[rows.numbers] = NEVER
        keyed = self._later.at(self._later.numbers != KEYLESS)
        np.minimum.at(self._first_later, keyed.numbers, keyed.offsets)
        self._freed.append(once(rows.numbers))
        waits = waiting[over]
        self._wait(rows.at(waits))
        self._table.forget(rows.numbers[~waits])

    def leave(self, are_gone: Callable[[Offsets], NDArray[np.bool_]]) -> None:
        """Waiting rows that were settled without a delivery leave."""
        fronts, self._fronts = self._fronts, {}
        parked = self._take_parked()
        waiting = KeyRows.joined([front.all() for front in fronts.values()] or [NO_KEY_ROWS])
        for rows, put in ((waiting, self._to_fronts), (parked, self._park)):
            gone = are_gone(rows.offsets)
            put(rows.at(~gone))
            self._table.forget(rows.numbers[gone])

    def _hold(self, grant: int, rows: KeyRows) -> None:
        numbers = rows.numbers[rows.numbers != KEYLESS]
        self._grants[numbers] = grant
        np.add.at(self._leased, numbers, ONE)

    # Parked rows

    def _park(self, rows: KeyRows) -> None:
        if len(rows.offsets):
            self._parked_parts.append(rows)
            self.parked += len(rows.offsets)
            np.add.at(self._parked, rows.numbers, ONE)
            np.minimum.at(self._first_parked, rows.numbers, rows.offsets)

    def _take_parked(self) -> KeyRows:
        parts, self._parked_parts, self.parked = self._parked_parts, [], 0
        rows = KeyRows.joined(parts or [NO_KEY_ROWS])
        self._parked[rows.numbers] = 0
        self._first_parked[rows.numbers] = NEVER
        return rows

    def _unpark(self) -> None:
        """Rows of keys that have become free go to their fronts, the first ones."""
        freed = np.concatenate(self._freed)
        self._freed = []
        if not self.parked:
            return
        freed = freed[(self._parked[freed] > 0) & (self._grants[freed] == 0)]
        if not len(freed):
            return
        parked = KeyRows.joined(self._parked_parts)
        wanted = np.zeros(self._table.size, np.bool_)
        wanted[freed] = True
        of_freed = np.flatnonzero(wanted[parked.numbers])
        rows = parked.at(of_freed)
        away = np.flatnonzero(rows.offsets < self._first_later[rows.numbers])[:UNPARKED_MAX]
        keep = np.ones(len(parked.offsets), np.bool_)
        keep[of_freed[away]] = False
        self._parked_parts, self.parked = [parked.at(keep)], self.parked - len(away)
        np.subtract.at(self._parked, rows.numbers[away], ONE)
        self._first_parked[freed] = NEVER
        left = np.ones(len(rows.offsets), np.bool_)
        left[away] = False
        np.minimum.at(self._first_parked, rows.numbers[left], rows.offsets[left])
        if len(away) == UNPARKED_MAX:
            self._freed = [once(freed)]
        self._to_fronts(rows.at(away))

    def take_leases(self, others: KeyedRows) -> None:
        """Knows the leased rows that the others know."""
        for grant, rows in others._leases.items():
            self.meet_leased(grant, rows.offsets, others._table.hashes[rows.numbers])

    # Owners

    @property
    def owners(self) -> Owners:
        """Of each slot."""
        return self._owners

    def own(self, owners: Owners) -> None:
        """Slots have these owners from here on. Busy keys finish where they are."""
        self._owners = owners
        fronts, self._fronts = self._fronts, {}
        for front in fronts.values():
            self._to_fronts(front.all())

    # Looking

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return self.parked + sum(front.rows for front in self._fronts.values())

    @property
    def is_full(self) -> bool:
        """Whether so many wait that no more is looked for."""
        return self.waiting >= WAITING_MAX

    @property
    def keyless(self) -> int:
        """How many rows without a key wait."""
        return self.waiting_for(ANY_OWNER)

    def waiting_for(self, owner: int) -> int:
        """How many rows stand in the front of a consumer."""
        front = self._fronts.get(owner)
        return 0 if front is None else front.rows

    def behind(self, grant: int, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows of a grant come behind one of these in the order of their key."""
        known = self._leases[grant]
        first = np.full(self._table.size, NEVER, np.int64)
        some = known.at(rows & (known.numbers != KEYLESS))
        np.minimum.at(first, some.numbers, some.offsets)
        return known.offsets > first[known.numbers]

    def facts(self, key: int) -> KeyFacts | None:
        """None if no row of the key is known."""
        number = self._table.number(key)
        if number is None:
            return None
        later = int(self._first_later[number])
        waits = [rows.offsets[rows.numbers == number] for rows in self._waiting_parts()]
        waiting = np.sort(np.concatenate(waits)) if waits else NO_KEY_ROWS.offsets
        return KeyFacts(int(self._grants[number]), int(self._leased[number]), waiting, 0 if later == NEVER else later, key % SLOTS)

    def _waiting_parts(self) -> Iterator[KeyRows]:
        for front in self._fronts.values():
            yield front.all()
        yield from self._parked_parts

    def check(self) -> None:
        """The invariants."""
        parked = KeyRows.joined(self._parked_parts or [NO_KEY_ROWS])
        fronts = KeyRows.joined([front.all() for front in self._fronts.values()] or [NO_KEY_ROWS])
        leased = KeyRows.joined([*self._leases.values()] or [NO_KEY_ROWS])
        size = self._table.size
        known = np.concatenate((parked.numbers, fronts.numbers, leased.numbers, self._later.numbers))
        assert (np.bincount(known, minlength=size) == self._table.rows).all(), "rows of keys are counted wrong"
        assert (np.bincount(parked.numbers, minlength=size) == self._parked).all(), "parked rows are counted wrong"
        keyed = leased.numbers[leased.numbers != KEYLESS]
        assert (np.bincount(keyed, minlength=size) == self._leased).all(), "leased rows are counted wrong"
        assert ((self._grants > 0) == (self._leased > 0)).all(), "a busy key has no row, or a free one has"
        for grant, rows in self._leases.items():
            held = rows.numbers[rows.numbers != KEYLESS]
            assert (self._grants[held] == grant).all(), "a key is in two grants"
        first_parked = np.full(size, NEVER, np.int64)
        np.minimum.at(first_parked, parked.numbers, parked.offsets)
        assert (first_parked == self._first_parked).all(), "the first parked row of a key is wrong"
        self._table.check()


def slots_of(hashes: Hashes) -> NDArray[np.intp]:
    """The slots of keys."""
    return (hashes & np.uint64(SLOTS - 1)).astype(np.intp)
