"""The named positions of readers in one partition: the next offset that each wants.

A commit only moves forward: a reader that resumes never gets committed messages again, and two
readers that use one name by mistake cannot undo each other's work. Setting a position is for
people, and may move it anywhere. A committed position lies in the log, or right behind its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bowstring import errors
from bowstring.core.changes import Position
from bowstring.core.machine import Machine

NAMES_MAX = 10_000
"""The most positions of a partition: its snapshot holds all of them."""


class Held(NamedTuple):
    """The offset of a position, and when it was moved there."""

    offset: int
    moved: int


Rest = list[tuple[str, int, int]]
"""Name, offset and moment of each position."""


class Positions(Machine[Position, Rest]):
    """The positions of one partition, by name."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def get(self, name: str) -> Held | None:
        return self._held.get(name)

    def names(self) -> Iterator[str]:
        return iter(self._held)

    def refusal(self, name: str, offset: int, end: int, *, forward: bool) -> errors.Error | None:
        """The error if the position may not move there; `end` is the end of the log."""
        held = self._held.get(name)
        if not 1 <= offset <= end:
            return errors.OutOfRange(f"the log ends before offset {end}, a position at {offset} was asked for.", hint=f"Use 1..{end}.")
        if forward and held is not None and offset < held.offset:
            return errors.Conflict(
                f"position '{name}' is at offset {held.offset}, committing {offset} would move it back.",
                hint="To read again use seek(); to move the position itself use set_position() or `bowstring position set`.",
                details={"offset": str(held.offset)},
            )
        if held is None and len(self._held) >= NAMES_MAX:
            return errors.Conflict(f"there are {NAMES_MAX} positions already.", hint="Delete those that are no longer used.")
        return None

    def apply(self, change: Position) -> None:
        """Live and at load."""
        if change.offset:
            self._held[change.name] = Held(change.offset, change.moved)
        else:
            self._held.pop(change.name, None)

    def snapshot(self) -> Rest:
        """By name."""
        return [(name, held.offset, held.moved) for name, held in sorted(self._held.items())]

    def restore(self, parts: Rest) -> None:
        self._held = {name: Held(offset, moved) for name, offset, moved in parts}

    def state(self) -> object:
        return self.snapshot()
