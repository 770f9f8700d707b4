"""Batches recognised by their producer and number.

A producer numbers its batches, and names with each the number of the batch before in this
partition. The broker accepts a batch only right after the one it names, so a resend is never stored
out of order; and it remembers what it accepted, so a resend is never stored twice. One entry serves
a batch of any size: the ids that the kit generates are derived from (producer, number, partition,
row).

Memory: four numbers a batch, in arrays, until its page is sealed. From then on it is in a section
of the store, and a question about it is answered `Absent.SEALED`: look there. What a section cannot
tell (a batch some of whose rows were repeats) stays here for a minute more. `_marks` has the last
number and arrival of each seal: when the arrival is out of the window the numbers up to there are
forgotten, and a question about one can only be answered "unknown".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np

from bowstring.core.answers import Repeat, Stored

ODD_SPAN = 60_000_000
"""How long a batch with repeats is remembered after it was sealed, in microseconds."""


class Absent(Enum):
    """Why a number that is not after the last one has no entry."""

    PASSED_OVER = "a later batch was accepted instead: it is not stored and never will be"
    FORGOTTEN = "the window has passed: the outcome is unknown"
    SEALED = "it may be in a section of the store"


class Known(NamedTuple):
    """A batch that was accepted."""

    stored: Stored
    end: int
    """The first offset after everything that the answer names: it rests on these being committed."""


class _Odd(NamedTuple):
    """A sealed batch that its page alone does not tell about."""

    first_offset: int
    rows: int
    arrived: int
    repeats: tuple[Repeat, ...]


class BatchesState(msgspec.Struct, array_like=True, gc=False):
    """A producer at rest."""

    producer: bytes
    last: int
    newest: int
    known_from: int
    marks: list[tuple[int, int]]
    numbers: list[int]
    first_offsets: list[int]
    rows: list[int]
    arrived: list[int]
    repeats: dict[int, tuple[Repeat, ...]]
    odd: dict[int, _Odd]
    odd_until: int


class Batches:
    """What one producer has stored in one partition."""

    __slots__ = (
        "_arrived",
        "_known_from",
        "_marks",
        "_odd",
        "_odd_until",
        "_repeats",
        "_rows",
        "first_offsets",
        "last",
        "newest",
        "numbers",
    )

    def __init__(self) -> None:
        self.last = 0
        self.newest = 0
        """When the last batch arrived."""
        self._known_from = 1
        self._marks: list[tuple[int, int]] = []
        self.numbers = array("q")
        self.first_offsets = array("q")
        self._rows = array("q")
        self._arrived = array("q")
        self._repeats: dict[int, tuple[Repeat, ...]] = {}
        self._odd: dict[int, _Odd] = {}
        self._odd_until = 0
        """Up to this number there may have been odd ones that are forgotten."""

    def add(self, number: int, first_offset: int, rows: int, arrived: int, repeats: tuple[Repeat, ...]) -> None:
        self.numbers.append(number)
        self.first_offsets.append(first_offset)
        self._rows.append(rows)
        self._arrived.append(arrived)
        if repeats:
            self._repeats[number] = repeats
        self.last, self.newest = number, arrived

    def find(self, number: int) -> Known | Absent:
        """The batch of a number up to `last`."""
        at = bisect_left(self.numbers, number)
        if at < len(self.numbers) and self.numbers[at] == number:
            return _known(self.first_offsets[at], self._rows[at], self._repeats.get(number, ()))
        if number in self._odd:
            odd = self._odd[number]
            return _known(odd.first_offset, odd.rows, odd.repeats)
        if number < self._known_from:
            return Absent.FORGOTTEN
        return Absent.SEALED if self._marks and number <= self._marks[-1][0] else Absent.PASSED_OVER

    def may_have_arrived_before(self, moment: int, number: int) -> bool:
        """Whether a sealed batch may be so old. It arrived after the last one of the seal before its own."""
        earlier = [arrived for last, arrived in self._marks if last < number]
        return not earlier or earlier[-1] < moment

    def unfound(self, number: int) -> Absent:
        """What can be said of a number that is in no section either."""
        return Absent.FORGOTTEN if number <= self._odd_until else Absent.PASSED_OVER

    def free(self, first: int, end: int) -> None:
        """The rows [first, end) were never published after all: batches that stored them become
        passed over. They keep their place, so that a seal takes them along: before or after it,
        freeing leads to the same state.
        """
        for at in range(len(self.numbers) - 1, -1, -1):
            if first <= self.first_offsets[at] < end and self._rows[at]:
                self._rows[at] = 0
                self._repeats.pop(self.numbers[at], None)
        for number, odd in list(self._odd.items()):
            if first <= odd.first_offset < end:
                self._odd[number] = _Odd(0, 0, odd.arrived, ())

    @property
    def has_unsealed(self) -> bool:
        return bool(self.numbers)

    def sealed(self, end: int) -> None:
        """Rows before that offset are sealed: their batches are in a section now."""
        firsts = np.array(self.first_offsets, np.int64)
        beyond = np.flatnonzero(firsts >= end)
        firsts = firsts[: beyond[0]] if len(beyond) else firsts
        stored = np.flatnonzero(firsts)
        if not len(stored):
            return
        count = int(stored[-1]) + 1
        odd = set(np.flatnonzero(np.array(self._rows[:count], np.int64) == 0).tolist())
        odd.update(at for number in self._repeats if (at := bisect_left(self.numbers, number)) < count)
        for at in sorted(odd):
            number = self.numbers[at]
            repeats = self._repeats.pop(number, ())
            self._odd[number] = _Odd(self.first_offsets[at], self._rows[at], self._arrived[at], repeats)
        self._marks.append((self.numbers[count - 1], self._arrived[count - 1]))
        for column in (self.numbers, self.first_offsets, self._rows, self._arrived):
            del column[:count]

    def forget_before(self, horizon: int) -> None:
        while self._marks and self._marks[0][1] < horizon:
            self._known_from = self._marks.pop(0)[0] + 1
        if self._arrived and self._arrived[0] < horizon:
            count = bisect_left(self._arrived, horizon)
            for number in self.numbers[:count]:
                self._repeats.pop(number, None)
            self._known_from = self.numbers[count - 1] + 1
            for column in (self.numbers, self.first_offsets, self._rows, self._arrived):
                del column[:count]
        if self._odd:
            self._forget_odd_before(max(horizon, self.newest - ODD_SPAN))

    def _forget_odd_before(self, horizon: int) -> None:
        for number in [number for number, odd in self._odd.items() if odd.arrived < horizon]:
            del self._odd[number]
            self._odd_until = max(self._odd_until, number)

    def rest(self, producer: bytes) -> BatchesState:
        """As it is kept in a snapshot."""
        return BatchesState(
            producer=producer,
            last=self.last,
            newest=self.newest,
            known_from=self._known_from,
            marks=list(self._marks),
            numbers=list(self.numbers),
            first_offsets=list(self.first_offsets),
            rows=list(self._rows),
            arrived=list(self._arrived),
            repeats=dict(self._repeats),
            odd=dict(self._odd),
            odd_until=self._odd_until,
        )

    @staticmethod
    def restored(state: BatchesState) -> Batches:
        batches = Batches.__new__(Batches)  # there are many at a start, and nothing is set twice
        batches.last, batches.newest, batches._known_from, batches._odd_until = state.last, state.newest, state.known_from, state.odd_until
        batches._marks, batches._repeats, batches._odd = list(state.marks), dict(state.repeats), dict(state.odd)
        batches.numbers, batches.first_offsets = array("q", state.numbers), array("q", state.first_offsets)
        batches._rows, batches._arrived = array("q", state.rows), array("q", state.arrived)
        return batches

    def state(self) -> object:
        """What can be compared: the numbers that are not sealed. When the others are forgotten
        depends on when seals were.
        """
        columns = (self.numbers, self.first_offsets, self._rows, self._arrived)
        return self.last, self.newest, [list(column) for column in columns], sorted(self._repeats.items())


def _known(first_offset: int, rows: int, repeats: tuple[Repeat, ...]) -> Known | Absent:
    if not rows and not repeats:
        return Absent.PASSED_OVER
    ends = [first_offset + rows, *(repeat.offset + repeat.rows for repeat in repeats)]
    return Known(Stored(first_offset, rows, repeats, duplicate=True), max(ends))


class Producers:
    """All producers of one partition, the one that was silent longest first."""

    def __init__(self) -> None:
        self._batches: dict[bytes, Batches] = {}

    def get(self, producer: bytes) -> Batches | None:
        return self._batches.get(producer)

    def add(self, producer: bytes, number: int, first_offset: int, rows: int, arrived: int, repeats: tuple[Repeat, ...]) -> None:
        batches = self._batches.pop(producer, None) or Batches()
        self._batches[producer] = batches
        batches.add(number, first_offset, rows, arrived, repeats)

    def forget_before(self, horizon: int, active: bytes) -> None:
        """Drops batches of the active producer, and producers, that are older than the horizon."""
        self._batches[active].forget_before(horizon)
        while True:
            producer, batches = next(iter(self._batches.items()))
            if batches.newest >= horizon:
                return
            del self._batches[producer]

    def free(self, first: int, end: int) -> None:
        for batches in self._batches.values():
            batches.free(first, end)

    def sealed(self, end: int) -> None:
        for batches in self._batches.values():
            if batches.has_unsealed:
                batches.sealed(end)

    def rest(self) -> list[BatchesState]:
        """As they are kept in a snapshot."""
        return [batches.rest(producer) for producer, batches in self._batches.items()]

    def restore(self, states: list[BatchesState]) -> None:
        self._batches = {state.producer: Batches.restored(state) for state in states}

    def __len__(self) -> int:
        return len(self._batches)

    def state(self) -> object:
        return [(producer, batches.state()) for producer, batches in self._batches.items()]
