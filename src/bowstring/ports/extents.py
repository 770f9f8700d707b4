"""The rows of partitions that outlive the journal: extents, which locate sealed pages, and states."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.ports.store import Reference


class ExtentKey(NamedTuple):
    """The key of an extent."""

    topic: int
    partition: int
    first_offset: int


class Section(NamedTuple):
    """Data of an extent in the store other than its pages."""

    kind: str
    """Its kind: "index", "ids" and so on (core.sections has them all)."""
    reference: Reference


class Extent(NamedTuple):
    """Sealed pages of one partition that follow each other in the log. Which pages, its index
    section in the store says.
    """

    topic: int
    partition: int
    first_offset: int
    end_offset: int
    """Where the next one may begin: it is not in this one."""
    arrived_first: int
    """When its first page arrived; `arrived_last` the last one."""
    arrived_last: int
    expires: int
    """The moment after which no row of it is delivered any more, whatever the retention; 0 if there
    is none.
    """
    pages: int
    bytes: int
    """Bytes of its pages."""
    broker: int
    """The broker that has sealed or rewritten it: the sequences of its sections are positions in
    that one's journal.
    """
    sections: tuple[Section, ...]
    """One of each kind at most, in any order; there is always an index."""
    uses: tuple[tuple[int, int], ...]
    """The segments that hold bytes of it, with how many: pages and sections."""

    @property
    def key(self) -> ExtentKey:
        return ExtentKey(self.topic, self.partition, self.first_offset)

    def section(self, kind: str) -> Reference | None:
        """Where the section of that kind is, if there is one."""
        return next((section.reference for section in self.sections if section.kind == kind), None)

    @property
    def index(self) -> Reference:  # pyright: ignore[reportIncompatibleMethodOverride]  # it hides tuple.index, which has no use here
        """The section that lists the pages."""
        found = self.section("index")
        assert found is not None, f"an extent without an index: {self}"
        return found

    @property
    def ids(self) -> Reference | None:
        """The section of hashes by which messages are recognised, if there are any."""
        return self.section("ids")


class StateRow(NamedTuple):
    """Part of a machine's state as of a journal position, opaque here. Part 0 is the head, parts
    from 1 on are chunks. It replaces the one before; an empty state removes the row.
    """

    topic: int
    partition: int
    machine: str
    part: int
    broker: int
    sequence: int
    """Changes in later rows of that broker's journal are not in it."""
    state: bytes


class Sealed(NamedTuple):
    """The sum of the extents of a partition."""

    topic: int
    partition: int
    end_offset: int
    bytes: int
    first_offset: int
    arrived_first: int
    """When the first page of the oldest arrived."""
    expires: int
    """When the first of those expires that do; 0 if none does."""
