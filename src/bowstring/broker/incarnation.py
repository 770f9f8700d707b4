"""Everything that lives under one epoch: topics, actors, the flusher, caches, credit.

An incarnation is made by loading and ends at the first flush that fails. Nothing of it is mended: whoever waits is told `Unavailable`, the
object is dropped, and a new one is loaded from what is durable (invariant 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bowstring import errors
from bowstring.broker.actor import PartitionActor
from bowstring.broker.caches import Caches, PageCache, TailKey
from bowstring.broker.flusher import Flush, Flusher
from bowstring.broker.loader import Loaded, load, restore_ids
from bowstring.broker.publishing import Publisher
from bowstring.broker.reading import PageReader
from bowstring.broker.steady_clock import SteadyClock
from bowstring.broker.topics import Topic, not_found
from bowstring.core.answers import Answer
from bowstring.core.credit import Credit
from bowstring.core.partition import Partition
from bowstring.ports.catalog import Catalog, TopicRow
from bowstring.ports.clock import Clock
from bowstring.ports.store import Store
from bowstring.settings import Settings

BROKER_NUMBER = 1
PUBLISHERS_MAX = 100_000


class Incarnation:
    """One life of a broker."""

    def __init__(self, loaded: Loaded, *, settings: Settings, clock: Clock, catalog: Catalog, store: Store) -> None:
        self.settings = settings
        self.fence = loaded.fence
        self._clock = clock
        self._store = store
        self._catalog = catalog
        caches = Caches(PageCache(settings.memory_tail_bytes, touch=False), PageCache(settings.memory_pages_bytes, touch=True))
        self._tail = caches.tail
        self.reader = PageReader(store=store, catalog=catalog, caches=caches)
        self.flusher = Flusher(settings=settings, catalog=catalog, store=store, fence=loaded.fence, sequence=loaded.sequence, watcher=self)
        self._credit: Credit[asyncio.Future[None]] = Credit(settings.memory_publish_bytes)
        self._actors: dict[tuple[int, int], PartitionActor] = {}
        self._topics: dict[str, Topic] = {}
        self._topic_ids: dict[int, Topic] = {}
        self._segment_bytes: dict[int, int] = {}
        """Bytes of live pages in each segment, those included that are written and not yet committed."""
        self._publishers: dict[bytes, Publisher] = {}
        self._outstanding: dict[int, asyncio.Future[Answer]] = {}
        self._calls = 0
        self.ended: errors.Error | None = None
        for row in loaded.topics:
            self._add_topic(row, [loaded.partitions[row.id, number] for number in range(row.partitions)])

    @staticmethod
    async def begin(*, settings: Settings, clock: SteadyClock, catalog: Catalog, store: Store) -> Incarnation:
        """Registers a new epoch and loads everything."""
        loaded = await load(catalog, BROKER_NUMBER)
        clock.not_before(max((partition.arrived for partition in loaded.partitions.values()), default=0))
        await store.open(loaded.fence.epoch, loaded.segments())
        incarnation = Incarnation(loaded, settings=settings, clock=clock, catalog=catalog, store=store)
        await restore_ids(loaded.partitions.values(), incarnation.reader)
        return incarnation

    # Topics

    def _add_topic(self, row: TopicRow, partitions: list[Partition]) -> Topic:
        actors = [
            PartitionActor(partition, flusher=self.flusher, clock=self._clock, stored_ids=self.reader.ids) for partition in partitions
        ]
        topic = Topic(row, actors)
        self._topics[row.name] = self._topic_ids[row.id] = topic
        for actor in actors:
            self._actors[row.id, actor.partition.number] = actor
            for segment, size in actor.partition.pages.segments().items():
                self._segment_bytes[segment] = self._segment_bytes.get(segment, 0) + size
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
        made = await self._catalog.create_topic(self.fence, row)
        window = int(Topic(made, []).settings.deduplication * 1_000_000)
        return self._add_topic(made, [Partition(made.id, number, window) for number in range(made.partitions)])

    async def delete_topic(self, topic: Topic, now: int) -> None:
        """Memory stops first, then the transaction, then the answer."""
        gone = errors.TopicNotFound(f"the topic '{topic.row.name}' was deleted.")
        del self._topics[topic.row.name], self._topic_ids[topic.row.id]
        for actor in topic.actors:
            actor.close(gone)
        await self._catalog.delete_topic(self.fence, topic.row.id, now)
        await self._release(topic)

    async def _release(self, topic: Topic) -> None:
        """Segments in which nothing lives any more are used again."""
        empty: list[int] = []
        for actor in topic.actors:
            self._actors.pop((topic.row.id, actor.partition.number))
            for segment, size in actor.partition.pages.segments().items():
                self._segment_bytes[segment] -= size
                if not self._segment_bytes[segment]:
                    del self._segment_bytes[segment]
                    empty.append(segment)
        if empty:
            await self._store.release(empty)

    # Publishing

    def publisher(self, topic: Topic, producer: bytes, stream: int, group: str) -> Publisher:
        """A producer's newer stream fences its older one."""
        older = self._publishers.pop(producer, None)
        if older is not None and older.stream >= stream:
            self._publishers[producer] = older
            raise errors.Unavailable(f"stream {older.stream} of this producer has taken over from {stream}.")
        if older is not None:
            older.fenced.set()
        publisher = Publisher(self, topic.row.id, producer, stream, group)
        self._publishers[producer] = publisher
        return publisher

    def forget_publisher(self, producer: bytes, publisher: Publisher) -> None:
        if self._publishers.get(producer) is publisher:
            del self._publishers[producer]

    async def reserve(self, size: int) -> None:
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

        def settled(_: asyncio.Future[Answer]) -> None:
            del self._outstanding[call]
            self._release_credit(size)

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

    # What the flusher tells

    def written(self, flush: Flush) -> None:
        """The pages are in their segments: from now on those may not be used again."""
        for change, _ in flush.pages:
            self._segment_bytes[change.segment] = self._segment_bytes.get(change.segment, 0) + change.length

    def committed(self, flush: Flush) -> None:
        """The flush is durable: readers see it, and what waited for it goes on."""
        for change, page in flush.pages:
            if (change.topic, change.partition) in self._actors:
                self._tail.put(TailKey(change.topic, change.partition, change.first_offset), page)
            elif change.segment:
                self._segment_bytes[change.segment] -= change.length
        touched: dict[PartitionActor, None] = {}
        for change in flush.changes:
            actor = self._actors.get((change.topic, change.partition))
            if actor is not None:
                touched[actor] = None
                actor.committed(change, flush.sequence)
        for actor in touched:
            actor.wake()

    def end(self, error: errors.Error) -> None:
        """The incarnation is over: everybody who waits is told so."""
        self.ended = error
        for actor in self._actors.values():
            actor.close(error)
        for answer in list(self._outstanding.values()):
            if not answer.done():
                answer.set_exception(error)
