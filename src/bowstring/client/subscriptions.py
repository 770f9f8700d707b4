"""Subscriptions and leases as values, and the calls of a client about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from bowstring import errors, times
from bowstring.client import arguments, subscription_request
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.broker_time import BrokerTime
from bowstring.client.connection import Connection
from bowstring.client.consumer_settings import checked_name, subscription_creation
from bowstring.client.ranges import Clocks, Start
from bowstring.wire.generated import bowstring_pb2 as pb

PAGE_SUBSCRIPTIONS = 1000
PAGE_LEASES = 1000

Backoff = tuple[Span, float, Span]
"""Seconds at first, factor, seconds at most."""


@dataclass(frozen=True, slots=True)
class SubscriptionRates:
    """Messages a second, over the last minute."""

    delivered: float
    acked: float
    nacked: float
    """Rejected ones among them."""
    expired: float
    """Whose lease has ended."""


@dataclass(frozen=True, slots=True)
class SubscriptionPart:
    """A subscription in one partition."""

    partition: int
    floor: int
    """Every message before this offset is settled."""
    cursor: int
    """No message from this offset on was delivered yet."""
    backlog: int
    leased: int


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer that is connected, or that holds messages."""

    name: str
    connected: bool
    address: str
    """Where it is connected from."""
    leased: int
    """The messages that it holds."""
    credit: int
    """How many it may hold; 0 while it pauses, or if it is not connected."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as it was when it was asked for."""

    topic: str
    name: str
    mode: str
    lease: timedelta
    """How long a consumer holds a message, unless it asks for another span."""
    max_deliveries: int | None
    """After so many a message is a dead letter; None for never."""
    backoff: tuple[float, float, float] | None
    """How long a message waits that failed: seconds at first, factor, seconds at most."""
    dead_letters: str
    """The topic for dead letters."""
    unsettled: str
    """What becomes of messages that retention reaches: "drop", "dead_letter" or "keep"."""
    keep_max: timedelta | None
    """How long "keep" keeps them from there on; None for until they are settled."""
    where: str | None
    """The filter that its messages pass."""
    created: datetime
    backlog: int
    """Messages that are not settled; those under a lease among them."""
    leased: int
    """Messages under a lease."""
    oldest: float | None
    """For how long the oldest message that is not settled has been due, in seconds: since it arrived, or
    since its due time if that is later. None if none is due.
    """
    dead: int
    """Dead letters that are not settled; those that were redriven among them."""
    redriven: int
    """Dead letters that were redriven, and are not settled yet."""
    overtaken: int
    """Messages that expired, by retention or by a time of their own, before they were settled."""
    rates: SubscriptionRates
    partitions: tuple[SubscriptionPart, ...]
    consumers: tuple[ConsumerInfo, ...]
    id: int
    """Its number in the topic: one that is deleted and created again is another subscription."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Messages that a consumer holds together."""

    topic: str
    subscription: str
    partition: int
    number: int
    """The lease's number in its partition."""
    consumer: str
    granted: datetime
    until: datetime
    left: timedelta
    """How much of it was left when it was asked for."""
    offsets: tuple[range, ...]
    """The messages, as ranges of offsets."""

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return sum(map(len, self.offsets))


def from_wire(message: pb.Subscription, now: int) -> Subscription:
    """A subscription as the broker tells it, by the broker's time."""
    return Subscription(
        topic=message.topic,
        name=message.name,
        mode=message.mode,
        lease=timedelta(microseconds=message.lease),
        max_deliveries=message.max_deliveries or None,
        backoff=_backoff(message.backoff) if message.HasField("backoff") else None,
        dead_letters=message.dead_letters,
        unsettled=message.unsettled,
        keep_max=timedelta(microseconds=message.keep_max) if message.keep_max else None,
        where=message.where or None,
        created=times.to_datetime(message.created),
        backlog=message.backlog,
        leased=message.leased,
        oldest=max(0, now - message.oldest) / 1e6 if message.oldest else None,
        dead=message.dead,
        redriven=message.redriven,
        overtaken=sum(each.overtaken for each in message.partitions),
        rates=SubscriptionRates(message.delivered_rate, message.acked_rate, message.nacked_rate, message.expired_rate),
        partitions=tuple(map(_part, message.partitions)),
        consumers=tuple(ConsumerInfo(each.name, each.connected, each.address, each.leased, each.credit) for each in message.consumers),
        id=message.id,
    )


def _backoff(told: pb.Backoff) -> tuple[float, float, float]:
    return told.first / 1e6, told.factor, told.most / 1e6


def _part(told: pb.SubscriptionPartition) -> SubscriptionPart:
    return SubscriptionPart(told.partition, told.floor, told.cursor, told.backlog, told.leased)


class SubscriptionCalls:
    """The calls of a client about subscriptions."""

    _connection: Connection
    _broker_time: BrokerTime
    _timeout: float

    async def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        mode: str = "shared",
        start: Start = "beginning",
        lease: SpanOrMoment = 30,
        max_deliveries: int | None = 10,
        backoff: Backoff | None = None,
        dead_letters: str | None = None,
        unsettled: str = "drop",
        keep_max: Span | None = None,
        where: str | None = None,
        exists_ok: bool = False,
    ) -> Subscription:
        """Creates a subscription: a queue on a topic that has every message from `start` on, which is
        `"beginning"`, `"latest"` or a moment.

        `lease` is how long a consumer holds a message. After `max_deliveries` a message is a dead
        letter (None: never) and goes to the topic `dead_letters`, by default
        `TOPIC.NAME.dead-letters`. `backoff=(1, 2, 300)` lets a message that failed wait: seconds at
        first, factor, seconds at most. `unsettled` says what becomes of messages that retention
        reaches: `"drop"`, `"dead_letter"`, or `"keep"`, for `keep_max` from there on.
        `where` is a filter: other messages are settled when the queue comes to them. Raises
        `SubscriptionExists` if there is one; with `exists_ok` returns it as it is.
        """
        names = arguments.topic_name(topic), checked_name(name, "name")
        clocks = Clocks(self._broker_time.now(), self._broker_time.drift())
        given = {"lease": lease, "max_deliveries": max_deliveries, "backoff": backoff, "dead_letters": dead_letters}
        given |= {"unsettled": unsettled, "keep_max": keep_max, "where": where}
        request = subscription_creation(*names, clocks, mode=mode, start=start, exists_ok=exists_ok, **given)
        answer = await self._connection.change("CreateSubscription", request.SerializeToString(), self._timeout)
        if answer is not None:
            return self._subscription(answer)
        found = await self.subscription(topic, name)
        if not _is_as_asked(found, request):
            raise errors.SubscriptionExists(f"'{topic}' has a subscription '{name}', with other settings.", hint="Use exists_ok=True.")
        return found

    async def alter_subscription(
        self,
        topic: str,
        name: str,
        *,
        lease: SpanOrMoment | EllipsisType = ...,
        max_deliveries: int | EllipsisType | None = ...,
        backoff: Backoff | EllipsisType | None = ...,
        dead_letters: str | EllipsisType | None = ...,
        unsettled: str | EllipsisType = ...,
        keep_max: Span | EllipsisType | None = ...,
    ) -> Subscription:
        """Changes the given settings, and no others. Leases that are held already keep their end."""
        request = pb.AlterSubscriptionRequest(topic=arguments.topic_name(topic), name=checked_name(name, "name"))
        given = {"lease": lease, "max_deliveries": max_deliveries, "backoff": backoff, "dead_letters": dead_letters}
        given |= {"unsettled": unsettled, "keep_max": keep_max}
        subscription_request.fill(request, self._broker_time.now(), given)
        return self._subscription(await self._connection.call("AlterSubscription", request.SerializeToString(), self._timeout))

    async def subscription(self, topic: str, name: str) -> Subscription:
        """A subscription with its backlog, rates and consumers. Raises `SubscriptionNotFound`."""
        request = pb.DescribeSubscriptionRequest(topic=arguments.topic_name(topic), name=checked_name(name, "name"))
        return self._subscription(await self._connection.call("DescribeSubscription", request.SerializeToString(), self._timeout))

    async def subscriptions(self, topic: str | None = None) -> AsyncIterator[Subscription]:
        """All subscriptions by topic and name, or those of one topic; page by page."""
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page, after = await self._subscription_page(topic, after)
            for subscription in page:
                yield subscription

    async def _subscription_page(self, topic: str | None, after: tuple[str, str]) -> tuple[list[Subscription], tuple[str, str] | None]:
        """The subscriptions behind a topic and name, and where to go on; None if these were the
        last."""
        name = "" if topic is None else arguments.topic_name(topic)
        request = pb.ListSubscriptionsRequest(topic=name, after_topic=after[0], after_name=after[1], limit=PAGE_SUBSCRIPTIONS)
        data = await self._connection.call("ListSubscriptions", request.SerializeToString(), self._timeout)
        answer, now = pb.ListSubscriptionsAnswer.FromString(data), self._broker_time.now()
        page = [from_wire(message, now) for message in answer.subscriptions]
        return page, (page[-1].topic, page[-1].name) if answer.more and page else None

    async def delete_subscription(self, topic: str, name: str, missing_ok: bool = False) -> None:
        """Deletes a subscription: its consumers end with `SubscriptionNotFound`. The messages stay in
        the topic. Raises `SubscriptionNotFound`, unless `missing_ok`.
        """
        request = pb.DeleteSubscriptionRequest(topic=arguments.topic_name(topic), name=checked_name(name, "name"), missing_ok=missing_ok)
        await self._connection.change("DeleteSubscription", request.SerializeToString(), self._timeout)

    async def leases(
        self, topic: str, subscription: str, consumer: str | None = None, older_than: Span | None = None
    ) -> AsyncIterator[Lease]:
        """Who holds what, until when: all leases of a subscription by partition and number, or those
        of one consumer, or those that were granted longer ago than `older_than`; page by page.
        """
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            page, after = await self._lease_page(topic, subscription, consumer, older_than, after)
            for lease in page:
                yield lease

    async def _lease_page(
        self, topic: str, subscription: str, consumer: Any, older_than: Any, after: tuple[int, int]
    ) -> tuple[list[Lease], tuple[int, int] | None]:
        """The leases behind a partition and number, and where to go on; None if these were the
        last."""
        request = pb.ListLeasesRequest(
            **_of_leases(topic, subscription, consumer, older_than), after_partition=after[0], after_grant=after[1], limit=PAGE_LEASES
        )
        data = await self._connection.call("ListLeases", request.SerializeToString(), self._timeout)
        answer = pb.ListLeasesAnswer.FromString(data)
        page = [
            Lease(
                topic,
                subscription,
                lease.partition,
                lease.grant,
                lease.consumer,
                times.to_datetime(lease.granted),
                times.to_datetime(lease.until),
                timedelta(microseconds=max(0, lease.until - answer.now)),
                tuple(range(offset, offset + rows) for offset, rows in zip(lease.offsets, lease.rows, strict=True)),
            )
            for lease in answer.leases
        ]
        return page, (page[-1].partition, page[-1].number) if answer.more and page else None

    async def release_leases(self, topic: str, subscription: str, consumer: str | None = None, older_than: Span | None = None) -> int:
        """Takes messages away from the consumers that hold them, of all, of one consumer, or those
        granted longer ago than `older_than`. They are delivered again at once, and that does not
        count. Returns how many they were.
        """
        request = pb.ReleaseLeasesRequest(**_of_leases(topic, subscription, consumer, older_than))
        data = await self._connection.call("ReleaseLeases", request.SerializeToString(), self._timeout)
        return pb.ReleaseLeasesAnswer.FromString(data).messages

    def _subscription(self, answer: bytes) -> Subscription:
        return from_wire(pb.Subscription.FromString(answer), self._broker_time.now())


def _is_as_asked(found: Subscription, request: pb.CreateSubscriptionRequest) -> bool:
    """Whether a subscription that was there after a lost answer is the one that was asked for."""
    asked = _backoff(request.backoff) if request.HasField("backoff") else None
    lease = times.microseconds(found.lease.total_seconds())
    return (found.mode, lease, found.max_deliveries or 0, found.backoff, found.where or "") == (
        request.mode,
        request.lease,
        request.max_deliveries,
        asked,
        request.where,
    )


def _of_leases(topic: object, subscription: object, consumer: object, older_than: object) -> dict[str, Any]:
    """The fields that choose leases."""
    return {
        "topic": arguments.topic_name(topic),
        "subscription": checked_name(subscription, "subscription"),
        "consumer": "" if consumer is None else checked_name(consumer, "consumer"),
        "older_than": 0 if older_than is None else times.microseconds(times.span(older_than, "older_than")),
    }
