"""The consumer against a fake broker on virtual time: handing out, settling, copies."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta

import pytest

from bowstring import errors
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import with_topic
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


# ---- handing out and settling


@on_virtual_time
async def test_every_message_is_handed_out_and_acked_once():
    async with with_topic(3) as (broker, client):
        await filled(client, "t", 60)
        async with client.consumer("t", "s") as consumer:
            seen = []
            async for message in consumer:
                seen.append(int(message.value))
                message.ack()
                if len(seen) == 60:
                    break
            await consumer.flush()
            assert sorted(seen) == list(range(60))
            assert len(broker.queues["t", "s"].acked) == 60
            told = consumer.statistics()
            assert (told.messages, told.acked, told.held, told.lost, told.connections) == (60, 60, 0, 0, 1)


@on_virtual_time
async def test_many_acks_travel_as_one_run():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1000, per_batch=1000)
        async with client.consumer("t", "s", credit=1000) as consumer:
            for message in await taken(consumer, 1000):
                message.ack()
            await consumer.flush()
        requests = broker.queues["t", "s"].requests
        assert len(requests) <= 2
        assert sum(len(request.offsets) for request in requests) <= 2
        assert [request.request for request in requests] == list(range(1, len(requests) + 1))


@on_virtual_time
async def test_a_receipt_is_awaited_until_the_broker_has_answered():
    async with with_topic() as (broker, client):
        await filled(client, "t", 3)
        async with client.consumer("t", "s", credit=3) as consumer:
            first, second, third = await taken(consumer, 3)
            receipt = first.ack()
            assert not receipt.done()
            with pytest.raises(errors.Conflict, match="not done"):
                receipt.result()
            assert await receipt is None
            assert receipt.done()
            assert receipt.result() is None
            assert receipt.ids == [receipt.id] == [first.id]
            assert broker.queues["t", "s"].acked == [1]
            await asyncio.gather(second.nack(), third.reject("no such customer"))
            assert broker.queues["t", "s"].ledgers[0].counts == {2: 1, 3: 1}


@on_virtual_time
async def test_leaving_a_block_acks_and_an_exception_nacks_and_is_raised_on():
    async with with_topic() as (broker, client):
        await filled(client, "t", 4)
        async with client.consumer("t", "s", credit=4) as consumer:
            first, second, third, fourth = await taken(consumer, 4)
            async with first:
                pass
            with pytest.raises(ValueError, match="oh"):
                async with second:
                    raise ValueError("oh")
            with third:
                third.nack()
            with pytest.raises(KeyboardInterrupt), fourth:
                raise KeyboardInterrupt
            await consumer.flush()
            queue = broker.queues["t", "s"]
            assert queue.acked == [1]
            assert queue.ledgers[0].counts == {2: 1, 3: 1, 4: 1}


@on_virtual_time
async def test_a_message_is_settled_once_and_the_same_word_again_gets_the_same_answer():
    async with with_topic() as (broker, client):
        await filled(client, "t", 2)
        async with client.consumer("t", "s", credit=2) as consumer:
            first, second = await taken(consumer, 2)
            await first.ack()
            await first.ack()
            with pytest.raises(errors.LeaseLost, match="t/0@1 was acked before"):
                first.nack()
            second.nack()
            with pytest.raises(errors.LeaseLost, match="was nacked before"):
                second.ack()
            with pytest.raises(errors.LeaseLost, match="was nacked before"):
                second.extend()
        assert sum(sum(request.rows) for request in broker.queues["t", "s"].requests) >= 2


@on_virtual_time
async def test_what_is_not_in_this_version_says_so_and_settles_nothing():
    async with with_topic() as (_, client):
        await filled(client, "t", 1)
        async with client.consumer("t", "s") as consumer:
            (message,) = await taken(consumer, 1)
            for call in (lambda: message.ack(transaction=1), lambda: message.ack(transaction="t")):
                with pytest.raises(errors.NotSupported, match="not in this version"):
                    call()
            for reason in (None, "", 5):
                with pytest.raises(errors.InvalidArgument, match="reason="):
                    message.reject(reason)
            await message.ack()


@on_virtual_time
async def test_a_message_tells_its_retry_count_age_and_lease_end():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        await asyncio.sleep(7)
        async with client.consumer("t", "s", lease=timedelta(minutes=1)) as consumer:
            (message,) = await taken(consumer, 1)
            assert message.retry_count == 0
            assert timedelta(seconds=6.9) < message.age < timedelta(seconds=7.1)
            left = message.lease_end.timestamp() - broker.clock.now() / 1e6
            assert 59.9 < left <= 60
            assert broker.queues["t", "s"].opens[0].lease == 60_000_000
            message.nack()
            (again,) = await taken(consumer, 1)
            assert (again.offset, again.retry_count) == (1, 1)
            again.ack()


# ---- copies


@on_virtual_time
async def test_a_pickled_message_has_its_columns_and_cannot_be_settled():
    async with with_topic() as (_, client):
        await filled(client, "t", 2)
        async with client.consumer("t", "s", credit=2) as consumer:
            async for batch in consumer.batches():
                copy = pickle.loads(pickle.dumps(batch))
                assert copy.column("retry_count").to_pylist() == [0, 0]
                message = pickle.loads(pickle.dumps(batch[1]))
                assert (message.value, message.retry_count, message.lease_end) == (b"1", 0, batch[1].lease_end)
                for call in (message.ack, message.nack, message.extend, copy.ack, copy.extend):
                    with pytest.raises(errors.Conflict, match="a copy of t/0@"):
                        call()
                await batch.ack()
                break
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(consumer)
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(batch.ack())
