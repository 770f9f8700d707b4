"""Batches recognised by their producer and number.

A producer numbers its batches, and names with each the number of the batch before in this partition. The broker accepts a batch only
right after the one it names, so a resend is never stored out of order; and it remembers what it accepted, so a resend is never stored
twice. One entry serves a batch of any size: the ids that the kit generates are derived from (producer, number, partition, row).

Memory: three numbers a batch, in arrays, for as long as the window lasts; then the oldest fall out. Below `_known_from` the memory has
holes, and a question about such a number can only be answered "unknown".
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from enum import Enum
from typing import NamedTuple

from bowstring.core.answers import Repeat, Stored


class Absent(Enum):
    """Why a number that is not after the last one has no entry."""

    PASSED_OVER = "a later batch was accepted instead: it is not stored and never will be"
    FORGOTTEN = "the window has passed: nobody can tell any more"


class Known(NamedTuple):
    """A batch that was accepted."""

    stored: Stored
    end: int
    """The first offset after everything that the answer names: it rests on these being committed."""


class Batches:
    """What one producer has stored in one partition."""

    __slots__ = ("_arrived", "_first_offsets", "_known_from", "_numbers", "_repeats", "_rows", "_start", "last")

    def __init__(self) -> None:
        self.last = 0
        self._known_from = 1
        self._numbers = array("q")
        self._first_offsets = array("q")
        self._rows = array("q")
        self._arrived = array("q")
        self._repeats: dict[int, tuple[Repeat, ...]] = {}
        self._start = 0
        """Entries before this are forgotten; the arrays are cut when they are half of it."""

    def add(self, number: int, first_offset: int, rows: int, arrived: int, repeats: tuple[Repeat, ...]) -> None:
        self._numbers.append(number)
        self._first_offsets.append(first_offset)
        self._rows.append(rows)
        self._arrived.append(arrived)
        if repeats:
            self._repeats[number] = repeats
        self.last = number

    def find(self, number: int) -> Known | Absent:
        """The batch of a number up to `last`."""
        at = bisect_left(self._numbers, number, self._start)
        if at < len(self._numbers) and self._numbers[at] == number:
            repeats = self._repeats.get(number, ())
            first_offset, rows = self._first_offsets[at], self._rows[at]
            if not rows and not repeats:
                return Absent.PASSED_OVER
            ends = [first_offset + rows, *(repeat.offset + repeat.rows for repeat in repeats)]
            return Known(Stored(first_offset, rows, repeats, duplicate=True), max(ends))
        return Absent.PASSED_OVER if number >= self._known_from else Absent.FORGOTTEN

    def free(self, first: int, end: int) -> None:
        """The rows [first, end) were never published after all: batches that stored them become passed over."""
        for at in range(len(self._numbers) - 1, self._start - 1, -1):
            first_offset = self._first_offsets[at]
            if first <= first_offset < end and self._rows[at]:
                self._first_offsets[at] = self._rows[at] = 0
                self._repeats.pop(self._numbers[at], None)

    def forget_before(self, horizon: int) -> None:
        start = self._start
        while start < len(self._arrived) and self._arrived[start] < horizon:
            self._repeats.pop(self._numbers[start], None)
            self._known_from = self._numbers[start] + 1
            start += 1
        self._start = start
        if start > 1024 and start * 2 > len(self._numbers):
            for column in (self._numbers, self._first_offsets, self._rows, self._arrived):
                del column[:start]
            self._start = 0

    def newest(self) -> int:
        """When the last batch arrived."""
        return self._arrived[-1]

    def state(self) -> object:
        columns = (self._numbers, self._first_offsets, self._rows, self._arrived)
        return self.last, self._known_from, [list(column[self._start :]) for column in columns], sorted(self._repeats.items())


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
            if batches.newest() >= horizon:
                return
            del self._batches[producer]

    def free(self, first: int, end: int) -> None:
        for batches in self._batches.values():
            batches.free(first, end)

    def __len__(self) -> int:
        return len(self._batches)

    def state(self) -> object:
        return [(producer, batches.state()) for producer, batches in self._batches.items()]
