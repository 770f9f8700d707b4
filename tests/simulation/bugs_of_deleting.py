"""Planted bugs of deleting messages by their ids."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.upkeep import copier
from bowstring.core import deleting, snapshots
from bowstring.core.deletions import Deletions
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from tests.simulation.load import KIB
from tests.simulation.planting import CALM, CRASHES, JOURNAL, SEALING, bug

DELETING = SEALING.only(deletes=0.5, natural=0.5, ids=300, seal_seconds=0.5, readers=2)
FAILING_SEALS = DELETING.only(seconds=20.0, topics=4, producers=2, pause_seconds=0.3, chunk_bits=4, wal_bytes=2048 * KIB).only(
    seal_seconds=0.1, upkeep_seconds=0.1
)
"""Most of what is written to the catalog is written by seals, and its WAL grows all the time, so a full disk meets seals."""
GROUPS = JOURNAL.only(deletes=0.5, natural=1.0, ids=20, plain=0.5, seconds=10.0)


@bug(CALM, DELETING.only(natural=0.0))
def delete_counts_from_the_first_row_of_a_coalesced_page() -> Generator[None]:
    """Of a sealed batch that does not begin its page other rows are deleted: those that do."""
    original = Lookups._look_up

    async def look_up(self: Lookups, partition: Partition, lookup: Any, *rest: Any) -> Any:
        found = await original(self, partition, lookup, *rest)
        if lookup.owned is None:
            return found
        starts = {name: (await self._reader.origins(partition, batch.first_offset))[0][0] for name, batch in found.batches.items()}
        return found._replace(batches={name: batch._replace(first_offset=starts[name]) for name, batch in found.batches.items()})

    with patch.object(Lookups, "_look_up", look_up):
        yield


@bug(CRASHES, DELETING)
def delete_is_lost_at_a_seal() -> Generator[None]:
    """Deletions are not written beside the snapshot that stands for them."""
    original = snapshots.capture

    def without(partition: Partition) -> Any:
        return [part for part in original(partition) if part.machine != snapshots.DELETIONS]

    with patch.object(snapshots, "capture", without):
        yield


@bug(CALM, GROUPS)
def another_groups_message_is_deleted() -> Generator[None]:
    """Nobody looks whose message it is."""
    original = deleting.messages_of

    def messages(partition: Partition, *rest: Any) -> Any:
        return [(row, offset, asked[-1]) for row, offset, _ in original(partition, *rest)]

    asked: list[str] = []
    decide = deleting.delete

    def delete(partition: Partition, wanted: Any, group: str, *rest: Any, **named: Any) -> Any:
        asked.append(group)
        return decide(partition, wanted, group, *rest, **named)

    with patch.object(deleting, "messages_of", messages), patch.object(deleting, "delete", delete):
        yield


@bug(CRASHES.only(slow_rate=0.2, slow_seconds=0.3), GROUPS.only(readers=4, pause_seconds=0.02))
def readers_pass_a_deletion_before_it_is_committed() -> Generator[None]:
    """A reader goes on past a message that is being deleted; then the broker dies, and the message is there after all."""
    with patch.object(Partition, "readable_upto", lambda self, offset: self.committed_offset):
        yield


@bug(CALM.only(slow_rate=0.2, slow_seconds=0.3, sync_seconds=0.05), GROUPS.only(readers=4, pause_seconds=0.1, deletes=0.9, topics=1))
def readers_are_not_woken_when_a_deletion_is_committed() -> Generator[None]:
    """A reader waits before a message that is being deleted, and goes on only when another one comes."""
    original = PartitionActor.committed

    def committed(self: PartitionActor, change: Any, sequence: int) -> None:
        original(self, change, sequence)
        self._opened = False

    with patch.object(PartitionActor, "committed", committed):
        yield


@bug(CALM, DELETING.only(natural=1.0, ids=60, topics=1, partitions_max=1, batches=0.0, inline_bytes=0, seconds=20.0))
def cleaner_forgets_ids_of_deleted_messages() -> Generator[None]:
    """Pages of which everything is deleted are left behind when extents are joined: their ids are taken a second time."""
    with patch.object(copier, "_is_needed", _has_live):
        yield


def _has_live(partition: Partition, entry: PageEntry) -> bool:
    return bool(len(partition.live(entry.first_offset, entry.end)))


@bug(CALM, DELETING)
def deleted_rows_travel_in_whole_pages() -> Generator[None]:
    """A page is sent as it is if its first row may be delivered."""
    with patch.object(Deletions, "any", lambda self, first, end: self.is_gone(first)):
        yield


@bug(CALM.only(full_every=0.3, full_seconds=0.1), FAILING_SEALS)
def chunks_of_deletions_are_forgotten_after_a_failed_edit() -> Generator[None]:
    """The disk is full when a seal writes them, and the next seal takes them to be written."""
    with patch.object(snapshots, "put_back", lambda *_: None):
        yield
