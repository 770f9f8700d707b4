"""How consumers run and end, and what they refuse."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from bowstring import errors
from bowstring.client.handling import Reject
from bowstring.client.leased_message import LeasedMessage
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import FakeBroker, connected, with_topic
from tests.unit.fake_queue import ACK, NACK, REJECT, RELEASE
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


# ---- run


@on_virtual_time
async def test_run_acks_nacks_and_rejects(caplog):
    async with with_topic() as (broker, client):
        await filled(client, "t", 6)
        queue = broker.queue("t", "s")
        seen = []

        async def handler(message: LeasedMessage) -> None:
            seen.append(int(message.value))
            if len(seen) == 9:
                await consumer.close()
            elif message.retry_count:
                return
            elif message.value == b"2":
                raise ValueError("oh")
            elif message.value == b"3":
                raise Reject("no such customer")
            elif message.value == b"4":
                message.nack()

        consumer = client.consumer("t", "s")
        await asyncio.wait_for(consumer.run(handler), 100)
        assert queue.acked == [1, 2, 3, 4, 5, 6]
        assert queue.ledgers[0].counts == {3: 1, 4: 1, 5: 1}
        assert sorted(seen) == [0, 1, 2, 2, 3, 3, 4, 4, 5]
        assert "a handler has failed at LeasedMessage(t/0@3" in caplog.text
        assert "ValueError: oh" in caplog.text


@on_virtual_time
async def test_run_works_on_several_messages_at_once_and_closing_waits_for_them():
    async with with_topic() as (broker, client):
        await filled(client, "t", 20)
        queue = broker.queue("t", "s")
        at_work, most = 0, 0

        async def handler(message: LeasedMessage) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(1)
            at_work -= 1

        consumer = client.consumer("t", "s", credit=20)
        running = asyncio.ensure_future(consumer.run(handler, concurrency=4))
        await asyncio.sleep(2.5)
        await consumer.close()
        await running
        assert most == 4
        assert at_work == 0
        assert len(queue.acked) == 12
        assert queue.ledgers[0].counts == {}, "what is worked on is finished, the rest was not seen"


@on_virtual_time
async def test_run_takes_plain_functions_and_refuses_what_cannot_run():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        consumer = client.consumer("t", "s")
        for handler, concurrency in ((None, 1), (print, 0), (print, True)):
            with pytest.raises(errors.InvalidArgument):
                await consumer.run(handler, concurrency)
        running = asyncio.ensure_future(consumer.run(lambda message: None))
        await asyncio.sleep(1)
        assert broker.queues["t", "s"].acked == [1]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await consumer.close()
        await consumer.run(print)


@on_virtual_time
async def test_an_interrupted_handler_nacks_its_message():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        consumer = client.consumer("t", "s")
        running = asyncio.ensure_future(consumer.run(lambda message: asyncio.Event().wait()))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await consumer.flush()
        assert broker.queues["t", "s"].ledgers[0].counts == {1: 1}
        await consumer.close()


# ---- the end


@on_virtual_time
async def test_closing_releases_what_was_not_seen_and_nacks_the_rest():
    async with with_topic() as (broker, client):
        await filled(client, "t", 10)
        queue = broker.queue("t", "s")
        async with client.consumer("t", "s", credit=10) as consumer:
            first, second, third = await taken(consumer, 3)
            first.ack()
        assert queue.acked == [1]
        assert queue.ledgers[0].counts == {2: 1, 3: 1}
        assert queue.ledgers[0].leases == {}
        outcomes = {outcome for request in queue.requests for outcome in request.outcomes}
        assert outcomes == {ACK, NACK, RELEASE}
        assert REJECT not in outcomes
        with pytest.raises(errors.LeaseLost, match="given back when its consumer was closed"):
            second.ack()
        with third:
            pass
        assert [message async for message in consumer] == []
        for call in (consumer.pause, consumer.resume):
            with pytest.raises(errors.Conflict, match="closed"):
                call()
        await consumer.close()


@on_virtual_time
async def test_closing_wakes_whoever_waits():
    async with with_topic() as (_, client):
        consumer = client.consumer("t", "s")
        waiting = asyncio.ensure_future(taken(consumer, 1))
        await asyncio.sleep(1)
        await consumer.close()
        assert await waiting == []


@on_virtual_time
async def test_closing_does_not_wait_for_ever_for_a_broker_that_is_away():
    async with with_topic() as (broker, client):
        await filled(client, "t", 2)
        consumer = await client.consumer("t", "s", credit=2).__aenter__()
        first, _ = await taken(consumer, 2)
        broker.down = True
        broker.cut()
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        first.ack()
        with pytest.raises(errors.Unavailable, match="was answered within 10 s"):
            await consumer.close()
        assert asyncio.get_running_loop().time() - began < 15
        broker.down = False


@on_virtual_time
async def test_the_clients_end_closes_its_consumers():
    broker = FakeBroker()
    broker.topic("t")
    queue = broker.queue("t", "s")
    async with connected(broker) as client:
        await filled(client, "t", 3)
        consumer = client.consumer("t", "s", credit=3)
        await taken(consumer, 1)
        assert client.statistics().consumers == 1
    assert queue.ledgers[0].leases == {}
    assert queue.ledgers[0].counts == {1: 1}
    assert client.statistics().consumers == 0


@pytest.mark.parametrize("error", [errors.TopicNotFound("gone."), errors.SubscriptionNotFound("gone."), errors.NameInUse("taken.")])
@on_virtual_time
async def test_what_ends_a_consumer_is_raised_and_so_is_what_cannot_be_settled(error):
    async with with_topic() as (broker, client):
        await filled(client, "t", 3)
        consumer = client.consumer("t", "s", credit=3)
        first, second = await taken(consumer, 2)
        broker.queues["t", "s"].answering = lambda request: "ignore"
        receipt = first.ack()
        await asyncio.sleep(0.1)
        broker.consume_errors.append(error)
        broker.cut()
        await asyncio.sleep(1)
        with pytest.raises(type(error)):
            await taken(consumer, 1)
        with pytest.raises(type(error)):
            await receipt
        with pytest.raises(type(error)):
            await second.nack()
        with pytest.raises(type(error)):
            await consumer.flush()
        await consumer.close()


@on_virtual_time
async def test_a_missing_subscription_is_created_or_not():
    async with with_topic() as (broker, client):
        consumer = client.consumer("t", "none", create=False)
        with pytest.raises(errors.SubscriptionNotFound):
            await taken(consumer, 1)
        await consumer.close()
        async with client.consumer("t", "some", start="latest", mode="shared") as consumer:
            create = broker.queues["t", "some"].opens[0].create
            assert (create.latest, create.mode, create.HasField("lease")) == (True, "shared", False)
        async with client.consumer("nowhere", "some") as consumer:
            with pytest.raises(errors.TopicNotFound):
                await taken(consumer, 1)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"mode": "exclusive"}, errors.InvalidArgument, "mode='exclusive' is not known"),
        ({"mode": b"key_shared"}, errors.InvalidArgument, "Use mode='shared' or mode='key_shared'"),
        ({"start": 5}, errors.InvalidArgument, "not a start of a subscription"),
        ({"start": {0: 1}}, errors.InvalidArgument, "not a start"),
        ({"start": timedelta(hours=1)}, errors.InvalidArgument, "in the future"),
        ({"name": ""}, errors.InvalidArgument, "not a name"),
        ({"name": "a b"}, errors.InvalidArgument, "begins with a letter"),
        ({"lease": 0}, errors.InvalidArgument, "shorter than a second"),
        ({"lease": timedelta(days=7)}, errors.InvalidArgument, "longer than a day"),
        ({"lease": "30s"}, errors.InvalidArgument, "text"),
        ({"credit": 0}, errors.InvalidArgument, r"pause\(\)"),
        ({"credit": 1.5}, errors.InvalidArgument, "above 0"),
        ({"credit_bytes": -1}, errors.InvalidArgument, "above 0"),
        ({"extend_max": -1}, errors.InvalidArgument, "negative"),
        ({"alive": True}, errors.InvalidArgument, "cannot be called"),
        ({"subscription": "a/b"}, errors.InvalidArgument, "not a name"),
    ],
)
@on_virtual_time
async def test_what_makes_no_sense_is_refused_at_once(arguments, kind, words):
    async with with_topic() as (_, client):
        with pytest.raises(kind, match=words):
            client.consumer(**{"topic": "t", "subscription": "s"} | arguments)


@on_virtual_time
async def test_nothing_is_logged_when_all_is_well(caplog):
    with caplog.at_level(logging.INFO, "bowstring"):
        async with with_topic() as (_, client):
            await filled(client, "t", 3)
            async with client.consumer("t", "s") as consumer:
                await consumer.flush()
                for message in await taken(consumer, 1):
                    message.ack()
    assert not [record for record in caplog.records if record.name.startswith("bowstring")]
