"""Keys: which rows of a ledger a consumer of a key-shared subscription may get.

Messages of one key go to one consumer, in order, one consumer at a time. So a key is **busy** while
a row of it is leased, and no other row of it is granted: all leased rows of a key are in one grant.
A row that comes back later, because it was nacked to a moment or backed off, holds back the rows of
its key behind it. So does a **suspect** of a crash (`granting`), which waits for a consumer that holds
nothing else. Keys that were lost with a consumer come in smaller parts (`narrowed_keys`). Rows without
a key go to any consumer, in any order.

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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bowstring.core.key_barrier import AreSuspects, KeyBarrier, none_are
from bowstring.core.key_rows import NO_KEY_ROWS, Hashes, KeyFacts, KeyFront, KeyRows, Numbers, once
from bowstring.core.key_table import KEYLESS, ONE, SLOTS, KeyTable, slots_of
from bowstring.core.machine import NEVER
from bowstring.core.narrowed_keys import NarrowedKeys
from bowstring.core.offset_set import Offsets
from bowstring.core.parked_rows import ParkedRows

Owners = NDArray[np.int16]

WAITING_MAX: Final = 1 << 18
"""So many rows wait in one partition before the search for free keys stops."""
UNPARKED_MAX: Final = 16_384
"""So many parked rows go to the fronts at once: a key may have all rows that wait."""
NO_OWNER: Final = -1
"""The owner of slots while there is no consumer."""
ANY_OWNER: Final = -2
"""The front of rows without a key."""

BLOCK: Final = 256  # at least so many rows of a front are looked at


class KeyedRows:
    """The rows of one ledger that are known with their keys."""

    def __init__(self, are_suspects: AreSuspects = none_are) -> None:
        self._are_suspects = are_suspects
        self._table = KeyTable()
        size = self._table.size
        self._leased = np.zeros(size, np.int32)
        """By the number of a key, as everything that follows: how many rows are leased."""
        self._grants = np.zeros(size, np.int64)
        """The grant that makes it busy; 0 for none."""
        self._fronts: dict[int, KeyFront] = {}
        self._parked = ParkedRows(size)
        self._narrowed = NarrowedKeys()
        self._freed: list[Numbers] = []
        """Keys that have become free, perhaps with rows parked."""
        self._leases: dict[int, KeyRows] = {}
        """Leased rows by grant."""
        self._later, self._suspects = KeyBarrier(size), KeyBarrier(size)
        self._owners = np.full(SLOTS, NO_OWNER, np.int16)

    # Rows come

    def meet(self, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows that can be granted. They were not known."""
        self._wait(KeyRows(offsets, self._numbered(hashes)))

    def meet_leased(self, grant: int, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows of a grant, which were not known, as after a load."""
        rows, known = KeyRows(offsets, self._numbered(hashes)), self.leased(grant)
        self._hold(grant, rows)
        self._leases[grant] = KeyRows.joined([known, rows])

    def meet_later(self, offsets: Offsets, hashes: Hashes) -> None:
        """Ascending rows that come back later, which were not known."""
        self._later.put(KeyRows(offsets, self._numbered(hashes)))

    def _numbered(self, hashes: Hashes) -> Numbers:
        """The numbers of keys. Their rows count as known from here on."""
        numbers = self._table.numbered(hashes)
        if (more := self._table.size - len(self._leased)) > 0:
            self._leased = np.concatenate((self._leased, np.zeros(more, np.int32)))
            self._grants = np.concatenate((self._grants, np.zeros(more, np.int64)))
            for apart in (self._parked, self._later, self._suspects):
                apart.grow(more)
        return numbers

    def _wait(self, rows: KeyRows) -> None:
        """Rows wait from here on: in their fronts, or parked if earlier ones of their key are.
        Suspects wait for a consumer that holds nothing else.
        """
        suspects = self._are_suspects(rows.offsets)
        if suspects.any():
            self._suspects.put(rows.at(suspects))
            rows = rows.at(~suspects)
        behind = self._parked.counts[rows.numbers] > 0
        if behind.any():
            self._parked.put(rows.at(behind))
            self._freed.append(rows.numbers[behind])
            rows = rows.at(~behind)
        self._to_fronts(rows)

    def _to_fronts(self, rows: KeyRows) -> None:
        if not len(rows.offsets):
            return
        owners = self._owners[slots_of(self._table.hashes[rows.numbers])]
        owners[rows.numbers == KEYLESS] = ANY_OWNER
        if (owners == owners[0]).all():
            return self._front(int(owners[0])).put(rows)
        order = np.argsort(owners, kind="stable")
        rows, owners = rows.at(order), owners[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1, [len(owners)])).tolist()
        for start, end in itertools.pairwise(starts):
            self._front(int(owners[start])).put(rows.at(slice(start, end)))

    def _front(self, owner: int) -> KeyFront:
        if owner not in self._fronts:
            self._fronts[owner] = KeyFront()
        return self._fronts[owner]

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
        self._to_fronts(found.at(slice(most, None)))
        found = found.at(slice(most))
        if self._narrowed:
            over = self._narrowed.too_many(self._table.hashes[found.numbers], found.offsets)
            self._parked.put(found.at(over))
            self._freed.append(once(found.numbers[over]))
            return found.at(~over)
        return found

    def _free_rows(self, front: KeyFront | None, most: int) -> KeyRows:
        found: list[KeyRows] = []
        while front is not None and front.rows and most:
            rows = front.pop(max(most, BLOCK))
            free = self._are_free(rows)
            if not free.all():
                self._parked.put(rows.at(~free))
                rows = rows.at(free)
            if len(rows.offsets) > most:
                front.put(rows.at(slice(most, None)))
                rows = rows.at(slice(most))
            if len(rows.offsets):
                found.append(rows)
                most -= len(rows.offsets)
        return KeyRows.joined(found) if found else NO_KEY_ROWS

    def _are_free(self, rows: KeyRows) -> NDArray[np.bool_]:
        first = np.minimum(self._held_back_from(rows.numbers), self._parked.first[rows.numbers])
        return (self._grants[rows.numbers] == 0) & (first > rows.offsets)

    def _held_back_from(self, numbers: Numbers) -> Offsets:
        """Of each key the first row that holds back those behind it."""
        first = self._later.first[numbers]
        return np.minimum(first, self._suspects.first[numbers]) if len(self._suspects) else first

    @property
    def all_suspects(self) -> Offsets:
        return self._suspects.rows.offsets

    def suspects(self) -> KeyRows:
        """The suspects that may be granted: those without a key, and the first rows of free keys."""
        rows = self._suspects.rows
        if not len(rows.offsets):
            return rows
        earlier = np.minimum(self._later.first, self._parked.first)
        first = (rows.numbers == KEYLESS) | (self._suspects.first[rows.numbers] == rows.offsets)
        rows = rows.at(first & (self._grants[rows.numbers] == 0) & (earlier[rows.numbers] > rows.offsets))
        wanted = np.zeros(self._table.size, np.bool_)
        wanted[rows.numbers[rows.numbers != KEYLESS]] = True
        for part in self._front_parts():
            some = part.at(wanted[part.numbers])
            np.minimum.at(earlier, some.numbers, some.offsets)
        return rows.at(earlier[rows.numbers] > rows.offsets)

    def take_suspects(self, wanted: Offsets) -> KeyRows:
        """Takes these suspects. They stand nowhere from here on: `grant`, `put_back` or `drop` them."""
        rows = self._suspects.take(np.isin(self._suspects.rows.offsets, wanted))
        self._freed.append(once(rows.numbers))
        return rows

    def pick(self, wanted: Offsets) -> tuple[KeyRows, dict[int, int], list[int]]:
        """Takes wanted rows that may be granted together; tells whose key a grant holds, and which are behind others."""
        suspects = self.take_suspects(self.all_suspects)
        rows = KeyRows.joined([*self._front_parts(), self._parked.take_all(), suspects])
        self._fronts = {}
        named, busy = np.isin(rows.offsets, wanted), self._grants[rows.numbers] != 0
        others, first = rows.at(~named & (rows.numbers != KEYLESS)), self._later.first.copy()
        np.minimum.at(first, others.numbers, others.offsets)
        behind = ~busy & (rows.offsets > first[rows.numbers])
        free, held = named & ~busy & ~behind, rows.at(named & busy)
        self._wait(rows.at(~free))
        grants = self._grants[held.numbers].tolist()
        return rows.at(free), dict(zip(held.offsets.tolist(), grants, strict=True)), rows.offsets[named & behind].tolist()

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

    def expired(self, grant: int, rows: NDArray[np.bool_]) -> None:
        """Leases on these rows of a grant are about to end in vain."""
        lost = self._leases[grant].at(rows)
        self._narrowed.lose(self._table.hashes[lost.numbers], lost.offsets)

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
            self._later.put(rows.at(later))
        if waiting.any():
            self._wait(rows.at(waiting))
        self._table.forget(rows.numbers[~(waiting | later)])

    def all_settled(self, grant: int) -> None:
        """All rows of a grant are settled; all leased rows of their keys are among them."""
        numbers = self._leases.pop(grant).numbers
        keyed = numbers[numbers != KEYLESS]
        self._leased[keyed] = self._grants[keyed] = 0
        self._freed.append(keyed)
        self._table.forget(numbers)

    @property
    def later(self) -> Offsets:
        return self._later.rows.offsets

    def no_longer(self, waiting: NDArray[np.bool_], gone: NDArray[np.bool_]) -> None:
        """Of the rows that come back later these can be granted now, and those are settled."""
        over = waiting | gone
        rows = self._later.take(over)
        self._freed.append(once(rows.numbers))
        self._wait(rows.at(waiting[over]))
        self._table.forget(rows.numbers[~waiting[over]])

    def leave(self, are_gone: Callable[[Offsets], NDArray[np.bool_]]) -> None:
        """Waiting rows that were settled without a delivery leave."""
        fronts, self._fronts = self._fronts, {}
        parked = self._parked.take_all()
        waiting = KeyRows.joined([front.all() for front in fronts.values()] or [NO_KEY_ROWS])
        self.drop(self.take_suspects(self.all_suspects[are_gone(self.all_suspects)]))
        for rows, put in ((waiting, self._to_fronts), (parked, self._parked.put)):
            gone = are_gone(rows.offsets)
            put(rows.at(~gone))
            self._table.forget(rows.numbers[gone])

    def _hold(self, grant: int, rows: KeyRows) -> None:
        numbers = rows.numbers[rows.numbers != KEYLESS]
        self._grants[numbers] = grant
        np.add.at(self._leased, numbers, ONE)

    def _unpark(self) -> None:
        """Rows of keys that have become free go to their fronts, the first ones."""
        freed = np.concatenate(self._freed)
        self._freed = []
        freed = freed[(self._parked.counts[freed] > 0) & (self._grants[freed] == 0)]
        if not len(freed):
            return
        rows = self._parked.take(freed, self._held_back_from, UNPARKED_MAX)
        if len(rows.offsets) == UNPARKED_MAX:
            self._freed = [once(freed)]
        self._to_fronts(rows)

    def take_leases(self, others: KeyedRows) -> None:
        """Knows the leased rows that the others know, and which keys come in smaller parts."""
        self._narrowed = others._narrowed or self._narrowed
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
    def parked(self) -> int:
        """How many rows are parked."""
        return len(self._parked)

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return self.parked + len(self._suspects) + sum(front.rows for front in self._fronts.values())

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
        return self._fronts[owner].rows if owner in self._fronts else 0

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
        later, suspect = (int(first) if first != NEVER else 0 for first in (self._later.first[number], self._suspects.first[number]))
        parts = [*self._front_parts(), *self._parked.parts, self._suspects.rows]
        waiting = np.sort(np.concatenate([rows.offsets[rows.numbers == number] for rows in parts]))
        return KeyFacts(int(self._grants[number]), int(self._leased[number]), waiting, later, key % SLOTS, suspect)

    def _front_parts(self) -> Iterator[KeyRows]:
        for front in self._fronts.values():
            yield front.all()

    def check(self) -> None:
        """The invariants."""
        fronts, parked = (KeyRows.joined(list(parts) or [NO_KEY_ROWS]) for parts in (self._front_parts(), self._parked.parts))
        leased = KeyRows.joined([*self._leases.values()] or [NO_KEY_ROWS])
        size = self._table.size
        places = fronts, parked, leased, self._later.rows, self._suspects.rows
        known = np.concatenate([rows.numbers for rows in places])
        assert (np.bincount(known, minlength=size) == self._table.rows).all(), "rows of keys are counted wrong"
        keyed = leased.numbers[leased.numbers != KEYLESS]
        assert (np.bincount(keyed, minlength=size) == self._leased).all(), "leased rows are counted wrong"
        assert ((self._grants > 0) == (self._leased > 0)).all(), "a busy key has no row, or a free one has"
        for grant, rows in self._leases.items():
            held = rows.numbers[rows.numbers != KEYLESS]
            assert (self._grants[held] == grant).all(), "a key is in two grants"
        for part in (self._parked, self._later, self._suspects, self._table):
            part.check()
