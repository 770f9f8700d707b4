"""A topic of the fake broker: lists and dicts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from bowstring.wire.generated import bowstring_pb2 as pb


@dataclass
class FakePartition:
    """A log, and what its producers have stored in it."""

    log: list[tuple[bytes, int, int, str | None, dict[str, Any]]] = field(default_factory=list)
    """Rows as (producer, number, row, natural id, columns)."""
    pages: list[tuple[int, pb.FetchAnswer, bytes]] = field(default_factory=list)
    last: dict[bytes, int] = field(default_factory=dict)
    stored: dict[tuple[bytes, int], pb.Stored] = field(default_factory=dict)
    natural: dict[str, int] = field(default_factory=dict)
    grown: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class FakeTopic:
    id: int
    partitions: list[FakePartition]

    def values(self, partition: int = 0) -> list[bytes | None]:
        return [row[4].get("value") for row in self.partitions[partition].log]
