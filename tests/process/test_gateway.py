"""Handshake, topics and reading over real sockets, with the real broker behind them."""

from __future__ import annotations

import asyncio

import pytest

from bowstring import errors
from bowstring.gateway import topics
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import small_server
from tests.process import wire_calls as wire
from tests.process.wire_calls import refused

server = small_server.server
channel = small_server.channel


async def test_hello_tells_versions_limits_and_the_time(channel: Channel):
    answer = await wire.call(channel, "Hello", pb.HelloRequest(software="test", protocol=3, protocol_min=1), pb.HelloAnswer)
    assert (answer.protocol, answer.protocol_min, answer.batch_bytes_max, answer.publish_window) == (1, 1, 1 << 20, 16 << 20)
    assert len(answer.cluster) == 16
    assert answer.incarnation == 1
    assert answer.broker_time > 1_700_000_000_000_000
    assert answer.software.startswith("bowstring/")


@pytest.mark.parametrize(
    ("protocol", "protocol_min", "said"), [(5, 2, "2 to 5 .*newer broker"), (0, 0, "newer client"), (2, 2, "version 2 ")]
)
async def test_hello_refuses_versions_that_it_does_not_speak(channel: Channel, protocol: int, protocol_min: int, said: str):
    hello = pb.HelloRequest(protocol=protocol, protocol_min=protocol_min)
    await refused(wire.call(channel, "Hello", hello, pb.HelloAnswer), errors.NotSupported, said)


async def test_a_topic_is_created_described_listed_and_deleted(channel: Channel):
    made = await wire.create(channel, "orders", partitions=3, retention=86_400_000_000, deduplication=60_000_000, retention_bytes=10**9)
    assert (made.name, made.partitions, made.retention, made.deduplication, made.retention_bytes) == (
        "orders",
        3,
        86_400_000_000,
        60_000_000,
        10**9,
    )
    assert [(r.first, r.next) for r in made.ranges] == [(1, 1)] * 3
    assert await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic) == made
    assert await wire.create(channel, "orders", exists_ok=True) == made
    listed = await wire.call(channel, "ListTopics", pb.ListTopicsRequest(), pb.ListTopicsAnswer)
    assert list(listed.topics) == [made]
    assert not listed.more
    assert (await wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="orders"), pb.DeleteTopicAnswer)).deleted
    again = pb.DeleteTopicRequest(name="orders", missing_ok=True)
    assert not (await wire.call(channel, "DeleteTopic", again, pb.DeleteTopicAnswer)).deleted


async def test_defaults_of_a_topic(channel: Channel):
    made = await wire.create(channel, "plain")
    assert (made.partitions, made.retention, made.deduplication, made.retention_bytes) == (1, 7 * 86_400_000_000, 600_000_000, 0)


async def test_topics_are_listed_page_by_page(channel: Channel):
    for name in ("a1", "a2", "a3", "b1"):
        await wire.create(channel, name)
    first = await wire.call(channel, "ListTopics", pb.ListTopicsRequest(pattern="a*", limit=2), pb.ListTopicsAnswer)
    assert ([topic.name for topic in first.topics], first.more) == (["a1", "a2"], True)
    rest = await wire.call(channel, "ListTopics", pb.ListTopicsRequest(pattern="a*", limit=2, after="a2"), pb.ListTopicsAnswer)
    assert ([topic.name for topic in rest.topics], rest.more) == (["a3"], False)
    long = pb.ListTopicsRequest(pattern="*" * 2000)
    await refused(wire.call(channel, "ListTopics", long, pb.ListTopicsAnswer), errors.InvalidArgument, "maximum is 1000")


async def test_a_page_of_topics_with_many_partitions_is_cut(channel: Channel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topics, "PAGE_RANGES_MAX", 25)
    for number in range(4):
        await wire.create(channel, f"t{number}", partitions=10)
    page = await wire.call(channel, "ListTopics", pb.ListTopicsRequest(), pb.ListTopicsAnswer)
    assert ([topic.name for topic in page.topics], page.more) == (["t0", "t1"], True)
    rest = await wire.call(channel, "ListTopics", pb.ListTopicsRequest(after="t1"), pb.ListTopicsAnswer)
    assert ([topic.name for topic in rest.topics], rest.more) == (["t2", "t3"], False)


async def test_wrong_topics(channel: Channel):
    await wire.create(channel, "orders")
    error = await refused(wire.create(channel, "orders"), errors.TopicExists, "already")
    assert error.hint
    describe = pb.DescribeTopicRequest(name="order")
    said = r"there is no topic 'order'. Did you mean 'orders'\? .*client.create_topic\('order'\)"
    await refused(wire.call(channel, "DescribeTopic", describe, pb.Topic), errors.TopicNotFound, said)
    await refused(wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="x"), pb.DeleteTopicAnswer), errors.TopicNotFound)
    for name in ("", "a/b", "-a", "x" * 250, "é"):
        await refused(wire.create(channel, name), errors.InvalidArgument)
    await refused(wire.create(channel, "many", partitions=100_000), errors.InvalidArgument, "out of range")
    await refused(wire.create(channel, "odd", retention=1_000_000, deduplication=2_000_000), errors.InvalidArgument)


async def test_what_is_no_request_is_refused(channel: Channel):
    await refused(channel.call("CreateTopic", b"\xff\xff", 5), errors.InvalidArgument, "not a CreateTopic request")
    await refused(channel.call("CreateTopic", b"\x0a\x02\xff\xfe", 5), errors.InvalidArgument, "not a CreateTopic request")
    await refused(channel.call("Hello", b"x" * 100_000, 5), errors.InvalidArgument, "maximum is 65536")
    await refused(channel.call("Fly", b"", 5), errors.NotSupported)
    many = b"\x0a\x03abc" * 2_000_000
    await refused(channel.call("DescribeTopic", many, 20), errors.TooLarge)


# Reading


async def test_a_reader_waits_for_new_messages(channel: Channel):
    await wire.create(channel, "orders")
    reading = await wire.open_fetch(channel, "orders", (0, 1, 0))
    next_answer = asyncio.create_task(wire.fetched(reading))
    stream = await wire.open_publish(channel, "orders")
    await wire.publish(stream, 1, [b"a"])
    found = await next_answer
    assert found is not None
    assert found[1] == [b"a"]
    next_answer = asyncio.create_task(wire.fetched(reading))
    await wire.publish(stream, 2, [b"b"])
    found = await next_answer
    assert found is not None
    assert (found[1], found[0].next_offset) == ([b"b"], 3)
    reading.cancel()


async def test_answers_stop_when_the_credit_is_used_up(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    for number in range(1, 6):
        await wire.publish(stream, number, [b"x" * 5000])
    reading = await wire.open_fetch(channel, "orders", (0, 1, 6), credit=1)
    first = await wire.fetched(reading)
    assert first is not None
    assert first[0].stored_bytes > 5000  # a batch may overdraw
    waiting = asyncio.create_task(wire.fetched(reading))
    await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic)
    assert not waiting.done()
    await reading.write(pb.FetchRequest(credit=first[0].stored_bytes - 1).SerializeToString())
    await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic)
    assert not waiting.done()  # that only paid for what was overdrawn
    await reading.write(pb.FetchRequest(credit=1).SerializeToString())
    second = await waiting
    assert second is not None
    assert second[0].next_offset == 3
    await reading.write(pb.FetchRequest(credit=2**63).SerializeToString())
    await reading.write(pb.FetchRequest(credit=2**63).SerializeToString())
    rest = [await wire.fetched(reading) for _ in range(4)]
    assert rest[-1] is None


async def test_a_reader_that_grants_no_more_gets_what_it_granted(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await wire.publish(stream, 1, [b"x" * 100])
    await wire.publish(stream, 2, [b"x" * 100])
    reading = await wire.open_fetch(channel, "orders", (0, 1, 0), credit=1)
    await reading.end()
    assert (await wire.fetched(reading)) is not None
    assert (await wire.fetched(reading)) is None


async def test_a_reader_of_many_partitions(channel: Channel):
    await wire.create(channel, "wide", partitions=10_000)
    stream = await wire.open_publish(channel, "wide")
    await wire.publish(stream, 1, [b"here"], partition=9_999, previous=0)
    reading = await wire.open_fetch(channel, "wide", *((partition, 1, 0) for partition in range(10_000)))
    found = await wire.fetched(reading)
    assert found is not None
    assert (found[0].partition, found[1]) == (9_999, [b"here"])
    reading.cancel()


async def test_wrong_fetches(channel: Channel):
    await wire.create(channel, "orders")
    for froms, kind in [
        ([(0, 2, 0)], errors.OutOfRange),
        ([(0, 2**64 - 1, 0)], errors.OutOfRange),
        ([(1, 1, 0)], errors.InvalidArgument),
        ([], errors.InvalidArgument),
    ]:
        await refused((await wire.open_fetch(channel, "orders", *froms)).read(), kind)
    await refused((await wire.open_fetch(channel, "nowhere", (0, 1, 0))).read(), errors.TopicNotFound)
    for first in (b"\xff", pb.FetchRequest(credit=1).SerializeToString(), b"\x10\x01" * 530_000):
        stream = channel.stream("Fetch")
        await stream.write(first)
        await refused(stream.read(), errors.InvalidArgument)
    for later in (b"\xff", pb.FetchRequest(open=pb.FetchOpen(topic="orders")).SerializeToString()):
        stream = await wire.open_fetch(channel, "orders", (0, 1, 0))
        await stream.write(later)
        await refused(stream.read(), errors.InvalidArgument)


async def test_a_reader_of_a_topic_that_goes_is_told(channel: Channel):
    await wire.create(channel, "orders")
    reading = await wire.open_fetch(channel, "orders", (0, 1, 0))
    waiting = asyncio.create_task(wire.fetched(reading))
    await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic)
    await wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="orders"), pb.DeleteTopicAnswer)
    await refused(waiting, errors.TopicNotFound)
