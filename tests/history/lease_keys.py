"""The keys of the rows of a key-shared subscription, as they came to consumers.

Rows of one key that a consumer holds are of one grant. A row of it that is given back, or whose
lease ends, takes the later ones along: its mates, which are revoked.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from tests.history.events import Row
from tests.history.lease_events import ACK, REJECT

if TYPE_CHECKING:
    from tests.history.lease_facts import Ask, Stay
    from tests.history.lease_time import LeaseClocks

STAYING = ("", ACK, REJECT)
"""What becomes of a row that takes no other ones along: a dead letter is out of its key's order."""

Order = tuple[int, str]
"""A partition and a key."""


def ordered_by(row: Row) -> str:
    """The key by which a row is in order; empty for none."""
    return row.key


class KeyOrder:
    """The stays of rows with a key."""

    def __init__(self) -> None:
        self.stays: dict[Order, dict[int, dict[int, Stay]]] = {}
        """By key, grant and offset."""
        self.rows: dict[tuple[int, int], Row] = {}
        """By place."""

    def add(self, stay: Stay, row: Row) -> None:
        """A row came to a consumer, perhaps again."""
        self.rows[stay.place] = row
        if key := ordered_by(row):
            self.stays.setdefault((row.partition, key), {}).setdefault(stay.grant, {})[row.offset] = stay

    def without(self, partitions: set[int]) -> KeyOrder:
        """The rows of all other partitions."""
        other = KeyOrder()
        other.stays = {order: stays for order, stays in self.stays.items() if order[0] not in partitions}
        other.rows = {place: row for place, row in self.rows.items() if place[0] not in partitions}
        return other

    def mates(self, stay: Stay) -> Iterator[Stay]:
        """The earlier rows of its key in the same grant, as far as they have come."""
        key = ordered_by(self.rows[stay.place])
        if key:
            for offset, other in self.stays[stay.place[0], key][stay.grant].items():
                if offset < stay.place[1]:
                    yield other

    def revoked_since(self, stay: Stay, clocks: LeaseClocks) -> float:
        """The earliest that it may have been revoked, by true time."""
        return min((_over(mate, clocks) for mate in self.mates(stay)), default=inf)

    def revoked_by(self, stay: Stay) -> Iterator[Ask]:
        """Requests that have revoked it for certain, if it was held when they were carried out."""
        for mate in self.mates(stay):
            for ask, outcome in mate.asks:
                if outcome not in STAYING and ask.answers and not ask.refuses(mate.grant, mate.place[1]):
                    yield ask


def _over(stay: Stay, clocks: LeaseClocks) -> float:
    """The earliest that a row may have come back: by a request, by the end of its lease, or because
    it went with another one.
    """
    back = [ask.written for ask, outcome in stay.asks if outcome not in STAYING]
    return min([*back, clocks.true_after(stay.until())])
