"""What a catalog says, loaded as a broker loads it, but going on where a broker would refuse to:
whatever is damaged is a finding.

A journal row that cannot be read leaves gaps: where the next append of a partition does not begin
at the next offset, those between are lost. A snapshot that cannot be read leaves a partition that
begins with the journal. A ledger that lacks its head, or a change, goes on with nothing: it is lost
from there on. So what stands in `Contents` about a damaged directory is what is known, no more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from bowstring.broker.topics import decode_settings
from bowstring.catalog.sqlite.offline import Bad, CatalogReading
from bowstring.core import snapshots
from bowstring.core.changes import Append, Change
from bowstring.core.journal import Replay, UnreadableJournal, nobody
from bowstring.core.ledger_changes import LedgerStruct, Unsubscribe
from bowstring.core.moved_rows import MOVED_CHUNK_BITS
from bowstring.core.offset_set import CHUNK_BITS
from bowstring.core.partition import Partition
from bowstring.inspection.findings import Finding, FindingPlace
from bowstring.ports.catalog import TopicRow
from bowstring.ports.extents import Extent, StateRow
from bowstring.ports.failures import Damaged

Key = tuple[int, int]
"""Topic id and partition number."""


class Gap(NamedTuple):
    """Offsets that are missing from the journal."""

    key: Key
    first_offset: int
    end_offset: int
    sequence: int
    """The flush that goes on behind it."""
    arrived: int
    """When the rows before it arrived, or else those behind it."""


class JournalSpan:
    """What there is of one broker's journal."""

    def __init__(self, broker: int, first: int) -> None:
        self.broker = broker
        self.first = first
        """The sequence of the first row, `last` that of the last one."""
        self.last = first
        self.rows = 0
        self.bytes = 0


class Contents:
    """Everything that a catalog says."""

    def __init__(self, catalog: CatalogReading) -> None:
        self.format = catalog.format
        self.cluster = catalog.cluster
        self.epoch = catalog.epoch
        self.topics: dict[int, TopicRow] = {}
        self.deleted: set[int] = set()
        self.partitions: dict[Key, Partition] = {}
        self.owners: dict[Key, int] = {(row.topic, row.number): row.broker for row in catalog.partitions()}
        """The broker that owns each partition."""
        self.extents: dict[Key, list[Extent]] = {}
        self.bad_extents: list[Bad] = []
        self.bad_states: list[Bad] = []
        self.bad_rows: list[Bad] = []
        self.gaps: list[Gap] = []
        self.lost_ledgers: set[tuple[Key, int]] = set()
        """Subscriptions of which some changes are unknown, by partition and number."""
        self.ledger_rows: dict[Key, list[tuple[Any, ...]]] = {}
        """The keys of all rows of ledgers, by partition."""
        self.uses = catalog.uses()
        self.journals: dict[int, JournalSpan] = {}
        """By broker."""
        self.findings: list[Finding] = []
        self._load_topics(catalog)
        self._load_sealed(catalog)
        self._replay(catalog)

    @property
    def journal_rows(self) -> int:
        return sum(journal.rows for journal in self.journals.values())

    @property
    def journal_bytes(self) -> int:
        return sum(journal.bytes for journal in self.journals.values())

    def last_sequence(self, broker: int) -> int:
        """Of the broker's journal; 0 if it has no rows."""
        return self.journals[broker].last if broker in self.journals else 0

    def name(self, topic: int) -> str:
        """The topic's name; for a deleted or unknown topic, its id."""
        return self.topics[topic].name if topic in self.topics else f"#{topic}"

    def at(self, key: Key, first_offset: int | None = None, end_offset: int | None = None) -> FindingPlace:
        """The place of a finding."""
        last = None if end_offset is None else end_offset - 1
        return FindingPlace(topic=self.name(key[0]), partition=key[1], first_offset=first_offset, last_offset=last)

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
        chunks: list[StateRow] = []
        for row in catalog.states():
            if isinstance(row, Bad):
                self._bad_state(row)
            elif (partition := self.partitions.get((row.topic, row.partition))) is None:
                continue
            elif row.machine == snapshots.PARTITION:
                self._restore(partition, row)
            else:
                chunks.append(row)
        for row in chunks:
            partition, sequence = self.partitions[row.topic, row.partition], self._sequence_of(row)
            if snapshots.ledger_number(row.machine) is not None:
                self.ledger_rows.setdefault(row[:2], []).append(row[:4])
            try:
                snapshots.restore_chunk(partition, row.machine, row.part, row.state, sequence)
            except snapshots.UnreadableState as error:
                self._bad_state(Bad(row[:4], str(error), (*row[:6], 0, row.state)))
        self._find_lost_ledgers()
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

    def _restore(self, partition: Partition, row: StateRow) -> None:
        try:
            snapshots.restore(partition, row.state, self._sequence_of(row))
        except snapshots.UnreadableState as error:
            self._bad_state(Bad(row[:4], str(error), (*row[:6], 0, row.state)))

    def _sequence_of(self, row: StateRow) -> int:
        """Changes in a journal count from the state on, if it is as of that journal."""
        return row.sequence if row.broker == self.owners.get(row[:2]) else 0

    def _find_lost_ledgers(self) -> None:
        """Heads that are damaged are known already."""
        damaged: set[tuple[Key, int]] = set()
        for topic, partition, machine, part in [bad.key for bad in self.bad_states]:
            if part == 0 and (number := snapshots.ledger_number(str(machine))) is not None:
                damaged.add(((topic, partition), number))
        for key, partition in self.partitions.items():
            lost = {number: "its head is missing" for number in partition.ledgers.missing}
            for number in partition.ledgers.numbers():
                try:
                    _ = partition.ledgers[number]
                except snapshots.UnreadableState as error:
                    lost[number] = str(error)
            self.lost_ledgers |= {(key, number) for number in lost} | {one for one in damaged if one[0] == key}
            for number in sorted(number for number in lost if (key, number) not in damaged):
                self.add("ledger", f"subscription {number}: {lost[number]}", topic=self.name(key[0]), partition=key[1])

    def _bad_state(self, row: Bad) -> None:
        self.bad_states.append(row)
        topic, number, machine, part = row.key
        kind = "ledger" if snapshots.ledger_number(str(machine)) is not None else machine
        if kind not in (snapshots.DELETIONS, snapshots.KEPT, snapshots.MOVED) and (kind != "ledger" or part == 0):
            if topic not in self.deleted:
                self.add("ledger" if kind == "ledger" else "snapshot", row.why, topic=self.name(topic), partition=number)
            return
        chunk = part - 1 if isinstance(part, int) else None
        bits = MOVED_CHUNK_BITS if kind == snapshots.MOVED else CHUNK_BITS
        first = None if chunk is None else max(chunk << bits, 1)
        last = None if chunk is None else ((chunk + 1) << bits) - 1
        self.add(kind, row.why, topic=self.name(topic), partition=number, first_offset=first, last_offset=last)

    # The journal

    def _replay(self, catalog: CatalogReading) -> None:
        replay = _Replay(self)
        for found in catalog.journal():
            broker, sequence = found.key if isinstance(found, Bad) else (found.broker, found.row.sequence)
            span = self.journals.setdefault(broker, JournalSpan(broker, sequence))
            span.last = sequence
            if isinstance(found, Bad):
                self.bad_row(found)
                continue
            row = found.row
            span.rows += 1
            span.bytes += len(row.changes) + found.inlined
            try:
                replay.row(sequence, row.changes)
            except UnreadableJournal as error:
                self.bad_row(Bad((broker, sequence), str(error), (sequence, row.epoch, 0, row.changes)))
        for partition in self.partitions.values():
            if partition.next_offset < partition.sealed_end:
                partition.next_offset = partition.committed_offset = partition.sealed_end
            partition.sealed(partition.sealed_end, partition.sealed_bytes)

    def bad_row(self, row: Bad) -> None:
        self.bad_rows.append(row)
        self.add("journal", row.why, sequence=row.key[1])


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
        ledger = (change.address[:2], change.subscription) if isinstance(change, LedgerStruct) else None
        if ledger in self._contents.lost_ledgers:
            if isinstance(change, Unsubscribe):
                self._contents.lost_ledgers.discard(ledger)
            return
        try:
            super().change(machine, change, sequence)
        except (AssertionError, KeyError, Damaged, snapshots.UnreadableState) as error:
            text = f"journal row {sequence} does not follow the rows before it: {error}"
            self._contents.add("journal", text, sequence=sequence, **self._contents.at(change.address))
            if ledger is not None:
                self._contents.lost_ledgers.add(ledger)

    def _close_gap(self, partition: Partition, change: Append, sequence: int) -> None:
        """If the append does not begin where the log ended, what is between was in a row that
        cannot be read, or was never there.
        """
        if change.first_offset == partition.next_offset:
            return
        key = change.address
        if change.first_offset > max(partition.next_offset, partition.sealed_end):
            first = max(partition.next_offset, partition.sealed_end)
            self._contents.gaps.append(Gap(key, first, change.first_offset, sequence, partition.arrived or change.arrived))
            text = f"no row of the journal tells of these offsets; flush {sequence} goes on behind them"
            self._contents.add("gap", text, **self._contents.at(key, first, change.first_offset))
        partition.next_offset = partition.committed_offset = change.first_offset
