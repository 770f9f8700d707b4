"""How state comes back: register under a new epoch, restore snapshots, then replay the journal on
top of them.

Registering comes first, because from then on nothing of an earlier incarnation can land, so the
loader reads everything there is. The ids that callers gave are not in the journal but in the pages
themselves; those of pages that are not sealed are read back last, from pages that are verified like
any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from bowstring.broker.reading.page_reader import PageReader
from bowstring.broker.topics import decode_settings
from bowstring.core import snapshots
from bowstring.core.journal import Replay, UnreadableJournal
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition, SealedAtLoad
from bowstring.messages import encoding
from bowstring.messages.hashing import id_hashes
from bowstring.messages.schema import ID
from bowstring.ports.catalog import Catalog, Fence, Registered, TopicRow
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Journal

ROWS_A_READ = 1000
PAGES_A_READ = 64
TRIES_MAX = 3
"""How often a page is read, for itself, before its ids count as lost."""


Key = tuple[int, int]
"""Topic id and partition number."""


class Loaded(NamedTuple):
    """What an incarnation starts from."""

    fence: Fence
    sequence: int
    trimmed: int
    topics: list[TopicRow]
    deleted: list[int]
    """Topics that are gone, and may have left something behind."""
    dormant: list[TopicRow]
    """Topics whose partitions were never used."""
    partitions: dict[Key, Partition]
    usage: dict[int, int]
    """Bytes that extents have in each segment."""
    mentioned: frozenset[int] = frozenset()
    """Segments that the journal mentions, whether or not anything in them lives. Those without live
    pages may be reused.
    """

    def segments(self) -> set[int]:
        """The segments that something refers to, or that are to be given back in good order."""
        pages = {segment for partition in self.partitions.values() for segment in partition.pages.segments()}
        return pages | self.usage.keys() | self.mentioned


async def load(catalog: Catalog, broker: int) -> Loaded:
    """Raises the errors of the catalog, and Damaged if the journal does not verify."""
    registered = await catalog.register(broker)
    journal = catalog.journal(registered.fence)
    rows = await catalog.topics()
    deleted = [row.id for row in rows if row.deleted is not None]
    owned = await catalog.partitions(broker)
    ours = {row.topic for row in owned}
    live = [row for row in rows if row.deleted is None and row.id in ours]
    dormant = [row for row in rows if row.deleted is None and row.id not in ours]
    windows = {row.id: decode_settings(row.settings).window_microseconds for row in live}
    partitions = {row[:2]: Partition(*row[:2], windows[row.topic]) for row in owned if row.topic in windows}
    await _restore_states(journal, partitions)
    sums = [(partitions[sealed[:2]], sealed) for sealed in await journal.sealed() if sealed[:2] in partitions]
    for partition, sealed in sums:
        partition.sealed_end = max(partition.sealed_end, sealed.end_offset)
        partition.sealed_bytes = sealed.bytes
    mentioned = await _replay(journal, registered, partitions, frozenset(deleted))
    for partition, sealed in sums:
        partition.sealed_at_load = SealedAtLoad(sealed.first_offset, sealed.arrived_first, sealed.expires)
    for partition in partitions.values():
        partition.check()
    usage = await journal.usage()
    return Loaded(registered.fence, registered.sequence, registered.trimmed, live, deleted, dormant, partitions, usage, mentioned)


async def _restore_states(journal: Journal, partitions: dict[Key, Partition]) -> None:
    """One query, whatever the number of partitions."""
    states, broker = [row for row in await journal.states() if row[:2] in partitions], journal.fence.broker
    heads = [row for row in states if row.machine == snapshots.PARTITION]
    others = [row for row in states if row.machine != snapshots.PARTITION]
    for row in (*heads, *others):
        topic, number, machine, part, owner, sequence, state = row
        partition = partitions[topic, number]
        if owner != broker:  # changes count from the state on, if it is as of our own journal; of another's nothing is replayed
            sequence = 0
        try:
            if machine == snapshots.PARTITION:
                snapshots.restore(partition, state, sequence)
            else:
                snapshots.restore_chunk(partition, machine, part, state, sequence)
        except snapshots.UnreadableState as error:
            raise Damaged(f"partition {number} of topic {topic}: {error}") from error
    for key, partition in partitions.items():
        if partition.ledgers.missing:
            raise Damaged(f"partition {key[1]} of topic {key[0]}: the head of subscription {min(partition.ledgers.missing)} is missing")


async def _replay(journal: Journal, registered: Registered, partitions: dict[Key, Partition], deleted: Set[int]) -> frozenset[int]:
    """Gives the segments that were spoken of."""
    replay = Replay(partitions, deleted)
    sequence = registered.trimmed
    while sequence < registered.sequence:
        rows = await journal.rows(sequence, ROWS_A_READ)
        if not rows:
            raise Damaged(f"the journal ends at {sequence}, its last row should be {registered.sequence}")
        for row in rows:
            try:
                replay.row(row.sequence, row.changes)
            except UnreadableJournal as error:
                raise Damaged(str(error)) from error
            sequence = row.sequence
    for partition in partitions.values():
        partition.sealed(partition.sealed_end, partition.sealed_bytes)
    return frozenset(replay.mentioned)


async def restore_ids(partitions: Iterable[Partition], reader: PageReader) -> None:
    """Reads back the ids of the pages that are not sealed, whatever the window: a seal writes them
    to a section.
    """
    for partition in partitions:
        named = [entry for entry in partition.pages.since(0) if entry.columns & ID]
        for start in range(0, len(named), PAGES_A_READ):
            entries = named[start : start + PAGES_A_READ]
            try:
                await _restore(partition, entries, reader)
            except Damaged:
                await _restore_what_can_be_read(partition, entries, reader)


async def _restore(partition: Partition, entries: list[PageEntry], reader: PageReader) -> None:
    for entry, page in zip(entries, await reader.pages(partition, entries), strict=True):
        ids = encoding.decode(decode_header(page.header).columns, page.body).column("id")
        partition.restore_ids(entry.first_offset, id_hashes(ids))


async def _restore_what_can_be_read(partition: Partition, entries: list[PageEntry], reader: PageReader) -> None:
    """A damaged page does not keep the broker from starting, but its partition cannot tell repeated
    ids until the window has passed. That lasts, and is in its snapshots: so a page counts as
    damaged only when it was read in vain several times.
    """
    for entry in entries:
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                await _restore(partition, [entry], reader)
                break
            except Damaged:
                if not tries_left:
                    partition.unread.add(entry.end, entry.arrived + partition.window)
