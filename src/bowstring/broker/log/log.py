"""The log of one incarnation: its flusher, the actors of its partitions, and those who wait for
them.
"""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.disk_room import DiskRoom
from bowstring.broker.log.actors import Actors
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.commits import Commits
from bowstring.broker.log.flusher import Flusher
from bowstring.broker.log.loader import Loaded
from bowstring.broker.log.publishers import Publishers
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.journal import Edit, Journal


class Log:
    """Everything that a request needs on its way to its partitions and to the disk."""

    def __init__(self, surroundings: Surroundings, journal: Journal, loaded: Loaded, reading: Reading, usage: Usage) -> None:
        settings, counters = surroundings.settings, surroundings.counters
        self.fence = loaded.fence
        self.clock = surroundings.clock
        self.topics = reading.topics
        self.journal = journal
        self.commits = Commits(topics=self.topics, tail=reading.caches.tail, usage=usage, counters=counters, witness=surroundings.witness)
        self.flusher = Flusher(
            settings=settings,
            clock=self.clock,
            counters=counters,
            journal=journal,
            store=surroundings.store,
            sequence=loaded.sequence,
            watcher=self.commits,
            overlap_bytes=surroundings.tuning.overlap_bytes,
        )
        self.actors = Actors(reading, self.flusher, self.clock, usage)
        self.room = DiskRoom(surroundings, lambda: self.flusher.waiting_bytes)
        self.admission = Admission(bytes_max=settings.memory_publish_bytes, flusher=self.flusher, counters=counters)
        self.publishers = Publishers(
            topics=self.topics,
            admission=self.admission,
            room=self.room,
            clock=self.clock,
            batch_bytes_max=settings.batch_bytes_max,
        )

    @property
    def ended(self) -> errors.Error | None:
        """Why the incarnation is over; None while it serves."""
        return self.admission.ended

    async def durable(self) -> None:
        """Waits until everything that was decided up to now is committed. Raises Unavailable when
        the incarnation ends before.
        """
        await self.admission.durable()

    async def check_fence(self) -> None:
        """Raises Fenced if another incarnation has taken over without this one having heard: it may
        give back what we use.
        """
        await self.journal.edit(Edit())

    def end(self, error: errors.Error) -> None:
        """The incarnation is over: all callers that wait get this error."""
        self.admission.end(error)
        self.actors.end(error)
        self.topics.changed()
