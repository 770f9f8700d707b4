"""When each row expires, as its own bytes tell.

A row that has expired need not be in a page any more. The batch with which it came does not tell when: a seal cuts pages, and a piece of
which every row expires goes before the rest of its batch. Nor do the broker's own sums tell, which may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bowstring.broker.reading.visibility import moments_of
from bowstring.core.changes import Append
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import EXPIRES
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged


class Place(NamedTuple):
    topic: int
    partition: int
    offset: int


class Expiries:
    """What was seen of all rows that were ever committed, and have an `expires`."""

    def __init__(self) -> None:
        self._moments: dict[Place, int] = {}

    def of(self, topic: int, partition: int, offset: int) -> int:
        """When the row expires, 0 if it does not."""
        return self._moments.get(Place(topic, partition, offset), 0)

    def committed(self, change: Append, body: Buffer) -> None:
        if change.columns & EXPIRES:
            self._note(Place(change.topic, change.partition, change.first_offset), _expires(change.columns, body))

    def loaded(self, partition: Partition, read: Callable[[PageEntry], Buffer]) -> None:
        """What was committed at the last moment, and nobody has heard of before. Of a page that cannot be read only its entry tells."""
        for entry in partition.pages.state():
            first = Place(partition.topic, partition.number, entry.first_offset)
            if entry.columns & EXPIRES and first not in self._moments:
                try:
                    self._note(first, _expires(entry.columns, read(entry)))
                except Damaged:
                    self._note(first, [entry.expires] * entry.rows)

    def _note(self, first: Place, moments: list[int]) -> None:
        self._moments.update({first._replace(offset=offset): moment for offset, moment in enumerate(moments, first.offset)})


def _expires(columns: int, body: Buffer) -> list[int]:
    return moments_of(encoding.decode(columns, memoryview(body)).column("expires")).tolist()
