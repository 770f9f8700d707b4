"""Notifies each part of the broker of a committed flush, in a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from bowstring.broker.counters import Counters
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.flusher import Flush
from bowstring.broker.reading.caches import PageCache, TailKey
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.upkeep.usage import Usage
from bowstring.broker.witness import Witness
from bowstring.core.changes import Change, Floor


class Commits:
    """The flusher's watcher: pages go to the tail, changes to their actors, then those who wait are
    woken.
    """

    def __init__(self, *, topics: TopicTable, tail: PageCache[TailKey], usage: Usage, counters: Counters, witness: Witness) -> None:
        self._topics = topics
        self._tail = tail
        self._usage = usage
        self._counters = counters
        self._witness = witness
        self.told: list[Callable[[Flush], None]] = []
        """Called with every committed flush when everything else is done."""

    def written(self, flush: Flush) -> None:
        """The pages are in their segments: from now on those may not be used again."""
        lengths: Counter[int] = Counter()
        for change, _ in flush.pages:
            lengths[change.segment] += change.length
        self._usage.add_recent(lengths)

    def committed(self, flush: Flush) -> None:
        """The flush is durable: readers see it, and what waited for it goes on."""
        self._witness.landed(flush)
        for change, page in flush.pages:
            self._counters.topic_bytes[change.topic] += len(page.header) + len(page.body)
            if self._topics.actor(change.topic, change.partition) is not None:
                self._tail.put(TailKey(change.topic, change.partition, change.first_offset, change.rows), page)
            elif change.segment:
                self._usage.remove_recent({change.segment: change.length})
        touched: dict[PartitionActor, None] = {}
        for change in flush.changes:
            actor = self._topics.actor(change.topic, change.partition)
            if actor is not None:
                touched[actor] = None
                self._committed_change(actor, change, flush.sequence)
        for actor in touched:
            actor.flushed()
        for tell in self.told:
            tell(flush)
        self._witness.committed(flush)
        for actor in touched:
            actor.answer_publishes()

    def _committed_change(self, actor: PartitionActor, change: Change, sequence: int) -> None:
        if isinstance(change, Floor):  # the one change with which pages leave the index
            before = actor.partition.pages.segments()
            actor.committed(change, sequence)
            self._usage.left_the_index(before, actor.partition.pages.segments())
        else:
            actor.committed(change, sequence)
