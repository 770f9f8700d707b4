"""Planted bugs of rows that are kept below the floor until their due time is over, of rows that expire, and of state at rest."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any
from unittest.mock import patch

from bowstring.broker.log import published_batch
from bowstring.broker.reading.due_times import DueTimes
from bowstring.broker.upkeep import coalesced_page, placement
from bowstring.broker.upkeep.capture import Capture
from bowstring.core.changes import Floor
from bowstring.core.due_blocks import Dues
from bowstring.core.offset_set import OffsetSet
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.retained import Retained
from bowstring.messages.schema import EXPIRES
from tests.simulation.planting import CALM, CRASHES, KEEPING, SEALING, bug

DELAYED = KEEPING.only(delayed=0.5, seconds=12.0, retention_seconds=1.0, kept_seconds=0.5, seal_seconds=0.5, upkeep_seconds=0.2)
CUT = DELAYED.only(delayed=0.1, batches=1.0, batch_rows_max=20, value_bytes=1000, cut_bytes=256, inline_bytes=0)
EXPIRING = SEALING.only(expiring=0.5, batches=1.0, batch_rows_max=20, seconds=15.0)


@bug(CALM, DELAYED)
def kept_rows_are_lost_between_two_differences() -> Generator[None]:
    """What a floor keeps anew replaces what was kept before."""
    original = Retained.apply

    def apply(self: Retained, change: Floor) -> None:
        if change.kept:
            self.kept.drop_below(self.floor)
        original(self, change)

    with patch.object(Retained, "apply", apply):
        yield


@bug(CALM, DELAYED.only(seconds=25.0, seal_seconds=0.2, inline_bytes=0))
def due_block_is_lost_when_extents_are_joined() -> Generator[None]:
    """Of the due times of several extents those of the first stay."""
    original = DueTimes.all

    async def first(self: DueTimes, partition: Partition, extents: Any) -> Any:
        return await original(self, partition, list(extents)[:1])

    with patch.object(DueTimes, "all", first):
        yield


@bug(CALM, DELAYED)
def due_section_lacks_its_last_row() -> Generator[None]:
    """The row that is due last is not in the directory's blocks."""
    original = placement.blocks_of

    def without(dues: Dues) -> Any:
        return original(Dues(dues.moments[:-1], dues.offsets[:-1]))

    with patch.object(placement, "blocks_of", without):
        yield


@bug(CRASHES.only(crash_every=1.0, inside_operations=20), DELAYED.only(deletes=0.5, natural=0.5, ids=300, chunk_bits=4))
def head_is_written_before_its_chunks() -> Generator[None]:
    """A crash between them leaves a head that counts as the newest, beside chunks that are older."""
    original = Capture._order

    def reverse(self: Capture, chunks: Any, heads: Any) -> Any:
        return tuple(reversed(tuple(original(self, chunks, heads))))

    with patch.object(Capture, "_order", reverse):
        yield


@bug(CALM, CUT)
def cut_page_loses_the_due_time_of_its_last_row() -> Generator[None]:
    """Where a page is cut, the last row of each piece has none any more."""
    original = coalesced_page._piece

    def piece(*arguments: Any) -> Any:
        made = original(*arguments)
        others = made.dues.offsets != made.entry.end - 1
        return made._replace(dues=Dues(made.dues.moments[others], made.dues.offsets[others]))

    with patch.object(coalesced_page, "_piece", piece):
        yield


@bug(CALM, CUT.only(natural=0.0))
def cut_page_counts_its_rows_from_the_first_again() -> Generator[None]:
    """Ids of rows behind a cut are those of the rows before it."""
    original = coalesced_page.cut_origins

    def cut(origins: Any, first: int, end: int) -> Any:
        return tuple(origin._replace(first_row=0) for origin in original(origins, first, end))

    with patch.object(coalesced_page, "cut_origins", cut):
        yield


@bug(CRASHES, DELAYED)
def kept_rows_are_dropped_at_restore() -> Generator[None]:
    """The chunks of kept rows are not read."""
    with patch.object(Retained, "load", lambda *_: None):
        yield


@bug(CRASHES, DELAYED)
def released_rows_are_kept_at_replay() -> Generator[None]:
    """What a floor releases is released in the broker that runs, and is there again in the one that loads."""
    original = Partition.replay

    def replay(self: Partition, change: Any, sequence: int) -> None:
        with patch.object(OffsetSet, "remove", lambda *_: None):
            original(self, change, sequence)

    with patch.object(Partition, "replay", replay):
        yield


@bug(CALM, EXPIRING)
def extent_expires_with_the_first_of_its_pages() -> Generator[None]:
    """The others go with it."""

    def first(entries: Iterable[PageEntry]) -> int:
        return min([entry.expires for entry in entries if entry.expires], default=0)

    with patch.object(placement, "_expires", first):
        yield


@bug(CALM, EXPIRING)
def row_without_expires_goes_with_its_batch() -> Generator[None]:
    """A batch expires with the last of those rows that do."""
    with patch.object(published_batch, "_expires", published_batch._latest):
        yield


@bug(CALM, CUT.only(expiring=0.3, delayed=0.3, producers=2))
def row_without_expires_goes_with_its_piece() -> Generator[None]:
    """A piece of a page that is cut expires with the last of those rows that do."""
    original = coalesced_page._piece

    def piece(opened: Any, moments: Any, first: int, end: int) -> Any:
        made = original(opened, moments, first, end)
        return made._replace(entry=made.entry._replace(expires=int(opened.moments("expires", EXPIRES)[first:end].max())))

    with patch.object(coalesced_page, "_piece", piece):
        yield
