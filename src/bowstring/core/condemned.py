"""The rows of a ledger that are going to be dead letters.

A row is condemned by the change that ends its last delivery: a reject, or a nack or an expiry after
which it was delivered as often as it may be. From then on it is delivered to no consumer. Its bytes
have to be read before the dead letter can be written, and that takes a while: until then the row
is kept here, durably, with the facts of its last delivery. `Bury` takes it out; the flush that has
the `Bury` has the dead letter.

Rows with the same facts are one group: a storm condemns ten thousand rows, and costs a few sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bowstring.core.addresses import Spans
from bowstring.core.row_set import NO_ROWS, RowSet

EXPIRED = "its leases expired, the last one while its consumer held nothing else"
"""The reason of rows whose leases expire until they were delivered as often as they may be."""
OVERTAKEN = "retention reached it before it was settled"
"""The reason of rows that were too old before a consumer was done with them."""


class LastDelivery(NamedTuple):
    """Why rows are condemned, and the facts of their last delivery."""

    reason: str
    delivered: int = 0
    """When that delivery was granted, in the time of leases; 0 if there was none."""
    consumer: str = ""
    ended: int = 0
    """When it ended, or when the row was condemned without one."""


CondemnedRest = tuple[LastDelivery, Spans]


class Condemned:
    """The condemned rows of one ledger."""

    def __init__(self) -> None:
        self._groups: dict[LastDelivery, RowSet] = {}

    def add(self, rows: RowSet, last: LastDelivery) -> None:
        """These are condemned from here on."""
        if rows:
            before = self._groups.get(last)
            self._groups[last] = rows if before is None else RowSet.union((before, rows))

    def take_out(self, rows: RowSet) -> None:
        """These are buried, or are not there any more."""
        if self._groups and rows:
            left = {last: some - rows for last, some in self._groups.items()}
            self._groups = {last: some for last, some in left.items() if some}

    def keep_below(self, offset: int) -> None:
        """Rows from the offset on are delivered again."""
        left = {last: rows.below(offset) for last, rows in self._groups.items()}
        self._groups = {last: rows for last, rows in left.items() if rows}

    def rows(self) -> RowSet:
        """All of them."""
        return RowSet.union(self._groups.values()) if self._groups else NO_ROWS

    def among(self, rows: RowSet) -> RowSet:
        """Those of the rows that are condemned."""
        return rows & self.rows() if self._groups else NO_ROWS

    def groups(self, rows: RowSet) -> Iterator[tuple[LastDelivery, RowSet]]:
        """Those of the rows that are condemned, by the facts of their last delivery."""
        for last, some in self._groups.items():
            if both := some & rows:
                yield last, both

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __bool__(self) -> bool:
        return bool(self._groups)

    # At rest

    def rest(self) -> list[CondemnedRest]:
        """As they are at rest."""
        return [(last, rows.spans()) for last, rows in self._groups.items()]

    def restore(self, rest: Iterable[CondemnedRest]) -> None:
        """What `rest` gave."""
        self._groups = {last: RowSet.of_spans(spans) for last, spans in rest}

    def state(self) -> object:
        """Everything, in a form that can be compared."""
        return sorted(self.rest())
