"""Topics as values, and the requests that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import EllipsisType

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.wire.generated import bowstring_pb2 as pb

PARTITIONS_MAX = 2**31 - 1
_FIXED = {
    "partitions": "the number of partitions is for ever, because keys would move to other partitions",
    "payload": "what a topic's payload is, is for ever",
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
    """Its number: a topic that is deleted and made again is another one."""
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
    """The request that makes a topic; refuses what makes no sense, and what this version cannot do. What is None is not sent: the broker
    fills it in."""
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
    """The request that changes a topic: what is given, and only that. What is `fixed` may not be given."""
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
    """Whether a topic is what the request would have made, in all that the request says."""
    given = [field.name for field, _ in request.ListFields() if field.name not in ("name", "exists_ok")]
    return all(getattr(topic, name) == getattr(request, name) for name in given)


def _whole(name: str, value: object, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
        raise errors.InvalidArgument(f"{name}={value!r} is not valid.", hint=f"Use a whole number from 1 to {highest}.")
    return value
