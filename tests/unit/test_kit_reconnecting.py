"""What a consumer does when its stream breaks: it says what it holds, sends again what was not answered, and hands out nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import with_topic
from tests.unit.fake_queue import NACK
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


@on_virtual_time
async def test_a_lost_answer_is_asked_for_again_with_the_same_number_and_a_nack_counts_once():
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 4)
        fates = ["lose", "ignore"]
        queue.answering = lambda request: fates.pop() if fates and NACK in request.outcomes else None
        async with client.consumer("t", "s", credit=4) as consumer:
            messages = await taken(consumer, 4)
            receipts = [message.nack() for message in messages]
            await asyncio.sleep(1)
            assert not any(receipt.done() for receipt in receipts), "the answer is ignored"
            broker.cut()
            await asyncio.gather(*receipts)
            again = [request for request in queue.requests if NACK in request.outcomes]
            assert len(again) == 3
            assert {request.request for request in again} == {again[0].request}
            assert queue.ledgers[0].counts == {1: 1, 2: 1, 3: 1, 4: 1}
            assert [message.retry_count for message in await taken(consumer, 4)] == [1] * 4
        assert consumer.statistics().connections == 3


@on_virtual_time
async def test_requests_go_on_in_their_numbers_and_say_which_answers_have_come():
    async with with_topic(2) as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 60, per_batch=2)
        async with client.consumer("t", "s", credit=6) as consumer:
            count = 0
            async for message in consumer:
                await message.ack()
                count += 1
                if count % 7 == 0:
                    broker.cut()
                if count == 60:
                    break
        for partition in (0, 1):
            numbers = list(dict.fromkeys(request.request for request in queue.requests if request.partition == partition))
            assert numbers == sorted(numbers)
            series = [[number for number in numbers if number // 1_000 == each] for each in range(numbers[-1] // 1_000 + 1)]
            assert numbers == [number for some in series if some for number in range(some[0] // 1_000 * 1_000 + 1, some[-1] + 1)]
        assert all(request.answered < request.request for request in queue.requests)
        assert sum(len(ledger.acked) for ledger in queue.ledgers) == 60
        assert all(not ledger.counts for ledger in queue.ledgers)


@on_virtual_time
async def test_a_break_gives_nothing_back_and_hands_nothing_out_twice():
    async with with_topic(2) as (broker, client):
        queue = broker.queue("t", "s")
        queue.grant_rows_max, queue.page_rows_max = 6, 2
        await filled(client, "t", 60, per_batch=10)
        async with client.consumer("t", "s", credit=20) as consumer:
            seen = []
            async for message in consumer:
                seen.append((message.partition, message.offset))
                if len(seen) % 5 == 0:
                    broker.cut()
                if len(seen) % 3:
                    message.ack()
                else:
                    await asyncio.sleep(0.05)
                    with message:
                        pass
                if len(seen) == 60:
                    break
            await consumer.flush()
            assert len(seen) == len(set(seen)) == 60
            assert sum(len(ledger.acked) for ledger in queue.ledgers) == 60
            assert all(not ledger.counts for ledger in queue.ledgers)
        held = [grant for opening in queue.opens for lease in opening.held for grant in lease.grants]
        assert held, "leases that have come whole are named"
        assert {opening.instance for opening in queue.opens} == {queue.opens[0].instance}
        assert all(opening.topic_id and opening.subscription_id for opening in queue.opens[1:])
        assert all(not opening.HasField("create") for opening in queue.opens[1:])


@on_virtual_time
async def test_a_lease_that_came_in_part_comes_again_whole_and_its_rest_is_handed_out():
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        queue.page_rows_max = 2
        await filled(client, "t", 6, per_batch=6)
        sent = 0
        async with client.consumer("t", "s", credit=6) as consumer:
            host = consumer._consumption
            answered = host.answered

            def cut_short(message: bytes) -> None:
                nonlocal sent
                sent += pb.ConsumeAnswer.FromString(bytes(message)).HasField("page")
                if sent <= 2 or host.connections > 1:
                    answered(message)
                elif sent == 3:
                    broker.cut()

            consumer._consumption._stream._host = type(
                "Host", (), {"answered": staticmethod(cut_short), "opening": host.opening, "broken": host.broken, "fail": host.fail}
            )
            broker.cut()
            messages = await taken(consumer, 6)
            assert [message.offset for message in messages] == [1, 2, 3, 4, 5, 6]
            for message in messages:
                message.ack()
            await consumer.flush()
            assert queue.acked == [1, 2, 3, 4, 5, 6]
        assert queue.ledgers[0].grants == 1


@on_virtual_time
async def test_the_program_is_told_what_was_lost_while_the_broker_was_away(caplog):
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        queue.grant_rows_max = 2
        await filled(client, "t", 4)
        async with client.consumer("t", "s", credit=4) as consumer:
            first, second, third = await taken(consumer, 3)
            first.ack()
            await asyncio.sleep(0.1)
            broker.down = True
            broker.cut()
            second.ack()
            await asyncio.sleep(60)
            broker.down = False
            again = await taken(consumer, 3)
            assert sorted(message.offset for message in again) == [2, 3, 4]
            assert all(message.retry_count == 1 for message in again), "leases that end count: the broker cannot know more"
            with pytest.raises(errors.LeaseLost):
                await third.ack()
            with pytest.raises(errors.LeaseLost, match=r"t/0@2 ended .* s ago"):
                await second.ack()
            for message in again:
                message.ack()
            await consumer.flush()
            assert consumer.statistics().lost >= 2
        assert "does not hold a message any more" in caplog.text
        assert queue.acked == [1, 2, 3, 4]


@on_virtual_time
async def test_what_is_settled_while_the_broker_is_away_is_sent_when_it_is_back():
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 5)
        async with client.consumer("t", "s", credit=5) as consumer:
            messages = await taken(consumer, 5)
            broker.down = True
            broker.cut()
            await asyncio.sleep(1)
            receipts = [message.ack() for message in messages]
            flushing = asyncio.ensure_future(consumer.flush())
            await asyncio.sleep(5)
            assert not flushing.done()
            with pytest.raises(errors.Unavailable, match="not all that was settled"):
                await consumer.flush(timeout=1)
            broker.down = False
            await flushing
            assert all(receipt.done() for receipt in receipts)
        assert queue.acked == [1, 2, 3, 4, 5]


@on_virtual_time
async def test_an_extension_whose_answer_is_lost_is_asked_for_again():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        async with client.consumer("t", "s") as consumer:
            (message,) = await taken(consumer, 1)
            broker.down = True
            broker.cut()
            await asyncio.sleep(1)
            receipt = message.extend(600)
            await asyncio.sleep(1)
            assert not receipt.done()
            broker.down = False
            assert (await receipt).timestamp() > broker.clock.now() / 1e6 + 590
            await message.ack()


@on_virtual_time
async def test_leases_are_extended_again_after_a_break():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        queue = broker.queue("t", "s")
        async with client.consumer("t", "s") as consumer:
            (message,) = await taken(consumer, 1)
            for _ in range(6):
                await asyncio.sleep(20)
                broker.cut()
            await message.ack()
        assert queue.ledgers[0].counts == {}


@on_virtual_time
async def test_a_ping_is_answered_at_once():
    async with with_topic() as (broker, client), client.consumer("t", "s") as consumer:
        queue = broker.queues["t", "s"]
        queue.sessions[0].answer(ping=7)
        await asyncio.sleep(0.1)
        assert queue.pongs == [7]
        assert consumer.statistics().connections == 1


@on_virtual_time
async def test_a_new_consumer_under_an_old_name_numbers_its_requests_above_the_old_ones():
    async with with_topic() as (broker, client):
        queue = broker.queue("t", "s")
        await filled(client, "t", 9)
        for _ in range(3):
            async with client.consumer("t", "s", name="worker", credit=3) as consumer:
                for message in await taken(consumer, 3):
                    await message.ack()
        assert queue.acked == list(range(1, 10))
        assert [opening.consumer for opening in queue.opens] == ["worker"] * 3
        assert len({opening.instance for opening in queue.opens}) == 3


@on_virtual_time
async def test_a_name_in_use_is_raised_to_the_program():
    async with with_topic() as (broker, client):
        broker.consume_errors.append(errors.NameInUse("a consumer 'w' is connected already."))
        async with client.consumer("t", "s", name="w") as consumer:
            with pytest.raises(errors.NameInUse, match="'w'"):
                await taken(consumer, 1)
