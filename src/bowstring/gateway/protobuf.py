"""The protobuf form of every call (`proto/bowstring/v1`): requests to values, answers to messages.
No other module of the gateway knows protobuf, but for `protobuf_queue` and `protobuf_letters`, which
have the calls about subscriptions.

Spans travel as microseconds and are seconds inside; a number that is 0 or a text that is empty
means "not given". Where a message has a batch, `wire.codec` splits it off and puts it on without
protobuf touching it. The size of a message is checked before it is parsed, because parsing costs
time by the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from bowstring import errors
from bowstring.broker.log.positions import PositionFacts
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.broker.reading.places import TopicPlace
from bowstring.broker.topic_list import KnownTopic, News
from bowstring.broker.topics import TopicFacts
from bowstring.core.answers import ResendAfter, Stored
from bowstring.gateway import protobuf_letters, protobuf_queue, requests
from bowstring.gateway.backup_session import BackupProgress, BackupTarget
from bowstring.gateway.fetch_session import FetchedRows, FetchNotice, FetchOpening, MoreCredit
from bowstring.gateway.publish_session import BatchAnswer, PublishOpening
from bowstring.ports.archive import Filled
from bowstring.ports.codec import CallForm, Codec
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces
from bowstring.wire.codec import BATCH_TAG, HEADER_BYTES_MAX, pieces, split
from bowstring.wire.error_messages import serialised, to_message
from bowstring.wire.generated import bowstring_pb2 as pb

M = TypeVar("M", bound=Message)

FETCH_REQUEST_BYTES_MAX: Final = 1024 * 1024
"""A reader may name all the partitions of a large topic."""
NO_BATCH: Final = memoryview(b"")
WHOLE_BYTES_MAX: Final = 4096
"""Below this copying a batch costs less than walking over the fields before it."""


# Publishing


def publish_request(message: Buffer) -> PublishOpening | PublishedBatch:
    """Parses a small message as a whole, which copies its batch; a large one without its batch."""
    return (len(message) <= WHOLE_BYTES_MAX and _small_batch(bytes(message))) or _publish_request(message)


def _small_batch(message: bytes) -> PublishedBatch | None:
    """A batch whose message is as our own kit writes it: known fields, each once, and the batch
    last. None otherwise: then `split` decides.
    """
    try:
        request = pb.PublishRequest.FromString(message)
    except DecodeError:
        return None
    batch = request.batch
    request.DiscardUnknownFields()
    size, start = len(batch), len(message) - len(batch)
    prefix = BATCH_TAG | (size & 0x7F | 0x80) << 8 | size >> 7 << 16  # tag and size of 128 bytes and more
    if size < 0x80 or request.ByteSize() != len(message) or request.HasField("open"):
        return None
    if int.from_bytes(message[start - 3 : start], "little") != prefix or not message.endswith(batch):
        return None
    number, previous, sent, timeout = request.number, request.previous, request.sent, request.timeout
    return PublishedBatch(request.partition, number, previous, sent, timeout, request.schema, request.columns, request.rows, batch)


def _publish_request(message: Buffer) -> PublishOpening | PublishedBatch:
    header, batch = split(message, HEADER_BYTES_MAX)
    try:
        request = pb.PublishRequest.FromString(header)
    except DecodeError:
        raise _not_a("publish") from None
    if request.HasField("open"):
        if batch is not None:
            raise errors.InvalidArgument("a publish request has both `open` and a batch.", hint="Send `open` alone, then batches.")
        opening = request.open
        return PublishOpening(opening.topic, opening.producer, opening.stream, opening.group)
    return PublishedBatch(
        request.partition,
        request.number,
        request.previous,
        request.sent,
        request.timeout,
        request.schema,
        request.columns,
        request.rows,
        NO_BATCH if batch is None else batch,
    )


def batch_answer(answer: BatchAnswer) -> bytes:
    partition, number, broker_time, outcome = answer
    message = pb.PublishAnswer(partition=partition, number=number, broker_time=broker_time)
    if isinstance(outcome, Stored):
        stored = message.stored
        stored.SetInParent()
        stored.first_offset = outcome.first_offset
        stored.rows = outcome.rows
        stored.duplicate = outcome.duplicate
        for repeat in outcome.repeats:
            stored.repeats.add(row=repeat.row, rows=repeat.rows, offset=repeat.offset)
    elif isinstance(outcome, ResendAfter):
        message.resend_after = outcome.number
    else:
        message.refused.CopyFrom(to_message(outcome))
        return serialised(message)
    return message.SerializeToString()


# Reading


def fetch_request(message: Buffer) -> FetchOpening | MoreCredit:
    request = _parsed(pb.FetchRequest, message, "fetch", FETCH_REQUEST_BYTES_MAX)
    if not request.HasField("open"):
        return MoreCredit(request.credit)
    opening = request.open
    return FetchOpening(
        topic=opening.topic,
        ranges=[(wanted.partition, wanted.offset, wanted.end) for wanted in opening.partitions],
        until=opening.until,
        columns=opening.columns if opening.HasField("columns") else None,
        where=opening.where,
        held={wanted.partition: wanted.held for wanted in opening.partitions if wanted.held} if opening.notices else None,
        topic_id=opening.topic_id,
        credit=request.credit,
    )


def fetch_answer(answer: FetchedRows | FetchNotice) -> bytes | Pieces:
    return fetched_rows(answer) if isinstance(answer, FetchedRows) else fetch_notice(answer)


def fetched_rows(answer: FetchedRows) -> bytes | Pieces:
    """The header of a piece of a partition, and behind it the batch as the broker holds it: not
    copied, because it is in a cache, or was read for this answer."""
    fetched, now = answer
    header = pb.FetchAnswer(now=now)
    protobuf_queue.fill_page(header, fetched)
    head = header.SerializeToString()
    return head if fetched.data is None else pieces(head, fetched.data)


def fetch_notice(answer: FetchNotice) -> bytes:
    notice = answer.notice
    deleted = [pb.Run(offset=offset, rows=rows) for offset, rows in notice.deleted]
    told = pb.FetchNotice(retention=notice.retention, partition=notice.partition, deleted=deleted, done=answer.done)
    return pb.FetchAnswer(now=answer.now, notice=told).SerializeToString()


# Backing up


def backup_request(message: Buffer) -> BackupTarget:
    request = _parsed(pb.BackupRequest, message, "backup")
    return BackupTarget(request.target, request.proof)


def backup_answer(answer: BackupProgress | Filled) -> pb.BackupAnswer:
    if isinstance(answer, BackupProgress):
        return pb.BackupAnswer(bytes=answer.done, bytes_total=answer.total)
    return pb.BackupAnswer(bytes=answer.bytes, bytes_total=answer.bytes, done=True, segments=answer.segments, damaged=answer.damaged)


# The handshake and topics


def welcome(answer: requests.Welcome) -> pb.HelloAnswer:
    return pb.HelloAnswer(**answer._asdict())


def create_topic(request: pb.CreateTopicRequest) -> requests.CreateTopicRequest:
    return requests.CreateTopicRequest(
        name=request.name,
        partitions=request.partitions or 1,
        retention=_seconds(request, "retention"),
        retention_bytes=request.retention_bytes or None,
        deduplication=_seconds(request, "deduplication"),
        exists_ok=request.exists_ok,
    )


def alter_topic(request: pb.AlterTopicRequest) -> requests.AlterTopicRequest:
    return requests.AlterTopicRequest(
        name=request.name,
        retention=_seconds(request, "retention"),
        retention_bytes=request.retention_bytes if request.HasField("retention_bytes") else None,
        deduplication=_seconds(request, "deduplication"),
    )


def watch_topics(request: pb.WatchTopicsRequest) -> requests.WatchTopicsRequest:
    known = [KnownTopic(told.name, told.id, told.sum) for told in request.topics]
    return requests.WatchTopicsRequest(known, request.edition, request.wait / 1e6)


def topic(facts: TopicFacts) -> pb.Topic:
    return pb.Topic(
        name=facts.name,
        id=facts.id,
        partitions=facts.partitions,
        created=facts.created,
        retention=round(facts.retention * 1e6),
        retention_bytes=facts.retention_bytes or 0,
        deduplication=round(facts.deduplication * 1e6),
        messages=facts.messages,
        bytes=facts.bytes,
        ranges=[pb.PartitionRange(first=first, next=following) for first, following in facts.ranges],
    )


def topic_page(page: requests.TopicPage) -> pb.ListTopicsAnswer:
    return pb.ListTopicsAnswer(topics=map(topic, page.topics), more=page.more)


def topic_news(news: News) -> pb.WatchTopicsAnswer:
    return pb.WatchTopicsAnswer(edition=news.edition, topics=map(topic, news.topics))


def topic_deleted(topic_id: int) -> pb.DeleteTopicAnswer:
    return pb.DeleteTopicAnswer(deleted=topic_id != 0, topic_id=topic_id)


# Messages by their ids


def message_place(found: requests.MessagePlace | None) -> pb.FindAnswer:
    return pb.FindAnswer() if found is None else pb.FindAnswer(found=True, partition=found.partition, offset=found.offset)


def cancelled_messages(answer: requests.DeletedMessages) -> pb.CancelMessagesAnswer:
    deleted = deleted_messages(answer)
    return pb.CancelMessagesAnswer(topic_id=deleted.topic_id, messages=deleted.messages)


def moved_messages(answer: requests.DeletedMessages) -> pb.MoveMessagesAnswer:
    deleted = deleted_messages(answer)
    return pb.MoveMessagesAnswer(topic_id=deleted.topic_id, messages=deleted.messages)


def deleted_messages(answer: requests.DeletedMessages) -> pb.DeleteMessagesAnswer:
    message = pb.DeleteMessagesAnswer(topic_id=answer.topic_id)
    for outcome in answer.outcomes:
        if isinstance(outcome, errors.Error):
            message.messages.add(refused=to_message(outcome))
        else:
            message.messages.add(partition=outcome.partition, offset=outcome.offset)
    return message


# Places and positions


def offsets(request: pb.OffsetsRequest) -> requests.OffsetsRequest:
    given = request.WhichOneof("at")
    place = None if given is None else TopicPlace(**{given: getattr(request, given)})
    return requests.OffsetsRequest(request.topic, request.partitions, place)


def placed_offsets(answer: requests.PlacedOffsets) -> pb.OffsetsAnswer:
    message = pb.OffsetsAnswer(topic_id=answer.topic_id)
    for partition, offset in answer.offsets.items():
        message.offsets.add(partition=partition, offset=offset)
    return message


def commit_position(request: pb.CommitPositionRequest) -> requests.CommitPositionRequest:
    return requests.CommitPositionRequest(request.topic, request.name, _offsets(request.offsets), request.topic_id)


def set_position(request: pb.SetPositionRequest) -> requests.SetPositionRequest:
    return requests.SetPositionRequest(request.topic, request.name, _offsets(request.offsets), request.dry_run)


def list_positions(request: pb.ListPositionsRequest) -> requests.ListPositionsRequest:
    return requests.ListPositionsRequest(request.topic, (request.after_topic, request.after_name), request.limit)


def position(facts: PositionFacts) -> pb.Position:
    message = pb.Position(name=facts.name, topic=facts.topic)
    for partition, offset, moved, lag in facts.offsets:
        message.offsets.add(partition=partition, offset=offset, moved=moved, lag=lag)
    return message


def position_page(page: requests.PositionPage) -> pb.ListPositionsAnswer:
    return pb.ListPositionsAnswer(positions=map(position, page.positions), more=page.more)


def position_deleted(deleted: bool) -> pb.DeletePositionAnswer:
    return pb.DeletePositionAnswer(deleted=deleted)


# Every call


def _offsets(given: Iterable[pb.PartitionOffset]) -> dict[int, int]:
    return {each.partition: each.offset for each in given}


def _seconds(request: pb.CreateTopicRequest | pb.AlterTopicRequest, field: str) -> float | None:
    return getattr(request, field) / 1e6 if request.HasField(field) else None  # pyright: ignore[reportArgumentType]


def _parsed(kind: type[M], message: Buffer, name: str, bytes_max: int = HEADER_BYTES_MAX) -> M:
    if len(message) > bytes_max:
        raise errors.InvalidArgument(f"a {name} request has {len(message)} bytes.", hint=f"The maximum is {bytes_max}.")
    try:
        return kind.FromString(bytes(message))
    except DecodeError:
        raise _not_a(name) from None


def _not_a(name: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"this is not a {name} request.", hint="The schema is in proto/bowstring/v1.")


def _unary(name: str, decode: Callable[[Any], Any], encode: Callable[[Any], Message]) -> CallForm:
    """The form of a unary call, whose request is the message of its name."""
    kind: type[Message] = getattr(pb, f"{name}Request")
    return CallForm(lambda message: decode(_parsed(kind, message, name)), lambda answer: serialised(encode(answer)))


def _fields(kind: type[Any]) -> Callable[[Any], Any]:
    """Makes the value of a request whose fields have the same names and types in the schema."""
    return lambda request: kind(*(getattr(request, field) for field in kind._fields))


PROTOBUF: Final[Codec] = {
    "Hello": _unary("Hello", _fields(requests.HelloRequest), welcome),
    "CreateTopic": _unary("CreateTopic", create_topic, topic),
    "DescribeTopic": _unary("DescribeTopic", _fields(requests.DescribeTopicRequest), topic),
    "ListTopics": _unary("ListTopics", _fields(requests.ListTopicsRequest), topic_page),
    "WatchTopics": _unary("WatchTopics", watch_topics, topic_news),
    "AlterTopic": _unary("AlterTopic", alter_topic, topic),
    "DeleteTopic": _unary("DeleteTopic", _fields(requests.DeleteTopicRequest), topic_deleted),
    "Publish": CallForm(publish_request, batch_answer),
    "Fetch": CallForm(fetch_request, fetch_answer),
    "Offsets": _unary("Offsets", offsets, placed_offsets),
    "CommitPosition": _unary("CommitPosition", commit_position, position),
    "SetPosition": _unary("SetPosition", set_position, position),
    "DescribePosition": _unary("DescribePosition", _fields(requests.DescribePositionRequest), position),
    "ListPositions": _unary("ListPositions", list_positions, position_page),
    "DeletePosition": _unary("DeletePosition", _fields(requests.DeletePositionRequest), position_deleted),
    "Find": _unary("Find", _fields(requests.FindRequest), message_place),
    "DeleteMessages": _unary("DeleteMessages", _fields(requests.DeleteMessagesRequest), deleted_messages),
    "CancelMessages": _unary("CancelMessages", _fields(requests.CancelMessagesRequest), cancelled_messages),
    "MoveMessages": _unary("MoveMessages", _fields(requests.MoveMessagesRequest), moved_messages),
    "CreateSubscription": _unary("CreateSubscription", protobuf_queue.create_subscription, protobuf_queue.subscription),
    "AlterSubscription": _unary("AlterSubscription", protobuf_queue.alter_subscription, protobuf_queue.subscription),
    "DescribeSubscription": _unary("DescribeSubscription", _fields(requests.DescribeSubscriptionRequest), protobuf_queue.subscription),
    "ListSubscriptions": _unary("ListSubscriptions", protobuf_queue.list_subscriptions, protobuf_queue.subscription_page),
    "DeleteSubscription": _unary("DeleteSubscription", _fields(requests.DeleteSubscriptionRequest), protobuf_queue.subscription_deleted),
    "SeekSubscription": _unary("SeekSubscription", protobuf_queue.seek_subscription, protobuf_queue.subscription_sought),
    "Peek": _unary("Peek", protobuf_queue.peek, protobuf_queue.peeked),
    "ListDeadLetters": _unary("ListDeadLetters", protobuf_letters.list_dead_letters, protobuf_letters.letter_page),
    "Redrive": _unary("Redrive", protobuf_letters.redrive, protobuf_letters.redriven),
    "PurgeDeadLetters": _unary("PurgeDeadLetters", protobuf_letters.redrive, protobuf_letters.purged),
    "Consume": CallForm(protobuf_queue.consume_request, protobuf_queue.consume_answer),
    "ListLeases": _unary("ListLeases", protobuf_queue.list_leases, protobuf_queue.lease_page),
    "ReleaseLeases": _unary("ReleaseLeases", protobuf_queue.release_leases, protobuf_queue.leases_released),
    "ExplainKey": _unary("ExplainKey", protobuf_queue.explain_key, protobuf_queue.key_explanation),
    "Backup": CallForm(backup_request, lambda answer: backup_answer(answer).SerializeToString()),
}
"""The forms of all calls, in the order of the table."""
