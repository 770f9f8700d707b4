"""Planted bugs of what is known and what is kept: loading, deduplication, order, bytes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring import frames
from bowstring.broker import incarnation
from bowstring.broker.incarnation import Incarnation
from bowstring.broker.log import loader, published_batch
from bowstring.broker.log.flusher import Flush, Flusher
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.log.publish_request import PublishBatch
from bowstring.broker.reading import page_reader
from bowstring.broker.reading.caches import TailKey
from bowstring.core import journal, publishing
from bowstring.core.changes import Delete, Reason, Runs
from bowstring.core.decisions import Wait
from bowstring.core.partition import Partition
from bowstring.core.producers import Absent
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store import local
from tests.simulation.bugs_of_flushing import owner
from tests.simulation.load import KIB, Load
from tests.simulation.options import Options
from tests.simulation.planting import CALM, CRASHES, CUTS, FULL, HURRY, IDS, JOURNAL, SEGMENTS, SLOW, bug

STALE = Load(seconds=10.0, mortal_topics=0, tail_bytes=1024 * KIB, readers=4, tight=0.0, usurp_every=0.7).only(
    topics=1, partitions_max=1, producers=5, batches=0.0, pause_seconds=0.02, natural=0.0, isolated=0.0
)

# ---- loading -----------------------------------------------------------------------------------------------------------


@bug(CRASHES, IDS)
def deduplication_is_not_restored() -> Generator[None]:
    """Ids that were published before a restart are not known after it."""

    async def nothing(*_: Any) -> None:
        pass

    with patch.object(incarnation, "restore_ids", nothing):
        yield


@bug(CRASHES, JOURNAL)
def journal_is_replayed_one_row_short() -> Generator[None]:
    """The last flush is forgotten at load."""
    original = loader._replay

    async def replay(journal: Any, registered: Any, *arguments: Any, **named: Any) -> Any:
        last = registered.sequence
        short = registered._replace(sequence=max(registered.trimmed, last - 1))
        return await original(_Short(journal, last), short, *arguments, **named)

    class _Short:
        def __init__(self, journal: Any, last: int) -> None:
            self._journal = journal
            self._last = last

        async def rows(self, after: int, rows_max: int) -> Any:
            return [row for row in await self._journal.rows(after, rows_max) if row.sequence < self._last]

    with patch.object(loader, "_replay", replay):
        yield


@bug(CRASHES.only(slow_rate=0.05, slow_seconds=0.5), HURRY)
def deletions_are_forgotten_at_load() -> Generator[None]:
    """What was taken back before a restart is there after it."""
    decode = journal.decode

    def without(data: bytes) -> Any:
        return [change for change in decode(data) if not isinstance(change, Delete)]

    with patch.object(journal, "decode", without):
        yield


# ---- deduplication and order -------------------------------------------------------------------------------------------


@bug(CUTS, JOURNAL.only(plain=1.0, under_way_max=60, pause_seconds=0.01, batches=0.0, topics=1, partitions_max=1))
def resend_is_stored_out_of_order() -> Generator[None]:
    """A batch is taken whatever batch of its producer came before, and however late."""
    original = publishing.publish

    def publish(partition: Partition, batch: Any, now: int, confirmed: Any = None) -> Any:
        known = partition.producers.get(batch.producer)
        if known is not None and batch.number < known.last and known.find(batch.number) is Absent.PASSED_OVER:
            known.last = batch.number - 1
        return original(partition, batch._replace(previous=known.last if known is not None else 0), now, confirmed)

    with patch.object(publishing, "publish", publish):
        yield


@bug(CUTS.only(cut_rate=0.02, cut_every=0.5, slow_rate=0.1, slow_seconds=0.5), JOURNAL)
def a_repeated_batch_is_decided_a_second_time_after_it_has_waited() -> Generator[None]:
    """A resend waits for the commit of its first copy, and is then taken for a batch that nobody knows."""
    original, waited = PublishBatch.decide, set[PublishBatch]()

    def decide(self: PublishBatch, partition: Partition, now: int, found: Any) -> Any:
        known = partition.producers.get(self.publish.producer)
        if self in waited and known is not None:
            self.publish = self.publish._replace(number=known.last + 1, previous=known.last)
        decision = original(self, partition, now, found)
        if isinstance(decision, Wait):
            waited.add(self)
        return decision

    with patch.object(PublishBatch, "decide", decide):
        yield


@bug(SLOW, HURRY.only(natural=1.0, ids=15, repeats=1.0))
def ids_of_a_late_batch_are_not_freed() -> Generator[None]:
    """A message that was taken back keeps its id: the next one is called a duplicate of nothing."""
    original = Partition.delete

    def delete(self: Partition, runs: Runs, _: Reason) -> Delete:
        return original(self, runs, Reason.OWNER)

    with patch.object(Partition, "delete", delete):
        yield


@bug(CALM, IDS.only(batches=1.0, batch_rows_max=10))
def an_id_twice_in_one_batch_is_stored_twice() -> Generator[None]:
    """Rows are compared with what is stored, and not with each other."""
    original = published_batch._ids

    def ids(column: Any, partition: int) -> Any:
        return original(column, partition)._replace(firsts=None)

    with patch.object(published_batch, "_ids", ids):
        yield


@bug(CALM, IDS)
def same_hash_is_taken_for_the_same_id() -> Generator[None]:
    """A hit is not compared with the stored id; hashes have three bits here, so that they meet."""
    original = published_batch.id_hashes

    async def compared(self: Lookups, partition: Partition, hits: Any, texts: Any) -> Any:
        return hits, np.full(len(hits.rows), partition.arrived, np.int64)

    few = lambda column: original(column) & np.uint64(7)  # noqa: E731
    with (
        patch.object(Lookups, "_compared", compared),
        patch.object(published_batch, "id_hashes", few),
        patch.object(loader, "id_hashes", few),
    ):
        yield


# ---- bytes -------------------------------------------------------------------------------------------------------------


@bug(Options(bit_flip_rate=0.05), SEGMENTS)
def checksum_is_not_verified() -> Generator[None]:
    """Pages are served as they were read."""

    def extend(checksum: int, buffer: Buffer) -> int:
        return 0

    with patch.object(frames, "_extend", extend):
        yield


@bug(FULL.only(full_every=2.0), STALE)
def tail_cache_is_stale() -> Generator[None]:
    """Pages go into the tail when they are written, and the tail outlives the incarnation: it has pages of flushes that failed."""
    tails: list[Any] = []
    original, take = Incarnation.__init__, Flusher._take

    def made(self: Incarnation, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        tails.append(self.reading.caches.tail)
        self.log.commits._tail = tails[0]
        self.reading.reader._caches = self.reading.caches._replace(tail=tails[0])

    def taken(self: Flusher) -> Flush:
        flush = take(self)
        for change, page in flush.pages:
            owner(self)._tail.put(TailKey(change.topic, change.partition, change.first_offset, change.rows), page)
        return flush

    with patch.object(Incarnation, "__init__", made), patch.object(Flusher, "_take", taken):
        yield


@bug(CALM, SEGMENTS.only(seconds=30.0, topics=2, mortal_topics=2, partitions_max=2))
def segment_is_reused_while_a_page_lives_in_it() -> Generator[None]:
    """When a topic is deleted all its segments are reused, also those that others have pages in."""
    with _released_too_early():
        yield


@bug(CALM, SEGMENTS.only(seconds=30.0, topics=2, mortal_topics=2, partitions_max=2, large=0.0, value_bytes=30, batches=0.0))
def old_bytes_of_a_recycled_segment_are_served() -> Generator[None]:
    """Whatever good frame is found at a place is taken for the page that was meant."""
    original = frames.verify

    def verify(data: Buffer, reference: Reference) -> Page:
        header = frames.header_of(data)
        if header.length > len(data):
            raise Damaged("there is no frame")
        return original(data, Reference(header.segment, reference.position, header.length, header.sequence))

    with (
        _released_too_early(),
        patch.object(local, "verify", verify),
        patch.object(page_reader.PageReader, "_check", lambda *_: None),
    ):
        yield


@contextmanager
def _released_too_early() -> Generator[None]:
    original = Incarnation.delete_topic

    async def delete(self: Incarnation, topic: Any, now: int) -> None:
        segments = {segment for each in topic.actors for segment in each.partition.pages.segments()}
        await original(self, topic, now)
        await self.surroundings.store.release(sorted(segments))

    with patch.object(Incarnation, "delete_topic", delete):
        yield
