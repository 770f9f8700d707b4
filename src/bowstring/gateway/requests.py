"""The values of unary calls: the requests, and the answers for which the broker has no value of its
own.

A request has the name of its call. Spans are seconds, moments microseconds since 1970. None means
"not given".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log.message_lookup import MessagePlace as MessagePlace
from bowstring.broker.log.positions import PositionFacts
from bowstring.broker.queue.given_settings import GivenSettings
from bowstring.broker.queue.lease_list import LeaseFilter
from bowstring.broker.queue.peeking import PeekWish
from bowstring.broker.queue.seeking import SubscriptionSeek
from bowstring.broker.queue.subscription_facts import SubscriptionFacts
from bowstring.broker.queue.subscriptions import NewSubscription
from bowstring.broker.reading.places import TopicPlace
from bowstring.broker.topic_list import KnownTopic
from bowstring.broker.topics import TopicFacts


class HelloRequest(NamedTuple):
    """The first call on a connection."""

    software: str
    protocol: int
    """The newest version that the client speaks."""
    protocol_min: int
    name: str
    """The client's own name, for people."""


class Welcome(NamedTuple):
    """The answer to `Hello`."""

    software: str
    protocol: int
    """The version to speak."""
    protocol_min: int
    broker_time: int
    cluster: bytes
    batch_bytes_max: int
    publish_window: int
    incarnation: int
    keeping_time: int


class CreateTopicRequest(NamedTuple):
    name: str
    partitions: int
    retention: float | None
    retention_bytes: int | None
    deduplication: float | None
    exists_ok: bool


class DescribeTopicRequest(NamedTuple):
    name: str


class ListTopicsRequest(NamedTuple):
    pattern: str
    """A glob; empty for all."""
    after: str
    """The name that the page before ended with."""
    limit: int
    """How many at most; 0 for the broker's own limit."""


class TopicPage(NamedTuple):
    topics: list[TopicFacts]
    more: bool


class WatchTopicsRequest(NamedTuple):
    topics: list[KnownTopic]
    edition: int
    wait: float


class AlterTopicRequest(NamedTuple):
    name: str
    retention: float | None
    retention_bytes: int | None
    """0 for no limit."""
    deduplication: float | None


class DeleteTopicRequest(NamedTuple):
    name: str
    missing_ok: bool


class FindRequest(NamedTuple):
    topic: str
    id: str


class DeleteMessagesRequest(NamedTuple):
    topic: str
    group: str
    ids: list[str]


class CancelMessagesRequest(NamedTuple):
    topic: str
    group: str
    ids: list[str]


class MoveMessagesRequest(NamedTuple):
    topic: str
    group: str
    ids: list[str]
    due: int


class DeletedMessages(NamedTuple):
    topic_id: int
    outcomes: Sequence[MessagePlace | errors.Error]
    """Where each message was, or why it is not deleted or moved, in the order of the ids."""


class OffsetsRequest(NamedTuple):
    topic: str
    partitions: Sequence[int]
    """Empty for all."""
    place: TopicPlace | None


class PlacedOffsets(NamedTuple):
    topic_id: int
    offsets: Mapping[int, int]
    """By partition."""


class CommitPositionRequest(NamedTuple):
    topic: str
    name: str
    offsets: Mapping[int, int]
    topic_id: int
    """0 for whichever topic has the name."""


class SetPositionRequest(NamedTuple):
    topic: str
    name: str
    offsets: Mapping[int, int]
    dry_run: bool


class DescribePositionRequest(NamedTuple):
    topic: str
    name: str


class ListPositionsRequest(NamedTuple):
    topic: str
    """Empty for the positions of all topics."""
    after: tuple[str, str]
    """The topic and the name that the page before ended with."""
    limit: int
    """How many at most; 0 for the broker's own limit."""


class PositionPage(NamedTuple):
    positions: list[PositionFacts]
    more: bool


class DeletePositionRequest(NamedTuple):
    topic: str
    name: str
    missing_ok: bool


class CreateSubscriptionRequest(NamedTuple):
    wanted: NewSubscription
    exists_ok: bool


class AlterSubscriptionRequest(NamedTuple):
    topic: str
    name: str
    given: GivenSettings
    """What is not given stays as it is."""


class DescribeSubscriptionRequest(NamedTuple):
    topic: str
    name: str


class ListSubscriptionsRequest(NamedTuple):
    topic: str
    """Empty for the subscriptions of all topics."""
    after: tuple[str, str]
    """The topic and the name that the page before ended with."""
    limit: int
    """How many at most; 0 for the broker's own limit."""


class SubscriptionPage(NamedTuple):
    subscriptions: list[SubscriptionFacts]
    more: bool


class DeleteSubscriptionRequest(NamedTuple):
    topic: str
    name: str
    missing_ok: bool


class SeekSubscriptionRequest(NamedTuple):
    wanted: SubscriptionSeek


class PeekRequest(NamedTuple):
    wish: PeekWish


class ListLeasesRequest(NamedTuple):
    wanted: LeaseFilter
    after: tuple[int, int]
    """The partition and the grant that the page before ended with."""
    limit: int


class ExplainKeyRequest(NamedTuple):
    """Asks where a key of a key-shared subscription stands."""

    topic: str
    subscription: str
    key: bytes


class ReleaseLeasesRequest(NamedTuple):
    wanted: LeaseFilter
