"""A topic with its partitions, a subscription and consumers, and a flusher whose flushes are taken and
committed on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from bowstring import errors
from bowstring.broker.counters import Counters
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.publish_request import PublishBatch
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.delivery import Delivery
from bowstring.broker.queue.granter import Granter
from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import SubscribePartition
from bowstring.broker.queue.pushes import Grants, PushedRows
from bowstring.broker.queue.rates import Rates
from bowstring.broker.queue.scout import Scout
from bowstring.broker.queue.scouted_rows import RowLook
from bowstring.broker.queue.settlement import TimedOutcome
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.topic_queue import TopicQueue
from bowstring.broker.reading.caches import caches_of
from bowstring.broker.reading.visibility import Moments
from bowstring.broker.topics import Topic, TopicSettings, encode_settings
from bowstring.core.changes import Append, Change
from bowstring.core.decisions import Publish
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Settlement
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows, RowsDone, RowStanding
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.messages import encoding
from bowstring.ports.catalog import TopicRow
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page
from tests.unit.test_alarm import SECOND, Clock

MUCH = ConsumerCredit(1 << 40, 1 << 40)
RETENTION = 3600 * SECOND


class SceneClock(Clock):
    """One that stands still, with a monotonic side."""

    def monotonic(self) -> float:
        return self.moment / SECOND


class SceneFlush:
    """Changes that become durable together."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.pages: list[tuple[Append, Page]] = []
        self.answers: list[Callable[[], None]] = []


class SceneFlusher:
    """A flusher that does nothing by itself."""

    def __init__(self) -> None:
        self.pending = SceneFlush()
        self.under_way: list[SceneFlush] = []
        self.before_take: list[Callable[[], None]] = []
        self.requested = False
        self.actors: list[PartitionActor] = []
        self.tail: dict[tuple[int, int], Page] = {}
        self.sequence = 0

    def add(self, change: Change, page: Page | None = None) -> None:
        self.pending.changes.append(change)
        if page is not None:
            assert isinstance(change, Append)
            self.pending.pages.append((change, page))

    def request(self) -> None:
        self.requested = True

    def answer(self, callback: Callable[[], None]) -> None:
        if self.pending.changes:
            self.pending.answers.append(callback)
        elif self.under_way:
            self.under_way[-1].answers.append(callback)
        else:
            callback()

    def take(self) -> list[Change]:
        """Takes the next flush, if there is something in it."""
        self.requested = False
        for decide in self.before_take:
            decide()
        flush = self.pending
        if flush.changes:
            self.pending = SceneFlush()
            self.under_way.append(flush)
        return flush.changes

    def commit(self) -> None:
        """The oldest flush under way is durable."""
        flush = self.under_way[0]
        self.sequence += 1
        touched: dict[PartitionActor, None] = {}
        for change, page in flush.pages:
            change.length = len(page.header) + len(page.body)
            self.tail[change.partition, change.first_offset] = page
        for change in flush.changes:
            actor = self.actors[change.partition]
            touched[actor] = None
            actor.committed(change, self.sequence)
        del self.under_way[0]
        for actor in touched:
            actor.flushed()
        for actor in touched:
            actor.answer_publishes()
        for answer in flush.answers:
            answer()

    def settle(self) -> None:
        """Takes and commits until nothing is left to do."""
        while self.pending.changes or self.under_way or self.requested:
            if not self.under_way:
                self.take()
            if self.under_way:
                self.commit()


class SceneReading:
    """Pages as they were committed; some may be damaged."""

    def __init__(self, flusher: SceneFlusher, clock: SceneClock) -> None:
        self.reader = self
        self.caches = caches_of(0, 1 << 20)
        self.counters = Counters()
        self.damaged: set[int] = set()
        """First offsets of pages."""
        self.gone: set[int] = set()
        """First offsets of pages that retention has taken."""
        self.pages_a_look = 1 << 20
        """So many pages are found at once."""
        self.extents: list[tuple[int, int]] = []
        """Extents whose index is damaged."""
        self.when_read: Callable[[], object] = lambda: None
        """Called when pages are read."""
        self.out_of_memory = False
        self.clock = clock
        self._flusher = flusher
        self._clock = clock

    def held(self, partition: Partition, entries: Sequence[PageEntry]) -> list[Page] | None:
        return (
            None if self.out_of_memory or not entries else [self._flusher.tail[partition.number, entry.first_offset] for entry in entries]
        )

    stored_held = held

    async def entries(self, partition: Partition, offset: int, end: int, bytes_max: int, pages_max: int) -> list[PageEntry]:
        looked = [entry for entry in partition.pages.between(offset, end, bytes_max, pages_max) if entry.first_offset not in self.gone]
        found = looked[: self.pages_a_look]
        for first, last in self.extents:
            before = [entry for entry in found if entry.end <= first]
            if not before and any(entry.first_offset < last for entry in found):
                raise Damaged(f"offsets {first} to {last - 1}")
            found = before or found
        return found

    def first_of(self, partition: Partition, entries: Sequence[PageEntry], bytes_max: int) -> Sequence[PageEntry]:
        return entries

    async def unreadable(self, partition: Partition, offset: int, end: int) -> Extent | None:
        for first, last in self.extents:
            if offset < last and first < end:
                return Extent(partition.topic, partition.number, first, last, 0, 0, 0, 1, 1, 0, (), ())
        return None

    async def pages(self, partition: Partition, entries: Sequence[PageEntry]) -> list[Page]:
        self.when_read()
        if any(entry.first_offset in self.damaged for entry in entries):
            raise Damaged("rotten")
        return [self._flusher.tail[partition.number, entry.first_offset] for entry in entries]

    def moments(self, topic: int, longer: int | None = 0) -> Moments:
        return Moments(self._clock.now(), 0 if longer is None else self._clock.now() - RETENTION - longer)

    def note_damage(self, partition: Partition, error: Damaged) -> None: ...


class Customer:
    """A consumer, and its session: takes what it is sent."""

    def __init__(self, scene: QueueScene, name: str, credit: ConsumerCredit, lease: int) -> None:
        self.scene = scene
        self.pushed: list[PushedRows] = []
        self.bytes = 0
        """Of rows that wait for it."""
        self.takes = 1 << 40
        """How many bytes may wait."""
        self.told: list[Grants] = []
        self.pings = 0
        self.ended: errors.Error | None = None
        self.answers: list[RowsDone | Exception] = []
        self.requests = 0
        subscription = scene.subscription
        self.live = LiveConsumer(subscription, name, name.encode().ljust(16), lease, "here", self, scene.lease_clock)
        self.live.delivery = Delivery(self.live, scene.reading)  # type: ignore[arg-type]
        subscription.join(self.live)
        self.live.limit(credit)

    # What the broker calls

    def room(self) -> int:
        return self.takes - self.bytes

    def push(self, pushed: PushedRows) -> None:
        self.pushed.append(pushed)
        self.bytes += pushed.fetched.size

    def lost(self, grants: Grants, standing: RowStanding | None = None) -> None:
        self.told.append(grants)

    def ping(self) -> None:
        self.pings += 1

    def end(self, error: errors.Error) -> None:
        self.ended = error

    # What the test looks at

    @property
    def offsets(self) -> list[int]:
        """All that it was sent, in order."""
        return [offset for pushed in self.pushed for offset in offsets_of(pushed)]

    @property
    def values(self) -> list[bytes]:
        return [value for pushed in self.pushed for value in values_of(pushed)]

    @property
    def grants(self) -> list[int]:
        return [pushed.lease.grant for pushed in self.pushed]

    def settle(self, outcome: Settlement, grant: int, offsets: Iterable[int] = (), partition: int = 0, **time: int) -> None:
        """Settles rows of a grant, or all of it; nacked ones come again at a `moment`, or after a `delay`."""
        self.requests += 1
        given = list(offsets)
        rows = RowSet.of_runs([(offset, 1) for offset in given]) if given else None
        parts = [TimedOutcome(OutcomeRows(grant, outcome, rows), **time)]
        self.live.settle(partition, self.requests, self.requests - 1, parts, self.answers.append)

    def extend(self, grant: int, lease: int) -> None:
        self.live.extend(0, lease, [GrantRows(grant)], self.answers.append)


def _failed(failure: Exception) -> None:
    raise failure


def offsets_of(pushed: PushedRows) -> list[int]:
    return [offset + row for offset, rows, _ in pushed.fetched.runs.tolist() for row in range(rows)]


def values_of(pushed: PushedRows) -> list[bytes]:
    assert pushed.fetched.data is not None
    return encoding.decode(pushed.fetched.columns, pushed.fetched.data).column("value").to_pylist()


class QueueScene:
    """Everything together."""

    def __init__(self, partitions: int = 1, lease: int = 30 * SECOND, where: str = "", *, with_keys: bool = False) -> None:
        self.clock, self.flusher = SceneClock(), SceneFlusher()
        clock: Any = self.clock
        flusher: Any = self.flusher
        self.lease_clock = LeaseClock(clock, clock.now())
        self.reading = SceneReading(self.flusher, self.clock)
        self.alarm = Alarm(clock, _failed)
        self.lease_alarm = Alarm(self.lease_clock, _failed)
        self.admission = Admission(bytes_max=1, flusher=flusher, counters=Counters())
        self.actors = [
            PartitionActor(Partition(1, number, 600 * SECOND), flusher, clock, None, self.alarm)  # type: ignore[arg-type]
            for number in range(partitions)
        ]
        self.flusher.actors = self.actors
        settings = TopicSettings(RETENTION / SECOND, 600)
        self.topic = Topic(TopicRow(1, "orders", partitions, 0, encode_settings(settings), None), self.actors)
        self.queue = TopicQueue(self.topic, self.lease_clock, self.lease_alarm)
        self.granter = Granter(flusher, self.lease_clock, self.lease_alarm)
        for actor in self.actors:
            actor.receive(SubscribePartition(1, "billing", SubscriptionSettings("shared", lease, where=where), 0, 0))
        asked = SubscriptionSettings("shared", lease, where=where)
        rates = Rates(self.clock.monotonic, self.reading.counters.queue)
        look_at: Any = self.granter.look_at
        self.subscription = LiveSubscription(self.topic, 1, "billing", asked, 0, rates=rates, look_at=look_at, bury=lambda *_: None)
        reading: Any = self.reading
        self.queue.add(self.subscription, reading)
        if with_keys:
            found, failed = self.subscription.may_grant, self.subscription.end_consumers
            clocks = self.lease_clock, self.lease_alarm
            self.subscription.scout = Scout(1, reading, *clocks, RowLook(None, with_keys=True), found=found, failed=failed)
        self.flusher.settle()
        self._number = 0
        self._last: dict[int, int] = {}
        self.published: list[object] = []
        """What publishers were told."""

    def publish(
        self,
        *values: bytes,
        partition: int = 0,
        timeout: int = 30 * SECOND,
        expires: int | None = None,
        due: int | None = None,
        dues: Sequence[int | None] | None = None,
        sizes: Sequence[int] = (),
        keys: Sequence[bytes | None] | None = None,
    ) -> None:
        """A batch of these values, or of values of these sizes, or of keys; `dues` is one moment for each."""
        given = [b"x" * size for size in sizes] or list(values) or [key or b"" for key in keys or ()]
        self._number += 1
        previous, self._last[partition] = self._last.get(partition, 0), self._number
        moments = None if expires is None else [expires] * len(given)
        encoded = encoding.encode_columns(len(given), values=given, keys=keys, expires=moments, due=dues or due)
        batch: pa.RecordBatch = encoding.decode(encoded.mask, encoded.data)
        due = max(filter(None, dues)) if dues else due or 0
        publish = Publish(
            b"a" * 16, self._number, previous, self.clock.now(), timeout, len(given), encoded.mask, None, expires=expires or 0, due=due
        )
        admitted = self.admission.outstanding(0, self.published.append)
        self.actors[partition].receive(PublishBatch(publish, "shop", batch, encoded.data, admitted))

    def customer(self, name: str = "ada", credit: ConsumerCredit = MUCH, *, ready: bool = True, lease: int = 30 * SECOND) -> Customer:
        """A consumer that is connected."""
        customer = Customer(self, name, credit, lease)
        if ready:
            customer.live.ready()
        return customer

    def ledger(self, partition: int = 0) -> Ledger:
        found = self.subscription.ledger(self.actors[partition])
        assert found is not None
        return found

    def check(self) -> None:
        """Counts of what consumers hold are those of the ledgers, and within their credit."""
        for actor in self.actors:
            actor.partition.check()
        for consumer in self.subscription.consumers.values():
            numbers = [(ledger, ledger.consumers.named(consumer.name)) for _, ledger in self.subscription.ledgers()]
            rows = sum(ledger.leases.held_by(known.number) for ledger, known in numbers if known is not None)
            assert consumer.holdings.rows == rows
            assert 0 <= consumer.holdings.unsent <= rows
