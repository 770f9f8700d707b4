"""Waiting for news of topics, over real sockets with the real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import bowstring
from bowstring import errors
from bowstring.client.topic_watch import TopicWatch
from bowstring.ports.transport import Caller, Channel
from bowstring.server import Server
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import small_server
from tests.process import wire_calls as wire
from tests.process.wire_calls import refused

MINUTE = 60_000_000


server = small_server.server
channel = small_server.channel


def known(topic: pb.Topic) -> pb.KnownTopic:
    return pb.KnownTopic(name=topic.name, id=topic.id, sum=sum(each.first + each.next for each in topic.ranges))


async def watch(channel: Channel, *topics: pb.Topic, edition: int = 0, wait: int = MINUTE) -> pb.WatchTopicsAnswer:
    request = pb.WatchTopicsRequest(topics=map(known, topics), edition=edition, wait=wait)
    return await wire.call(channel, "WatchTopics", request, pb.WatchTopicsAnswer)


async def test_what_is_not_known_is_told_at_once(channel: Channel) -> None:
    topic = await wire.create(channel, "orders", partitions=2)
    first = await watch(channel)
    assert first.edition
    assert not first.topics
    older = pb.Topic(name="orders", id=topic.id)
    assert list((await watch(channel, older, edition=first.edition)).topics) == [topic]
    assert await watch(channel, topic, edition=first.edition, wait=0) == first


async def test_a_watch_waits_for_a_commit_in_its_topics(server: Server, channel: Channel) -> None:
    topic, other = await wire.create(channel, "orders"), await wire.create(channel, "other")
    edition = (await watch(channel)).edition
    waiting = asyncio.create_task(watch(channel, topic, edition=edition))
    async with bowstring.aio.connect(server.address) as client:
        async with client.producer("other") as producer:
            producer.send(b"nobody waits for this")
        assert not waiting.done()
        async with client.producer("orders") as producer:
            producer.send(b"news")
    answer = await waiting
    assert [(told.name, told.ranges[0].next) for told in answer.topics] == [("orders", 2)]
    assert answer.edition == edition
    assert (await watch(channel, other, edition=edition)).topics[0].ranges[0].next == 2


async def test_a_watch_is_given_up_when_its_caller_waits_no_longer(server: Server, channel: Channel) -> None:
    edition = (await watch(channel)).edition
    request = pb.WatchTopicsRequest(edition=edition, wait=MINUTE).SerializeToString()
    caller = Caller(transport="none that cancels", deadline=asyncio.get_running_loop().time() + 0.05)
    await refused(server._gateway.call("WatchTopics", request, caller), errors.Unavailable, "does not wait any more")
    assert not server._gateway._waiting


async def test_a_watch_ends_when_topics_come_and_go(channel: Channel) -> None:
    topic = await wire.create(channel, "orders")
    edition = (await watch(channel)).edition
    waiting = asyncio.create_task(watch(channel, topic, edition=edition))
    await wire.create(channel, "another")
    later = (await waiting).edition
    assert later != edition
    waiting = asyncio.create_task(watch(channel, topic, edition=later))
    await wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="orders"), pb.DeleteTopicAnswer)
    answer = await waiting
    assert answer.edition != later
    assert not answer.topics


async def test_a_watch_without_news_ends_with_its_time(channel: Channel) -> None:
    topic = await wire.create(channel, "orders")
    edition = (await watch(channel)).edition
    answer = await watch(channel, topic, edition=edition, wait=10_000)
    assert (answer.edition, len(answer.topics)) == (edition, 0)


async def test_a_broker_that_stops_ends_its_watches(server: Server, channel: Channel) -> None:
    topic = await wire.create(channel, "orders")
    edition = (await watch(channel)).edition
    waiting = asyncio.create_task(watch(channel, topic, edition=edition))
    await watch(channel, topic, edition=edition, wait=1)
    await server.stop()
    await refused(waiting, errors.Unavailable, "the broker is stopping")


@pytest.fixture
def client() -> Iterator[bowstring.Client]:
    with bowstring.Broker.ephemeral() as broker, broker.connect() as connected:
        yield connected


def test_the_kit_keeps_many_topics_up_to_date(client: bowstring.Client) -> None:
    """More than fit into one request."""
    names = [f"{'long-' * 40}{number:03}" for number in range(400)]
    for name in names:
        client.create_topic(name)
    lists = 0

    def listed() -> list[bowstring.Topic]:
        nonlocal lists
        lists += 1
        return list(client.topics())

    follower = TopicWatch(client, listed)
    assert len(list(follower._requests())) == 1
    assert list(follower.look()) == names
    assert len(list(follower._requests())) > 1
    for name in (names[0], names[-1]):
        client.producer(name).send(b"x").result(30)
    found = follower.look(60)
    assert [name for name, topic in found.items() if topic.messages] == [names[0], names[-1]]
    assert lists == 1
    client.delete_topic(names[7])
    assert len(follower.look(60)) == 399
    assert lists == 2
