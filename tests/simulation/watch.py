"""What is known of the broker over all its incarnations, and the witness through which it is seen.

Whenever an incarnation begins, its state is compared with that of the one before (invariant 6), whether that was killed, lost its power,
was stopped, met a full disk or was fenced. Budgets of memory are looked at after every commit (invariant 10), and the labels in
everything that is sent to readers are written down (invariant 13); and what was committed after its deadline must not be acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.broker.log.flusher import Flush
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.witness import Witness
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core.changes import Append, Floor
from bowstring.core.decisions import Found
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.messages.filters import Filter, parse
from bowstring.ports.disk import Buffer
from bowstring.ports.extents import Extent
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history import checkers
from tests.history.checkers import Violation
from tests.history.events import LABEL
from tests.history.filtering import FILTERS
from tests.simulation.comparing import compare
from tests.simulation.expiries import Expiries
from tests.simulation.inspection import Inspection
from tests.simulation.sightings import Sightings

if TYPE_CHECKING:
    from tests.simulation.disk import Drive
    from tests.simulation.world import World

Key = tuple[bytes, int, int]
"""A batch: producer, partition, number."""


class Watch:
    """One for all nodes that have served the broker's number."""

    def __init__(self, world: World, drive: Drive) -> None:
        self.world = world
        self.sightings = Sightings(world)
        self._expiries = Expiries()
        self.inspection = Inspection(drive, self._expiries, world.sometimes)
        self.violations: list[Violation] = []
        self.last: Epoch | None = None
        self.sent: list[tuple[float, frozenset[str]]] = []
        """The labels in every answer to a reader."""
        self.fetched: list[tuple[float, str, frozenset[str]]] = []
        """When messages were taken for a reader: the topic, and their labels."""
        self.filtered: list[tuple[float, str, str, frozenset[str]]] = []
        """The same for a filter."""
        self.begins: list[float] = []
        """When incarnations began."""
        self.compared = 0
        self._deadlines: dict[Key, int] = {}
        self._late: set[Key] = set()
        self._door = world.source("door")

    def begun(self, epoch: Epoch, sequence: int) -> None:
        """A new incarnation was loaded; the one before is dead, or is fenced and may commit nothing any more."""
        if self.last is not None and self.last.fence.epoch > epoch.fence.epoch:
            self.world.sometimes("node was fenced before it had loaded")
            return
        before, self.last = self.last, epoch
        self.begins.append(self.world.loop.time())
        if before is not None:
            self.sightings.ended(before)
            self.compared += 1
            self.violations += compare(before, epoch, sequence)

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
                key = (change.producer, change.partition, change.number)
                if now > self._deadlines.get(key, now):
                    self._late.add(key)
        for change, page in flush.pages:
            self._expiries.committed(change, page.body)

    def acknowledged(self, producer: bytes, answer: pb.PublishAnswer) -> None:
        """An answer goes out. One that repeats an earlier answer may be about a batch whose late commit was found out only at load."""
        key = (producer, answer.partition, answer.number)
        if answer.WhichOneof("outcome") == "stored" and not answer.stored.duplicate and key in self._late:
            case = f"batch {answer.number} of {producer.hex()} in partition {answer.partition} was committed after its deadline"
            self.violations.append(Violation("late_is_not_acknowledged", f"{case}, and acknowledged at {self.world.loop.time():.3f} s"))

    def woken(self, epoch: Epoch) -> None:
        """After a commit nobody sleeps who could read on: the next commit may be long in coming."""
        for actor in epoch.topics.actors():
            for event, offset in actor.readers.items():
                upto = actor.partition.readable_upto(offset)
                if upto > offset and not event.is_set():
                    case = f"a reader waits at offset {offset} of topic {actor.partition.topic}/{actor.partition.number}"
                    self.violations.append(Violation("whoever_can_read_is_woken", f"{case}, and may read up to {upto}"))

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

    def taken(self, topic: str, where: str, pieces: Sequence[Fetched]) -> None:
        """Messages were taken for a reader, perhaps by a filter."""
        labels = frozenset[str]().union(*(labels_in(piece.data) for piece in pieces if piece.data is not None))
        self.fetched.append((self.world.loop.time(), topic, labels))
        if where:
            self.filtered.append((self.world.loop.time(), topic, where, labels))


def labels_in(data: Buffer) -> frozenset[str]:
    return frozenset(label.decode() for label in set(LABEL.findall(data)))


class SimulationWitness(Witness):
    """`broker.witness.Witness` of one broker object: tells the watch what it sees."""

    def __init__(self, watch: Watch, catalog: SqliteCatalog) -> None:
        self._watch = watch
        self._sightings = watch.sightings
        self._catalog = catalog
        self._epoch: Epoch | None = None

    @property
    def epoch(self) -> Epoch:
        assert self._epoch is not None, "nothing has begun"
        return self._epoch

    def began(self, incarnation: object) -> None:
        assert isinstance(incarnation, Epoch)
        self._epoch = incarnation
        self._watch.begun(incarnation, incarnation.log.flusher._sequence)
        if self._watch.last is incarnation:  # else it is fenced, and what it has loaded may be gone
            self._watch.inspection.begun(incarnation, self._catalog)

    def landed(self, flush: Flush) -> None:
        self._watch.commits(flush, self.epoch.log.clock.now())
        self._watch.inspection.landed(self._catalog)

    def committed(self, flush: Flush) -> None:
        self._watch.committed(self.epoch)
        self._watch.woken(self.epoch)

    def looked_up(self, partition: Partition, found: Found) -> None:
        self._sightings.looked_up(partition, found)

    def read(self, partition: Partition, entries: Sequence[PageEntry], moves: int) -> None:
        self._sightings.read(partition, entries, moves)

    def cut(self, partition: Partition, first: int, end: int, visible: int) -> None:
        self._sightings.cut(partition, first, end, visible)

    def fetched(self, topic: str, where: Filter | None, pieces: Sequence[Fetched]) -> None:
        """What a fenced broker takes from its memory is not judged: its connections are broken or about to be, and only a lease for
        reading, which brokers do not have yet, could keep it from looking."""
        if self._watch.last is not self.epoch:
            return
        self._watch.taken(topic, next((text for text in FILTERS if parse(text) == where), ""), pieces)

    def turn_began(self) -> None:
        self._watch.inspection.note_time(self.epoch)

    def turn_ended(self) -> None:
        if self._sightings.has_moved(self.epoch):
            self._watch.violations += self._watch.inspection.look(self.epoch, self._catalog)

    def seal_began(self) -> None:
        self._sightings.seal_began(self.epoch)

    def seal_ended(self, *, whole: bool) -> None:
        self._sightings.seal_ended(self.epoch, whole=whole)

    def page_cut(self) -> None:
        self._watch.world.sometimes("page cut at a seal")

    def captured(self) -> None:
        self._watch.violations += self._watch.inspection.look_ahead(self._catalog)

    def replaced(self, old: Sequence[Extent], new: Extent | None) -> None:
        self._sightings.replaced(self.epoch, old, new)

    def cleared(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        self._sightings.cleared(before, after)

    def released(self, segments: Sequence[int]) -> None:
        self._sightings.moved(self.epoch)
