"""What a catalog says, loaded as a broker loads it, but going on where a broker would refuse to: whatever is damaged is a finding.

A journal row that cannot be read leaves gaps: where the next append of a partition does not begin at the next offset, those between are
lost. A snapshot that cannot be read leaves a partition that begins with the journal. So what stands in `Contents` about a damaged
directory is what is known, no more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from bowstring.broker.topics import decode_settings
from bowstring.catalog.sqlite.offline import Bad, CatalogReading
from bowstring.core import snapshots
from bowstring.core.changes import Append, Change
from bowstring.core.journal import Replay, Unreadable, nobody
from bowstring.core.offset_set import CHUNK_BITS
from bowstring.core.partition import Partition
from bowstring.inspection.findings import Finding, Place
from bowstring.ports.catalog import Extent, TopicRow
from bowstring.ports.failures import Damaged

Key = tuple[int, int]
"""Topic id and partition number."""


class Gap(NamedTuple):
    """Offsets that the journal should have told of, and does not."""

    key: Key
    first_offset: int
    end_offset: int
    sequence: int
    """The flush that goes on behind it."""
    arrived: int
    """When what is before it arrived, or else what is behind."""


class Contents:
    """Everything that a catalog says."""

    def __init__(self, catalog: CatalogReading) -> None:
        self.format = catalog.format
        self.cluster = catalog.cluster
        self.epoch = catalog.epoch
        self.topics: dict[int, TopicRow] = {}
        self.deleted: set[int] = set()
        self.partitions: dict[Key, Partition] = {}
        self.extents: dict[Key, list[Extent]] = {}
        self.bad_extents: list[Bad] = []
        self.bad_snapshots: list[Bad] = []
        self.bad_chunks: list[Bad] = []
        self.bad_rows: list[Bad] = []
        self.gaps: list[Gap] = []
        self.uses = catalog.uses()
        self.journal_rows = 0
        self.journal_bytes = 0
        self.first_sequence = 0
        self.sequence = 0
        """The last row's."""
        self.findings: list[Finding] = []
        self._load_topics(catalog)
        self._load_sealed(catalog)
        self._replay(catalog)

    def name(self, topic: int) -> str:
        """The topic's name; a deleted one's, and one that nobody knows, by its id."""
        return self.topics[topic].name if topic in self.topics else f"#{topic}"

    def at(self, key: Key, first_offset: int | None = None, end_offset: int | None = None) -> Place:
        """The place of a finding."""
        last = None if end_offset is None else end_offset - 1
        return Place(topic=self.name(key[0]), partition=key[1], first_offset=first_offset, last_offset=last)

    def add(self, kind: str, text: str, **place: Any) -> None:
        self.findings.append(Finding(kind, text, **place))

    # Topics

    def _load_topics(self, catalog: CatalogReading) -> None:
        for row in catalog.topics():
            if row.deleted is not None:
                self.deleted.add(row.id)
                continue
            self.topics[row.id] = row
            try:
                window = decode_settings(row.settings).window_microseconds
            except msgspec.DecodeError as error:
                window = 0
                self.add("catalog", f"the settings of the topic cannot be read: {error}", topic=row.name)
            for number in range(row.partitions):
                self.partitions[row.id, number] = Partition(row.id, number, window)

    # What is sealed

    def _load_sealed(self, catalog: CatalogReading) -> None:
        for row in catalog.snapshots():
            if isinstance(row, Bad):
                self._bad_snapshot(row)
            elif (partition := self.partitions.get((row.topic, row.partition))) is not None:
                try:
                    snapshots.restore(partition, row.state, row.sequence)
                except snapshots.Unreadable as error:
                    self._bad_snapshot(Bad(row[:3], str(error), (*row[:3], 0, row.state)))
        for chunk in catalog.chunks():
            if isinstance(chunk, Bad):
                self._bad_chunk(chunk)
            elif (partition := self.partitions.get((chunk.topic, chunk.partition))) is not None:
                partition.deletions.load(chunk.number, chunk.bitmaps)
        for extent in catalog.extents():
            if isinstance(extent, Bad):
                self.bad_extents.append(extent)
                topic, number, offset = extent.key
                self.add("extent", extent.why, topic=self.name(topic), partition=number, first_offset=offset)
                continue
            key = extent.topic, extent.partition
            self.extents.setdefault(key, []).append(extent)
            if (partition := self.partitions.get(key)) is not None:
                partition.sealed_end = max(partition.sealed_end, extent.end_offset)
                partition.sealed_bytes += extent.bytes

    def _bad_snapshot(self, row: Bad) -> None:
        self.bad_snapshots.append(row)
        if row.key[0] not in self.deleted:
            self.add("snapshot", row.why, topic=self.name(row.key[0]), partition=row.key[1], sequence=row.key[2])

    def _bad_chunk(self, row: Bad) -> None:
        self.bad_chunks.append(row)
        topic, number, chunk = row.key
        first = max(chunk << CHUNK_BITS, 1) if isinstance(chunk, int) else None
        last = None if first is None else ((chunk + 1) << CHUNK_BITS) - 1
        self.add("deletions", row.why, topic=self.name(topic), partition=number, first_offset=first, last_offset=last)

    # The journal

    def _replay(self, catalog: CatalogReading) -> None:
        replay = _Replay(self)
        for found in catalog.journal():
            if isinstance(found, Bad):
                self.bad_row(found)
                self.sequence = found.key[0]
                continue
            row, inlined = found
            self.journal_rows += 1
            self.journal_bytes += len(row.changes) + inlined
            self.first_sequence = self.first_sequence or row.sequence
            self.sequence = row.sequence
            try:
                replay.row(row.sequence, row.changes)
            except Unreadable as error:
                self.bad_row(Bad((row.sequence,), str(error), (row.sequence, row.epoch, 0, row.changes, inlined)))
        for partition in self.partitions.values():
            if partition.next_offset < partition.sealed_end:
                partition.next_offset = partition.committed_offset = partition.sealed_end
            partition.sealed(partition.sealed_end, partition.sealed_bytes)

    def bad_row(self, row: Bad) -> None:
        self.bad_rows.append(row)
        self.add("journal", row.why, sequence=row.key[0])


class _Replay(Replay):
    """Goes on where the loader would refuse to, and writes down why."""

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents.partitions, contents.deleted)
        self._contents = contents

    def unaddressed(self, sequence: int, change: Change) -> None:
        self._contents.add("journal", nobody(sequence, change), sequence=sequence)

    def change(self, machine: Partition, change: Change, sequence: int) -> None:
        if isinstance(change, Append) and change.rows and sequence > machine.snapshot_sequence:
            self._close_gap(machine, change, sequence)
        try:
            super().change(machine, change, sequence)
        except (AssertionError, Damaged) as error:
            text = f"journal row {sequence} does not follow on what is before: {error}"
            self._contents.add("journal", text, sequence=sequence, **self._contents.at(change.address))

    def _close_gap(self, partition: Partition, change: Append, sequence: int) -> None:
        """If the append does not begin where the log ended, what is between was in a row that cannot be read, or was never there."""
        if change.first_offset == partition.next_offset:
            return
        key = change.address
        if change.first_offset > max(partition.next_offset, partition.sealed_end):
            first = max(partition.next_offset, partition.sealed_end)
            self._contents.gaps.append(Gap(key, first, change.first_offset, sequence, partition.arrived or change.arrived))
            text = f"no row of the journal tells of these offsets; flush {sequence} goes on behind them"
            self._contents.add("gap", text, **self._contents.at(key, first, change.first_offset))
        partition.next_offset = partition.committed_offset = change.first_offset
