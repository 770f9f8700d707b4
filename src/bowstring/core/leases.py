"""The leases of one ledger: who holds which rows, and until when.

A grant has one lease over all its rows. When some of them are extended it has two, so that the
others still end at their time. Nothing is kept for a row: a lease is a run, or a bitmap once part of
it is settled.

Ends are in a heap. An entry that no lease stands for any more, because it was settled or extended,
is dropped when it comes up, and all such entries together before they outnumber the others by far.

Room: a lease that is held by a transaction gets a field that says by whom; `ended` leaves it out,
and so must delete and reset.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from bowstring.core.machine import NEVER
from bowstring.core.row_set import NO_ROWS, RowSet

GRANTS_MAX = 1_024
"""The most grants that a consumer holds in one partition."""
STALE_MAX = 256
"""So many entries of the heap may be stale, and three for each grant."""

MANY_DUE = 64


class LeasedRows(NamedTuple):
    """Rows under one active lease."""

    rows: RowSet
    consumer: str
    until: int


class Lease:
    """Rows of one grant that end together."""

    __slots__ = ("apart", "consumer", "granted", "number", "rows", "until")

    def __init__(self, number: int, consumer: int, granted: int, until: int, rows: RowSet, apart: int = 0) -> None:
        self.number = number
        """The grant's."""
        self.consumer = consumer
        self.granted = granted
        self.until = until
        """The first moment at which it does not hold any more."""
        self.rows = rows
        """What is neither settled nor given back."""
        self.apart = apart
        """How many rows were granted, if their consumer holds nothing else; else 0."""


class Leases:
    """The live leases by their grants."""

    def __init__(self) -> None:
        self._grants: dict[int, tuple[Lease, ...]] = {}
        self._held: dict[int, dict[int, None]] = {}
        """The grants of each consumer, in order."""
        self._rows: dict[int, int] = {}
        """How many rows each consumer holds."""
        self._ends: list[tuple[int, int]] = []
        """A heap of ends and grants; some are stale."""
        self._apart: dict[int, None] = {}
        """The grants whose consumers hold nothing else."""

    # Changing

    def add(self, lease: Lease) -> None:
        number, others = lease.number, self._grants.get(lease.number)
        self._grants[number] = (lease,) if others is None else (*others, lease)
        held = self._held.get(lease.consumer)
        if held is None:
            held = self._held[lease.consumer] = {}
            self._rows[lease.consumer] = 0
        held[number] = None
        self._rows[lease.consumer] += len(lease.rows)
        heapq.heappush(self._ends, (lease.until, number))
        if lease.apart:
            self._apart[number] = None

    def take(self, grant: int, rows: RowSet | None) -> RowSet:
        """Ends the lease of these rows of a grant, or of all; gives them."""
        leases = self._grants[grant]
        if rows is None:
            rows = leases[0].rows if len(leases) == 1 else RowSet.union(lease.rows for lease in leases)
            self._forget(leases[0], len(rows))
            return rows
        self._cut(leases, rows)
        return rows

    def _cut(self, leases: tuple[Lease, ...], rows: RowSet) -> None:
        taken = 0
        for lease in leases:
            before, lease.rows = len(lease.rows), lease.rows - rows
            taken += before - len(lease.rows)
        self._keep(tuple(lease for lease in leases if lease.rows), leases[0], taken)

    def _keep(self, left: tuple[Lease, ...], lease: Lease, taken: int) -> None:
        """These are left of the leases of a grant, so many of whose rows were taken."""
        if left:
            self._grants[lease.number] = left
            self._rows[lease.consumer] -= taken
        else:
            self._forget(lease, taken)

    def _forget(self, lease: Lease, taken: int) -> None:
        del self._grants[lease.number]
        if lease.apart:
            del self._apart[lease.number]
        self._rows[lease.consumer] -= taken
        held = self._held[lease.consumer]
        del held[lease.number]
        if not held:
            del self._held[lease.consumer], self._rows[lease.consumer]
        if len(self._ends) > STALE_MAX + 4 * len(self._grants):
            self._ends = [(lease.until, lease.number) for lease in self]
            heapq.heapify(self._ends)

    def drop(self, rows: RowSet) -> None:
        """Ends the leases of these rows, whosever they are."""
        for leases in list(self._grants.values()):
            if any(lease.rows & rows for lease in leases):
                self._cut(leases, rows)

    def extend(self, grant: int, rows: RowSet | None, until: int) -> None:
        """These rows of a grant, or all, are held until the moment at least."""
        leases, longer = self._grants[grant], list[RowSet]()
        for lease in leases:
            if lease.until < until:
                longer.append(lease.rows if rows is None else lease.rows & rows)
                lease.rows = lease.rows - longer[-1]
                self._rows[lease.consumer] -= len(longer[-1])
        if extended := RowSet.union(longer):
            self.add(Lease(grant, leases[0].consumer, leases[0].granted, until, extended, leases[0].apart))
            self._cut(self._grants[grant], NO_ROWS)

    def expire(self, moment: int) -> RowSet:
        """Ends what lasts until the moment at most; gives those rows."""
        due = self._due(moment)
        if len(due) >= MANY_DUE:
            return self._expire_many(due, moment)
        ended: list[RowSet] = []
        for grant in due:
            leases = self._grants.get(grant)
            if leases is None:
                continue
            if len(leases) != 1:
                ended += self._expire_some(leases, moment)
                continue
            (lease,) = leases
            if lease.until <= moment:
                ended.append(lease.rows)
                self._forget(lease, len(lease.rows))
        return RowSet.union(ended)

    def _expire_many(self, due: list[int], moment: int) -> RowSet:
        """The same with less work for each: the rows of those that held them are counted anew."""
        ended, consumers, grants, held = list[RowSet](), set[int](), self._grants, self._held
        for grant in due:
            leases = grants.get(grant)
            if leases is None:
                continue
            lease = leases[0]
            if len(leases) != 1:
                ended += self._expire_some(leases, moment)
            elif lease.until <= moment:
                ended.append(lease.rows)
                consumers.add(lease.consumer)
                self._apart.pop(grant, None)
                del grants[grant], held[lease.consumer][grant]
        for consumer in consumers:
            if held.get(consumer):
                self._rows[consumer] = sum(len(lease.rows) for lease in self.of_consumer(consumer))
            else:
                held.pop(consumer, None)
                self._rows.pop(consumer, None)
        return RowSet.union(ended)

    def _expire_some(self, leases: tuple[Lease, ...], moment: int) -> list[RowSet]:
        ended = [lease.rows for lease in leases if lease.until <= moment]
        self._keep(tuple(lease for lease in leases if lease.until > moment), leases[0], sum(map(len, ended)))
        return ended

    def _due(self, moment: int) -> list[int]:
        """The grants of which an end has come, taken out of the heap. A few are popped; if there are
        many, one look over all of them is cheaper.
        """
        ends, due = self._ends, list[int]()
        while ends and ends[0][0] <= moment:
            due.append(heapq.heappop(ends)[1])
            if len(due) == MANY_DUE:
                due += [grant for until, grant in ends if until <= moment]
                self._ends = [end for end in ends if end[0] > moment]
                heapq.heapify(self._ends)
                break
        return due

    def clear(self) -> None:
        """Ends all."""
        self._grants, self._held, self._rows, self._ends, self._apart = {}, {}, {}, [], {}

    # Looking

    def of_grant(self, grant: int) -> tuple[Lease, ...]:
        """None if it has ended, was settled, or never was."""
        return self._grants.get(grant, ())

    def of_consumer(self, consumer: int) -> Iterator[Lease]:
        """In the order of their grants."""
        for number in self._held.get(consumer, ()):
            yield from self._grants[number]

    def grants_of(self, consumer: int) -> int:
        """How many grants it holds."""
        return len(self._held.get(consumer, ()))

    def apart(self) -> Iterator[Lease]:
        """Those whose consumers hold nothing else."""
        for number in self._apart:
            yield from self._grants[number]

    def held_by(self, consumer: int) -> int:
        """How many rows it holds."""
        return self._rows.get(consumer, 0)

    @property
    def rows_held(self) -> int:
        """How many rows are held by anyone."""
        return sum(self._rows.values())

    def ending(self, moment: int) -> RowSet:
        """The rows whose lease lasts until the moment at most."""
        return RowSet.union(lease.rows for lease in self if lease.until <= moment)

    def over(self, rows: RowSet) -> Iterator[tuple[Lease, RowSet]]:
        """The leases that hold some of the rows, and which."""
        for lease in self:
            if both := lease.rows & rows:
                yield lease, both

    def rows(self) -> RowSet:
        """All rows that are held."""
        return RowSet.union(lease.rows for lease in self)

    def next_end(self) -> int:
        """When the next lease ends; `NEVER` if there is none."""
        while self._ends:
            until, grant = self._ends[0]
            if any(lease.until == until for lease in self._grants.get(grant, ())):
                return until
            heapq.heappop(self._ends)
        return NEVER

    def __iter__(self) -> Iterator[Lease]:
        for leases in self._grants.values():
            yield from leases

    def __len__(self) -> int:
        """How many grants are live."""
        return len(self._grants)

    def check(self) -> None:
        """The invariants."""
        ends = set(self._ends)
        assert all(lease.rows for lease in self), "a lease without rows"
        assert all((lease.until, lease.number) in ends for lease in self), "a lease that would never end"
        assert sum(len(lease.rows) for lease in self) == len(self.rows()), "a row has two leases"
        assert {lease.number for lease in self} == {grant for held in self._held.values() for grant in held}
        assert self._rows.keys() == self._held.keys()
        assert self._apart.keys() == {lease.number for lease in self if lease.apart}
        for consumer, rows in self._rows.items():
            assert rows == sum(len(lease.rows) for lease in self.of_consumer(consumer)), "the rows of a consumer are counted wrong"
