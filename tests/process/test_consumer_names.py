"""Consumers come, go, come back under their name, and collide, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bowstring import aio, errors
from bowstring.broker.queue.lease_requests import SubscribePartition
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.ports.transport import Channel
from bowstring.server import open_broker
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_client import NativeDialer
from tests.process import consuming_broker
from tests.process import wire_calls as wire
from tests.process.consuming import MUCH, PlainConsumer, consume, rows_settled
from tests.process.consuming_broker import SECOND, Shop, described, dial, leases, subscribe
from tests.process.wire_calls import refused

broker = consuming_broker.broker
channel = consuming_broker.channel

ACK, NACK = 1, 2


@pytest.fixture
async def shop(channel: Channel, broker: aio.Broker) -> Shop:
    await subscribe(channel)
    return await consuming_broker.shop(channel, broker)


async def gone(consumer: PlainConsumer, channel: Channel) -> None:
    """The connection is lost, and the broker knows."""
    consumer.stream.cancel()
    while any(one.connected for one in (await described(channel)).consumers):
        pass


async def test_a_lost_connection_gives_nothing_back_and_its_name_gets_it_again(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(b"a", b"b", b"c")
    push = await first.next("push")
    await first.settle(0, NACK, [(push.told.lease.grant, [(2, 1)])])
    second = await first.next("push")
    assert second.offsets == [2]
    await gone(first, channel)
    other = await consume(channel, "orders", "billing", "other")
    assert not await other.comes(0.05)
    back = await consume(channel, "orders", "billing")
    again = [await back.next("push"), await back.next("push")]
    assert [(each.offsets, each.retry_counts, each.told.lease.again) for each in again] == [([1, 3], [0, 0], True), ([2], [1], True)]
    assert [each.told.lease.grant for each in again] == [push.told.lease.grant, second.told.lease.grant]
    assert again[0].told.lease.until == push.told.lease.until


async def test_what_the_kit_holds_is_not_sent_again_and_what_it_lost_is_told(channel: Channel, broker: aio.Broker, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(b"a")
    ended = await first.next("push")
    await broker.clock.advance(20)
    await shop.publish(b"b")
    held = await first.next("push")
    await gone(first, channel)
    await broker.clock.advance(15)
    grants = [ended.told.lease.grant, held.told.lease.grant]
    back = await consume(
        channel, "orders", "billing", held=[pb.HeldLeases(partition=0, grants=grants), pb.HeldLeases(partition=9, grants=[4])]
    )
    lost = (await back.next("lost")).told.lost
    assert {(one.partition, tuple(one.grants)) for one in lost} == {(0, (grants[0],)), (9, (4,))}
    again = await back.next("push")
    assert (again.offsets, again.retry_counts, again.told.lease.again) == ([1], [1], False)


async def test_settlements_that_are_sent_again_come_before_anything_is_pushed(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(b"a", b"b")
    push = await first.next("push")
    grant = push.told.lease.grant
    await first.settle(0, NACK, [(grant, [(1, 1)])])
    await gone(first, channel)
    back = await consume(channel, "orders", "billing", ready=False, held=[pb.HeldLeases(partition=0, grants=[grant])])
    repeated = rows_settled(0, 1, NACK, [(grant, [(1, 1)])])
    fresh = rows_settled(0, 2, ACK, [(grant, [(2, 1)])])
    await back.send(settle=[repeated, fresh])
    settled = (await back.next("settled")).told.settled
    assert [(one.request, len(one.refused)) for one in settled] == [(1, 0), (2, 0)]
    assert not back.kept
    assert not await back.comes(0.05)
    await back.send(ready=True)
    assert list((await back.next("lost")).told.lost[0].grants) == [grant]
    again = await back.next("push")
    assert (again.offsets, again.retry_counts) == ([1], [1])


async def test_leases_that_come_again_respect_the_credit(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(*[b"%d" % n for n in range(10)])
    await first.next("push")
    await gone(first, channel)
    back = await consume(channel, "orders", "billing", credit={"messages": 4, "bytes": 1 << 20})
    again = await back.next("push")
    assert (again.offsets, again.told.lease.again) == ([1, 2, 3, 4], True)
    assert not await back.comes(0.05)
    await back.settle(0, ACK, [(again.told.lease.grant, [(1, 3)])])
    assert (await back.next("push")).offsets == [5, 6, 7]


async def test_the_same_instance_replaces_its_older_stream(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(b"a")
    await first.next("push")
    second = await consume(channel, "orders", "billing")
    await refused(first.next("push"), errors.Unavailable, "a newer stream of this consumer")
    assert (await second.next("push")).told.lease.again


async def test_a_name_is_in_use_while_its_consumer_answers(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    coming = asyncio.create_task(consume(channel, "orders", "billing", instance=b"2" * 16))
    ping = await first.next("ping")
    await first.send(pong=ping.told.ping)
    await refused(coming, errors.NameInUse, "'ada' is connected from 127.0.0.1")
    await shop.publish(b"a")
    assert (await first.next("push")).offsets == [1]


async def test_a_consumer_that_is_silent_for_two_seconds_loses_its_name(channel: Channel, broker: aio.Broker, shop: Shop):
    first = await consume(channel, "orders", "billing")
    await shop.publish(b"a")
    await first.next("push")
    coming = asyncio.create_task(consume(channel, "orders", "billing", instance=b"2" * 16))
    await first.next("ping")
    await broker.clock.advance(1.9)
    assert not coming.done()
    await broker.clock.advance(0.1)
    second = await coming
    await refused(first.next("push"), errors.NameInUse, "did not answer")
    assert (await second.next("push")).told.lease.again


async def test_a_settlement_that_never_came_is_not_taken_for_one_of_the_program_that_had_the_name_meanwhile(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing", instance=b"1" * 16)
    await shop.publish(b"a", b"b")
    grant = (await first.next("push")).told.lease.grant
    never_sent = rows_settled(0, first.numbers_from + 1, ACK, [(grant, [(1, 1)])], answered=first.numbers_from)
    await gone(first, channel)
    second = await consume(channel, "orders", "billing", instance=b"2" * 16)
    assert second.numbers_from > first.numbers_from
    await second.next("push")
    second.requests[0] = second.numbers_from
    await second.settle(0, ACK, [(grant, [(2, 1)])], answered=second.numbers_from)
    await gone(second, channel)
    back = await consume(channel, "orders", "billing", instance=b"1" * 16)
    await back.send(settle=[never_sent])
    (settled,) = (await back.next("settled")).told.settled
    assert [(list(each.offsets), list(each.rows)) for each in settled.refused] == [([1], [1])]
    back.requests[0] = back.numbers_from
    assert not (await back.settle(0, ACK, [(grant, [(1, 1)])], answered=back.numbers_from)).refused


async def test_a_name_that_gets_free_meanwhile_is_taken_at_once(channel: Channel, shop: Shop):
    first = await consume(channel, "orders", "billing")
    coming = asyncio.create_task(consume(channel, "orders", "billing", instance=b"2" * 16))
    await first.next("ping")
    await first.stream.end()
    await shop.publish(b"a")
    assert (await (await coming).next("push")).offsets == [1]


async def test_a_reconnect_names_the_subscription_that_it_means(channel: Channel, shop: Shop):
    opened = await consume(channel, "orders", "billing", subscription_id=1)
    await opened.stream.end()
    create = pb.CreateSubscriptionRequest()
    await refused(consume(channel, "orders", "billing", subscription_id=2, create=create), errors.SubscriptionNotFound, "was deleted")
    await refused(consume(channel, "orders", "billing", topic_id=99), errors.TopicNotFound, "made again")
    await refused(
        consume(channel, "orders", "other", subscription_id=2, create=pb.CreateSubscriptionRequest()), errors.SubscriptionNotFound
    )


async def test_leases_and_settlements_survive_a_restart(tmp_path: Path):
    async with aio.Broker(data=tmp_path, clock="manual") as broker:
        channel = dial(broker)
        await subscribe(channel, lease=60 * SECOND)
        shop = await consuming_broker.shop(channel, broker)
        consumer = await consume(channel, "orders", "billing")
        await shop.publish(b"a", b"b", b"c")
        push = await consumer.next("push")
        grant = push.told.lease.grant
        await consumer.settle(0, NACK, [(grant, [(1, 1)])])
        again = await consumer.next("push")
        await consumer.settle(0, ACK, [(grant, [(2, 1)])])
        await channel.close()
        await broker.restart()
        channel = dial(broker)
        back = await consume(channel, "orders", "billing", ready=False)
        await back.send(settle=[rows_settled(0, 1, NACK, [(grant, [(1, 1)])])])
        assert not (await back.next("settled")).told.settled[0].refused
        await back.send(ready=True)
        pushes = [await back.next("push"), await back.next("push")]
        assert [(each.offsets, each.retry_counts) for each in pushes] == [([3], [0]), ([1], [1])]
        assert [each.told.lease.until for each in pushes] == [push.told.lease.until, again.told.lease.until]
        await back.pause(channel)
        await broker.clock.advance(61)
        assert (await described(channel)).leased == 0
        await back.send(credit=pb.ConsumeCredit(**MUCH))
        later = await back.next("push")
        assert (later.offsets, later.retry_counts) == ([1, 3], [2, 1])
        assert not (await leases(channel, consumer="nobody")).leases
        await channel.close()


async def test_rows_that_were_never_sent_are_given_back_uncounted(channel: Channel, shop: Shop):
    """A consumer that reads nothing has some megabytes in its way; the rest of its grant goes to
    others when it leaves.
    """
    first = await consume(channel, "orders", "billing", "first")
    await shop.publish(*[b"x" * 100_000] * 8)
    for _ in range(40):
        await shop.publish(*[b"x" * 100_000] * 8)
    await gone(first, channel)
    other = await consume(channel, "orders", "billing", "other")
    push = await other.next("push")
    assert push.retry_counts == [0] * len(push.offsets)
    assert push.offsets[0] > 8


async def test_a_creation_that_was_cut_off_is_finished_at_load(tmp_path: Path):
    """One broker writes all partitions in one flush, so such a journal is made by hand: the
    subscription is in one partition only.
    """
    settings = wire.settings(tmp_path)
    server = await open_broker(settings)
    channel = NativeDialer().dial(server.address)
    await wire.create(channel, "orders", partitions=3)
    publishing = await wire.open_publish(channel, "orders")
    await wire.publish(publishing, 1, [b"a"], partition=2)
    actor = server.broker.serving.topics.topic("orders").actors[1]
    await actor.ask(SubscribePartition(4, "billing", SubscriptionSettings("shared", 5 * SECOND), 77, 0))
    await channel.close()
    await server.stop()
    for _ in range(2):
        server = await open_broker(settings)
        channel = NativeDialer().dial(server.address)
        facts = await described(channel)
        assert (facts.id, facts.lease, facts.created, facts.backlog, len(facts.partitions)) == (4, 5 * SECOND, 77, 1, 3)
        assert (await subscribe(channel, name=f"other-{server.broker.incarnation}")).id > 4
        await channel.close()
        await server.stop()
