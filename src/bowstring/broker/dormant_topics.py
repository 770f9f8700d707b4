"""Topics that exist and were never used: the companions of subscriptions, mostly, which wait for a dead
letter that may never come.

A dormant topic is a row of the catalog and a name, whatever the number of its partitions, so ten
thousand of them cost a load next to nothing. The first who asks for it by its name, or writes to it,
awakens it: its partitions are made in memory at once, and its rows in the catalog are written before
any flush that follows.

What is done to a topic changes catalog and memory together, so it completes even if its caller goes, and
one step of a name begins when the one before is done.
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
        self._steps: dict[str, asyncio.Task[None]] = {}
        """The last step of each name that is under way."""
        topics.awaken = self.awaken

    async def create(self, row: TopicRow) -> None:
        """There is a topic of this name, durably, when it returns: this one, or one that was created before.
        Raises TopicExists for one that is not known here.
        """
        await self._in_turn(row.name, lambda: self._create(row))

    async def delete(self, name: str, now: int, is_needed: Callable[[], bool]) -> None:
        """A topic of this name is gone, durably, when it returns, unless it was used or is needed by then."""
        await self._in_turn(name, lambda: self._delete(name, now, is_needed))

    async def _create(self, row: TopicRow) -> None:
        if not self._topics.has(row.name):
            self._topics.add_dormant(await self._catalog.create_topic(self._fence, row, dormant=True))

    async def _delete(self, name: str, now: int, is_needed: Callable[[], bool]) -> None:
        row = self._topics.dormant_row(name)
        if row is not None and not is_needed():
            self._topics.remove_dormant(row)
            await self._catalog.delete_topic(self._fence, row.id, now)

    async def _in_turn(self, name: str, step: Callable[[], Coroutine[None, None, None]]) -> None:
        before = self._steps.get(name)

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await step()

        def done(task: asyncio.Task[None]) -> None:
            """Its error is for its caller; if the caller has gone, the error is dropped."""
            if self._steps.get(name) is task:
                del self._steps[name]
            if not task.cancelled():
                task.exception()

        task = self._steps[name] = asyncio.create_task(run())
        task.add_done_callback(done)
        await asyncio.shield(task)

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
