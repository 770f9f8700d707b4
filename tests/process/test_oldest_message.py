"""For how long the oldest message of a subscription has been due."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring
from tests.process import still_clock
from tests.process.commanding import Commander

HOUR = 3600


broker = still_clock.broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        yield client


def send(client: bowstring.Client, *delays: float, topic: str = "orders") -> None:
    with client.producer(topic) as producer:
        for delay in delays:
            producer.send(b"a", delay=delay).result()


def oldest(client: bowstring.Client) -> float | None:
    return client.subscription("orders", "billing").oldest


def test_the_oldest_message_is_as_old_as_its_arrival(client, broker):
    assert oldest(client) is None
    send(client, 0)
    broker.clock.advance(30)
    send(client, 0)
    broker.clock.advance(10)
    assert oldest(client) == 40
    with client.consumer("orders", "billing", credit=1) as consumer:
        next(iter(consumer)).ack().result()
        assert oldest(client) == 10


@pytest.mark.parametrize("is_consumed", [False, True])
def test_a_message_for_later_has_no_age_until_it_is_due(client, broker, is_consumed):
    with client.consumer("orders", "billing", credit=1) as consumer:
        if is_consumed:
            send(client, 0)
            next(iter(consumer)).ack().result()
        send(client, HOUR, 2 * HOUR)
        broker.clock.advance(HOUR - 1)
        consumer.pause()
        assert oldest(client) is None
        broker.clock.advance(31)
        assert oldest(client) == 30, "it counts from its due time"


def test_a_message_that_waits_behind_scheduled_ones_is_the_oldest(client, broker):
    send(client, HOUR, HOUR)
    broker.clock.advance(10)
    send(client, 0)
    broker.clock.advance(20)
    assert oldest(client) == 20
    broker.clock.advance(HOUR)
    assert oldest(client) == HOUR + 20
    with client.consumer("orders", "billing", credit=10) as consumer:
        messages = iter(consumer)
        for message in (next(messages) for _ in range(3)):
            if message.offset == 3:
                message.ack().result()
        assert oldest(client) == 30, "those under a lease count, from their due time"


def test_a_message_that_is_nacked_for_later_keeps_its_age(client, broker):
    send(client, 0)
    broker.clock.advance(5)
    with client.consumer("orders", "billing") as consumer:
        next(iter(consumer)).nack(delay=600).result()
    broker.clock.advance(60)
    assert oldest(client) == 65


def test_a_moved_message_counts_from_its_new_due_time(client, broker):
    with client.producer("orders") as producer:
        producer.send(b"a", id="late", delay=HOUR).result()
        producer.move(["late"], delay=60).raise_for_refused()
    broker.clock.advance(90)
    assert oldest(client) == 30


def test_scheduled_messages_that_were_sealed_have_no_age_either(tmp_path):
    for _ in range(2):
        with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
            client.create_topic("orders", exists_ok=True)
            client.create_subscription("orders", "billing", exists_ok=True)
            send(client, HOUR, HOUR)
            assert oldest(client) is None
            send(client, 0)
            assert oldest(client) is not None
            with client.consumer("orders", "billing", credit=1) as consumer:
                next(iter(consumer)).ack().result()
            assert oldest(client) is None


def test_a_queue_of_reminders_is_not_the_first_in_top(client, broker, tmp_path):
    client.create_topic("reminders")
    client.create_subscription("reminders", "mail")
    send(client, HOUR, topic="reminders")
    broker.clock.advance(100)
    send(client, 0)
    broker.clock.advance(1)
    rows = Commander(broker.address, str(tmp_path)).done("top", "--once").rows
    assert [(row["topic"], row["oldest"] and round(row["oldest"])) for row in rows] == [("orders", 1), ("reminders", None)]
