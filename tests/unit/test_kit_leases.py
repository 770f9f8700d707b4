"""What becomes of leases: they are extended, end, and are taken away."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bowstring import errors
from tests.unit.consuming import filled, taken
from tests.unit.fake_broker import with_topic
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


@on_virtual_time
async def test_leases_are_extended_while_the_program_works():
    async with with_topic() as (broker, client):
        await filled(client, "t", 2)
        async with client.consumer("t", "s", credit=2) as consumer:
            first, second = await taken(consumer, 2)
            await asyncio.sleep(150)
            assert len(broker.queues["t", "s"].extends) >= 9
            assert first.lease_end.timestamp() > broker.clock.now() / 1e6
            await first.ack()
            await second.ack()
            told = len(broker.queues["t", "s"].extends)
            await asyncio.sleep(150)
            assert len(broker.queues["t", "s"].extends) == told, "settled messages are not extended"
        assert consumer.statistics().lost == 0


@on_virtual_time
async def test_a_program_that_is_not_alive_loses_its_lease_and_gives_back_what_it_has_not_seen():
    async with with_topic() as (broker, client):
        await filled(client, "t", 3)
        queue = broker.queue("t", "s")
        asked = []
        async with client.consumer("t", "s", credit=3, alive=lambda: asked.append(1)) as consumer:
            (message,) = await taken(consumer, 1)
            consumer._consumption.credit.paused = True
            consumer._consumption.send_credit()
            await asyncio.sleep(31)
            assert asked
            assert not queue.extends
            queue.kick()
            assert queue.ledgers[0].counts == {1: 1}, "what it has not seen does not count"
            with pytest.raises(errors.LeaseLost, match=r"t/0@1 ended .* s ago at .*Z and the message waits"):
                await message.ack()


@on_virtual_time
async def test_a_probe_that_fails_or_hangs_says_no(caplog):
    async with with_topic() as (broker, client):
        await filled(client, "t", 2)

        def fails() -> bool:
            raise ValueError("oh")

        for alive in (fails, asyncio.Event().wait):
            async with client.consumer("t", f"s-{alive.__name__}", credit=1, alive=alive) as consumer:
                await taken(consumer, 1)
                await asyncio.sleep(40)
                assert not broker.queues["t", consumer.subscription].extends
        assert "alive() of consumer" in caplog.text


@on_virtual_time
async def test_a_message_is_extended_for_at_most_extend_max_after_it_was_handed_out():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        async with client.consumer("t", "s", credit=1, extend_max=100) as consumer:
            (message,) = await taken(consumer, 1)
            await asyncio.sleep(200)
            assert 6 <= len(broker.queues["t", "s"].extends) <= 9
            with pytest.raises(errors.LeaseLost):
                await message.ack()


@on_virtual_time
async def test_a_program_extends_a_single_message_and_rows_of_a_batch():
    async with with_topic() as (broker, client):
        await filled(client, "t", 3)
        async with client.consumer("t", "s", credit=3) as consumer:
            async for batch in consumer.batches():
                end = await batch[0].extend(3600)
                assert 3599 < end.timestamp() - broker.clock.now() / 1e6 <= 3600
                assert batch[0].lease_end == end > batch[1].lease_end
                assert batch.column("lease_end")[0].as_py() == end
                assert (await batch.extend([1], lease=timedelta(minutes=10))).ok.to_pylist() == [None, True, None]
                assert batch[2].lease_end < batch[1].lease_end < end
                await batch.ack()
                break


@on_virtual_time
async def test_a_lease_that_has_ended_hands_nothing_out():
    async with with_topic() as (broker, client):
        await filled(client, "t", 6, per_batch=6)
        queue = broker.queue("t", "s")
        async with client.consumer("t", "s", credit=6, alive=lambda: False) as consumer:
            consumer._consumption._watch._give_back = lambda pages: None  # the rows stay, and their lease ends
            await taken(consumer, 2)
            queue.answering = lambda request: "drop"
            await asyncio.sleep(31)
            waiting = asyncio.ensure_future(taken(consumer, 1))
            await asyncio.sleep(0)
            assert consumer.statistics().messages == 2
            queue.answering = lambda request: None
            queue.kick()
            (message,) = await waiting
            assert message.retry_count == 1, "the broker has delivered it again"
            assert consumer.statistics().lost >= 4


@on_virtual_time
async def test_a_late_ack_is_refused_and_says_who_holds_the_message_now():
    async with with_topic() as (broker, client):
        await filled(client, "t", 1)
        async with client.consumer("t", "s", alive=lambda: False) as slow:
            (message,) = await taken(slow, 1)
            slow.pause()
            await asyncio.sleep(32)
            async with client.consumer("t", "s", name="worker-7") as other:
                (again,) = await taken(other, 1)
                with pytest.raises(errors.LeaseLost, match=r"and 'worker-7' holds it now\. Ask for a longer lease=") as raised:
                    await message.ack()
                assert raised.value.details["holder"] == "worker-7"
                await again.ack()
        assert broker.queues["t", "s"].acked == [1]


@on_virtual_time
async def test_what_was_refused_and_nobody_has_looked_at_is_raised_by_flush():
    async with with_topic() as (broker, client):
        await filled(client, "t", 3)
        queue = broker.queue("t", "s")
        async with client.consumer("t", "s", credit=3) as consumer:
            first, *others = await taken(consumer, 3)
            consumer.pause()
            for ledger in queue.ledgers:
                ledger.leases.clear()
            receipt = first.ack()
            with pytest.raises(errors.LeaseLost):
                await receipt
            await consumer.flush()
            for message in others:
                message.ack()
            with pytest.raises(errors.PartlyRefused, match="2 of 2 messages were refused") as raised:
                await consumer.flush()
            assert raised.value.answers.offsets.to_pylist() == [2, 3]
            await consumer.flush()
            assert consumer.statistics().lost == 3
            assert consumer.statistics().acked == 0


@on_virtual_time
async def test_an_operator_takes_messages_away_and_the_program_learns_it(caplog):
    async with with_topic() as (broker, client):
        await filled(client, "t", 4, per_batch=4)
        queue = broker.queue("t", "s")
        async with client.consumer("t", "s", credit=4) as consumer:
            (message,) = await taken(consumer, 1)
            batch = await anext(consumer.batches(max_rows=2))
            assert await client.release_leases("t", "s") == 4
            await asyncio.sleep(0.01)
            with pytest.raises(errors.LeaseLost, match="was taken away before its end"):
                message.ack()
            with pytest.raises(errors.LeaseLost), message:
                pass
            answers = await batch.ack()
            assert list(answers.refused) == [0, 1]
            assert [each.retry_count for each in await taken(consumer, 4)] == [0] * 4
            assert consumer.statistics().lost == 4
        assert "does not hold 4 messages any more" in caplog.text
        assert queue.ledgers[0].counts == {1: 1, 2: 1, 3: 1, 4: 1}, "closing nacks what the program has"
