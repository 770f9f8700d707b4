"""Creating, altering and deleting topics: rare changes of the catalog and of memory together, one at a time."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from bowstring import errors
from bowstring.broker.endings import lost_because
from bowstring.broker.incarnation import Incarnation
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import Topic, TopicFacts, TopicSettings, check_name, check_numbers, dormant_facts, encode_settings
from bowstring.ports.catalog import TopicRow
from bowstring.ports.failures import DiskFull, Fenced, StorageFailed
from bowstring.ports.transport import NOBODY, Caller

T = TypeVar("T")


class TopicAdministration:
    """The topics of one broker, whichever incarnation serves."""

    def __init__(self, serving: Callable[[], Incarnation], surroundings: Surroundings, for_good: Mapping[str, str]) -> None:
        self._serving = serving
        """Gives the incarnation that serves, or raises Unavailable."""
        self._settings = surroundings.settings
        self._clock = surroundings.clock
        self._observer = surroundings.observer
        self._for_good = dict(for_good)
        """The details of an error after which waiting for this broker is useless."""
        self._rare = asyncio.Lock()
        self._transactions: dict[asyncio.Task[Any], None] = {}

    async def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention: float | None = None,
        retention_bytes: int | None = None,
        deduplication: float | None = None,
        exists_ok: bool = False,
        caller: Caller = NOBODY,
    ) -> TopicFacts:
        """Creates a topic, durably. This broker's settings are the defaults."""
        settings = TopicSettings(
            retention=self._settings.topic_retention if retention is None else retention,
            deduplication=self._settings.topic_deduplication if deduplication is None else deduplication,
            retention_bytes=retention_bytes,
        )
        check_name(name)
        check_numbers(partitions, settings, deduplication)

        async def steps(incarnation: Incarnation) -> Topic:
            if incarnation.topics.has(name):
                if exists_ok:
                    return incarnation.topics.topic(name)
                raise errors.TopicExists(f"there is a topic '{name}' already.", hint="Use exists_ok=True if that is fine.")
            row = TopicRow(0, name, partitions, self._clock.now(), encode_settings(settings), None)
            topic = await incarnation.create_topic(row)
            self._observer.note("topic-created", topic=name, partitions=partitions, **_told(topic.settings, caller))
            return topic

        return (await self._transaction(steps)).facts()

    async def alter(
        self,
        name: str,
        *,
        retention: float | None = None,
        retention_bytes: int | None = None,
        deduplication: float | None = None,
        caller: Caller = NOBODY,
    ) -> TopicFacts:
        """Changes what is given, and only that; `retention_bytes=0` means no limit. A retention
        below the deduplication window shortens that too, until the retention is longer again.
        Durable when it returns.
        """

        async def steps(incarnation: Incarnation) -> Topic:
            topic = incarnation.topics.topic(name)
            before = topic.settings
            settings = TopicSettings(
                retention=before.retention if retention is None else retention,
                deduplication=before.deduplication if deduplication is None else deduplication,
                retention_bytes=before.retention_bytes if retention_bytes is None else retention_bytes or None,
            )
            check_numbers(topic.row.partitions, settings, deduplication)
            await incarnation.alter_topic(topic, settings)
            self._observer.note("topic-altered", topic=name, **_told(settings, caller))
            return topic

        return (await self._transaction(steps)).facts()

    async def delete(self, name: str, missing_ok: bool = False, caller: Caller = NOBODY) -> int:
        """Durable when it returns. Gives the id of the topic, 0 if there was none."""

        async def steps(incarnation: Incarnation) -> int:
            if missing_ok and not incarnation.topics.has(name):
                return 0
            incarnation.queues.letters.companions.check_deletion(name)
            topic = incarnation.topics.topic(name)
            messages = sum(actor.partition.messages for actor in topic.actors)
            await incarnation.delete_topic(topic, self._clock.now())
            self._observer.note("topic-deleted", topic=name, messages=messages, client=caller.address)
            return topic.row.id

        return await self._transaction(steps)

    async def _transaction(self, steps: Callable[[Incarnation], Coroutine[None, None, T]]) -> T:
        """A rare change of catalog and memory together. It completes even if its caller goes."""
        task = asyncio.create_task(self._one_by_one(steps))
        self._transactions[task] = None
        task.add_done_callback(self._transaction_done)
        return await asyncio.shield(task)

    def _transaction_done(self, task: asyncio.Task[Any]) -> None:
        """Its error is for its caller; if the caller has gone, the error is dropped."""
        del self._transactions[task]
        if not task.cancelled():
            task.exception()

    async def _one_by_one(self, steps: Callable[[Incarnation], Coroutine[None, None, T]]) -> T:
        """A failure ends the incarnation as a failed flush does: memory may be ahead."""
        async with self._rare:
            incarnation = self._serving()
            try:
                return await steps(incarnation)
            except (DiskFull, Fenced) as failure:
                incarnation.log.flusher.fail(failure)
                raise lost_because(failure) from failure
            except StorageFailed as failure:
                incarnation.log.flusher.fail(failure)
                told = f"the storage failed while this was done, so it may or may not be there: {failure}."
                raise errors.OutcomeUnknown(told, hint="Look once the broker runs again.", details=self._for_good) from failure

    def describe(self, name: str) -> TopicFacts:
        topics = self._serving().topics
        row = topics.dormant_row(name)
        return topics.topic(name).facts() if row is None else dormant_facts(row)

    def list_page(self, pattern: str = "", after: str = "", limit: int = 0) -> tuple[list[TopicFacts], bool]:
        """A page of topics by name, and whether there are more."""
        limit = limit or 1000
        topics = self._serving().topics
        known: dict[str, Topic | TopicRow] = {topic.row.name: topic for topic in topics.all()}
        known |= {row.name: row for row in topics.dormant()}
        names = [name for name in sorted(known) if name > after and fnmatch.fnmatchcase(name, pattern or "*")]
        page = [known[name] for name in names[:limit]]
        return [topic.facts() if isinstance(topic, Topic) else dormant_facts(topic) for topic in page], len(names) > limit


def _told(settings: TopicSettings, caller: Caller) -> dict[str, object]:
    """A topic's settings as an event tells them, and who asked for them."""
    spans = {"retention": settings.retention, "deduplication": settings.window}
    return {**spans, "retention_bytes": settings.retention_bytes, "client": caller.address}
