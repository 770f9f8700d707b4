"""Planted bugs in finding messages by their ids when the deduplication window has passed."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any
from unittest.mock import patch

from bowstring.broker.log import lookups
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.core import known_messages
from bowstring.core.decisions import BatchName
from bowstring.core.natural_ids import Hits
from bowstring.core.pages import Origin
from bowstring.core.partition import Partition
from bowstring.ports.extents import Extent
from tests.simulation.planting import CALM, CRASHES, CUTS, KEEPING, SEALING, bug

OLD = SEALING.only(seconds=20.0, window_seconds=1.0, finds=1.0, seal_seconds=0.5)


@bug(CALM, OLD)
def old_sections_are_not_searched() -> Generator[None]:
    """A message is not found any more when the window has passed."""

    async def none(self: Extents, partition: Partition, horizon: int) -> list[Any]:
        return []

    with patch.object(Extents, "older", none):
        yield


@bug(CALM, OLD.only(natural=1.0, ids=10))
def the_oldest_of_two_messages_with_an_id_is_found() -> Generator[None]:
    """Sections are searched from the oldest on, and the search ends at the first message."""
    original = Extents.older

    async def oldest_first(self: Extents, partition: Partition, horizon: int) -> list[Any]:
        return (await original(self, partition, horizon))[::-1]

    with patch.object(Extents, "older", oldest_first):
        yield


@bug(CALM, KEEPING.only(topics=0, seconds=30.0, window_seconds=1.0, finds=1.0, delayed=0.5, seal_seconds=0.5))
def ids_are_found_in_a_section_that_retention_has_emptied() -> Generator[None]:
    """Nobody asks whether a message is below the floor: its section is there as long as something in its extent is kept."""

    def same(partition: Partition, hits: Hits) -> Hits:
        return hits

    def newest(partition: Partition, offsets: Iterable[int]) -> int:
        live = [offset for offset in offsets if not partition.deletions.is_gone(offset)]
        return max(live, default=0)

    def is_gone(self: Partition, offset: int) -> bool:
        return self.deletions.is_gone(offset)

    with (
        patch.object(lookups, "_retained", same),
        patch.object(known_messages, "newest", newest),
        patch.object(Partition, "is_gone", is_gone),
    ):
        yield


LATE = KEEPING.only(topics=0, seconds=30.0, window_seconds=1.0, finds=1.0, delayed=0.5, batches=0.5, natural=0.0)


@bug(CALM, LATE.only(seal_seconds=0.5, upkeep_seconds=0.3, inline_bytes=0, cut_bytes=256, retention_seconds=1.0))
def a_batch_is_looked_for_in_the_page_of_its_first_row_alone() -> Generator[None]:
    """When the cleaner has left that page behind, later rows of the batch that are kept are not found."""
    original = PageReader.origins

    async def there(self: PageReader, partition: Partition, offset: int) -> list[tuple[int, Origin]]:
        found = await original(self, partition, offset)
        return found if found and found[0][0] <= offset else []

    with patch.object(PageReader, "origins", there):
        yield


@bug(CALM, LATE.only(seal_seconds=0.5))
def a_batch_is_gone_when_its_first_row_is() -> Generator[None]:
    """Retention has taken its first row, and its other rows are not looked for."""
    original = Lookups._compare_batches

    async def compare(self: Lookups, partition: Partition, candidates: Iterable[tuple[BatchName, int]], found: Any) -> None:
        there = [(name, offset) for name, offset in candidates if partition.retained.any(offset, offset + 1)]
        await original(self, partition, there, found)

    with patch.object(Lookups, "_compare_batches", compare):
        yield


@bug(CUTS, LATE.only(seal_seconds=0.5, upkeep_seconds=0.3, inline_bytes=0, cut_bytes=256, retention_seconds=1.0))
def an_extent_counts_as_whole_though_pages_are_gone() -> Generator[None]:
    """A resent batch that is in none of its pages is said never to have been stored."""

    async def whole(self: Lookups, extent: Extent) -> bool:
        return True

    with patch.object(Lookups, "_is_whole", whole):
        yield


@bug(CRASHES.only(jump_every=0.5, jump_seconds=600.0), SEALING.only(seal_seconds=0.3, window_seconds=60.0, producers=4, seconds=15.0))
def sealed_batches_are_looked_for_by_the_wall_clock() -> Generator[None]:
    """The clock has jumped, or a producer was silent for long: its last batch is said never to have been stored."""
    with patch.object(lookups, "_horizon", lambda partition, names, now: now - partition.window):
        yield
