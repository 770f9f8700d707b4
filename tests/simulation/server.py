"""The broker as a process of the simulated world, watched from outside.

The product's own code is put together as `bowstring.server` does it, on simulated ports. What is added looks on: whenever an incarnation
begins, its state is compared with that of the one before (invariant 6), whether that was killed, lost its power, was stopped, met a
full disk or was fenced. Budgets of memory are looked at after every commit (invariant 10), and the labels in everything that is sent to
readers are written down (invariant 13); and what was committed after its deadline must not be acknowledged.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.broker.log import flusher
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.flusher import Flush
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.fetcher import Fetcher
from bowstring.broker.reading.selection import EVERYTHING, Selection
from bowstring.broker.upkeep import coalesced_page, retention, sealer
from bowstring.catalog.sqlite import copy
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import offset_set
from bowstring.core.changes import Append, Floor
from bowstring.gateway.gateway import Gateway
from bowstring.messages.filters import parse
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.ports.transport import Caller, Inbound
from bowstring.store.local import LocalStore
from bowstring.store.reserve import Reserve
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history import checkers
from tests.history.checkers import Violation
from tests.history.events import LABEL
from tests.history.filtering import FILTERS
from tests.simulation.backing_up import PAGES_A_STEP, RealFiles, SimulatedArchive
from tests.simulation.comparing import compare
from tests.simulation.inspection import Inspection
from tests.simulation.load import Load
from tests.simulation.sightings import Sightings

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation, Node
    from tests.simulation.world import World

Key = tuple[bytes, int, int]
"""A batch: producer, partition, number."""

ADDRESS = "broker:27769"
MAY_RAISE = (StorageFailed, Damaged, DiskFull, errors.Error)
"""How the process ends by design: it could not start, or its storage failed."""


class Watch:
    """What is known of the broker over all its incarnations."""

    def __init__(self, world: World, node: Node) -> None:
        assert node.drive is not None
        self.world = world
        self.sightings = Sightings(world)
        self.inspection = Inspection(node.drive, self._expiry)
        self.violations: list[Violation] = []
        self.last: Epoch | None = None
        self.sent: list[tuple[float, frozenset[str]]] = []
        """The labels in every answer to a reader."""
        self.fetched: list[tuple[float, str, frozenset[str]]] = []
        self.filtered: list[tuple[float, str, str, frozenset[str]]] = []
        """When messages were taken for a reader: the topic, and their labels."""
        self.begins: list[float] = []
        """When incarnations began."""
        self.compared = 0
        self._expiries: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """First offsets of batches, and when they expire as a whole, by topic and partition."""
        self._deadlines: dict[Key, int] = {}
        self._late: set[Key] = set()
        self._door = world.source("door")

    def begun(self, epoch: Epoch, sequence: int) -> None:
        """A new incarnation was loaded; the one before is dead, or is fenced and may commit nothing any more."""
        before, self.last = self.last, epoch
        self.begins.append(self.world.loop.time())
        if before is not None:
            self.sightings.ended(before)
            self.compared += 1
            self.violations += compare(before, epoch, sequence)
        for actor in epoch.topics.actors():  # what was committed at the last moment nobody has heard of before
            for entry in actor.partition.pages.state():
                self._expires(actor.partition.topic, actor.partition.number, entry.first_offset, entry.expires)

    def turns_away(self) -> bool:
        """Whether a stream is refused, as by a proxy before the broker."""
        away = self.world.faulty and self._door.random() < self.world.options.turn_away_rate
        if away:
            self.world.fault("turned-away", "broker")
        return away

    def published(self, producer: bytes, request: pb.PublishRequest) -> None:
        """A batch has come in: until when it may be committed."""
        self._deadlines[producer, request.partition, request.number] = request.sent + request.timeout

    def commits(self, flush: Flush, now: int) -> None:
        """A flush is in the catalog, and it is that late by the broker's clock."""
        for change in flush.changes:
            if isinstance(change, Floor):
                self.world.sometimes("floor raised")
                self.world.sometimes("row kept below the floor", bool(change.kept))
                self.world.sometimes("row released below the floor", bool(change.released))
            if isinstance(change, Append) and change.rows:
                self._expires(change.topic, change.partition, change.first_offset, change.expires)
                key = (change.producer, change.partition, change.number)
                if now > self._deadlines.get(key, now):
                    self._late.add(key)

    def _expires(self, topic: int, partition: int, first_offset: int, expires: int) -> None:
        batches = self._expiries.setdefault((topic, partition), [])
        if not batches or batches[-1][0] < first_offset:
            batches.append((first_offset, expires))

    def _expiry(self, topic: int, partition: int, offset: int) -> int:
        batches = self._expiries.get((topic, partition), [])
        at = bisect_right(batches, offset, key=lambda batch: batch[0]) - 1
        return batches[at][1] if at >= 0 else 0

    def acknowledged(self, producer: bytes, answer: pb.PublishAnswer) -> None:
        """An answer goes out. One that repeats an earlier answer may be about a batch whose late commit was found out only at load."""
        key = (producer, answer.partition, answer.number)
        if answer.WhichOneof("outcome") == "stored" and not answer.stored.duplicate and key in self._late:
            case = f"batch {answer.number} of {producer.hex()} in partition {answer.partition} was committed after its deadline"
            self.violations.append(Violation("late_is_not_acknowledged", f"{case}, and acknowledged at {self.world.loop.time():.3f} s"))

    def committed(self, epoch: Epoch) -> None:
        """Budgets, after a commit. One batch may be larger than the whole budget: it is then alone."""
        settings, admission, caches = epoch.surroundings.settings, epoch.log.admission, epoch.reading.caches
        largest = max(settings.memory_publish_bytes, settings.batch_bytes_max if len(admission._outstanding) <= 1 else 0)
        self.violations += checkers.memory_stays_bounded(
            [
                ("batches under way", admission.reserved_bytes, largest),
                ("the tail", caches.tail.bytes, settings.memory_tail_bytes),
                ("pages that were read", caches.pages.bytes, settings.memory_pages_bytes),
            ]
        )

    def answered(self, message: Buffer) -> None:
        labels = labels_in(message)
        if labels:
            self.sent.append((self.world.loop.time(), labels))


def labels_in(data: Buffer) -> frozenset[str]:
    return frozenset(label.decode() for label in set(LABEL.findall(data)))


class WatchedBroker(Broker):
    """Tells the watch of every incarnation that begins, and of every commit."""

    def __init__(self, watch: Watch, **ports: Any) -> None:
        super().__init__(**ports)
        self._watch = watch

    def fetcher(
        self, topic: str, froms: list[tuple[int, int, int]], selection: Selection = EVERYTHING, *, until: int = 0, topic_id: int = 0
    ) -> Fetcher:
        fetcher = super().fetcher(topic, froms, selection, until=until, topic_id=topic_id)
        taken = fetcher.next
        where = next((text for text in FILTERS if parse(text) == selection.where), "")

        async def watched(bytes_max: int) -> list[Fetched]:
            answers = await taken(bytes_max)
            labels = frozenset().union(*(labels_in(answer.data) for answer in answers if answer.data is not None))
            self._watch.fetched.append((self._watch.world.loop.time(), topic, labels))
            if where:
                self._watch.filtered.append((self._watch.world.loop.time(), topic, where, labels))
            return answers

        fetcher.next = watched  # type: ignore[method-assign]
        return fetcher

    async def _begin(self) -> None:
        await super()._begin()
        epoch = self._incarnation
        assert epoch is not None
        self._watch.begun(epoch, epoch.log.flusher._sequence)
        committed = epoch.log.commits.committed

        def watched(flush: Flush) -> None:
            self._watch.commits(flush, self.clock.now())
            committed(flush)
            self._watch.committed(epoch)

        epoch.log.commits.committed = watched  # type: ignore[method-assign]
        self._watch.sightings.follow(epoch)
        catalog: Any = self._catalog._catalog if isinstance(self._catalog, Fencible) else self._catalog
        turn, snapshot = epoch.upkeep._turn, epoch.upkeep.sealer.snapshot

        async def turned() -> None:
            self._watch.inspection.note_time(epoch)
            await turn()
            if self._watch.sightings.has_moved(epoch):
                self._watch.violations += self._watch.inspection.look(epoch, catalog)

        async def taken(actors: Sequence[PartitionActor]) -> None:
            await snapshot(actors)
            self._watch.violations += self._watch.inspection.look_ahead(catalog)

        epoch.upkeep._turn, epoch.upkeep.sealer.snapshot = turned, taken  # type: ignore[method-assign]


class WatchedGateway(Gateway):
    """Looks at what readers are sent."""

    watch: Watch

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        if method == "Publish" and self.watch.turns_away():
            raise errors.LoginRequired("the login has run out.", hint="Log in again.")
        watched = {"Fetch": Overheard, "Publish": Publishes}.get(method)
        await super().stream(method, inbound if watched is None else watched(inbound, self.watch), caller)


class Overheard:
    """`ports.transport.Inbound` of a reader."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch

    async def read(self) -> bytes | None:
        return await self._inbound.read()

    async def write(self, message: Buffer) -> None:
        self._watch.answered(message)
        await self._inbound.write(message)


class Publishes:
    """`ports.transport.Inbound` of a producer."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch
        self._producer = b""

    async def read(self) -> bytes | None:
        message = await self._inbound.read()
        if message is not None:
            request = pb.PublishRequest.FromString(split(message)[0])
            if request.HasField("open"):
                self._producer = request.open.producer
            else:
                self._watch.published(self._producer, request)
        return message

    async def write(self, message: Buffer) -> None:
        self._watch.acknowledged(self._producer, pb.PublishAnswer.FromString(bytes(message)))
        await self._inbound.write(message)


class Fencible:
    """The catalog as one broker object has it. Once another has taken over, this one cannot register again: the old broker is to find out
    that it is fenced, and not to take over in its turn."""

    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog
        self.usurped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    async def register(self, broker: int) -> object:
        if self.usurped:
            await asyncio.get_running_loop().create_future()
        return await self._catalog.register(broker)


class Server:
    """The broker's machine, and the process on it."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.node: Node = world.node("broker", may_raise=MAY_RAISE)
        self.watch = Watch(world, self.node)
        self.address = ADDRESS
        self.files = RealFiles()
        self.catalog: SqliteCatalog | None = None
        """That of the process that runs."""
        self._stopping: asyncio.Event | None = None
        self._usurping: asyncio.Event | None = None
        self._isolating = world.source("isolating")
        flusher.OVERLAP_BYTES = load.overlap_bytes
        coalesced_page.SMALL_BYTES = load.small_bytes
        offset_set.CHUNK_BITS = load.chunk_bits
        sealer.CUT_BYTES, retention.KEPT_SECONDS = load.cut_bytes, load.kept_seconds
        copy.PAGES_A_STEP = PAGES_A_STEP

    def start(self) -> None:
        self.node.start(self._main)

    def stop(self) -> None:
        """In good order, as by SIGTERM."""
        if self.node.alive and self._stopping is not None:
            self._stopping.set()
            self.world.fault("stop", self.node.name)

    def usurp(self) -> None:
        """Another incarnation takes over."""
        if self.node.alive and self._usurping is not None:
            self._usurping.set()

    async def _main(self, life: Incarnation) -> None:
        stopping, self._usurping = asyncio.Event(), None
        life.disk.lock(ADDRESS)
        catalog = SqliteCatalog(
            "catalog.sqlite",
            life.worker(),
            vfs=life.disk.vfs,
            sync_directory=life.disk.sync_directory_now,
            wal_bytes_max=self.load.wal_bytes,
        )
        self.catalog = catalog
        self._count_recycled(life)
        store = LocalStore(
            life.disk,
            segment_bytes_first=self.load.segment_bytes,
            segment_bytes_max=4 * self.load.segment_bytes,
            free_files_max=2,
            clock=life.clock,
        )
        broker, gateway, fencible = await self._broker(life, catalog, store)
        listener = life.listen(ADDRESS, gateway)
        self._stopping, self._usurping = stopping, asyncio.Event()
        while True:
            waits = [asyncio.ensure_future(event.wait()) for event in (stopping, self._usurping)]
            await asyncio.wait([broker.failed, *waits], return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if broker.failed.done():
                failure = broker.failed.result()
                raise StorageFailed(str(failure)) if isinstance(failure, MAY_RAISE) else failure
            if stopping.is_set():
                gateway.close(errors.Unavailable("the broker is stopping."))
                listener.close()
                return await broker.stop()
            self._usurping.clear()
            fencible.usurped = True
            if self._isolating.random() < self.load.isolated:
                for connection in list(self.world.network.connections):
                    connection.break_anyhow()
            busy = broker.live is not None and not broker.live.log.flusher.idle
            broker, gateway, fencible = await self._broker(life, catalog, store, opened=True)
            listener.handler = gateway
            self.world.fault("usurper", life.name, felt=busy)

    async def _broker(
        self, life: Incarnation, catalog: SqliteCatalog, store: LocalStore, *, opened: bool = False
    ) -> tuple[WatchedBroker, WatchedGateway, Fencible]:
        fencible = Fencible(catalog)
        settings = self.load.settings()
        reserve = Reserve(life.disk, size=max(self.load.reserve_bytes, self.load.wal_bytes))
        ports = {"clock": life.clock, "catalog": fencible, "store": store, "reserve": reserve}
        archives = partial(SimulatedArchive, life, self.files)
        broker = WatchedBroker(self.watch, settings=settings, archives=archives, **ports)
        if opened:
            fencible.open = _nothing  # type: ignore[attr-defined]
        await broker.start()
        gateway = WatchedGateway(broker, settings, broker.clock)
        gateway.watch = self.watch
        return broker, gateway, fencible

    def _count_recycled(self, life: Incarnation) -> None:
        rename = life.disk.rename

        def counted(old: str, new: str) -> None:
            rename(old, new)
            if old.startswith("free-"):
                self.world.sometimes("segment recycled")
            if new.startswith("orphan-"):
                self.world.sometimes("segment put aside")

        life.disk.rename = counted  # type: ignore[method-assign]


async def _nothing() -> None:
    """The catalog is open already."""
