"""Which rows are gone: a set of offsets in chunks, so that a seal writes only the chunks that
changed.

There are two kinds. Every deleted row is in `_gone` and is not delivered; a freed one is in
`_freed` too, and its id may be published again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from bowstring.core.changes import Delete
from bowstring.core.machine import Machine
from bowstring.core.offset_set import OffsetSet

Encode = Callable[[], bytes]
"""Gives the bytes of a part of the state, as it was when it was captured."""


class Deletions(Machine[Delete, dict[int, bytes]]):
    """The deleted rows of one partition."""

    def __init__(self) -> None:
        self._gone = OffsetSet()
        self._freed = OffsetSet()

    def apply(self, change: Delete) -> None:
        self.add(change.runs, freed=change.reason.frees_ids)

    def add(self, runs: Iterable[tuple[int, int]], *, freed: bool) -> None:
        """Marks runs of (offset, rows) as deleted."""
        runs = list(runs)
        self._gone.add(runs)
        if freed:
            self._freed.add(runs)

    def drop_below(self, offset: int) -> None:
        """Forgets rows below the offset: retention has taken them."""
        self._gone.drop_below(offset)
        self._freed.drop_below(offset)

    # At rest

    def snapshot(self) -> dict[int, bytes]:
        """All chunks by their numbers; a seal writes only those that `capture` gives."""
        return {number: self._captured(number)() for number in self._gone.state()}

    def restore(self, parts: dict[int, bytes]) -> None:
        for number, data in parts.items():
            self.load(number, data)

    @property
    def changed(self) -> set[int]:
        """Chunks that the catalog does not have as they are here."""
        return self._gone.changed | self._freed.changed

    def capture(self) -> dict[int, Encode]:
        """The chunks that have changed, as they are now. They count as written from here on."""
        numbers, self._gone.changed, self._freed.changed = sorted(self.changed), set(), set()
        return {number: self._captured(number) for number in numbers}

    def _captured(self, number: int) -> Encode:
        gone, freed = self._gone.copy(number), self._freed.copy(number)
        return lambda: msgspec.msgpack.encode((gone.serialize(), freed.serialize())) if gone else b""

    def mark_changed(self, numbers: Iterable[int]) -> None:
        """These chunks were captured, and could not be written."""
        self._gone.changed.update(numbers)

    def load(self, number: int, data: bytes) -> None:
        """A chunk as it was at rest."""
        gone, freed = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
        self._gone.load(number, gone)
        self._freed.load(number, freed)

    # Looking

    def any(self, first: int, end: int) -> bool:
        """Is a row of [first, end) deleted?"""
        return self._gone.any(first, end)

    def live(self, first: int, end: int) -> NDArray[np.int64]:
        """The offsets of [first, end) that are not deleted, ascending."""
        return np.setdiff1d(np.arange(first, end, dtype=np.int64), self._gone.within(first, end), assume_unique=True)

    def of(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the ascending offsets are deleted."""
        return self._gone.of(offsets)

    def among(self, others: OffsetSet) -> NDArray[np.int64]:
        """The deleted offsets that are in the other set, ascending."""
        return others.also_in(self._gone)

    def between(self, first: int, end: int) -> NDArray[np.int64]:
        """The deleted offsets of [first, end), ascending."""
        return self._gone.within(first, end)

    def freed(self, first: int, end: int) -> NDArray[np.int64]:
        """The offsets of [first, end) whose ids are free again."""
        return self._freed.within(first, end)

    def is_gone(self, offset: int) -> bool:
        return self._gone.any(offset, offset + 1)

    def is_freed(self, offset: int) -> bool:
        return self._freed.any(offset, offset + 1)

    def __len__(self) -> int:
        return len(self._gone)

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return self._gone.state(), self._freed.state()
