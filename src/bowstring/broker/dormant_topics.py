"""Topics that exist and were never used: the companions of subscriptions, mostly, which wait for a dead
letter that may never come.

A dormant topic is a row of the catalog and a name, whatever the number of its partitions, so ten
thousand of them cost a load next to nothing. The first who asks for it by its name, or writes to it,
awakens it: its partitions are made in memory at once, and its rows in the catalog are written before
any flush that follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from bowstring.broker.endings import lost_because
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.topics import AddTopic, Topic, fresh_partitions
from bowstring.ports.catalog import Catalog, Fence, TopicRow
from bowstring.ports.failures import DiskFull, Fenced


class DormantTopics:
    """The dormant topics of one incarnation."""

    def __init__(self, catalog: Catalog, fence: Fence, topics: TopicTable, add: AddTopic, fail: Callable[[Exception], None]) -> None:
        self._catalog = catalog
        self._fence = fence
        self._topics = topics
        self._add = add
        self._fail = fail
        """Ends the incarnation: memory is ahead of the catalog."""
        self._awakening: dict[int, asyncio.Task[None]] = {}
        """The topics whose rows are being written."""
        topics.awaken = self.awaken

    async def create(self, row: TopicRow) -> None:
        """Durable when it returns. Raises TopicExists."""
        self._topics.add_dormant(await self._catalog.create_topic(self._fence, row, dormant=True))

    async def delete(self, row: TopicRow, now: int) -> None:
        """Durable when it returns."""
        self._topics.remove_dormant(row)
        await self._catalog.delete_topic(self._fence, row.id, now)

    async def or_end(self, steps: Coroutine[None, None, None]) -> None:
        """Does this for a caller. A failure ends the incarnation as a failed flush does: loading
        finishes what is missing.
        """
        try:
            await steps
        except (DiskFull, Fenced) as failure:
            self._fail(failure)
            raise lost_because(failure) from failure

    def awaken(self, row: TopicRow) -> Topic:
        """The topic with its partitions."""
        topic = self._add(row, fresh_partitions(row))
        self._awakening[row.id] = asyncio.create_task(self._write(row.id))
        return topic

    async def _write(self, topic_id: int) -> None:
        try:
            await self._catalog.awaken_topic(self._fence, topic_id)
        except Exception as failure:
            self._fail(failure)
            raise
        del self._awakening[topic_id]

    async def awoken(self, topic: Topic) -> None:
        """Waits until the catalog knows the partitions of a topic. Raises what has failed."""
        writing = self._awakening.get(topic.row.id)
        if writing is not None:
            await asyncio.shield(writing)
