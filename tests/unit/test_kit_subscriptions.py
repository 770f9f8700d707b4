"""The client's calls about subscriptions and leases, with lost answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bowstring import errors
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import with_topic
from tests.unit.virtual_time import on_virtual_time

LOST = errors.OutcomeUnknown("the connection broke.")


@on_virtual_time
async def test_a_subscription_is_created_described_altered_and_deleted():
    async with with_topic() as (_, client):
        made = await client.create_subscription("t", "s", lease=timedelta(seconds=45))
        assert (made.topic, made.name, made.mode, made.lease) == ("t", "s", "shared", timedelta(seconds=45))
        assert made.oldest is None
        with pytest.raises(errors.SubscriptionExists):
            await client.create_subscription("t", "s")
        assert (await client.create_subscription("t", "s", lease=45, exists_ok=True)).lease == timedelta(seconds=45)
        assert (await client.alter_subscription("t", "s", lease=60)).lease == timedelta(minutes=1)
        assert (await client.subscription("t", "s")).lease == timedelta(minutes=1)
        await client.delete_subscription("t", "s")
        with pytest.raises(errors.SubscriptionNotFound):
            await client.delete_subscription("t", "s")
        await client.delete_subscription("t", "s", missing_ok=True)
        with pytest.raises(errors.SubscriptionNotFound):
            await client.subscription("t", "s")


@on_virtual_time
async def test_subscriptions_are_listed_page_by_page():
    async with with_topic() as (broker, client):
        broker.topic("u")
        for name in ("a", "b", "c", "d", "e"):
            await client.create_subscription("t", name)
        await client.create_subscription("u", "a")
        assert [(each.topic, each.name) async for each in client.subscriptions()] == [*(("t", name) for name in "abcde"), ("u", "a")]
        assert [each.name async for each in client.subscriptions("u")] == ["a"]
        assert broker.calls.count("ListSubscriptions") == 4


@on_virtual_time
async def test_a_repeat_after_a_lost_answer_recognises_its_own_work():
    async with with_topic() as (broker, client):
        broker.lost_answers.append(LOST)
        assert (await client.create_subscription("t", "s", lease=45)).lease == timedelta(seconds=45)
        broker.lost_answers.append(LOST)
        await client.delete_subscription("t", "s")
        assert broker.calls.count("CreateSubscription") == broker.calls.count("DeleteSubscription") == 2
        broker.lost_answers.append(LOST)
        await client.create_subscription("t", "other", lease=45)
        broker.call_errors.append(LOST)
        with pytest.raises(errors.SubscriptionExists, match="with other settings"):
            await client.create_subscription("t", "other", lease=50)


@on_virtual_time
async def test_leases_tell_who_holds_what_and_are_released():
    async with with_topic() as (broker, client):
        broker.queue("t", "s").grant_rows_max = 2
        await filled(client, "t", 9)
        async with client.consumer("t", "s", credit=6, name="w") as consumer:
            await taken(consumer, 6)
            leases = [lease async for lease in client.leases("t", "s")]
            assert [lease.number for lease in leases] == [1, 2, 3]
            assert {(lease.consumer, lease.messages) for lease in leases} == {("w", 2)}
            assert timedelta(seconds=29) < leases[0].left <= timedelta(seconds=30)
            assert broker.calls.count("ListLeases") == 2
            assert [lease async for lease in client.leases("t", "s", consumer="other")] == []
            assert await client.release_leases("t", "s", older_than=timedelta(0)) == 6
            await asyncio.sleep(0.01)
            assert consumer.statistics().lost == 6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda client: client.create_subscription("t", "a b"), "name='a b' is not a name"),
        (lambda client: client.create_subscription("t", "s", lease=0.5), "shorter than a second"),
        (lambda client: client.create_subscription("t", "s", mode="fan"), "mode='fan' is not known"),
        (lambda client: client.create_subscription("t", "s", start="earliest"), "Use start='beginning'"),
        (lambda client: client.create_subscription("t", "s", start=-5), "not a start of a subscription"),
        (lambda client: client.create_subscription("t t", "s"), "not a topic name"),
        (lambda client: client.alter_subscription("t", "s", lease=90_000), "longer than a day"),
        (lambda client: client.subscription("t", 5), "name=5 is not a name"),
        (lambda client: client.release_leases("t", "s", consumer="/"), "consumer='/' is not a name"),
        (lambda client: client.release_leases("t", "s", older_than="1h"), "older_than='1h' is text"),
    ],
)
@on_virtual_time
async def test_what_makes_no_sense_is_refused_before_a_broker_is_asked(call, words):
    async with with_topic() as (broker, client):
        calls = len(broker.calls)
        with pytest.raises(errors.InvalidArgument, match=words):
            await call(client)
        assert len(broker.calls) == calls
