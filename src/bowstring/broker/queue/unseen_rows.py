"""Which rows a scout has looked at before they were granted, so that their delivery need not look at
them again.

Nothing of it is durable. Rows that an earlier incarnation has granted lie before the first look of
this one: they count as unseen, and so do those whose pages could not be read.
"""

from __future__ import annotations

from bowstring.core.row_set import NO_ROWS, RowSet


class UnseenRows:
    """The rows of one partition."""

    def __init__(self, first: int) -> None:
        self._first = first
        """All rows before it are unseen."""
        self._missed = NO_ROWS
        """Rows from there on that could not be looked at."""

    def begin(self, first: int) -> None:
        """Rows are looked at from this offset on; a seek may have come back to it."""
        self._first = min(self._first, first)

    def miss(self, rows: RowSet, floor: int) -> None:
        """These rows could not be looked at. Those below the floor are settled."""
        self._missed = RowSet.union((self._missed - RowSet(0, floor), rows))

    def among(self, rows: RowSet) -> RowSet:
        """Those of granted rows that were granted unseen."""
        before = rows.below(self._first) if rows.first < self._first else NO_ROWS
        return RowSet.union((before, rows & self._missed)) if self._missed else before
