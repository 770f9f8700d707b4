"""Wrong requests about queues, over real sockets: each is refused by what is wrong, and says what would
be right.
"""

from __future__ import annotations

from typing import Any

import pytest

from bowstring import aio, errors
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import consuming_broker
from tests.process import wire_calls as wire
from tests.process.consuming import consume, rows_settled
from tests.process.consuming_broker import SECOND, Shop, described, subscribe
from tests.process.wire_calls import refused

broker = consuming_broker.broker
channel = consuming_broker.channel

ACK = 1


@pytest.fixture
async def shop(channel: Channel, broker: aio.Broker) -> Shop:
    await subscribe(channel)
    return await consuming_broker.shop(channel, broker)


@pytest.mark.parametrize(
    ("call", "request_fields", "kind", "said"),
    [
        ("CreateSubscription", {"name": "billing"}, errors.SubscriptionExists, "already. Use exists_ok"),
        ("CreateSubscription", {"name": "b", "topic": "order"}, errors.TopicNotFound, "Did you mean 'orders'"),
        ("CreateSubscription", {"name": ""}, errors.InvalidArgument, "is not a name for a subscription"),
        ("CreateSubscription", {"name": "-b"}, errors.InvalidArgument, "begin with a letter or a digit"),
        ("CreateSubscription", {"name": "x" * 250}, errors.InvalidArgument, "1 to 249"),
        (
            "CreateSubscription",
            {"name": "b", "lease": 0},
            errors.InvalidArgument,
            "a lease of 0 s is out of range. Leases last 1 s to 24 h",
        ),
        ("CreateSubscription", {"name": "b", "lease": 7 * 86400 * SECOND}, errors.InvalidArgument, "604800 s is out of range"),
        ("CreateSubscription", {"name": "b", "mode": "fair"}, errors.InvalidArgument, "mode='fair' is not known. Use 'shared'"),
        ("CreateSubscription", {"name": "billing", "mode": "key-shared"}, errors.InvalidArgument, "mode='key-shared' is not known"),
        ("AlterSubscription", {"name": "biling"}, errors.SubscriptionNotFound, "Did you mean 'billing'"),
        ("AlterSubscription", {"name": "billing", "lease": 1}, errors.InvalidArgument, "1e-06 s is out of range"),
        ("DescribeSubscription", {"name": "biling"}, errors.SubscriptionNotFound, "Did you mean 'billing'"),
        ("DescribeSubscription", {"name": "b", "topic": "order"}, errors.TopicNotFound, "Did you mean 'orders'"),
        ("DeleteSubscription", {"name": "other"}, errors.SubscriptionNotFound, "has no subscription 'other'"),
        ("ListSubscriptions", {"topic": "order"}, errors.TopicNotFound, "no topic 'order'"),
        ("ListLeases", {"subscription": "biling"}, errors.SubscriptionNotFound, "Did you mean 'billing'"),
        ("ReleaseLeases", {"subscription": "biling"}, errors.SubscriptionNotFound, "Did you mean 'billing'"),
    ],
)
async def test_a_call_that_makes_no_sense(
    channel: Channel, shop: Shop, call: str, request_fields: dict[str, Any], kind: type[errors.Error], said: str
):
    message = getattr(pb, f"{call}Request")(**{"topic": "orders"} | request_fields)
    await refused(channel.call(call, message.SerializeToString(), 20), kind, said)


@pytest.mark.parametrize(
    ("opening", "kind", "said"),
    [
        ({"name": ""}, errors.InvalidArgument, "'' is not a name for a consumer"),
        ({"name": "a b"}, errors.InvalidArgument, "'a b' is not a name for a consumer"),
        ({"instance": b"short"}, errors.InvalidArgument, "an instance has 16 bytes, this one has 5"),
        ({"lease": 1}, errors.InvalidArgument, "Leases last 1 s to 24 h"),
        ({"lease": 1 << 63}, errors.InvalidArgument, "Leases last 1 s to 24 h"),
        ({"mode": "fair"}, errors.InvalidArgument, "mode='fair' is not known"),
        ({"topic_id": 77}, errors.TopicNotFound, "it is another one now"),
        ({"subscription_id": 77}, errors.SubscriptionNotFound, "was deleted"),
    ],
)
async def test_an_opening_that_makes_no_sense(channel: Channel, shop: Shop, opening: dict[str, Any], kind: type[errors.Error], said: str):
    await refused(consume(channel, "orders", "billing", **opening), kind, said)


SETTLE = rows_settled(0, 1, ACK, [(1, [(1, 1)])])


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"settle": [pb.SettleRows(partition=7, request=1, grants=[1], outcomes=[1], runs=[0])]}, errors.InvalidArgument, "no partition 7"),
        ({"settle": [pb.SettleRows(request=0, grants=[1], outcomes=[1], runs=[0])]}, errors.InvalidArgument, "upwards from 1"),
        ({"settle": [pb.SettleRows(request=3, answered=3, grants=[1], outcomes=[1], runs=[0])]}, errors.InvalidArgument, "earlier ones"),
        ({"settle": [pb.SettleRows(request=2000, grants=[1], outcomes=[1], runs=[0])]}, errors.OutOfRange, "at most 1024 requests ahead"),
        ({"settle": [pb.SettleRows(request=1, grants=[1], outcomes=[9], runs=[0])]}, errors.InvalidArgument, "outcome 9 is not known"),
        ({"settle": [pb.SettleRows(request=1, grants=[1], outcomes=[1], runs=[])]}, errors.InvalidArgument, "the same length"),
        ({"settle": [pb.SettleRows(request=1)]}, errors.InvalidArgument, "names no lease"),
        ({"settle": [rows_settled(0, 1, ACK, [(1, [(0, 1)])])]}, errors.InvalidArgument, "0 is not an offset"),
        ({"settle": [rows_settled(0, 1, ACK, [(1, [(1, 2), (2, 1)])])]}, errors.InvalidArgument, "stands twice"),
        ({"extend": [pb.ExtendRows(number=1, lease=1, grants=[1], runs=[0])]}, errors.InvalidArgument, "Leases last 1 s to 24 h"),
        ({"extend": [pb.ExtendRows(number=1, partition=9, grants=[1], runs=[0])]}, errors.InvalidArgument, "no partition 9"),
        ({"extend": [pb.ExtendRows(number=1)]}, errors.InvalidArgument, "names no lease"),
        ({"open": pb.ConsumeOpen(topic="orders")}, errors.InvalidArgument, "open already"),
        ({"settle": [SETTLE, pb.SettleRows(request=2)]}, errors.InvalidArgument, "names no lease"),
    ],
)
async def test_a_request_that_makes_no_sense_ends_the_stream_and_changes_nothing(
    channel: Channel, shop: Shop, fields: dict[str, Any], kind: type[errors.Error], said: str
):
    consumer = await consume(channel, "orders", "billing")
    await shop.publish(b"a", b"b")
    await consumer.next("push")
    await consumer.send(**fields)
    await refused(consumer.next("settled"), kind, said)
    facts = await described(channel)
    assert (facts.backlog, facts.leased) == (2, 2)


async def test_the_first_request_opens_the_stream(channel: Channel, shop: Shop):
    stream = channel.stream("Consume")
    await stream.write(pb.ConsumeRequest(ready=True).SerializeToString())
    await refused(stream.read(), errors.InvalidArgument, "has to open it")
    stream = channel.stream("Consume")
    await stream.write(b"\xff\xff")
    await refused(stream.read(), errors.InvalidArgument, "not a consume request")
    stream = channel.stream("Consume")
    await stream.end()
    assert await stream.read() is None


async def test_rows_that_are_not_held_are_refused_one_by_one(channel: Channel, broker: aio.Broker, shop: Shop):
    one, two = [await consume(channel, "orders", "billing", name, credit={"messages": 2, "bytes": 1 << 20}) for name in ("one", "two")]
    await shop.publish(*[b"x"] * 6)
    first, second = await one.next("push"), await two.next("push")
    mine, others = first.told.lease.grant, second.told.lease.grant
    await one.settle(0, ACK, [(mine, [(1, 1)])])
    assert (await one.next("push")).offsets == [5]
    answer = await one.settle(0, ACK, [(mine, [(1, 3), (6, 1), (1000, 2)]), (others, [(3, 1)]), (77, []), (mine, [(2, 1)])])
    told = {(lost.grant, tuple(lost.offsets), tuple(lost.rows)): (lost.standing, lost.holder) for lost in answer.refused}
    assert told == {
        (mine, (1,), (1,)): ("settled", ""),
        (mine, (3,), (1,)): ("leased", "two"),
        (mine, (6, 1000), (1, 2)): ("never", ""),
        (others, (3,), (1,)): ("leased", "two"),
        (77, (), ()): ("", ""),
        (mine, (2,), (1,)): ("leased", "one"),
    }
    facts = await described(channel)
    assert facts.partitions[0].floor == 3


async def test_a_settlement_for_a_subscription_that_was_deleted_meanwhile(channel: Channel, shop: Shop):
    consumer = await consume(channel, "orders", "billing")
    await shop.publish(b"a")
    await consumer.next("push")
    await wire.call(
        channel, "DeleteSubscription", pb.DeleteSubscriptionRequest(topic="orders", name="billing"), pb.DeleteSubscriptionAnswer
    )
    await subscribe(channel)
    with pytest.raises((errors.SubscriptionNotFound, errors.Unavailable)):
        await consumer.settle(0, ACK, [(1, [])])
