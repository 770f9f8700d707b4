"""Planted bugs of what has to come back: credit, segments, and the rows of deleted topics."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker.incarnation import Incarnation
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.commits import Commits
from bowstring.broker.upkeep.switch import Switch
from bowstring.broker.upkeep.upkeep import Upkeep
from bowstring.ports.extents import Extent
from tests.simulation.load import KIB
from tests.simulation.planting import CALM, CRASHES, CUTS, SEALING, SEGMENTS, bug

CROWDED = SEGMENTS.only(seconds=10.0, publish_bytes=8 * KIB, large=0.6, large_bytes=20 * KIB, readers=0, pause_seconds=0.02)
MORTAL = SEALING.only(seconds=6.0, topics=1, mortal_topics=2, mortal_seconds=0.5, inline_bytes=0, seal_seconds=0.5, readers=1)
HASTY = MORTAL.only(seal_rows=5, seal_seconds=0.3, upkeep_seconds=0.1)
UNSEALED = MORTAL.only(topics=0, seal_seconds=600.0, segment_bytes=8 * KIB, large=0.5)

# ---- credit ------------------------------------------------------------------------------------------------------------


@bug(CUTS.only(cut_every=0.5, sync_seconds=0.05), CROWDED)
def credit_of_a_cancelled_publish_is_reserved_for_ever() -> Generator[None]:
    """Its stream ends while it waits for credit, and when its turn comes nobody is there to give it back."""

    def release(self: Admission, size: int) -> None:
        for turn, _ in self._credit.release(size):
            if not turn.done():
                turn.set_result(None)

    with patch.object(Admission, "_release_credit", release):
        yield


# ---- segments and topics -------------------------------------------------------------------------------------------------


@bug(CALM, MORTAL)
def deleted_topics_are_not_cleared_away() -> Generator[None]:
    """Their extents stay in the catalog, and their segments on the disk, until the next start."""
    with patch.object(Upkeep, "deleted", lambda *_: None):
        yield


@bug(CRASHES.only(crash_every=1.0), MORTAL)
def deleted_topics_are_forgotten_at_load() -> Generator[None]:
    """What a broker had yet to clear away when it died stays."""
    original = Upkeep.__init__

    def made(self: Upkeep, *rooms: Any, trimmed: int, deleted: list[int]) -> None:
        original(self, *rooms, trimmed=trimmed, deleted=[])

    with patch.object(Upkeep, "__init__", made):
        yield


@bug(CALM, UNSEALED)
def unsealed_pages_of_a_deleted_topic_keep_their_segment() -> Generator[None]:
    """What the journal has of the topic counts as used for ever."""
    original = Incarnation.delete_topic

    async def delete(self: Incarnation, topic: Any, now: int) -> None:
        with patch.object(self.usage, "remove_recent", lambda _: None):
            await original(self, topic, now)

    with patch.object(Incarnation, "delete_topic", delete):
        yield


@bug(CALM.only(sync_seconds=0.02), UNSEALED)
def pages_that_land_after_their_topic_is_deleted_keep_their_segment() -> Generator[None]:
    """Their flush was under way when the topic was deleted."""
    original = Commits.committed

    def committed(self: Commits, flush: Any) -> None:
        with patch.object(self._usage, "remove_recent", lambda _: None):
            original(self, flush)

    with patch.object(Commits, "committed", committed):
        yield


@bug(CALM.only(sync_seconds=0.02), HASTY)
def pages_that_are_sealed_while_their_topic_is_being_deleted_keep_their_segment() -> Generator[None]:
    """Its deletion is not durable yet, and then gives up only the pages that are not sealed."""
    original = Switch.sealed

    def sealed(self: Switch, actor: PartitionActor, extent: Extent) -> None:
        if actor.closed is None:
            original(self, actor, extent)
            return
        with patch.object(self._usage, "left_the_index", lambda *_: None):
            original(self, actor, extent)

    with patch.object(Switch, "sealed", sealed):
        yield
