"""The part of the catalog that belongs to one broker: its journal, and the rows that the journal's
contents move into.

A flush counts once its journal row is in the catalog, and not before. The journal has one row per
flush, whatever the number of partitions in it. A commit is one statement: it inserts the row if the
broker's epoch is still the one of the fence and the journal's last row is the one before. So a
fenced incarnation commits nothing, and the sequence answers "did it land?".

A journal position is (broker, sequence): each broker counts its own rows. A journal is short-lived.
Small transactions called edits move its contents into extents and states of the partitions that the
broker owns; then its rows are trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bowstring.ports.extents import Extent, ExtentKey, Sealed, StateRow
from bowstring.ports.store import Page, Reference


class Fence(NamedTuple):
    """Who commits: a broker number and the epoch under which it was registered."""

    broker: int
    epoch: int


class Row(NamedTuple):
    """A journal row: `changes` is opaque here (core.changes writes and reads it), with a CRC-32C of
    its own kept beside it.
    """

    sequence: int
    epoch: int
    changes: bytes


class Edit(NamedTuple):
    """Rows that change together, in one short transaction: all of it or nothing."""

    add: Sequence[Extent] = ()
    drop: Sequence[ExtentKey] = ()
    """Extents that go; dropped before the others are added, so that a copy can take the place of
    what it copied.
    """
    states: Sequence[StateRow] = ()
    trim: int = 0
    """Journal rows up to this sequence go, but never the last one."""


class Journal(Protocol):
    """The journal, extents and states of one broker: no query sees another's. Calls raise as those
    of `ports.catalog.Catalog` do.
    """

    @property
    def fence(self) -> Fence:
        """The broker that owns it, and the epoch that every write needs."""
        ...

    async def commit(self, sequence: int, changes: bytes, inlined: bytes | None) -> None:
        """Commits one flush: the row `sequence`, with the frames of small pages (`frames.inlined`)
        or None. Raises Fenced if the epoch was raised or another row has that sequence.
        """
        ...

    async def rows(self, after: int, rows_max: int) -> list[Row]:
        """The next rows behind sequence `after`, checked: dense sequences, each CRC. `after` is not
        before what `register` said is trimmed. Raises Damaged naming the sequence.
        """
        ...

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """Inlined pages, of any broker's journal, verified as `Store.read` does."""
        ...

    async def edit(self, edit: Edit) -> None:
        """One short transaction. Flushes wait behind it, so split a large change or trim into
        several. Raises Fenced, also if the broker does not own a partition in it; Damaged if an
        extent to be dropped is not there, one to be added overlaps another or cannot be, or a state
        is older than the stored one (what the journal said between them may be trimmed already).
        Then nothing was changed, and the catalog goes on. A state of the same sequence replaces,
        and so does one as of another broker's journal. A damaged extent can be dropped. A trim also
        removes tombstones that are no longer needed.
        """
        ...

    async def states(self) -> list[StateRow]:
        """All of the broker's partitions, by topic, partition, machine and part, each checked.
        Raises Damaged naming the partition.
        """
        ...

    async def sealed(self) -> list[Sealed]:
        """For every partition that has extents what they amount to. Raises Damaged where a number
        that was added up has changed.
        """
        ...

    async def usage(self) -> dict[int, int]:
        """For every segment that an extent uses the bytes that extents have in it. Raises Damaged,
        too: if a used segment looked unused, its contents would be overwritten.
        """
        ...

    async def extents(self, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
        """The extents of a partition that end after the offset, in order, each checked. Raises
        Damaged.
        """
        ...

    async def extents_in(self, segment: int, after: ExtentKey | None, rows_max: int) -> list[Extent]:
        """The extents that use the segment, in the order of their keys, behind `after`, each
        checked. Raises Damaged.
        """
        ...

    async def forget_topic(self, topic_id: int, rows_max: int) -> bool:
        """Removes up to so many extents and states of a deleted topic's partitions, damaged ones
        too. Says whether some are left: call again. Raises errors.Conflict for a live topic; one
        whose tombstone is gone has nothing left.
        """
        ...
