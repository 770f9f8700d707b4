"""Everything that lives under one epoch: topics, actors, the flusher, caches, credit.

An incarnation is made by loading and ends at the first flush that fails. Nothing of it is mended: whoever waits is told `Unavailable`, the
object is dropped, and a new one is loaded from what is durable (invariant 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from bowstring import errors
from bowstring.broker.counters import Counters
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.flusher import Flush, Flusher
from bowstring.broker.log.loader import Loaded, load, restore_ids
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.log.publisher import Publisher
from bowstring.broker.reading.caches import Caches, PageCache, TailKey
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.broker.reading.visibility import Moments
from bowstring.broker.shortage import Shortage, disk_full
from bowstring.broker.steady_clock import SteadyClock
from bowstring.broker.topic_list import TopicList
from bowstring.broker.topics import Topic, TopicSettings, encode_settings, not_found
from bowstring.broker.trusted_clock import TrustedClock
from bowstring.broker.upkeep.cleaner import ALIVE_MIN
from bowstring.broker.upkeep.upkeep import Upkeep
from bowstring.broker.upkeep.usage import Usage
from bowstring.core.answers import Answer
from bowstring.core.changes import Change, Floor
from bowstring.core.credit import Credit
from bowstring.core.partition import Partition
from bowstring.ports.catalog import Catalog, TopicRow
from bowstring.ports.events import Observer
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Edit
from bowstring.ports.store import Store
from bowstring.settings import Settings
from bowstring.store.reserve import Reserve

PUBLISHERS_MAX = 100_000
ROOM_KEPT = 1 << 20
"""Bytes in segments that publishers leave to the sealer; to the cleaner they leave what may live in a segment that it copies."""


class Incarnation:
    """One life of a broker."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        settings: Settings,
        clock: SteadyClock,
        catalog: Catalog,
        store: Store,
        reserve: Reserve | None,
        observer: Observer,
        shortage: Shortage,
        counters: Counters,
    ) -> None:
        self.settings = settings
        self.counters = counters
        counters.incarnations += 1
        self.observer = observer
        self.shortage = shortage
        self.fence = loaded.fence
        self.clock = clock
        self.trusted = TrustedClock(clock)
        self.store = store
        self.catalog = catalog
        self.journal = journal = catalog.journal(loaded.fence)
        self.reserve = reserve
        self.caches = caches = Caches(
            PageCache(settings.memory_tail_bytes, touch=False), PageCache(settings.memory_pages_bytes, touch=True)
        )
        self._tail = caches.tail
        self.extents = Extents(journal=journal, store=store, settings=settings, clock=clock)
        self.reader = PageReader(store=store, journal=journal, broker=loaded.fence.broker, caches=caches, extents=self.extents)
        self.lookups = Lookups(self.reader, self.extents, self.note_damage)
        self.flusher = Flusher(
            settings=settings,
            clock=clock,
            counters=counters,
            journal=journal,
            store=store,
            fence=loaded.fence,
            sequence=loaded.sequence,
            watcher=self,
        )
        self.usage = Usage()
        self.usage.reset_sealed(loaded.usage)
        self._credit: Credit[asyncio.Future[None]] = Credit(settings.memory_publish_bytes)
        self._actors: dict[tuple[int, int], PartitionActor] = {}
        self._topics: dict[str, Topic] = {}
        self._topic_ids: dict[int, Topic] = {}
        self.publishers: dict[bytes, Publisher] = {}
        self._outstanding: dict[int, asyncio.Future[Answer]] = {}
        self._awaited: dict[asyncio.Future[None], None] = {}
        """Commits that calls wait for."""
        self._calls = 0
        self.ended: errors.Error | None = None
        self.topic_list = TopicList(loaded.fence.epoch)
        for row in loaded.topics:
            self._add_topic(row, [loaded.partitions[row.id, n] for n in range(row.partitions) if (row.id, n) in loaded.partitions])
        self.upkeep = Upkeep(self, trimmed=loaded.trimmed, deleted=loaded.deleted)

    @staticmethod
    async def begin(
        *,
        broker: int,
        settings: Settings,
        clock: SteadyClock,
        catalog: Catalog,
        store: Store,
        reserve: Reserve | None,
        observer: Observer,
        shortage: Shortage,
        counters: Counters,
    ) -> Incarnation:
        """Registers a new epoch and loads everything."""
        loaded = await load(catalog, broker)
        clock.not_before(max((partition.arrived for partition in loaded.partitions.values()), default=0))
        await store.open(loaded.fence.epoch, loaded.segments(), loaded.sequence)
        incarnation = Incarnation(
            loaded,
            settings=settings,
            clock=clock,
            catalog=catalog,
            store=store,
            reserve=reserve,
            observer=observer,
            shortage=shortage,
            counters=counters,
        )
        await restore_ids(loaded.partitions.values(), incarnation.reader)
        incarnation.upkeep.start()
        return incarnation

    # Topics

    def _add_topic(self, row: TopicRow, partitions: list[Partition]) -> Topic:
        actors = [PartitionActor(partition, flusher=self.flusher, clock=self.clock, lookups=self.lookups) for partition in partitions]
        topic = Topic(row, actors)
        self._topics[row.name] = self._topic_ids[row.id] = topic
        for actor in actors:
            self._actors[row.id, actor.partition.number] = actor
            self.usage.add_recent(actor.partition.pages.segments())
        self.topic_list.changed()
        return topic

    def topic(self, name: str) -> Topic:
        """Raises TopicNotFound, with the name that was probably meant."""
        topic = self._topics.get(name)
        if topic is None:
            raise not_found(name, self._topics, creates=self.settings.topic_create == "on-publish")
        return topic

    def topic_by_id(self, topic_id: int) -> Topic:
        topic = self._topic_ids.get(topic_id)
        if topic is None:
            raise errors.TopicNotFound("the topic was deleted.")
        return topic

    def topics(self) -> Iterable[Topic]:
        """By name."""
        return (self._topics[name] for name in sorted(self._topics))

    def has_topic(self, name: str) -> bool:
        return name in self._topics

    async def create_topic(self, row: TopicRow) -> Topic:
        """Durable when it returns. Raises TopicExists."""
        made = await self.catalog.create_topic(self.fence, row)
        window = Topic(made, []).settings.window_microseconds
        return self._add_topic(made, [Partition(made.id, number, window) for number in range(made.partitions)])

    async def alter_topic(self, topic: Topic, settings: TopicSettings) -> None:
        """Durable when it returns."""
        await self.catalog.alter_topic(self.fence, topic.row.id, encode_settings(settings))
        topic.alter(settings)

    async def delete_topic(self, topic: Topic, now: int) -> None:
        """Publishing stops first, then the transaction, then reading, then the answer. What it leaves is cleared away later."""
        topic.stop_publishing()
        del self._topics[topic.row.name]
        self.topic_list.changed()
        await self.catalog.delete_topic(self.fence, topic.row.id, now)
        del self._topic_ids[topic.row.id]
        topic.end_reading()
        for actor in topic.actors:
            self._actors.pop((topic.row.id, actor.partition.number))
            self.usage.remove_recent(actor.partition.pages.segments())
        self.upkeep.deleted(topic.row.id)
        self.counters.forget_topic(topic.row.id)

    def moments(self, topic: int) -> Moments:
        """The time that delivering messages of the topic goes by. Raises TopicNotFound."""
        now = self.trusted.now()
        return Moments(now, now - int(self.topic_by_id(topic).settings.retention * 1e6))

    # Where pages are

    def partitions(self) -> list[PartitionActor]:
        """All of them, in no order."""
        return list(self._actors.values())

    def actor(self, topic: int, partition: int) -> PartitionActor | None:
        return self._actors.get((topic, partition))

    def switch(self, actor: PartitionActor, extent: Extent) -> None:
        """Pages were sealed: from here on the extent tells where they are."""
        self.usage.add_sealed(extent.uses)
        self.counters.sealed_pages += extent.pages
        self.counters.sealed_bytes += extent.bytes
        partition = actor.partition
        before = partition.pages.segments()
        partition.sealed(extent.end_offset, partition.sealed_bytes + extent.bytes)
        if actor.closed is None:
            self._left_the_index(partition, before)
        self.extents.forget(partition.topic, partition.number)
        self.upkeep.cleaner.sealed(actor)

    def replaced(self, actor: PartitionActor, old: list[Extent], new: Extent | None) -> None:
        """Extents were rewritten as one, or nothing of them lives: from here on that one tells where pages are."""
        for extent in old:
            self.usage.remove_sealed(extent.uses)
        if new is not None:
            self.usage.add_sealed(new.uses)
        partition = actor.partition
        partition.moved(partition.sealed_bytes - sum(extent.bytes for extent in old) + (new.bytes if new is not None else 0))
        self.extents.forget(partition.topic, partition.number)

    def _left_the_index(self, partition: Partition, before: Mapping[int, int]) -> None:
        after = partition.pages.segments()
        self.usage.remove_recent({segment: size - after.get(segment, 0) for segment, size in before.items()})

    def note_damage(self, partition: Partition, error: Damaged) -> None:
        """Somebody has met with bytes that do not verify."""
        topic = self._topic_ids.get(partition.topic)
        name = topic.row.name if topic is not None else f"#{partition.topic}"
        self.observer.note("page-damaged", topic=name, partition=partition.number, problem=str(error))

    # Publishing

    def publisher(self, topic: Topic, producer: bytes, stream: int, group: str) -> Publisher:
        """A producer's newer stream fences its older one."""
        older = self.publishers.pop(producer, None)
        if older is not None and older.stream >= stream:
            self.publishers[producer] = older
            raise errors.Unavailable(f"stream {older.stream} of this producer has taken over from {stream}.")
        if older is not None:
            older.fenced.set()
        publisher = Publisher(self, topic.row.id, producer, stream, group)
        self.publishers[producer] = publisher
        return publisher

    def forget_publisher(self, producer: bytes, publisher: Publisher) -> None:
        if self.publishers.get(producer) is publisher:
            del self.publishers[producer]

    def check_room(self, size: int) -> None:
        """Raises Full if there is no room for so much on the disk."""
        if not self._has_room(size):
            self.shortage.begin()
            raise disk_full()

    @property
    def reserved_bytes(self) -> int:
        """Bytes of batches that are on their way to the disk."""
        return self._credit.reserved

    @property
    def is_full(self) -> bool:
        """Are publishes refused for lack of room?"""
        return self.shortage.is_on or not self._has_room(1)

    def look_for_room(self) -> None:
        """Notes whether the disk is full, for those who watch."""
        if not self._has_room(1):
            self.shortage.begin()
        elif not self.store.is_short:
            self.shortage.found_room()

    def _has_room(self, size: int) -> bool:
        """There is none if the next segment could not be made, or the catalog has nothing in reserve. Some is left for what makes room
        again."""
        if self.reserve is not None and not self.reserve.held:
            return False
        if not self.store.is_short:
            return True
        kept = int(ALIVE_MIN * max(self.store.segments().values(), default=0)) + ROOM_KEPT
        return self.store.room >= self.flusher.waiting_bytes + size + min(kept, self.settings.segment_bytes_max // 2)

    async def check_fence(self) -> None:
        """Raises Fenced if another incarnation has taken over, of which this one may not have heard: it may give back what we use."""
        await self.journal.edit(Edit())

    async def admit(self, size: int) -> None:
        """Waits for credit. Raises Unavailable when the incarnation ends meanwhile."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._credit.reserve(size, turn):
            return
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release_credit(size)
            raise

    def outstanding(self, size: int) -> asyncio.Future[Answer]:
        """A future for the answer to a batch whose bytes are reserved. They are given back when it is settled."""
        self._calls += 1
        call = self._calls
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._outstanding[call] = answer

        def settled(answer: asyncio.Future[Answer]) -> None:
            del self._outstanding[call]
            self._release_credit(size)
            self.counters.settled(answer)

        answer.add_done_callback(settled)
        return answer

    def _release_credit(self, size: int) -> None:
        for turn, reserved in self._credit.release(size):
            if turn.done():
                self._release_credit(reserved)
            else:
                turn.set_result(None)

    def refuse(self, answer: asyncio.Future[Answer], error: errors.Error) -> None:
        """Refuses, once everything that was decided before is committed: a refusal rests on it as any answer does."""
        if self.ended is not None:
            answer.set_exception(self.ended)
        else:
            self.flusher.answer(lambda: None if answer.done() else answer.set_exception(error))

    async def durable(self) -> None:
        """Waits until everything that was decided up to now is committed. Raises Unavailable when the incarnation ends before."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        commitment = self.flusher.commitment()
        self._awaited[commitment] = None
        try:
            await commitment
        finally:
            del self._awaited[commitment]

    # What the flusher tells

    def written(self, flush: Flush) -> None:
        """The pages are in their segments: from now on those may not be used again."""
        for change, _ in flush.pages:
            self.usage.add_recent({change.segment: change.length})

    def committed(self, flush: Flush) -> None:
        """The flush is durable: readers see it, and what waited for it goes on."""
        for change, page in flush.pages:
            self.counters.topic_bytes[change.topic] += len(page.header) + len(page.body)
            if (change.topic, change.partition) in self._actors:
                self._tail.put(TailKey(change.topic, change.partition, change.first_offset, change.rows), page)
            elif change.segment:
                self.usage.remove_recent({change.segment: change.length})
        touched: dict[PartitionActor, None] = {}
        for change in flush.changes:
            actor = self._actors.get((change.topic, change.partition))
            if actor is not None:
                touched[actor] = None
                self._committed_change(actor, change, flush.sequence)
        for actor in touched:
            actor.wake()
        self.upkeep.sealer.note(flush)

    def _committed_change(self, actor: PartitionActor, change: Change, sequence: int) -> None:
        if isinstance(change, Floor):  # the one change with which pages leave the index
            before = actor.partition.pages.segments()
            actor.committed(change, sequence)
            self._left_the_index(actor.partition, before)
        else:
            actor.committed(change, sequence)

    def end(self, error: errors.Error) -> None:
        """The incarnation is over: everybody who waits is told so."""
        self.ended = error
        self.upkeep.stop()
        for actor in self._actors.values():
            actor.end(error)
        self.topic_list.changed()
        for waiting in (*self._outstanding.values(), *self._awaited):
            if not waiting.done():
                waiting.set_exception(error)
