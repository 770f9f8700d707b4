"""Planted bugs of what a reader's kit hands out: rows that were sent ahead, and are over or deleted when their turn comes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring import errors
from bowstring.broker.reading.notices import Notices
from bowstring.client.broker_time import BrokerTime
from bowstring.client.client import OpenReaders
from bowstring.client.freshness import Freshness
from bowstring.client.pages import NEVER, Chunk, FetchedPage
from bowstring.client.read_ahead import ReadAhead
from bowstring.client.reader import Reader
from bowstring.client.topic_stream import TopicStream
from tests.simulation.planting import CALM, CUTS, SEALING, bug

DAWDLING = SEALING.only(seconds=12.0, topics=1, readers=0, slow=3, producers=2, plain=0.0, partitions_max=2, large=0.0)
EXPIRING = DAWDLING.only(expiring=0.9)
BRIEF = DAWDLING.only(topics=0, brief_topics=1, retention_seconds=2.0)
DELETING = DAWDLING.only(deletes=0.5, natural=0.5, ids=300)
MORTAL = DAWDLING.only(topics=0, mortal_topics=1, mortal_seconds=3.0)


# ---- time --------------------------------------------------------------------------------------------------------------


@bug(CALM, EXPIRING)
def kit_hands_out_what_has_expired() -> Generator[None]:
    """Only the broker looks at `expires`."""
    with (
        patch.object(FetchedPage, "expires_from", NEVER),
        patch.object(FetchedPage, "expiries", property(lambda self: np.full(self.rows, NEVER))),
    ):
        yield


@bug(CALM, BRIEF)
def kit_hands_out_what_is_too_old() -> Generator[None]:
    """Only the broker looks at the retention."""
    with patch.object(TopicStream, "kept_for", lambda self, retention: None):
        yield


@bug(CALM.only(drift=0.01, jump_every=2.0, jump_seconds=20.0), EXPIRING.only(brief_topics=1))
def kit_goes_by_its_own_clock() -> Generator[None]:
    """Its machine's clock says what is over, and not the broker's."""
    with patch.object(BrokerTime, "keeping", lambda self: self._clock.now()):
        yield


@bug(CALM.only(jump_every=2.0, jump_seconds=3000.0), EXPIRING.only(brief_topics=1, expiring=0.3))
def kit_follows_a_brokers_clock_that_has_jumped() -> Generator[None]:
    """What is over goes by the clock that publishes go by."""
    with patch.object(BrokerTime, "keeping", lambda self: self.now()):
        yield


@bug(CALM, BRIEF.only(retention_seconds=4.0, alter_every=1.0))
def kit_is_not_told_of_another_retention() -> Generator[None]:
    """What it was told when it began counts for ever."""
    with patch.object(Notices, "altered", lambda self: None):
        yield


@bug(CALM, EXPIRING)
def rows_in_the_hand_are_not_looked_at_again() -> Generator[None]:
    """What `for` has begun is handed out, however long that takes."""
    with patch.object(Reader, "_may_hand_out", lambda self, message: True), patch.object(ReadAhead, "fresh", lambda self, chunk: chunk):
        yield


# ---- deletions ---------------------------------------------------------------------------------------------------------


@bug(CALM, DELETING)
def a_notice_of_a_deletion_is_lost() -> Generator[None]:
    """Readers are not told what is deleted of the messages that they were sent."""
    with patch.object(Notices, "deleted", lambda self, actor, runs: None):
        yield


@bug(CALM, DELETING)
def a_notice_is_not_applied_to_what_has_come() -> Generator[None]:
    """Rows that wait are handed out all the same."""
    with patch.object(Freshness, "deleted", lambda self, partition, runs, passed: None):
        yield


@bug(CUTS, DELETING)
def a_readers_own_client_deletes_behind_its_back() -> Generator[None]:
    """Only the broker tells readers of deletions, and that may take a while."""
    with patch.object(OpenReaders, "deleted", lambda self, topic, topic_id, places: None):
        yield


@bug(CALM, DELETING)
def a_notice_names_the_row_behind() -> Generator[None]:
    """Another row is dropped, which nobody has deleted."""
    original = Freshness.deleted

    def deleted(self: Freshness, partition: int, runs: Any, passed: int) -> None:
        original(self, partition, [(offset + 1, rows) for offset, rows in runs], passed)

    with patch.object(Freshness, "deleted", deleted):
        yield


@bug(CALM, DELETING)
def the_rows_behind_speak_for_the_one_in_hand() -> Generator[None]:
    """When the last rows of a page were compared with the deletions, all of the page counts as compared."""
    original = Freshness.sifted

    def sifted(self: Freshness, chunk: Chunk) -> Chunk | None:
        version, rest = self._version, original(self, chunk)
        if rest is None or rest.rows < chunk.rows or chunk.first + chunk.rows < chunk.page.rows:
            return rest
        chunk.page.sifted = version
        return chunk

    with patch.object(Freshness, "sifted", sifted):
        yield


# ---- topics ------------------------------------------------------------------------------------------------------------


@bug(CALM, MORTAL)
def a_deleted_topics_reader_goes_on() -> Generator[None]:
    """What has come is handed out before it is told that there is no more."""

    def came(self: ReadAhead, chunk: Any) -> None:
        original(self, chunk)
        self._is_deleted = False

    original = ReadAhead._came
    with patch.object(ReadAhead, "_came", came):
        yield


@bug(CALM, MORTAL)
def a_reader_goes_on_in_the_topic_that_was_made_again() -> Generator[None]:
    """To a reader a topic is its name."""
    run = TopicStream._serve

    async def serve(self: TopicStream) -> None:
        try:
            self.topic_id = 0
            await run(self)
        except errors.TopicNotFound:
            raise errors.Unavailable("the topic will be back.") from None
        except errors.OutOfRange:
            self._received = dict.fromkeys(self._received, 1)
            raise errors.Unavailable("it is back.") from None

    async def unchecked(self: TopicStream) -> None:
        return

    with patch.object(TopicStream, "_serve", serve), patch.object(TopicStream, "_check_topic", unchecked):
        yield
