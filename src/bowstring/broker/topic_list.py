"""Waiting for news of topics without polling: other offsets than the caller knows, or topics that
come or go.

A caller that follows many topics would otherwise ask for all of them again and again. It tells what
it knows. The broker compares, and answers at once, or when a commit, a new topic or a deleted one
makes a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from bowstring.broker.log.log import Log
from bowstring.broker.topics import Topic, TopicFacts

WAIT_SECONDS_MAX = 60.0


class KnownTopic(NamedTuple):
    """A topic as the caller knows it."""

    name: str
    id: int
    ranges_sum: int
    """The sum of its ranges, whose numbers only rise."""


class News(NamedTuple):
    """The news for the caller."""

    edition: int
    topics: list[TopicFacts]
    """Those of the known topics that have other ranges now. Topics that are gone make another
    edition.
    """


async def watch(log: Log, known: Sequence[KnownTopic], edition: int, seconds: float) -> News:
    """Waits for news and returns it; empty when the time is over. Raises the error that ended the
    incarnation.
    """
    event = asyncio.Event()
    alarm = asyncio.create_task(_ring(log, event, min(seconds, WAIT_SECONDS_MAX))) if seconds > 0 else None
    try:
        while True:
            if log.ended is not None:
                raise log.ended.with_traceback(None)
            topics = _watched(log, known)
            changed = [topic.facts() for topic, told in topics if sum(map(sum, topic.ranges)) != told.ranges_sum]
            newest = log.topics.edition
            if changed or edition != newest or alarm is None or alarm.done():
                return News(newest, changed)
            event.clear()
            await _any(log, [topic for topic, _ in topics], event)
    finally:
        if alarm is not None:
            alarm.cancel()
            with suppress(asyncio.CancelledError):
                await alarm


def _watched(log: Log, known: Sequence[KnownTopic]) -> list[tuple[Topic, KnownTopic]]:
    """The topics that are still the ones that the caller knows."""
    found = [(log.topics.topic(told.name), told) for told in known if log.topics.has(told.name)]
    return [(topic, told) for topic, told in found if topic.row.id == told.id]


async def _any(log: Log, topics: Sequence[Topic], event: asyncio.Event) -> None:
    """Waits until something is committed in one of the topics, the list changes, or the event is
    set for another reason.
    """
    actors = [actor for topic in topics for actor in topic.actors]
    log.topics.wake_when_changed(event)
    for actor in actors:
        actor.wake_when_readable(event)
    try:
        await event.wait()
    finally:
        log.topics.forget(event)
        for actor in actors:
            actor.forget(event)


async def _ring(log: Log, event: asyncio.Event, seconds: float) -> None:
    await log.clock.sleep(seconds)
    event.set()
