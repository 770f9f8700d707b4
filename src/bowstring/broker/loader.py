"""How state comes back: register under a new epoch, then replay the journal into the machines.

Registering first is what makes the rest true: from then on nothing of an earlier incarnation can land, so what is read is all there is.
The ids that callers gave are not in the journal but in the pages themselves; those within the window are read back last, from pages that
are verified like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bowstring.broker.reading import PageReader
from bowstring.broker.topics import decode_settings
from bowstring.core import changes as journal
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.hashing import id_hashes
from bowstring.messages.schema import ID
from bowstring.ports.catalog import Catalog, Fence, TopicRow
from bowstring.ports.failures import Damaged

ROWS_A_READ = 1000
PAGES_A_READ = 64

Key = tuple[int, int]
"""Topic id and partition number."""


class Loaded(NamedTuple):
    """What an incarnation starts from."""

    fence: Fence
    sequence: int
    topics: list[TopicRow]
    partitions: dict[Key, Partition]

    def segments(self) -> set[int]:
        """The segments that something refers to."""
        return {segment for partition in self.partitions.values() for segment in partition.pages.segments()}


async def load(catalog: Catalog, broker: int) -> Loaded:
    """Raises what the catalog raises, and Damaged where the journal is not what it was."""
    registered = await catalog.register(broker)
    rows = await catalog.topics()
    live = [row for row in rows if row.deleted is None]
    partitions = {(row.id, number): _partition(row, number) for row in live for number in range(row.partitions)}
    await _replay(catalog, broker, registered.sequence, partitions, deleted={row.id for row in rows if row.deleted is not None})
    for partition in partitions.values():
        partition.check()
    return Loaded(Fence(broker, registered.epoch), registered.sequence, live, partitions)


def _partition(row: TopicRow, number: int) -> Partition:
    return Partition(row.id, number, window=int(decode_settings(row.settings).deduplication * 1_000_000))


async def _replay(catalog: Catalog, broker: int, last: int, partitions: dict[Key, Partition], deleted: set[int]) -> None:
    sequence = 0
    while sequence < last:
        rows = await catalog.journal(broker, sequence, ROWS_A_READ)
        if not rows:
            raise Damaged(f"the journal ends at {sequence}, its last row should be {last}")
        for row in rows:
            _apply_row(row.sequence, row.changes, partitions, deleted)
            sequence = row.sequence


def _apply_row(sequence: int, data: bytes, partitions: dict[Key, Partition], deleted: set[int]) -> None:
    try:
        changes = journal.decode(data)
    except journal.Unreadable as error:
        raise Damaged(f"journal row {sequence}: {error}") from error
    for change in changes:
        if change.topic in deleted:
            continue
        partition = partitions.get((change.topic, change.partition))
        if partition is None:
            raise Damaged(f"journal row {sequence} changes partition {change.partition} of topic {change.topic}, which is not there")
        partition.apply(change)
        partition.committed(change, sequence)


async def restore_ids(partitions: Iterable[Partition], reader: PageReader) -> None:
    """Reads back the ids of the pages that are within the window. They are what deduplication compares hashes with."""
    for partition in partitions:
        recent = [entry for entry in partition.pages.since(partition.arrived - partition.window) if entry.columns & ID]
        for start in range(0, len(recent), PAGES_A_READ):
            entries = recent[start : start + PAGES_A_READ]
            try:
                await _restore(partition, entries, reader)
            except Damaged:
                await _restore_what_can_be_read(partition, entries, reader)


async def _restore(partition: Partition, entries: list[PageEntry], reader: PageReader) -> None:
    for entry, page in zip(entries, await reader.pages(partition, entries), strict=True):
        ids = encoding.decode(decode_header(page.header).columns, page.body).column("id")
        partition.restore_ids(entry.first_offset, id_hashes(ids), entry.arrived)


async def _restore_what_can_be_read(partition: Partition, entries: list[PageEntry], reader: PageReader) -> None:
    """A damaged page does not keep the broker from starting, but its partition cannot tell repeated ids until the window has passed."""
    for entry in entries:
        try:
            await _restore(partition, [entry], reader)
        except Damaged:
            partition.cannot_restore_ids(entry.arrived)
