"""Crumbs: a few rows for a consumer that has plenty.

A grant has a price whatever its size: a change, a push, and a look at each page that it has rows of.
A consumer that works through much would get what it has just settled, row by row. So a small grant
waits until it is a larger one, for some milliseconds at most. A consumer that has little gets
everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

PLENTY: Final = 4
"""A consumer has plenty if it has more than so many times what it could get."""
CRUMBS_MICROSECONDS: Final = 20_000
"""So long it waits at most for that little."""

Place = TypeVar("Place", bound=Hashable)


class Crumbs(Generic[Place]):
    """The small grants that wait; a place says for whom, and where the rows are."""

    def __init__(self) -> None:
        self._since: dict[Place, int] = {}
        self.next_look: int | None = None
        """When the first of the grants that were left has waited long enough; None if none was left."""

    def looked(self) -> None:
        """The caller looks at all places from here on."""
        self.next_look = None

    def are_left(self, place: Place, rows: int, held: int, now: int) -> bool:
        """Whether a grant of so many rows waits, because its consumer holds so many."""
        if rows * PLENTY >= held:
            return False
        until = self._since.setdefault(place, now) + CRUMBS_MICROSECONDS
        if until <= now:
            return False
        self.next_look = until if self.next_look is None else min(self.next_look, until)
        return True

    def granted(self, place: Place) -> None:
        """Nothing of that waits any more."""
        self._since.pop(place, None)

    def forget(self, gone: Callable[[Place], bool]) -> None:
        """These places are gone."""
        self._since = {place: since for place, since in self._since.items() if not gone(place)}
