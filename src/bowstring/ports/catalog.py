"""The catalog: what is true. A flush counts once its journal row is here, and not before.

The journal has one row per flush, whatever the number of partitions in it. A commit is one statement: it inserts the row if the
broker's epoch is still the one of the fence and the journal's last row is the one before, so a fenced incarnation commits nothing,
and the sequence answers "did it land?". Rare things (topics) are short transactions under the same check of the epoch.

The journal is short-lived. What it says moves, in small transactions called edits, into rows that stay: extents (where sealed pages
are), snapshots (the state of a partition as of a sequence) and chunks of deletions; then its rows are trimmed.
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
    """What a new incarnation starts from: its epoch, and the sequence of the journal's last row (0 if there is none). Rows up to
    `trimmed` are gone: what they said is in extents, snapshots and chunks."""

    epoch: int
    sequence: int
    trimmed: int = 0


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


class ExtentKey(NamedTuple):
    """What names an extent."""

    topic: int
    partition: int
    first_offset: int


class Extent(NamedTuple):
    """Sealed pages of one partition that follow each other in the log. Which pages, its index section in the store says."""

    topic: int
    partition: int
    first_offset: int
    end_offset: int
    """Where the next one may begin: it is not in this one."""
    arrived_first: int
    """When its first page arrived; `arrived_last` the last one."""
    arrived_last: int
    expires: int
    """The moment after which no row of it is delivered any more, whatever the retention; 0 if there is none."""
    pages: int
    bytes: int
    """Bytes of its pages."""
    index: Reference  # pyright: ignore[reportIncompatibleMethodOverride]  # it hides tuple.index, which nobody needs here
    """The section that lists the pages."""
    ids: Reference | None
    """The section of hashes by which messages are recognised, if there are any."""
    uses: tuple[tuple[int, int], ...]
    """The segments that hold bytes of it, with how many: pages and sections."""

    @property
    def key(self) -> ExtentKey:
        return ExtentKey(self.topic, self.partition, self.first_offset)

    def section(self, kind: str) -> Reference | None:
        """The section of a kind, if there is one."""
        return {"index": self.index, "ids": self.ids}.get(kind)


class Snapshot(NamedTuple):
    """A partition as it was after the flush `sequence`; `state` is opaque here. It replaces the one before, unless that is newer."""

    topic: int
    partition: int
    sequence: int
    state: bytes


class Chunk(NamedTuple):
    """The deletions of 2^20 offsets of a partition; `bitmaps` is opaque here, and empty to remove the chunk."""

    topic: int
    partition: int
    number: int
    bitmaps: bytes


class Sealed(NamedTuple):
    """What the extents of a partition amount to."""

    topic: int
    partition: int
    end_offset: int
    bytes: int


class Edit(NamedTuple):
    """Rows that change together, in one short transaction: all of it or nothing."""

    add: Sequence[Extent] = ()
    drop: Sequence[ExtentKey] = ()
    """Extents that go; dropped before the others are added, so that a copy can take the place of what it copied."""
    snapshots: Sequence[Snapshot] = ()
    chunks: Sequence[Chunk] = ()
    trim: int = 0
    """Journal rows up to this sequence go, but never the last one."""


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
        """Turns it into a tombstone, which goes when no journal row is left that may speak of the topic, and no row of `edit`."""
        ...

    async def alter_topic(self, fence: Fence, topic_id: int, settings: bytes) -> None:
        """Replaces a live topic's settings. Raises errors.TopicNotFound."""
        ...

    async def forget_topic(self, fence: Fence, topic_id: int, rows_max: int) -> bool:
        """Removes up to so many extents, snapshots and chunks of a deleted topic, damaged ones too. Says whether some are left: call
        again. Raises errors.Conflict for a live topic; one whose tombstone is gone has nothing left."""
        ...

    async def edit(self, fence: Fence, edit: Edit) -> None:
        """One short transaction; flushes wait behind it, so whoever has much to change or trim does it in several. Raises Fenced;
        Damaged if an extent to be dropped is not there, one to be added overlaps another or cannot be, or a snapshot is older than the
        stored one (what the journal said between them may be trimmed already). Then nothing was changed, and the catalog goes on. A
        snapshot of the same sequence replaces. A damaged extent can be dropped. With a trim, tombstones go that nobody needs any more."""
        ...

    async def snapshots(self) -> list[Snapshot]:
        """All of them, each checked. Raises Damaged naming the partition."""
        ...

    async def chunks(self) -> list[Chunk]:
        """All of them, each checked."""
        ...

    async def sealed(self) -> list[Sealed]:
        """For every partition that has extents what they amount to. Raises Damaged where a number that was added up has changed."""
        ...

    async def usage(self) -> dict[int, int]:
        """For every segment that an extent uses the bytes that extents have in it. Raises Damaged, too: to believe that nothing uses a
        segment would be the end of what is in it."""
        ...

    async def extents(self, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
        """The extents of a partition that end after the offset, in order, each checked. Raises Damaged."""
        ...

    async def extents_in(self, segment: int, after: ExtentKey | None, rows_max: int) -> list[Extent]:
        """The extents that use the segment, in the order of their keys, behind `after`, each checked. Raises Damaged."""
        ...

    async def journal(self, broker: int, after: int, rows_max: int) -> list[Row]:
        """The next rows behind sequence `after`, checked: dense sequences, each CRC. `after` is not before what
        `register` said is trimmed. Raises Damaged naming the sequence."""
        ...

    async def commit(self, fence: Fence, sequence: int, changes: bytes, pages: Sequence[Page]) -> None:
        """Commits one flush: the row `sequence`, with small pages inlined (framed as `store.frames` does, segment 0, in this order).
        Raises Fenced if the epoch was raised or another row has that sequence."""
        ...

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """Inlined pages, verified as `Store.read` does."""
        ...

    async def back_up(self, path: str) -> None:
        """Writes a copy of everything to a new file, in steps that flushes do not wait for: as it is at one moment before this returns.
        Not synced. Raises DiskFull or StorageFailed where the copy is concerned: the catalog goes on."""
        ...

    async def close(self) -> None: ...


def inlined(sequence: int, position: int, length: int) -> Reference:
    """The reference of a page inside a journal row."""
    return Reference(0, position, length, sequence)
