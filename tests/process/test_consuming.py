"""Queues over real sockets, by a plain client: leases, settlements, credit."""

from __future__ import annotations

import asyncio

import pytest

from bowstring import aio, errors
from bowstring.messages.ids import generated
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import consuming_broker
from tests.process import wire_calls as wire
from tests.process.consuming import MUCH, PlainConsumer, consume
from tests.process.consuming_broker import SECOND, Shop, described, leases, subscribe
from tests.process.wire_calls import refused

broker = consuming_broker.broker
channel = consuming_broker.channel

ACK, NACK, REJECT, RELEASE = 1, 2, 3, 4


@pytest.fixture
async def shop(channel: Channel, broker: aio.Broker) -> Shop:
    await subscribe(channel)
    return await consuming_broker.shop(channel, broker)


async def nothing_comes(consumer: PlainConsumer, channel: Channel) -> None:
    """A push that is not to come would be there by now: a call goes through the same flushes."""
    for _ in range(3):
        await described(channel)
    assert not consumer.kept
    assert not await consumer.comes(0.05)


async def test_what_is_published_is_leased_acked_and_gone(channel: Channel, broker: aio.Broker):
    made = await subscribe(channel)
    assert (made.topic, made.name, made.id, made.mode, made.lease, made.backlog) == ("orders", "billing", 1, "shared", 30 * SECOND, 0)
    consumer = await consume(channel, "orders", "billing")
    shop = await consuming_broker.shop(channel, broker)
    await shop.publish(b"a", b"b", b"c")
    push = await consumer.next("push")
    assert (push.offsets, push.values, push.retry_counts) == ([1, 2, 3], [b"a", b"b", b"c"], [0, 0, 0])
    assert push.told.lease.until == push.told.now + 30 * SECOND
    facts = await described(channel)
    assert (facts.backlog, facts.leased, [one.name for one in facts.consumers], facts.oldest > 0) == (3, 3, ["ada"], True)
    assert not (await consumer.ack(push)).refused
    facts = await described(channel)
    assert (facts.backlog, facts.leased, facts.partitions[0].floor, facts.oldest) == (0, 0, 4, 0)
    assert (facts.delivered_rate > 0, facts.acked_rate > 0, facts.nacked_rate) == (True, True, 0)


@pytest.mark.parametrize(("outcome", "counts"), [(NACK, [1, 1]), (RELEASE, [0, 0])])
async def test_what_is_given_back_comes_again_at_once(channel: Channel, shop: Shop, outcome: int, counts: list[int]):
    consumer = await consume(channel, "orders", "billing")
    await shop.publish(b"a", b"b", b"c")
    first = await consumer.next("push")
    assert not (await consumer.settle(0, outcome, [(first.told.lease.grant, [(1, 1), (3, 1)])])).refused
    again = await consumer.next("push")
    assert (again.offsets, again.values, again.retry_counts) == ([1, 3], [b"a", b"c"], counts)
    assert again.told.lease.grant > first.told.lease.grant
    assert not again.told.lease.again


async def test_a_lease_that_ends_gives_its_rows_to_another_and_counts(channel: Channel, broker: aio.Broker, shop: Shop):
    slow = await consume(channel, "orders", "billing", "slow")
    await shop.publish(b"a", b"b")
    held = await slow.next("push")
    quick = await consume(channel, "orders", "billing", "quick")
    await broker.clock.advance(29.9)
    await nothing_comes(quick, channel)
    await slow.pause(channel)
    await broker.clock.advance(0.1)
    taken = await quick.next("push")
    assert (taken.offsets, taken.retry_counts) == ([1, 2], [1, 1])
    late = await slow.settle(0, ACK, [(held.told.lease.grant, [(1, 2)])])
    (lost,) = late.refused
    assert (lost.standing, lost.holder, list(lost.offsets), list(lost.rows)) == ("leased", "quick", [1], [2])
    assert lost.until == taken.told.lease.until
    assert (await described(channel)).expired_rate > 0


async def test_an_extended_lease_lasts(channel: Channel, broker: aio.Broker, shop: Shop):
    holder = await consume(channel, "orders", "billing", "holder", credit={"messages": 2, "bytes": 1 << 20})
    await shop.publish(b"a", b"b")
    push = await holder.next("push")
    await broker.clock.advance(20)
    await holder.send(extend=[pb.ExtendRows(number=7, grants=[push.told.lease.grant], runs=[1], offsets=[1], rows=[1])])
    (extended,) = (await holder.next("extended")).told.extended
    assert (extended.number, extended.until - push.told.lease.until, len(extended.refused)) == (7, 20 * SECOND, 0)
    await holder.pause(channel)
    other = await consume(channel, "orders", "billing", "other")
    await broker.clock.advance(10)
    assert (await other.next("push")).offsets == [2]
    await other.send(credit=pb.ConsumeCredit(messages=3, bytes=1 << 20))
    await broker.clock.advance(19.9)
    await nothing_comes(other, channel)
    await broker.clock.advance(0.1)
    again = await other.next("push")
    assert (again.offsets, again.retry_counts) == ([1], [1])


async def test_extend_refuses_what_is_not_held(channel: Channel, broker: aio.Broker, shop: Shop):
    holder = await consume(channel, "orders", "billing")
    await shop.publish(b"a", b"b")
    push = await holder.next("push")
    await holder.ack(push)
    await holder.send(extend=[pb.ExtendRows(number=1, grants=[push.told.lease.grant, 99], runs=[1, 0], offsets=[1], rows=[1])])
    (extended,) = (await holder.next("extended")).told.extended
    assert [(lost.grant, lost.standing, list(lost.offsets)) for lost in extended.refused] == [(1, "settled", [1]), (99, "", [])]


async def test_the_credit_in_messages_is_never_exceeded(channel: Channel, shop: Shop):
    consumer = await consume(channel, "orders", "billing", credit={"messages": 3, "bytes": 1 << 30})
    await shop.publish(*[b"%d" % n for n in range(10)])
    push = await consumer.next("push")
    assert push.offsets == [1, 2, 3]
    await nothing_comes(consumer, channel)
    await consumer.settle(0, ACK, [(push.told.lease.grant, [(2, 1)])])
    assert (await consumer.next("push")).offsets == [4]
    await consumer.send(credit=pb.ConsumeCredit(messages=5, bytes=1 << 30))
    assert (await consumer.next("push")).offsets == [5, 6]


async def test_a_pause_and_going_on(channel: Channel, shop: Shop):
    consumer = await consume(channel, "orders", "billing", credit={})
    await shop.publish(b"a")
    await nothing_comes(consumer, channel)
    await consumer.send(credit=pb.ConsumeCredit(**MUCH))
    push = await consumer.next("push")
    await consumer.pause(channel)
    await consumer.ack(push)
    await shop.publish(b"b")
    await nothing_comes(consumer, channel)


async def test_the_credit_in_bytes_is_never_exceeded_but_by_one_message(channel: Channel, shop: Shop):
    consumer = await consume(channel, "orders", "billing", credit={"messages": 100, "bytes": 40_000})
    await shop.publish(*[b"x" * 10_000] * 6)
    pushes = await consumer.rows(3)
    assert sum(push.told.page.stored_bytes for push in pushes) <= 40_000
    assert [offset for push in pushes for offset in push.offsets] == [1, 2, 3]
    await nothing_comes(consumer, channel)
    assert (await described(channel)).leased == 3
    await shop.publish(b"y" * 100_000)
    for push in pushes:
        await consumer.ack(push)
    pushes = await consumer.rows(3)
    for push in pushes:
        await consumer.ack(push)
    assert (await consumer.next("push")).offsets == [7]


async def test_two_consumers_share_and_none_holds_what_the_other_does(channel: Channel, shop: Shop):
    one, two = [await consume(channel, "orders", "billing", name) for name in ("one", "two")]
    await shop.publish(*[b"%d" % n for n in range(1000)])
    first, second = await one.next("push"), await two.next("push")
    assert sorted(first.offsets + second.offsets) == list(range(1, 1001))
    assert len(first.offsets) == len(second.offsets) == 500


async def test_partitions_take_turns(channel: Channel, broker: aio.Broker):
    await wire.create(channel, "wide", partitions=3)
    await subscribe(channel, "wide")
    shop = await consuming_broker.shop(channel, broker, "wide")
    for partition in range(3):
        await shop.publish(*[b"x"] * 100, partition=partition)
    consumer = await consume(channel, "wide", "billing", credit={"messages": 50, "bytes": 1 << 30})
    seen: list[int] = []
    while len(seen) < 3:
        for push in await consumer.rows(50):
            seen.append(push.told.page.partition)
            await consumer.ack(push)
    assert set(seen[:3]) == {0, 1, 2}


async def test_a_consumer_creates_its_subscription(channel: Channel, broker: aio.Broker):
    await wire.create(channel, "orders")
    shop = await consuming_broker.shop(channel, broker)
    await shop.publish(b"a")
    await refused(consume(channel, "orders", "billing"), errors.SubscriptionNotFound, "has no subscription 'billing'")
    late = await consume(channel, "orders", "late", create=pb.CreateSubscriptionRequest(latest=True, lease=5 * SECOND))
    early = await consume(channel, "orders", "early", create=pb.CreateSubscriptionRequest())
    assert (await early.next("push")).values == [b"a"]
    await shop.publish(b"b")
    push = await late.next("push")
    assert (push.values, push.told.lease.until - push.told.now) == ([b"b"], 5 * SECOND)
    await refused(consume(channel, "orders", "earl"), errors.SubscriptionNotFound, "Did you mean 'early'")


async def test_a_subscription_begins_where_it_says(channel: Channel, broker: aio.Broker):
    await wire.create(channel, "orders")
    shop = await consuming_broker.shop(channel, broker)
    await shop.publish(b"a")
    await broker.clock.advance(10)
    moment = round(broker.clock.now().timestamp() * 1e6)
    await shop.publish(b"b")
    await subscribe(channel, name="moment", moment=moment)
    await subscribe(channel, name="latest", latest=True)
    await subscribe(channel, name="beginning", beginning=True)
    assert [(await described(channel, name=name)).backlog for name in ("moment", "latest", "beginning")] == [1, 0, 2]
    future = pb.CreateSubscriptionRequest(topic="orders", name="future", moment=moment + 3600 * SECOND)
    await refused(wire.call(channel, "CreateSubscription", future, pb.Subscription), errors.InvalidArgument, "in the future")


async def test_leases_are_listed_and_released(channel: Channel, broker: aio.Broker, shop: Shop):
    one = await consume(channel, "orders", "billing", "one", credit={"messages": 2, "bytes": 1 << 20})
    await shop.publish(b"a", b"b")
    push = await one.next("push")
    two = await consume(channel, "orders", "billing", "two", credit={"messages": 1, "bytes": 1 << 20})
    await shop.publish(b"c")
    await two.next("push")
    page = await leases(channel)
    assert [(lease.consumer, list(lease.offsets), list(lease.rows)) for lease in page.leases] == [("one", [1], [2]), ("two", [3], [1])]
    assert page.leases[0].until - page.now == 30 * SECOND
    first = await leases(channel, limit=1)
    assert (len(first.leases), first.more) == (1, True)
    rest = await leases(channel, after_partition=0, after_grant=first.leases[0].grant)
    assert [lease.consumer for lease in rest.leases] == ["two"]
    assert [lease.consumer for lease in (await leases(channel, consumer="two")).leases] == ["two"]
    await broker.clock.advance(5)
    assert not (await leases(channel, older_than=6 * SECOND)).leases
    await two.send(credit=pb.ConsumeCredit(messages=3, bytes=1 << 20))
    await one.pause(channel)
    request = pb.ReleaseLeasesRequest(topic="orders", subscription="billing", consumer="one")
    assert (await wire.call(channel, "ReleaseLeases", request, pb.ReleaseLeasesAnswer)).messages == 2
    (lost,) = (await one.next("lost")).told.lost
    assert (lost.partition, list(lost.grants)) == (0, [push.told.lease.grant])
    taken = await two.next("push")
    assert (taken.offsets, taken.retry_counts) == ([1, 2], [0, 0])


async def test_a_subscription_is_altered_listed_and_deleted(channel: Channel, shop: Shop):
    await subscribe(channel, name="other")
    altered = await wire.call(
        channel, "AlterSubscription", pb.AlterSubscriptionRequest(topic="orders", name="billing", lease=5 * SECOND), pb.Subscription
    )
    assert (altered.lease, altered.id) == (5 * SECOND, 1)
    listed = await wire.call(channel, "ListSubscriptions", pb.ListSubscriptionsRequest(limit=1), pb.ListSubscriptionsAnswer)
    assert ([one.name for one in listed.subscriptions], listed.more) == (["billing"], True)
    behind = pb.ListSubscriptionsRequest(after_topic="orders", after_name="billing")
    listed = await wire.call(channel, "ListSubscriptions", behind, pb.ListSubscriptionsAnswer)
    assert ([one.name for one in listed.subscriptions], listed.more) == (["other"], False)
    consumer = await consume(channel, "orders", "billing")
    delete = pb.DeleteSubscriptionRequest(topic="orders", name="billing")
    assert (await wire.call(channel, "DeleteSubscription", delete, pb.DeleteSubscriptionAnswer)).deleted
    await refused(consumer.next("push"), errors.SubscriptionNotFound, "was deleted")
    await refused(wire.call(channel, "DeleteSubscription", delete, pb.DeleteSubscriptionAnswer), errors.SubscriptionNotFound)
    assert (await subscribe(channel)).id == 3


async def test_a_deleted_topic_and_a_stopping_broker_end_the_stream(channel: Channel, broker: aio.Broker, shop: Shop):
    consumer = await consume(channel, "orders", "billing")
    await wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="orders"), pb.DeleteTopicAnswer)
    await refused(consumer.next("push"), errors.TopicNotFound, "was deleted")
    await subscribe(channel)
    consumer = await consume(channel, "orders", "billing")
    stopping = asyncio.create_task(broker.stop())
    await refused(consumer.next("push"), errors.Unavailable)
    await stopping


async def test_an_owner_cannot_delete_what_is_leased(channel: Channel, shop: Shop):
    consumer = await consume(channel, "orders", "billing", "worker-7")
    await subscribe(channel, name="audit")
    await shop.publish(b"a", b"b")
    push = await consumer.next("push")
    await consumer.settle(0, ACK, [(push.told.lease.grant, [(2, 1)])])
    (origin,) = push.told.page.origins
    ids = [generated(origin.producer, origin.number, 0, row) for row in range(2)]
    request = pb.DeleteMessagesRequest(topic="orders", group="shop", ids=ids)
    answer = await wire.call(channel, "DeleteMessages", request, pb.DeleteMessagesAnswer)
    held, deleted = answer.messages
    assert (held.offset, held.refused.kind, deleted.offset, deleted.refused.kind) == (0, "leased", 2, "")
    assert "leased to 'worker-7' for the subscription 'billing' until" in held.refused.message
    assert held.refused.details["subscription"] == "billing"
    await consumer.settle(0, ACK, [(push.told.lease.grant, [(1, 1)])])
    answer = await wire.call(channel, "DeleteMessages", request, pb.DeleteMessagesAnswer)
    assert [message.offset for message in answer.messages] == [1, 2]
    assert (await described(channel, name="audit")).backlog == 0
