"""A catalog that is only looked at: every row, each for itself, so that a damaged one does not hide the others.

The catalog of a broker that serves refuses a question when one row of the answer is damaged. Whoever looks at a directory offline wants
to know which row it is, and what the others say. So each reading here gives either what the row says or how it is damaged, with its key.

A catalog of the first format has neither extents nor snapshots: they are then empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import apsw

from bowstring.catalog import journal_rows
from bowstring.catalog.extent_rows import verified_chunks, verified_extent, verified_snapshots
from bowstring.catalog.sqlite import file
from bowstring.catalog.sqlite.copy import CatalogCopying
from bowstring.ports.catalog import Chunk, Extent, Row, Snapshot, TopicRow
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store import frames

T = TypeVar("T")

_FORMAT_OF_EXTENTS = 2


class Bad(NamedTuple):
    """A row that does not verify: its key, as far as it can be believed, what is wrong with it, and its values as they are."""

    key: tuple[Any, ...]
    why: str
    values: tuple[Any, ...]


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
        """What SQLite finds wrong with its own structure; nothing if all is well."""
        return [text for (text,) in self._rows("PRAGMA integrity_check(20)") if text != "ok"]

    @property
    def cluster(self) -> bytes:
        return next((bytes(id) for (id,) in self._rows("SELECT id FROM cluster")), b"")

    @property
    def epoch(self) -> int:
        """The epoch of the last incarnation, 0 if there was none."""
        return next((epoch for (epoch,) in self._rows("SELECT epoch FROM broker")), 0)

    def topics(self) -> list[TopicRow]:
        """All topics, tombstones too, by id."""
        return [TopicRow(*row) for row in self._rows("SELECT id, name, partitions, created, settings, deleted FROM topic ORDER BY id")]

    def journal(self) -> Iterator[tuple[Row, int] | Bad]:
        """The rows in order, each with the bytes of its inlined pages. One that is missing is bad, too, without values."""
        expected: int | None = None
        for values in self._rows("SELECT sequence, epoch, crc, changes, length(pages) FROM journal ORDER BY sequence"):
            sequence = values[0]
            for missing in range(expected or sequence, sequence):
                yield Bad((missing,), f"journal row {missing} is missing", ())
            expected = sequence + 1
            try:
                yield journal_rows.verified(sequence - 1, [values])[0], values[4] or 0
            except Damaged as error:
                yield Bad((sequence,), str(error), values)

    def inlined(self, sequence: int) -> bytes:
        """The frames that a journal row holds, one behind the other."""
        found = next(self._rows("SELECT pages FROM journal WHERE sequence = ?", (sequence,)), None)
        return b"" if found is None or found[0] is None else bytes(found[0])

    def read(self, reference: Reference) -> Page:
        """An inlined page. Raises Damaged."""
        data = self.inlined(reference.sequence)[reference.position : reference.position + reference.length]
        return frames.verify(data, reference)

    def extents(self) -> Iterator[Extent | Bad]:
        """By topic, partition and offset."""
        for values in self._later("SELECT * FROM extent ORDER BY topic, partition, first_offset"):
            try:
                yield verified_extent(values)
            except Damaged as error:
                yield Bad(values[:3], str(error), values)

    def uses(self) -> list[Use]:
        return [Use(*values) for values in self._later("SELECT * FROM segment_use")]

    def snapshots(self) -> Iterator[Snapshot | Bad]:
        for values in self._later("SELECT topic, partition, sequence, crc, state FROM snapshot ORDER BY topic, partition"):
            try:
                yield verified_snapshots([values])[0]
            except Damaged as error:
                yield Bad(values[:3], str(error), values)

    def chunks(self) -> Iterator[Chunk | Bad]:
        for values in self._later("SELECT topic, partition, number, crc, bitmaps FROM chunk ORDER BY topic, partition, number"):
            try:
                yield verified_chunks([values])[0]
            except Damaged as error:
                yield Bad(values[:3], str(error), values)

    def _later(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a table that the first format did not have."""
        return self._rows(query) if self.format >= _FORMAT_OF_EXTENTS else iter(())

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._connection.execute(query, values)
        except apsw.Error as error:
            raise Damaged(f"reading {self._path} failed: {error}") from error
