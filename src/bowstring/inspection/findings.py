"""The findings of an inspection: each is a sentence with its place, as topic, partition and offsets
as far as they are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict


class FindingPlace(TypedDict):
    """Where something is in the log."""

    topic: str
    partition: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong. `damaged` says that it concerns messages, or data that the broker
    needs to start.
    """

    kind: str
    """page, index, ids, due, extent, snapshot, deletions, kept, moved, ledger, journal, catalog, segment,
    usage, gap, overlap, lost, orphan, unused.
    """
    text: str
    damaged: bool = True
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    segment: str | None = None
    sequence: int | None = None

    @property
    def where(self) -> str:
        """orders/0@5..9, or as much of it as is known."""
        if self.topic is None:
            return self.segment or (f"journal row {self.sequence}" if self.sequence is not None else "catalog")
        place = self.topic if self.partition is None else f"{self.topic}/{self.partition}"
        if self.first_offset is None:
            return place
        last = "" if self.last_offset in (None, self.first_offset) else f"..{self.last_offset}"
        return f"{place}@{self.first_offset}{last}"

    def row(self) -> dict[str, Any]:
        """As a JSON object, without the unknown parts."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None}
