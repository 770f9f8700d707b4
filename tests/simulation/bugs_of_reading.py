"""Planted bugs of readers: named positions, filters, moments, and what the kit makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring import errors
from bowstring.broker.log import positions
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.selection import Selection
from bowstring.client.commit_window import CommitWindow
from bowstring.client.topic_stream import TopicStream
from bowstring.core import snapshots
from bowstring.core.decisions import Refused
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.positions import Positions
from bowstring.messages import filter_kernels
from tests.simulation.planting import CALM, CRASHES, CUTS, POWER, READING, bug

OBSERVED = READING.only(seconds=8.0, observers=2, filtered=0.0, delayed=0.0)

# ---- positions ---------------------------------------------------------------------------------------------------------


@bug(POWER.only(slow_rate=0.05, slow_seconds=0.3), READING)
def a_commit_is_answered_before_it_is_durable() -> Generator[None]:
    """A power cut takes back what a reader was told is kept."""

    ask = PartitionActor.ask_together

    def at_once(asked: Sequence[tuple[PartitionActor, Any]]) -> asyncio.Future[Any]:
        decisions = [request.decide(actor.partition, actor._clock.now(), None) for actor, request in asked]
        answered = ask(asked)
        if any(isinstance(decision, Refused) for decision in decisions):
            return answered
        answered.add_done_callback(lambda late: late.cancelled() or late.exception())
        early = asyncio.get_running_loop().create_future()
        early.set_result(None)
        return early

    with patch.object(PartitionActor, "ask_together", staticmethod(at_once)):
        yield


@bug(CRASHES, READING)
def positions_are_not_in_the_snapshot() -> Generator[None]:
    """When the journal is trimmed they are gone, and a restart shows it."""
    original = snapshots._head

    def without(partition: Partition) -> Any:
        held, partition.positions = partition.positions, Positions()
        try:
            return original(partition)
        finally:
            partition.positions = held

    with patch.object(snapshots, "_head", without):
        yield


@bug(CALM, READING.only(forgets=0.5))
def a_position_is_deleted_in_one_partition_only() -> Generator[None]:
    """In the others it stays where it was."""
    move = Partition.move

    def kept(self: Partition, name: str, offset: int, now: int) -> Any:
        held = self.positions.get(name)
        return move(self, name, held.offset if self.number and not offset and held is not None else offset, now)

    with patch.object(Partition, "move", kept):
        yield


@bug(CALM, READING)
def a_commit_goes_backwards() -> Generator[None]:
    """Whoever commits last has the say."""
    original = Positions.refusal

    def refusal(self: Positions, name: str, offset: int, end: int, *, forward: bool) -> errors.Error | None:
        return original(self, name, offset, end, forward=False)

    with patch.object(Positions, "refusal", refusal):
        yield


@bug(CALM, READING.only(partitions_max=3))
def only_the_first_partition_is_committed() -> Generator[None]:
    """The others of the same call are forgotten."""
    original = positions._move

    async def move(log: Any, topic: Any, name: str, offsets: Mapping[int, int], **how: Any) -> Any:
        return await original(log, topic, name, dict(sorted(offsets.items())[:1]), **how)

    with patch.object(positions, "_move", move):
        yield


# ---- filters and moments -----------------------------------------------------------------------------------------------


@bug(CALM, READING.only(batches=1.0, batch_rows_max=10, filtered=1.0))
def a_page_goes_out_whole_if_one_of_its_rows_passes() -> Generator[None]:
    """The reader gets its neighbours, too."""
    original = Selection.passing

    def passing(self: Selection, entry: PageEntry, header: Any, batch: Any, offsets: Any, *numbers: Any) -> Any:
        return offsets if len(original(self, entry, header, batch, offsets, *numbers)) else offsets[:0]

    with patch.object(Selection, "passing", passing):
        yield


@bug(CALM, READING.only(batches=1.0, batch_rows_max=10, filtered=1.0))
def a_filter_is_applied_to_the_rows_of_the_page_and_not_of_the_range() -> Generator[None]:
    """A reader that begins within a page gets what its first rows would."""

    def passing(tree: Any, column_of: Any, rows: int) -> Any:
        return np.roll(original(tree, column_of, rows), 1)

    original = filter_kernels.passing
    with patch.object(filter_kernels, "passing", passing):
        yield


@bug(CALM, READING.only(batches=1.0))
def a_moment_is_looked_for_one_page_too_late() -> Generator[None]:
    """The page that holds it is passed over."""
    original = Extents.entry_since

    async def entry_since(self: Extents, partition: Partition, moment: int) -> PageEntry | None:
        found = await original(self, partition, moment)
        if found is None:
            return None
        following = await self.entries(partition, found.end, partition.sealed_end, 1, 1)
        return following[0] if following else found

    with patch.object(Extents, "entry_since", entry_since):
        yield


# ---- the kit -----------------------------------------------------------------------------------------------------------


@bug(CALM, READING)
def a_position_counts_what_has_come_and_was_not_handed_out() -> Generator[None]:
    """What lies in the kit unread is committed."""
    with patch.object(TopicStream, "position", property(lambda self: dict(self._received))):
        yield


@bug(CUTS, READING)
def a_reader_that_reconnects_begins_behind_the_next_page() -> Generator[None]:
    """After a break one message is passed over."""
    original = TopicStream._opening

    def opening(self: TopicStream) -> bytes:
        if self.connections > 1:
            self._received = {number: offset + (number not in self._beginning) for number, offset in self._received.items()}
        return original(self)

    with patch.object(TopicStream, "_opening", opening):
        yield


@bug(CRASHES.only(sync_seconds=0.05, crash_every=1.0, crash_inside=0.0, down_seconds=0.1), OBSERVED)
def positions_are_told_before_they_are_committed() -> Generator[None]:
    """Whoever asks for the positions of others is told at once where they are, and not when that is durable."""
    original = positions.list_page

    async def list_page(log: Log, *arguments: Any) -> Any:
        with patch.object(log, "durable", _at_once):
            return await original(log, *arguments)

    with patch.object(positions, "list_page", list_page):
        yield


async def _at_once() -> None:
    pass


@bug(CALM, READING)
def a_commit_opens_the_window_by_more_than_was_committed() -> Generator[None]:
    """The window grows with every commit."""
    original = CommitWindow.committed

    def committed(self: CommitWindow, topic: str, position: Mapping[int, int]) -> None:
        original(self, topic, position)
        self._granted += self._step

    with patch.object(CommitWindow, "committed", committed):
        yield
