"""How much a consumer holds, and how it settles many messages at once."""

from __future__ import annotations

import asyncio

import pytest

from bowstring import errors
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import with_topic
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


# ---- credit


@on_virtual_time
async def test_credit_begins_at_one_and_doubles_while_the_program_is_quick():
    async with with_topic() as (broker, client):
        await filled(client, "t", 500, per_batch=500)
        async with client.consumer("t", "s") as consumer:
            count = 0
            async for message in consumer:
                message.ack()
                count += 1
                if count == 500:
                    break
        told = [credit.messages for credit in broker.queues["t", "s"].credits]
        assert told[:6] == [1, 2, 4, 8, 16, 32]
        assert told[-1] == 0, "closing takes no more"


@on_virtual_time
async def test_credit_of_a_slow_program_stays_small():
    async with with_topic() as (broker, client):
        await filled(client, "t", 30, per_batch=30)
        async with client.consumer("t", "s") as consumer:
            count = 0
            async for message in consumer:
                await asyncio.sleep(0.7)
                message.ack()
                count += 1
                if count == 20:
                    break
            assert max(credit.messages for credit in broker.queues["t", "s"].credits) <= 2
            assert consumer.statistics().credit <= 2


@on_virtual_time
async def test_credit_falls_when_the_program_slows_down():
    async with with_topic() as (_, client):
        await filled(client, "t", 400, per_batch=400)
        async with client.consumer("t", "s") as consumer:
            async for message in consumer:
                message.ack()
                if int(message.value) == 300:
                    break
            quick = consumer.statistics().credit
            await taken(consumer, 1)
            await asyncio.sleep(10)
            assert quick >= 64
            assert consumer.statistics().credit == 1


@on_virtual_time
async def test_a_fixed_credit_stays_and_is_never_exceeded():
    async with with_topic(2) as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 40, per_batch=10)
        most = 0
        async with client.consumer("t", "s", credit=5, credit_bytes=1000) as consumer:
            count = 0
            async for message in consumer:
                most = max(most, queue.held(consumer.name))
                count += 1
                message.ack()
                if count == 40:
                    break
        assert most == 5
        assert {(credit.messages, credit.bytes) for credit in queue.credits} == {(5, 1000), (0, 1000)}


@on_virtual_time
async def test_a_pause_gives_back_what_was_not_handed_out_and_a_resume_gets_it_again():
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 10, per_batch=10)
        async with client.consumer("t", "s", credit=10) as consumer:
            (first,) = await taken(consumer, 1)
            consumer.pause()
            waiting = asyncio.ensure_future(taken(consumer, 9))
            await asyncio.sleep(60)
            assert not waiting.done()
            assert queue.held(consumer.name) == 1, "what the program has stays with it"
            assert queue.ledgers[0].counts == {}, "that does not count"
            await first.ack()
            consumer.resume()
            assert [message.retry_count for message in await waiting] == [0] * 9
            assert consumer.statistics().released == 9


# ---- batches


@on_virtual_time
async def test_batches_mix_partitions_and_settle_by_masks():
    async with with_topic(2) as (broker, client):
        queue = broker.queue("t", "s")
        async with client.producer("t") as producer:
            for partition in (0, 1):
                await producer.send_batch([b"%d" % number for number in range(6)], partition=partition)
        async with client.consumer("t", "s", credit=12) as consumer:
            async for batch in consumer.batches(max_rows=12):
                assert len(batch) == 12
                assert batch.schema.names[-3:] == ["retry_count", "age", "lease_end"]
                good = [row % 2 == 0 for row in range(12)]
                answers = await batch.ack(good)
                assert answers.ok.to_pylist() == [True, None] * 6
                rest = await batch.nack()
                assert rest.ok.to_pylist() == [None, True] * 6
                assert rest.partitions.to_pylist().count(1) == 3
                assert (await batch.ack()).ok.to_pylist() == [None] * 12, "later masks leave settled rows alone"
                break
            assert [sorted(ledger.acked) for ledger in queue.ledgers] == [[1, 3, 5], [1, 3, 5]]
            assert [ledger.counts for ledger in queue.ledgers] == [{2: 1, 4: 1, 6: 1}] * 2


@on_virtual_time
async def test_a_mask_that_does_not_fit_changes_nothing():
    async with with_topic() as (_, client):
        await filled(client, "t", 3)
        async with client.consumer("t", "s", credit=3) as consumer:
            async for batch in consumer.batches():
                for mask in ([True], [0, 0], [3], [-1], "all", [1.5]):
                    for call in (batch.ack, batch.nack, batch.extend):
                        with pytest.raises(errors.InvalidArgument):
                            call(mask)
                    with pytest.raises(errors.InvalidArgument):
                        batch.reject(mask, "no such customer")
                assert (await batch.ack([0, 2])).ok.to_pylist() == [True, None, True]
                await batch.reject(None, "no")
                break


@on_virtual_time
async def test_a_batch_does_not_wait_for_more_than_the_consumer_may_hold():
    async with with_topic() as (_, client):
        await filled(client, "t", 10)
        async with client.consumer("t", "s", credit=2) as consumer:
            began = asyncio.get_running_loop().time()
            async for batch in consumer.batches(max_rows=1000, max_wait=60):
                assert len(batch) == 2
                break
            assert asyncio.get_running_loop().time() - began < 5
            await batch.ack()


@on_virtual_time
async def test_a_mask_of_every_other_row_is_divided_into_requests_that_the_broker_takes():
    async with with_topic() as (broker, client):
        await filled(client, "t", 10_000, per_batch=10_000)
        async with client.consumer("t", "s", credit=10_000) as consumer:
            async for batch in consumer.batches(max_rows=10_000):
                receipt = batch.ack([row % 2 == 0 for row in range(len(batch))])
                await batch.extend()
                assert (await receipt).ok.true_count == len(batch) // 2
                await batch.ack()
                break
        queue = broker.queues["t", "s"]
        assert all(len(request.offsets) <= 2048 for request in (*queue.requests, *queue.extends))
        assert len(queue.requests) >= 3
        assert len(queue.extends) >= 3
