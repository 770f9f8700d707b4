"""Threads and tasks that share a consumer, handlers that run, and the ends of both."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

import bowstring
from tests.process import still_clock
from tests.process.still_clock import sent, taken

broker = still_clock.broker
client = still_clock.client


def test_threads_share_a_consumer_and_each_message_goes_to_one(client):
    sent(client, 2000)
    seen: list[str] = []
    with client.consumer("orders", "billing") as consumer:

        def work() -> None:
            for message in consumer:
                with message:
                    seen.append(message.id)
                if len(seen) >= 2000:
                    consumer.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == len(set(seen)) == 2000
    assert client.subscription("orders", "billing").backlog == 0


def test_run_works_in_threads_until_another_thread_closes_it(client):
    sent(client, 200)
    seen: list[str] = []
    names: set[str] = set()
    meeting = threading.Barrier(4)

    def handler(message: bowstring.LeasedMessage) -> None:
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            meeting.wait(30)  # each thread has a message, however small the credit is
        seen.append(message.id)
        if len(seen) == 200:
            threading.Thread(target=consumer.close).start()

    with client.consumer("orders", "billing") as consumer:
        consumer.run(handler, concurrency=4)
    assert len(set(seen)) == 200
    assert len(names) == 4
    assert client.subscription("orders", "billing").backlog == 0


def test_a_handler_closes_its_own_consumer_and_its_message_is_acked(client, caplog):
    sent(client, 10)
    seen: list[str] = []

    def handler(message: bowstring.LeasedMessage) -> None:
        seen.append(message.id)
        if len(seen) == 3:
            raise ValueError("oh")
        if len(seen) == 4:
            raise bowstring.Reject("no such customer")
        if len(seen) == 5:
            consumer.close()

    consumer = client.consumer("orders", "billing", credit=10)
    consumer.run(handler)
    assert len(seen) == 5
    assert next(iter(client.reader("orders.billing.dead-letters"))).id == seen[3]
    facts = client.subscription("orders", "billing")
    assert (facts.backlog, facts.leased) == (6, 0)
    assert "a handler has failed" in caplog.text
    with client.consumer("orders", "billing", credit=10) as consumer:
        assert sorted(message.retry_count for message in taken(consumer, 6)) == [0, 0, 0, 0, 0, 1]


def test_what_ends_a_consumer_ends_run(client):
    sent(client, 1)
    consumer = client.consumer("orders", "billing")

    def handler(message: bowstring.LeasedMessage) -> None:
        client.delete_subscription("orders", "billing")

    with pytest.raises(bowstring.SubscriptionNotFound):
        consumer.run(handler, concurrency=3)
    with pytest.raises(bowstring.SubscriptionNotFound):
        taken(consumer)
    consumer.close()


def test_brokers_stop_ends_consumers_and_gives_back_what_they_hold(tmp_path):
    with bowstring.Broker(tmp_path / "data") as broker:
        client = broker.connect()
        client.create_topic("orders")
        sent(client, 5)
        consumer = client.consumer("orders", "billing", credit=5)
        taken(consumer)
        broker.stop()
        assert list(consumer) == []
        broker.start()
        with broker.connect() as other:
            facts = other.subscription("orders", "billing")
            assert (facts.backlog, facts.leased) == (5, 0)
        client.close()


def test_many_consumers_share_a_subscription(client):
    sent(client, 500)
    with ExitStack() as stack:
        consumers = [stack.enter_context(client.consumer("orders", "billing", credit=5)) for _ in range(10)]
        seen: Counter[str] = Counter()
        done = threading.Event()

        def work(consumer: bowstring.Consumer) -> None:
            for message in consumer:
                seen[message.id] += 1
                message.ack()
                if len(seen) == 500:
                    done.set()

        threads = [threading.Thread(target=work, args=(consumer,)) for consumer in consumers]
        for thread in threads:
            thread.start()
        assert done.wait(60)
        for consumer in consumers:
            consumer.close()
        for thread in threads:
            thread.join()
    assert set(seen.values()) == {1}


async def test_tasks_share_a_consumer_in_asyncio():
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client:
        await client.create_topic("orders", partitions=2)
        async with client.producer("orders") as producer:
            await producer.send_batch([b"%d" % number for number in range(1000)])
        seen: list[str] = []
        async with client.consumer("orders", "billing") as consumer:

            async def handler(message: bowstring.LeasedMessage) -> None:
                await asyncio.sleep(0)
                seen.append(message.id)
                if len(seen) == 1000:
                    await consumer.close()

            await consumer.run(handler, concurrency=8)
        assert len(set(seen)) == 1000
        assert (await client.subscription("orders", "billing")).backlog == 0
        assert [each.name async for each in client.subscriptions("orders")] == ["billing"]
