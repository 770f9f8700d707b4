"""The catalog: what is true. A flush counts once its journal row is here, and not before.

The journal has one row per flush, whatever the number of partitions in it. A commit is one statement: it inserts the row if the
broker's epoch is still the one of the fence and the journal's last row is the one before, so a fenced incarnation commits nothing,
and the sequence answers "did it land?". Rare things (topics) are short transactions under the same check of the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bowstring.ports.store import Page, Reference


class Fence(NamedTuple):
    """Who commits: a broker number and the epoch under which it was registered."""

    broker: int
    epoch: int


class Registered(NamedTuple):
    """What a new incarnation starts from: its epoch, and the sequence of the journal's last row (0 if there is none)."""

    epoch: int
    sequence: int


class Row(NamedTuple):
    """A journal row: `changes` is opaque here (core.changes writes and reads it), with a CRC-32C of its own kept beside it."""

    sequence: int
    epoch: int
    changes: bytes


class TopicRow(NamedTuple):
    """A topic at rest. A deleted one stays as a tombstone (`deleted` is the moment), so that its changes are skipped at load."""

    id: int
    name: str
    partitions: int
    created: int
    settings: bytes
    deleted: int | None


class Catalog(Protocol):
    """Agreement, fencing and truth. All calls raise DiskFull, Fenced or StorageFailed; reads of bad rows raise Damaged."""

    async def open(self) -> None:
        """Opens or makes the catalog, brings an older format up to this one, and refuses a newer one with NotSupported."""
        ...

    async def cluster(self) -> bytes:
        """16 bytes that name the data, the same for as long as it lives."""
        ...

    async def register(self, broker: int) -> Registered:
        """Raises the broker's epoch: whatever an earlier incarnation still has under way can no longer land."""
        ...

    async def topics(self) -> list[TopicRow]:
        """All topics, tombstones too, by id."""
        ...

    async def create_topic(self, fence: Fence, topic: TopicRow) -> TopicRow:
        """Makes it under a fresh id (the row's own id is ignored). Raises errors.TopicExists if a live one has the name."""
        ...

    async def delete_topic(self, fence: Fence, topic_id: int, deleted: int) -> None:
        """Turns it into a tombstone."""
        ...

    async def journal(self, broker: int, after: int, rows_max: int) -> list[Row]:
        """The next rows behind sequence `after`, checked: dense sequences, each CRC. Raises Damaged naming the sequence."""
        ...

    async def commit(self, fence: Fence, sequence: int, changes: bytes, pages: Sequence[Page]) -> None:
        """Commits one flush: the row `sequence`, with small pages inlined (framed as `store.frames` does, segment 0, in this order).
        Raises Fenced if the epoch was raised or another row has that sequence."""
        ...

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """Inlined pages, verified as `Store.read` does."""
        ...

    async def close(self) -> None: ...


def inlined(sequence: int, position: int, length: int) -> Reference:
    """The reference of a page inside a journal row."""
    return Reference(0, position, length, sequence)
