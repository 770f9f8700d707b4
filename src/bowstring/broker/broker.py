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
import fnmatch
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from bowstring import errors
from bowstring.broker import statistics
from bowstring.broker.backup import Backup
from bowstring.broker.counters import Counters
from bowstring.broker.endings import START_AGAIN, ended_because, lost_because
from bowstring.broker.incarnation import Incarnation
from bowstring.broker.log.publisher import Publisher
from bowstring.broker.reading.fetcher import Fetcher, make_fetcher
from bowstring.broker.reading.selection import EVERYTHING, Selection
from bowstring.broker.shortage import Shortage, disk_full
from bowstring.broker.statistics import Statistics, TopicsStatistics
from bowstring.broker.steady_clock import SteadyClock
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.topics import Topic, TopicFacts, TopicSettings, check_name, check_numbers, encode_settings
from bowstring.broker.tuning import Tuning
from bowstring.broker.witness import UNWITNESSED, Witness
from bowstring.messages.limits import NAME_BYTES_MAX
from bowstring.ports.archive import Archive
from bowstring.ports.catalog import Catalog, TopicRow
from bowstring.ports.clock import Clock
from bowstring.ports.events import UNOBSERVED, Observer
from bowstring.ports.failures import DiskFull, Fenced, StorageFailed
from bowstring.ports.store import Store
from bowstring.ports.transport import NOBODY, Caller
from bowstring.settings import Settings
from bowstring.store.reserve import Reserve

T = TypeVar("T")

STUCK_SECONDS = 10.0
"""A flush that takes longer than this says that the disk hangs."""
RETRY_SECONDS = 0.5
"""How long to wait before loading again when the disk is still full."""


class Readiness(NamedTuple):
    """Whether a broker can do its work, and if not, why."""

    ready: bool
    state: str
    """serving, full (publishes are refused), loading, stuck, failed or stopping."""
    reason: str = ""


class Broker:
    """One broker over a catalog and a store, whose place its caller has opened."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        catalog: Catalog,
        store: Store,
        reserve: Reserve | None = None,
        archives: Callable[[str], Archive] | None = None,
        observer: Observer = UNOBSERVED,
        witness: Witness = UNWITNESSED,
        tuning: Tuning | None = None,
        number: int = 1,
        starts_again: bool = True,
    ) -> None:
        self.settings = settings
        self.clock = SteadyClock(clock)
        """The broker's time, which kits get."""
        self._observer = observer
        self._shortage = Shortage(observer, self.clock)
        self.cluster = b""
        """16 bytes that name the data."""
        self._catalog = catalog
        self._store = store
        self._reserve = reserve
        """Space for the catalog, on a disk that can be full."""
        self._archives = archives
        """Makes a backup in a directory of this host, where there is something to back up."""
        self._starts_again = starts_again
        """Whether it is restarted after a failure, so that waiting for it makes sense."""
        self._backing_up = False
        self._surroundings = Surroundings(
            settings=settings,
            clock=self.clock,
            catalog=catalog,
            store=store,
            reserve=reserve,
            observer=observer,
            shortage=self._shortage,
            counters=Counters(),
            witness=witness,
            tuning=tuning or Tuning(),
            number=number,
        )
        self._incarnation: Incarnation | None = None
        self._unavailable: errors.Error = errors.Unavailable("the broker is starting.")
        self._serving: asyncio.Task[None] | None = None
        self._rare = asyncio.Lock()
        self._transactions: dict[asyncio.Task[Any], None] = {}
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
                    else:
                        self._shortage.begin()
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
            except (DiskFull, Fenced):
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
        await self._store.close()
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

    def statistics(self) -> Statistics:
        """The figures of this moment."""
        return statistics.of(self.serving)

    async def all_statistics(self) -> tuple[Statistics, TopicsStatistics]:
        """The same, and figures of single topics and positions. Flushes go on meanwhile."""
        incarnation = self.serving
        topics = await statistics.of_topics(incarnation)
        return statistics.of(incarnation, sum(topic.messages for topic in topics.topics)), topics

    def readiness(self) -> Readiness:
        """Loaded, and able to commit. With a full disk too: readers and deletions make room."""
        if self.failed.done():
            return Readiness(False, "failed", f"the broker has ended: {self.failed.result()}")
        incarnation = self._incarnation
        if incarnation is None:
            return Readiness(False, "loading", self._unavailable.message)
        seconds = incarnation.log.flusher.oldest_seconds
        if seconds > STUCK_SECONDS:
            return Readiness(False, "stuck", f"a flush has been under way for {seconds:.0f} s: the disk hangs.")
        return Readiness(True, "full", disk_full().message) if incarnation.log.room.is_full else Readiness(True, "serving")

    # Topics

    async def create_topic(
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
            retention=self.settings.topic_retention if retention is None else retention,
            deduplication=self.settings.topic_deduplication if deduplication is None else deduplication,
            retention_bytes=retention_bytes,
        )
        check_name(name)
        check_numbers(partitions, settings, deduplication)

        async def create(incarnation: Incarnation) -> Topic:
            if incarnation.topics.has(name):
                if exists_ok:
                    return incarnation.topics.topic(name)
                raise errors.TopicExists(f"there is a topic '{name}' already.", hint="Use exists_ok=True if that is fine.")
            row = TopicRow(0, name, partitions, self.clock.now(), encode_settings(settings), None)
            topic = await incarnation.create_topic(row)
            self._observer.note("topic-created", topic=name, partitions=partitions, **_told(topic.settings, caller))
            return topic

        return (await self._transaction(create)).facts()

    async def alter_topic(
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

        async def alter(incarnation: Incarnation) -> Topic:
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

        return (await self._transaction(alter)).facts()

    async def delete_topic(self, name: str, missing_ok: bool = False, caller: Caller = NOBODY) -> int:
        """Durable when it returns. Gives the id of the topic, 0 if there was none."""

        async def delete(incarnation: Incarnation) -> int:
            if missing_ok and not incarnation.topics.has(name):
                return 0
            topic = incarnation.topics.topic(name)
            messages = sum(actor.partition.messages for actor in topic.actors)
            await incarnation.delete_topic(topic, self.clock.now())
            self._observer.note("topic-deleted", topic=name, messages=messages, client=caller.address)
            return topic.row.id

        return await self._transaction(delete)

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
            incarnation = self.serving
            try:
                return await steps(incarnation)
            except (DiskFull, Fenced) as failure:
                incarnation.log.flusher.fail(failure)
                raise lost_because(failure) from failure
            except StorageFailed as failure:
                incarnation.log.flusher.fail(failure)
                told = f"the storage failed while this was done, so it may or may not be there: {failure}."
                raise errors.OutcomeUnknown(told, hint="Look once the broker runs again.", details=self._for_good) from failure

    @property
    def _for_good(self) -> dict[str, str]:
        """The details of an error after which waiting for this broker is useless."""
        return {} if self._starts_again else {"ended": "for good"}

    def describe_topic(self, name: str) -> TopicFacts:
        return self.serving.topics.topic(name).facts()

    def list_topics(self, pattern: str = "", after: str = "", limit: int = 0) -> tuple[list[TopicFacts], bool]:
        """A page of topics by name, and whether there are more."""
        limit = limit or 1000
        names = [
            topic for topic in self.serving.topics.all() if topic.row.name > after and fnmatch.fnmatchcase(topic.row.name, pattern or "*")
        ]
        return [topic.facts() for topic in names[:limit]], len(names) > limit

    # Backup

    async def backup(self, target: str, proof: str) -> Backup:
        """Begins a backup of everything, to a directory of this host; see `broker.backup`."""
        incarnation = self.serving
        if self._archives is None:
            raise errors.NotSupported("this broker keeps everything in memory: there is nothing to back up.")
        if self._backing_up:
            raise errors.Conflict("a backup is being made already.", hint="Wait until it is done.")
        self._backing_up = True
        return Backup(incarnation.log, self._catalog, incarnation.usage, self._archives(target), proof, self._backed_up)

    def _backed_up(self) -> None:
        self._backing_up = False

    # Messages

    async def publisher(self, topic: str, producer: bytes, stream: int, group: str, caller: Caller = NOBODY) -> Publisher:
        """A producer's stream. Makes the topic where the settings say so."""
        if len(producer) != 16:
            raise errors.InvalidArgument(f"a producer id has 16 bytes, this one has {len(producer)}.")
        if not 1 <= len(group) <= NAME_BYTES_MAX:
            raise errors.InvalidArgument(f"a producer group has 1 to {NAME_BYTES_MAX} characters, this one has {len(group)}.")
        if not self.serving.topics.has(topic) and self.settings.topic_create == "on-publish":
            await self.create_topic(topic, exists_ok=True, caller=caller)
        incarnation = self.serving
        return incarnation.log.publishers.open(incarnation.topics.topic(topic), producer, stream, group)

    def fetcher(
        self, topic: str, froms: list[tuple[int, int, int]], selection: Selection = EVERYTHING, *, until: int = 0, topic_id: int = 0
    ) -> Fetcher:
        """A reader of ranges (partition, offset, end); end 0 follows for ever, or until a moment.
        With an id only that topic is read.
        """
        incarnation = self.serving
        return make_fetcher(incarnation.reading, incarnation.log.durable, topic, froms, selection, until, topic_id)


def _told(settings: TopicSettings, caller: Caller) -> dict[str, object]:
    """A topic's settings as an event tells them, and who asked for them."""
    spans = {"retention": settings.retention, "deduplication": settings.window}
    return {**spans, "retention_bytes": settings.retention_bytes, "client": caller.address}
