"""The broker as the gateway sees it, and what happens when an incarnation ends.

    starting ──loaded──► serving ──disk full, fenced──► starting (a new epoch, in the same process)
                            └──────sync or I/O failed──► failed   (the process, or the embedded Broker object, ends)

While there is no incarnation every call is `Unavailable`, which kits repeat. After a failed sync
the broker tries nothing again: what is on the disk is unknown, and only a fresh process that reads
it can tell. Kits go on repeating, because servers are restarted. A broker inside a program is not
restarted: there the error says that the broker has `ended`, and kits raise it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from bowstring import errors
from bowstring.broker import statistics
from bowstring.broker.backup import Backup
from bowstring.broker.endings import START_AGAIN, ended_because, lost_because
from bowstring.broker.incarnation import Incarnation
from bowstring.broker.log.publisher import Publisher, check_producer
from bowstring.broker.reading.fetcher import Fetcher, make_fetcher
from bowstring.broker.reading.selection import EVERYTHING, Selection
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topic_administration import TopicAdministration
from bowstring.ports.failures import DiskFull, Fenced
from bowstring.ports.transport import NOBODY, Caller

T = TypeVar("T")

RETRY_SECONDS = 0.5
"""How long to wait before loading again when the disk is still full."""


class Broker:
    """One broker over a catalog and a store, whose place its caller has opened."""

    def __init__(self, surroundings: Surroundings, *, reclaims: bool = True, starts_again: bool = True) -> None:
        self._surroundings = surroundings
        self.settings = surroundings.settings
        self.clock = surroundings.clock
        """The broker's time, which kits get."""
        self._observer = surroundings.observer
        self._catalog = surroundings.catalog
        self._reserve = surroundings.reserve
        self.cluster = b""
        """16 bytes that name the data."""
        self._reclaims = reclaims
        """After another node has taken over its number it registers again. Otherwise it ends: the
        process that runs it decides what follows."""
        self._starts_again = starts_again
        """Whether it is restarted after a failure, so that waiting for it makes sense."""
        self._backing_up = False
        self._incarnation: Incarnation | None = None
        self._unavailable: errors.Error = errors.Unavailable("the broker is starting.")
        self._serving: asyncio.Task[None] | None = None
        self.topics = TopicAdministration(lambda: self.serving, surroundings, self._for_good)
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Settled with the cause when the broker has ended by itself."""

    # Life

    async def start(self) -> None:
        """Loads the data and serves. Raises what makes that impossible."""
        await self._with_the_reserve(self._catalog.open)
        if self._reserve is not None:
            await self._reserve.hold()
        await self._with_the_reserve(self._begin)
        self.cluster = await self._catalog.cluster()
        self._serving = asyncio.create_task(self._serve())

    async def _with_the_reserve(self, step: Callable[[], Coroutine[None, None, None]]) -> None:
        """A step that gets the reserve to write with if the disk is full. One that was done already
        is not repeated: the catalog that is open would find itself in use.
        """
        try:
            await step()
        except DiskFull:
            if self._reserve is None:
                raise
            await self._reserve.give_up()
            await step()

    async def _begin(self) -> None:
        self._incarnation = await Incarnation.begin(self._surroundings)
        self._surroundings.witness.began(self._incarnation)

    async def _serve(self) -> None:
        """Runs incarnations one after the other until one fails for good."""
        try:
            while True:
                assert self._incarnation is not None
                try:
                    await self._incarnation.log.flusher.run()
                except (DiskFull, Fenced) as failure:
                    self._end(lost_because(failure))
                    if isinstance(failure, Fenced):
                        self._observer.note("fenced")
                        if not self._reclaims:
                            raise
                    else:
                        self._surroundings.shortage.begin()
                    if self._reserve is not None and isinstance(failure, DiskFull):
                        await self._reserve.give_up()
                await self._begin_again()
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            self._end(errors.Unavailable(ended_because(failure), hint=START_AGAIN, details=self._for_good))
            self._observer.note("broker-failed", cause=str(failure), data=self.settings.data)
            self.failed.set_result(failure)

    async def _begin_again(self) -> None:
        """Loads under a new epoch; again and again while the disk is full."""
        begun = self.clock.monotonic()
        while True:
            try:
                await self._begin()
                return self._observer.note("loaded-again", incarnation=self.incarnation, seconds=self.clock.monotonic() - begun)
            except (DiskFull, Fenced) as failure:
                if isinstance(failure, Fenced) and not self._reclaims:
                    raise
                if isinstance(failure, DiskFull):
                    self._surroundings.store.give_space_back()
                await self.clock.sleep(RETRY_SECONDS)

    def _end(self, error: errors.Error) -> None:
        self._unavailable = error
        incarnation, self._incarnation = self._incarnation, None
        if incarnation is not None:
            incarnation.end(error)

    async def stop(self) -> None:
        """Ends well. Producers of publishes under way get `Unavailable` and repeat them."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        self._end(errors.Unavailable("the broker is stopping."))
        await self._surroundings.store.close()
        await self._catalog.close()

    @property
    def serving(self) -> Incarnation:
        """The incarnation that serves. Raises Unavailable if there is none."""
        if self._incarnation is None:
            raise self._unavailable.with_traceback(None)
        return self._incarnation

    @property
    def live(self) -> Incarnation | None:
        """The incarnation that serves, for tests that compare live state with loaded state."""
        return self._incarnation

    @property
    def incarnation(self) -> int:
        """The epoch that serves; it rises with every start."""
        return self.serving.fence.epoch

    def keeping_time(self) -> int:
        """The time that retention and `expires` go by: the broker's, unless its clock has jumped."""
        return self.serving.reading.trusted.now()

    def statistics(self) -> statistics.Statistics:
        """The figures of this moment."""
        return statistics.of(self.serving)

    async def all_statistics(self) -> tuple[statistics.Statistics, statistics.TopicsStatistics]:
        """The same, and figures of single topics and positions. Flushes go on meanwhile."""
        incarnation = self.serving
        topics = await statistics.of_topics(incarnation)
        return statistics.of(incarnation, sum(topic.messages for topic in topics.topics)), topics

    def readiness(self) -> statistics.Readiness:
        """Loaded, and able to commit. With a full disk too: readers and deletions make room."""
        if self.failed.done():
            return statistics.Readiness(False, "failed", f"the broker has ended: {self.failed.result()}")
        incarnation = self._incarnation
        return (
            statistics.Readiness(False, "loading", self._unavailable.message) if incarnation is None else statistics.readiness(incarnation)
        )

    @property
    def _for_good(self) -> dict[str, str]:
        """The details of an error after which waiting for this broker is useless."""
        return {} if self._starts_again else {"ended": "for good"}

    # Backup

    async def backup(self, target: str, proof: str) -> Backup:
        """Begins a backup of everything, to a directory of this host; see `broker.backup`."""
        incarnation = self.serving
        if self._surroundings.archives is None:
            raise errors.NotSupported("this broker keeps everything in memory: there is nothing to back up.")
        if self._backing_up:
            raise errors.Conflict("a backup is being made already.", hint="Wait until it is done.")
        self._backing_up = True
        return Backup(incarnation.log, self._catalog, incarnation.usage, self._surroundings.archives(target), proof, self._backed_up)

    def _backed_up(self) -> None:
        self._backing_up = False

    # Messages

    async def publisher(self, topic: str, producer: bytes, stream: int, group: str, caller: Caller = NOBODY) -> Publisher:
        """A producer's stream. Makes the topic where the settings say so."""
        check_producer(producer, group)
        if not self.serving.topics.has(topic) and self.settings.topic_create == "on-publish":
            await self.topics.create(topic, exists_ok=True, caller=caller)
        incarnation = self.serving
        incarnation.queues.letters.companions.check_publish(topic)
        return incarnation.log.publishers.open(incarnation.topics.topic(topic), producer, stream, group)

    def fetcher(
        self, topic: str, froms: list[tuple[int, int, int]], selection: Selection = EVERYTHING, *, until: int = 0, topic_id: int = 0
    ) -> Fetcher:
        """A reader of ranges (partition, offset, end); end 0 follows for ever, or until a moment.
        With an id only that topic is read.
        """
        incarnation = self.serving
        return make_fetcher(incarnation.reading, incarnation.log.durable, topic, froms, selection, until, topic_id)
