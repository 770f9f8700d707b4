"""A catalog opened for inspection: reads every row separately, so that a damaged one does not hide
the others.

The catalog of a broker that serves refuses a question when one row of the answer is damaged. An
inspection has to know which row it is, and what the others hold. So each read here yields either
the contents of the row or its damage, with its key.

Older formats are read as they are, and said in today's words. A catalog of the first format has
neither extents nor states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw

from bowstring import frames
from bowstring.catalog import journal_rows, second_format, state_rows
from bowstring.catalog.extent_rows import told_sections, verified_extent
from bowstring.catalog.sqlite import file
from bowstring.catalog.sqlite.copy import CatalogCopying
from bowstring.ports.catalog import PartitionRow, TopicRow
from bowstring.ports.extents import Extent, Section, StateRow
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Row
from bowstring.ports.store import Page, Reference

_FORMAT_OF_EXTENTS = 2
_FORMAT_OF_BROKERS = 3


class Bad(NamedTuple):
    """A row that does not verify: its key, as far as it can be believed, what is wrong with it, and
    its values as they are.
    """

    key: tuple[Any, ...]
    why: str
    values: tuple[Any, ...]
    sections: tuple[Section, ...] = ()
    """Of an extent: where it says that its sections are."""


class JournalRow(NamedTuple):
    """A row of a broker's journal, and how many bytes of pages are inlined in it."""

    broker: int
    row: Row
    inlined: int


class Use(NamedTuple):
    """A row that says how many bytes of a segment an extent uses."""

    segment: int
    topic: int
    partition: int
    first_offset: int
    bytes: int
    total: int

    @property
    def adds_up(self) -> bool:
        return all(isinstance(value, int) for value in self) and sum(self[:5]) == self.total


class CatalogReading:
    """The rows of one catalog file. Iterating raises Damaged where SQLite itself cannot go on."""

    def __init__(self, path: str) -> None:
        self._connection = file.connect_to_look(path)
        self._path = path
        self.format: int = self._connection.pragma("user_version")

    def close(self) -> None:
        file.abandon(self._connection)

    def back_up(self, path: str) -> None:
        """Writes a copy to a new file. Raises DiskFull or StorageFailed."""
        copying = CatalogCopying(self._connection, path)
        try:
            while not copying.step():
                pass
        finally:
            copying.finish()

    def trouble(self) -> list[str]:
        """SQLite's own complaints about its structure; empty if all is well."""
        return [text for (text,) in self._rows("PRAGMA integrity_check(20)") if text != "ok"]

    @property
    def cluster(self) -> bytes:
        return next((bytes(id) for (id,) in self._rows("SELECT id FROM cluster")), b"")

    @property
    def epoch(self) -> int:
        """The epoch of the last incarnation, 0 if there was none."""
        counter = "cluster" if self._knows_brokers else "broker"
        return next((epoch for (epoch,) in self._rows(f"SELECT epoch FROM {counter}")), 0)

    @property
    def _knows_brokers(self) -> bool:
        return self.format >= _FORMAT_OF_BROKERS

    def topics(self) -> list[TopicRow]:
        """All topics, tombstones too, by id."""
        return [TopicRow(*row) for row in self._rows("SELECT id, name, partitions, created, settings, deleted FROM topic ORDER BY id")]

    def partitions(self) -> list[PartitionRow]:
        """All partitions with their owners, by topic and number."""
        if self._knows_brokers:
            return [PartitionRow(*row) for row in self._rows("SELECT topic, number, broker FROM partition ORDER BY topic, number")]
        return [PartitionRow(topic.id, number, second_format.BROKER) for topic in self.topics() for number in range(topic.partitions)]

    def journal(self) -> Iterator[JournalRow | Bad]:
        """The rows in order, broker by broker. One that is missing is bad, too, without values. The
        key of a bad one is a position: broker and sequence.
        """
        key = self._key
        broker, expected = 0, 0
        for values in self._rows(f"SELECT {key}, epoch, crc, changes, length(pages) FROM journal ORDER BY {key}"):
            before, (broker, sequence) = broker, journal_rows.split(values[0])
            if broker == before:
                for missing in range(expected, sequence):
                    yield Bad((broker, missing), f"journal row {missing} is missing", ())
            expected = sequence + 1
            try:
                yield JournalRow(broker, journal_rows.verified(broker, sequence - 1, [values])[0], values[4] or 0)
            except Damaged as error:
                yield Bad((broker, sequence), str(error), values)

    @property
    def _key(self) -> str:
        """The column that is the key of the journal: of broker 1 the numbers are the same in all
        formats.
        """
        return "position" if self._knows_brokers else "sequence"

    def inlined(self, broker: int, sequence: int) -> bytes:
        """The frames that a journal row holds, one behind the other."""
        position = journal_rows.position(broker, sequence)
        found = next(self._rows(f"SELECT pages FROM journal WHERE {self._key} = ?", (position,)), None)
        return b"" if found is None or found[0] is None else bytes(found[0])

    def read(self, reference: Reference) -> Page:
        """An inlined page. Raises Damaged."""
        data = self.inlined(reference.broker, reference.sequence)[reference.position : reference.position + reference.length]
        return frames.verify(data, reference)

    def extents(self) -> Iterator[Extent | Bad]:
        """By topic, partition and offset."""
        verified = verified_extent if self._knows_brokers else second_format.extent
        for values in self._later("SELECT * FROM extent ORDER BY topic, partition, first_offset"):
            try:
                yield verified(values)
            except Damaged as error:
                sections = told_sections(values[11]) if self._knows_brokers else second_format.told_sections(values)
                yield Bad(values[:3], str(error), values, sections)

    def uses(self) -> list[Use]:
        return [Use(*values) for values in self._later("SELECT * FROM segment_use")]

    def states(self) -> Iterator[StateRow | Bad]:
        """By topic, partition, machine and part. The key of a bad one is these four; its last value
        is the state.
        """
        if not self._knows_brokers:
            yield from self._states_before()
            return
        columns = "topic, partition, machine, part, broker, sequence, crc, state"
        for values in self._rows(f"SELECT {columns} FROM state ORDER BY topic, partition, machine, part"):
            try:
                yield state_rows.verified_states([values])[0]
            except Damaged as error:
                yield Bad(values[:4], str(error), values)

    def _states_before(self) -> Iterator[StateRow | Bad]:
        sequences: dict[tuple[Any, ...], int] = {}
        for values in self._later("SELECT topic, partition, sequence, crc, state FROM snapshot ORDER BY topic, partition"):
            sequences[values[:2]] = values[2]
            try:
                yield second_format.snapshot(values)
            except Damaged as error:
                yield Bad((*values[:2], second_format.PARTITION, 0), str(error), values)
        for values in self._later("SELECT topic, partition, number, crc, bitmaps FROM chunk ORDER BY topic, partition, number"):
            try:
                yield second_format.chunk(values, sequences.get(values[:2], 0))
            except Damaged as error:
                yield Bad((*values[:2], second_format.DELETIONS, values[2] + 1), str(error), values)

    def _later(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table that the first format did not have."""
        return self._rows(query) if self.format >= _FORMAT_OF_EXTENTS else iter(())

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except apsw.Error as error:
            raise Damaged(f"reading {self._path} failed: {error}") from error
