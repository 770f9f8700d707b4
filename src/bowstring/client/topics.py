"""Topics as values, the requests that make them, and the calls of a client about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.client.connection import Connection
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.client import OpenReaders

PARTITIONS_MAX = 2**31 - 1
PAGE_TOPICS = 1000
_FIXED = {
    "partitions": "the number of partitions never changes, because keys would move to other partitions",
    "payload": "the payload of a topic never changes",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it was when it was asked for."""

    name: str
    partitions: int
    messages: int
    """How many can be read."""
    bytes: int
    created: datetime
    retention: timedelta
    """How long messages are kept; `timedelta.max` for ever."""
    retention_bytes: int | None
    deduplication: timedelta
    id: int
    """Its number: a topic that is deleted and created again is another topic."""
    ranges: tuple[range, ...]
    """The offsets that can be read, by partition."""


def from_wire(message: pb.Topic) -> Topic:
    """A topic as the broker tells it."""
    return Topic(
        name=message.name,
        partitions=message.partitions,
        messages=message.messages,
        bytes=message.bytes,
        created=times.to_datetime(message.created),
        retention=times.to_timedelta(message.retention / 1e6),
        retention_bytes=message.retention_bytes or None,
        deduplication=timedelta(microseconds=message.deduplication),
        id=message.id,
        ranges=tuple(range(entry.first, entry.next) for entry in message.ranges),
    )


def creation(
    name: str,
    *,
    partitions: int,
    retention: timedelta | float | None,
    retention_bytes: int | None,
    table_retention: timedelta | float | None,
    deduplication: timedelta | float | None,
    payload: str,
    audited: bool,
    exists_ok: bool,
) -> pb.CreateTopicRequest:
    """The request that creates a topic. Refuses settings that make no sense, and those that this
    version does not support. It does not send None: the broker fills in its default.
    """
    for given, wanted, what in ((payload, "inline", "payload"), (audited, False, "audited"), (table_retention, None, "table_retention")):
        if given != wanted:
            raise errors.NotSupported(f"{what}={given!r} is not in this version.", hint=f"Omit {what}=.")
    return pb.CreateTopicRequest(
        name=arguments.topic_name(name),
        partitions=_whole("partitions", partitions, PARTITIONS_MAX),
        retention=None if retention is None else max(1, times.microseconds(times.keeping(retention, "retention"))),
        retention_bytes=0 if retention_bytes is None else _whole("retention_bytes", retention_bytes, 2**62),
        deduplication=None if deduplication is None else times.microseconds(times.span(deduplication, "deduplication")),
        exists_ok=exists_ok,
    )


def alteration(
    name: str,
    fixed: Mapping[str, object],
    *,
    retention: timedelta | float | EllipsisType,
    retention_bytes: int | EllipsisType | None,
    deduplication: timedelta | float | EllipsisType,
) -> pb.AlterTopicRequest:
    """The request that changes the given settings of a topic, and no others. Refuses those in
    `fixed`.
    """
    for what, given in fixed.items():
        if given is not ...:
            hint = "Make another topic, and publish there." if what == "partitions" else f"Omit {what}=."
            raise errors.NotSupported(f"{what}={given!r}: {_FIXED.get(what, f'{what} is not in this version')}.", hint=hint)
    request = pb.AlterTopicRequest(name=arguments.topic_name(name))
    if not isinstance(retention, EllipsisType):
        request.retention = max(1, times.microseconds(times.keeping(retention, "retention")))
    if not isinstance(retention_bytes, EllipsisType):
        request.retention_bytes = 0 if retention_bytes is None else _whole("retention_bytes", retention_bytes, 2**62)
    if not isinstance(deduplication, EllipsisType):
        request.deduplication = times.microseconds(times.span(deduplication, "deduplication"))
    return request


def fits(topic: pb.Topic, request: pb.CreateTopicRequest) -> bool:
    """Whether a topic has all the settings of the request."""
    given = [field.name for field, _ in request.ListFields() if field.name not in ("name", "exists_ok")]
    return all(getattr(topic, name) == getattr(request, name) for name in given)


def _whole(name: str, value: object, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
        raise errors.InvalidArgument(f"{name}={value!r} is not valid.", hint=f"Use a whole number from 1 to {highest}.")
    return value


class TopicCalls:
    """The calls of a client about topics."""

    _connection: Connection
    _timeout: float
    _partitions: dict[str, int]
    """How many partitions a topic has, by name, as far as this client has heard."""
    _readers: OpenReaders

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        retention: timedelta | float | None = None,
        retention_bytes: int | None = None,
        table_retention: timedelta | float | None = None,
        deduplication: timedelta | float | None = None,
        payload: str = "inline",
        audited: bool = False,
        exists_ok: bool = False,
    ) -> Topic:
        """Creates a topic. None means the broker's default: its settings `topic.retention` and
        `topic.deduplication`, which is never longer than the retention. Raises `TopicExists` if
        there is one; with `exists_ok` returns it as it is.
        """
        request = creation(
            name,
            partitions=partitions,
            retention=retention,
            retention_bytes=retention_bytes,
            table_retention=table_retention,
            deduplication=deduplication,
            payload=payload,
            audited=audited,
            exists_ok=exists_ok,
        )
        return self._known(from_wire(pb.Topic.FromString(await self._change("CreateTopic", request))))

    async def topic(self, name: str) -> Topic:
        """A topic with its counts."""
        return self._known(from_wire(await self._describe(arguments.topic_name(name))))

    async def topics(self, pattern: str | None = None) -> AsyncIterator[Topic]:
        """All topics by name, or those whose names match a glob such as `orders.*`; page by
        page."""
        after: str | None = ""
        while after is not None:
            page, after = await self._topic_page(pattern, after)
            for topic in page:
                yield topic

    async def _topic_page(self, pattern: str | None, after: str) -> tuple[list[Topic], str | None]:
        """The topics after a name, and the name to continue after; None if these were the last."""
        glob = "" if pattern is None else arguments.pattern(pattern)
        request = pb.ListTopicsRequest(pattern=glob, after=after, limit=PAGE_TOPICS).SerializeToString()
        answer = pb.ListTopicsAnswer.FromString(await self._connection.call("ListTopics", request, self._timeout))
        page = [from_wire(message) for message in answer.topics]
        return page, page[-1].name if answer.more and page else None

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int | EllipsisType = ...,
        retention: timedelta | float | EllipsisType = ...,
        retention_bytes: int | EllipsisType | None = ...,
        table_retention: timedelta | float | EllipsisType | None = ...,
        deduplication: timedelta | float | EllipsisType = ...,
        payload: str | EllipsisType = ...,
        audited: bool | EllipsisType = ...,
    ) -> Topic:
        """Changes the given settings, and no others; `retention_bytes=None` removes the limit. A
        retention below the deduplication window shortens the window too, until the retention is
        longer again. Raises `TopicNotFound`, and `NotSupported` for settings that cannot change.
        """
        fixed = {"partitions": partitions, "table_retention": table_retention, "payload": payload, "audited": audited}
        request = alteration(name, fixed, retention=retention, retention_bytes=retention_bytes, deduplication=deduplication)
        altered = pb.Topic.FromString(await self._connection.call("AlterTopic", request.SerializeToString(), self._timeout))
        self._readers.altered(altered)
        return from_wire(altered)

    async def delete_topic(self, name: str, missing_ok: bool = False) -> None:
        """Deletes a topic and its messages."""
        self._partitions.pop(name, None)
        request = pb.DeleteTopicRequest(name=arguments.topic_name(name), missing_ok=missing_ok)
        answer = pb.DeleteTopicAnswer.FromString(await self._change("DeleteTopic", request))
        self._readers.topic_deleted(name, answer.topic_id)

    async def _change(self, method: str, request: Any) -> bytes:
        answer = await self._connection.change(method, request.SerializeToString(), self._timeout)
        return await self._done(request) if answer is None else answer

    async def _done(self, request: Any) -> bytes:
        if not isinstance(request, pb.CreateTopicRequest):
            return b""
        found = await self._describe(request.name)
        if not fits(found, request):
            hint = f"It has {found.partitions} partitions. Use exists_ok=True."
            raise errors.TopicExists(f"'{request.name}' exists, with other settings than these.", hint=hint)
        return found.SerializeToString()

    async def _describe(self, name: str) -> pb.Topic:
        request = pb.DescribeTopicRequest(name=name).SerializeToString()
        return pb.Topic.FromString(await self._connection.call("DescribeTopic", request, self._timeout))

    def _known(self, topic: Topic) -> Topic:
        self._partitions[topic.name] = topic.partitions
        return topic
