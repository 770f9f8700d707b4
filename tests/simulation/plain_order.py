"""The order of keys in the consumer of the plain kit: which of its rows are revoked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.history.lease_events import ACK, REJECT, Delivery

Held = tuple[int, int, int]
"""Partition, offset, grant."""


class PlainOrder:
    """Of one consumer."""

    def __init__(self) -> None:
        self.is_keyed = False
        """Whether the subscription is key-shared."""
        self._keys: dict[tuple[int, int], str] = {}
        """Of rows that have come, by place."""
        self._back: dict[tuple[int, int, str], int] = {}
        """By partition, grant and key the first row that was given back."""
        self._told: set[Held] = set()

    def is_revoked(self, row: Delivery, key: str) -> bool:
        """A row has come, perhaps too late."""
        self._keys[row.place] = key
        first = self._back.get((row.partition, row.grant, key), row.offset) if key else row.offset
        return first < row.offset or (*row.place, row.grant) in self._told

    def given_back(self, rows: Sequence[Delivery], waiting: Iterable[Delivery]) -> list[Held]:
        """These are settled: gives those of the waiting ones that are revoked by it."""
        if not self.is_keyed:
            return []
        for row in rows:
            key = self._keys.get(row.place, "")
            if key and row.outcome not in (ACK, REJECT):
                place = row.partition, row.grant, key
                self._back[place] = min(row.offset, self._back.get(place, row.offset))
        return [(*row.place, row.grant) for row in waiting if self.is_revoked(row, self._keys.get(row.place, ""))]

    def told(self, revoked: Any) -> list[Held]:
        """The broker says which rows are revoked."""
        runs = zip(revoked.offsets, revoked.rows, strict=True)
        rows = [(revoked.partition, offset + at, revoked.grant) for offset, count in runs for at in range(count)]
        self._told.update(rows)
        return rows
