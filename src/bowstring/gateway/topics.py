"""The calls about topics."""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker import topic_list
from bowstring.broker.broker import Broker
from bowstring.broker.topic_list import News
from bowstring.broker.topics import TopicFacts
from bowstring.gateway.requests import (
    AlterTopicRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    DescribeTopicRequest,
    ListTopicsRequest,
    TopicPage,
    WatchTopicsRequest,
)
from bowstring.ports.transport import Caller

PAGE_TOPICS_MAX: Final = 1000
PAGE_RANGES_MAX: Final = 100_000
"""A page of topics ends after this many partitions, whatever its caller asks for: this bounds the
size of an answer."""
PATTERN_MAX: Final = 1000


async def create(broker: Broker, request: CreateTopicRequest, caller: Caller) -> TopicFacts:
    """Makes a topic. Cancelling the call does not stop what has begun: a topic is made wholly or
    not at all."""
    return await broker.topics.create(
        request.name,
        partitions=request.partitions,
        retention=request.retention,
        retention_bytes=request.retention_bytes,
        deduplication=request.deduplication,
        exists_ok=request.exists_ok,
        caller=caller,
    )


async def describe(broker: Broker, request: DescribeTopicRequest, caller: Caller) -> TopicFacts:
    return broker.topics.describe(request.name)


async def list_page(broker: Broker, request: ListTopicsRequest, caller: Caller) -> TopicPage:
    """Gives a page of topics by name.
    The caller asks for the next page with the last name of this one."""
    if len(request.pattern) > PATTERN_MAX:
        raise errors.InvalidArgument(f"the pattern has {len(request.pattern)} characters.", hint=f"The maximum is {PATTERN_MAX}.")
    found, more = broker.topics.list_page(request.pattern, request.after, min(request.limit or PAGE_TOPICS_MAX, PAGE_TOPICS_MAX))
    ranges = 0
    for count, facts in enumerate(found):
        ranges += facts.partitions
        if count and ranges > PAGE_RANGES_MAX:
            return TopicPage(found[:count], more=True)
    return TopicPage(found, more)


async def watch(broker: Broker, request: WatchTopicsRequest, caller: Caller) -> News:
    """Waits for news of topics."""
    return await topic_list.watch(broker.serving.log, request.topics, request.edition, request.wait)


async def alter(broker: Broker, request: AlterTopicRequest, caller: Caller) -> TopicFacts:
    """Changes the settings that are given, and no others."""
    return await broker.topics.alter(
        request.name,
        retention=request.retention,
        retention_bytes=request.retention_bytes,
        deduplication=request.deduplication,
        caller=caller,
    )


async def delete(broker: Broker, request: DeleteTopicRequest, caller: Caller) -> int:
    """Deletes a topic and gives its id, 0 if there was none. As with `create`, cancelling the call
    does not stop what has begun."""
    return await broker.topics.delete(request.name, request.missing_ok, caller)
