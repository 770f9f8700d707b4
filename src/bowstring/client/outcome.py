"""The outcome of a batch: one object from its first row to its answer.

The open batch, the sent batch and every receipt share it. It has three states and two transitions:

    undecided ── decide(result) ──> decided: the rows are stored, or an error says why not
    undecided ── move()         ──> moved: the rows went into other batches; their receipts know which

**Threads.** The loop decides; any thread may wait. `decide` sets the result before it runs the
callbacks, and `when_settled` adds its callback before it looks at the result. So no callback is
missed, whatever the threads do; one may run twice.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.wire import forks

Offsets = npt.NDArray[np.int64]
Repeated = npt.NDArray[np.bool_]


class StoredRows(msgspec.Struct, frozen=True, gc=False):
    """Where the rows of a batch are stored: from `first_offset` on, in order, except repeats, which
    were stored before.
    """

    first_offset: int
    repeats: tuple[tuple[int, int, int], ...] = ()
    """Runs as (row, rows, offset)."""

    def of(self, row: int) -> tuple[int, bool]:
        """The offset of a row, and whether it is a repeat."""
        skipped = 0
        for first, rows, offset in self.repeats:
            if row < first:
                break
            if row < first + rows:
                return offset + row - first, True
            skipped += rows
        return self.first_offset + row - skipped, False

    def repeated(self, rows: int) -> Repeated:
        """Which rows are repeats."""
        repeated = np.zeros(rows, np.bool_)
        for first, count, _ in self.repeats:
            repeated[first : first + count] = True
        return repeated

    def offsets(self, rows: int) -> Offsets:
        """The offsets of all rows."""
        if not self.repeats:
            return np.arange(self.first_offset, self.first_offset + rows, dtype=np.int64)
        offsets = np.zeros(rows, np.int64)
        for first, count, offset in self.repeats:
            offsets[first : first + count] = np.arange(offset, offset + count)
        fresh = np.flatnonzero(~self.repeated(rows))
        offsets[fresh] = np.arange(self.first_offset, self.first_offset + len(fresh))
        return offsets


class Outcome:
    """What became of the rows of one batch."""

    __slots__ = ("_callbacks", "_generation", "_moved", "_seen", "result")

    def __init__(self) -> None:
        self.result: StoredRows | errors.Error | None = None
        """None while it is undecided."""
        self._seen: set[int] | None = None
        self._moved = False
        self._generation = forks.generation()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def seen(self) -> set[int]:
        """Rows whose error a receipt has raised."""
        if self._seen is None:
            self._seen = set()
        return self._seen

    def decide(self, result: StoredRows | errors.Error) -> None:
        """Sets the result, once and for all."""
        self.result = result
        self._call_back()

    def move(self) -> None:
        """The rows are in other batches now: callers that wait look there."""
        self._moved = True
        self._call_back()

    def _call_back(self) -> None:
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def when_settled(self, callback: Callable[[], object]) -> None:
        """Calls back when the outcome is decided or moved; perhaps at once, perhaps twice. Raises
        Conflict in a forked child: the loop that decides is the parent's.
        """
        if self.result is None:
            forks.check(self._generation)
        self._callbacks.append(callback)
        if self.result is not None or self._moved:
            callback()
