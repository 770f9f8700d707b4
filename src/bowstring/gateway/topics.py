"""The calls about topics: a request message in, an answer message out.

Spans travel as microseconds and are seconds inside. A span that is absent is the broker's to fill in; 0 partitions mean "not given".
"""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker import topic_list
from bowstring.broker.broker import Broker
from bowstring.broker.topic_list import KnownTopic
from bowstring.broker.topics import TopicFacts
from bowstring.ports.transport import Caller
from bowstring.wire.generated import bowstring_pb2 as pb

PAGE_TOPICS_MAX: Final = 1000
PAGE_RANGES_MAX: Final = 100_000
"""A page of topics ends after this many partitions, whatever was asked for: an answer has to stay of a reasonable size."""
PATTERN_MAX: Final = 1000


async def create(broker: Broker, request: pb.CreateTopicRequest, caller: Caller) -> pb.Topic:
    """Makes a topic. Cancelling the call does not stop what has begun: a topic is made wholly or not at all."""
    made = await broker.create_topic(
        request.name,
        partitions=request.partitions or 1,
        retention=request.retention / 1e6 if request.HasField("retention") else None,
        retention_bytes=request.retention_bytes or None,
        deduplication=request.deduplication / 1e6 if request.HasField("deduplication") else None,
        exists_ok=request.exists_ok,
        caller=caller,
    )
    return topic_message(made)


async def describe(broker: Broker, request: pb.DescribeTopicRequest, caller: Caller) -> pb.Topic:
    return topic_message(broker.describe_topic(request.name))


async def list_page(broker: Broker, request: pb.ListTopicsRequest, caller: Caller) -> pb.ListTopicsAnswer:
    """A page of topics by name; the caller asks for the next one after the last name of this."""
    if len(request.pattern) > PATTERN_MAX:
        raise errors.InvalidArgument(f"the pattern has {len(request.pattern)} characters.", hint=f"The maximum is {PATTERN_MAX}.")
    found, more = broker.list_topics(request.pattern, request.after, min(request.limit or PAGE_TOPICS_MAX, PAGE_TOPICS_MAX))
    answer = pb.ListTopicsAnswer(more=more)
    ranges = 0
    for facts in found:
        ranges += facts.partitions
        if answer.topics and ranges > PAGE_RANGES_MAX:
            answer.more = True
            break
        answer.topics.append(topic_message(facts))
    return answer


async def watch(broker: Broker, request: pb.WatchTopicsRequest, caller: Caller) -> pb.WatchTopicsAnswer:
    """Waits for news of topics."""
    known = [KnownTopic(told.name, told.id, told.sum) for told in request.topics]
    news = await topic_list.watch(broker.serving.log, known, request.edition, request.wait / 1e6)
    return pb.WatchTopicsAnswer(edition=news.edition, topics=[topic_message(facts) for facts in news.topics])


async def alter(broker: Broker, request: pb.AlterTopicRequest, caller: Caller) -> pb.Topic:
    """Changes what is given, and only that."""
    altered = await broker.alter_topic(
        request.name,
        retention=request.retention / 1e6 if request.HasField("retention") else None,
        retention_bytes=request.retention_bytes if request.HasField("retention_bytes") else None,
        deduplication=request.deduplication / 1e6 if request.HasField("deduplication") else None,
        caller=caller,
    )
    return topic_message(altered)


async def delete(broker: Broker, request: pb.DeleteTopicRequest, caller: Caller) -> pb.DeleteTopicAnswer:
    """Deletes a topic; as with `create`, cancelling the call does not stop what has begun."""
    topic_id = await broker.delete_topic(request.name, request.missing_ok, caller)
    return pb.DeleteTopicAnswer(deleted=topic_id != 0, topic_id=topic_id)


def topic_message(facts: TopicFacts) -> pb.Topic:
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
