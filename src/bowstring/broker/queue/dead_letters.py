"""The dead letters of one incarnation: the topics that they go to, and the one who writes them."""

from __future__ import annotations

import asyncio

from bowstring.broker.dormant_topics import DormantTopics
from bowstring.broker.log.log import Log
from bowstring.broker.queue.companions import Companions
from bowstring.broker.queue.letter_writer import BeginLane, LetterWriter
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import AddTopic
from bowstring.ports.failures import DiskFull


class DeadLetters:
    """Companions, and the writer."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, add_topic: AddTopic, begin_lane: BeginLane) -> None:
        self._fail = log.flusher.fail
        dormant = DormantTopics(surroundings.catalog, log.fence, log.topics, add_topic, self._fail)
        self.companions = Companions(log.topics, dormant, surroundings.settings, surroundings.clock)
        self.writer = LetterWriter(log, reading, self.companions, begin_lane)
        self._finishing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """All subscriptions are known: their companions are made, if they are missing."""
        self._finishing = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        """On a full disk that waits until a companion is needed."""
        try:
            await self.companions.finish()
        except DiskFull:
            return
        except Exception as failure:
            self._fail(failure)

    def stop(self) -> None:
        """The incarnation is over."""
        self.writer.stop()
        if self._finishing is not None:
            self._finishing.cancel()
