"""The reading room of one incarnation: caches, extents, the page reader, and the clock of delivery."""

from __future__ import annotations

from bowstring.broker.reading.caches import caches_of
from bowstring.broker.reading.due_times import DueTimes
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.broker.reading.sealed_ids import SealedIds
from bowstring.broker.reading.visibility import Moments
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.trusted_clock import TrustedClock
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Journal


class Reading:
    """What readers, and all who look something up, share."""

    def __init__(self, surroundings: Surroundings, journal: Journal, topics: TopicTable) -> None:
        settings, store = surroundings.settings, surroundings.store
        self.topics = topics
        self.clock = surroundings.clock
        self.trusted = TrustedClock(surroundings.clock)
        self.counters = surroundings.counters
        self.witness = surroundings.witness
        self._observer = surroundings.observer
        self.caches = caches_of(settings.memory_tail_bytes, settings.memory_pages_bytes)
        self.extents = Extents(journal=journal, store=store, settings=settings)
        self.sealed_ids = SealedIds(extents=self.extents, clock=surroundings.clock, bytes_max=settings.memory_ids_bytes)
        self.reader = PageReader(store=store, journal=journal, caches=self.caches, extents=self.extents, witness=surroundings.witness)
        self.due_times = DueTimes(extents=self.extents, reader=self.reader, bytes_max=settings.memory_index_bytes // 4)

    def moments(self, topic: int, longer: int | None = 0) -> Moments:
        """The time by which messages of the topic are delivered: `longer` than its retention, in
        microseconds; None for ever. Raises TopicNotFound.
        """
        now, retention = self.trusted.now(), int(self.topics.by_id(topic).settings.retention * 1e6)
        return Moments(now, 0 if longer is None else max(0, now - retention - longer))

    def note_damage(self, partition: Partition, error: Damaged) -> None:
        """Tells the observer of bytes that do not verify."""
        name = self.topics.name_of(partition.topic)
        self._observer.note("page-damaged", topic=name, partition=partition.number, problem=str(error))
