"""What an inspection finds: each a sentence, and where it is, in topics, partitions and offsets as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict


class Place(TypedDict):
    """Where something is in the log."""

    topic: str
    partition: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be. `damaged` says that messages, or what the broker needs to start, are concerned."""

    kind: str
    """page, index, ids, due, extent, snapshot, deletions, kept, journal, catalog, segment, usage, gap, overlap, lost, orphan, unused."""
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
        """orders/0@5..9, or whatever is known of it."""
        if self.topic is None:
            return self.segment or (f"journal row {self.sequence}" if self.sequence is not None else "catalog")
        place = self.topic if self.partition is None else f"{self.topic}/{self.partition}"
        if self.first_offset is None:
            return place
        last = "" if self.last_offset in (None, self.first_offset) else f"..{self.last_offset}"
        return f"{place}@{self.first_offset}{last}"

    def row(self) -> dict[str, Any]:
        """As JSON has it: what is not known is left away."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None}
