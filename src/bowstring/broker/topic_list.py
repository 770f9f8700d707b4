"""Waiting for news of topics: other offsets than the caller knows, or topics that come or go. No polling.

A caller that follows many topics would otherwise ask for all of them again and again. It tells what it knows, the broker compares, and
answers at once or when a commit, a new topic or a deleted one makes a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from bowstring.broker.topics import Topic, TopicFacts

if TYPE_CHECKING:
    from bowstring.broker.incarnation import Incarnation

WAIT_SECONDS_MAX = 60.0


class TopicList:
    """The list of topics as something that has editions: another number whenever a topic is made or deleted, and after a restart."""

    def __init__(self, epoch: int) -> None:
        self.edition = (epoch << 32) + 1
        self._waiting: list[asyncio.Event] = []

    def changed(self) -> None:
        """A topic was made or deleted, or all of this is over."""
        self.edition += 1
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            event.set()

    def wake_when_changed(self, event: asyncio.Event) -> None:
        """Sets the event once."""
        self._waiting.append(event)

    def forget(self, event: asyncio.Event) -> None:
        """The caller does not wait any more."""
        if event in self._waiting:
            self._waiting.remove(event)


class KnownTopic(NamedTuple):
    """A topic as the caller knows it."""

    name: str
    id: int
    ranges_sum: int
    """The sum of its ranges, whose numbers only rise."""


class News(NamedTuple):
    """What the caller does not know."""

    edition: int
    topics: list[TopicFacts]
    """Those of the known topics that have other ranges now. Topics that are gone make another edition."""


async def watch(incarnation: Incarnation, known: Sequence[KnownTopic], edition: int, seconds: float) -> News:
    """What is new, as soon as something is; nothing when the time is over. Raises what the incarnation has ended with."""
    event = asyncio.Event()
    alarm = asyncio.create_task(_ring(incarnation, event, min(seconds, WAIT_SECONDS_MAX))) if seconds > 0 else None
    try:
        while True:
            if incarnation.ended is not None:
                raise incarnation.ended.with_traceback(None)
            topics = _watched(incarnation, known)
            changed = [topic.facts() for topic, told in topics if sum(map(sum, topic.ranges)) != told.ranges_sum]
            now = incarnation.topic_list.edition
            if changed or edition != now or alarm is None or alarm.done():
                return News(now, changed)
            event.clear()
            await _any(incarnation, [topic for topic, _ in topics], event)
    finally:
        if alarm is not None:
            alarm.cancel()
            with suppress(asyncio.CancelledError):
                await alarm


def _watched(incarnation: Incarnation, known: Sequence[KnownTopic]) -> list[tuple[Topic, KnownTopic]]:
    """The topics that are still the ones that the caller knows."""
    found = [(incarnation.topic(told.name), told) for told in known if incarnation.has_topic(told.name)]
    return [(topic, told) for topic, told in found if topic.row.id == told.id]


async def _any(incarnation: Incarnation, topics: Sequence[Topic], event: asyncio.Event) -> None:
    """Waits until there may be something else to read in one of the topics, the list changes, or the event is set for another reason."""
    actors = [actor for topic in topics for actor in topic.actors]
    incarnation.topic_list.wake_when_changed(event)
    for actor in actors:
        actor.wake_when_readable(event)
    try:
        await event.wait()
    finally:
        incarnation.topic_list.forget(event)
        for actor in actors:
            actor.forget(event)


async def _ring(incarnation: Incarnation, event: asyncio.Event, seconds: float) -> None:
    await incarnation.clock.sleep(seconds)
    event.set()
