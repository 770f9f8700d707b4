"""Dead letters from a program's side: why messages become one, what they carry, and where they go."""

from __future__ import annotations

import asyncio

import pytest

import bowstring
from bowstring import errors
from bowstring.broker.queue.companions import Companions
from bowstring.embedded import Broker
from tests.process.house import House

TOPIC, COMPANION = "orders", "orders.billing.dead-letters"


@pytest.fixture
def client(tmp_path):
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        client.create_topic(TOPIC, partitions=2)
        yield client


def publish(client, count=3, **given):
    with client.producer(TOPIC, group="shop") as producer:
        return [producer.send(f"order {number}".encode(), key="k", **given).id for number in range(count)]


def letters(client, count, name=COMPANION):
    """Waits for so many dead letters."""
    found = []
    for message in client.reader(name):
        found.append(message)
        if len(found) == count:
            return found
    return found


def test_a_rejected_message_becomes_a_dead_letter_with_its_facts(client):
    ids = publish(client, attributes={"country": "CH"})
    with client.consumer(TOPIC, "billing", name="worker-1") as consumer:
        for _ in range(3):
            message = next(iter(consumer))
            if message.text() == "order 1":
                rejected = message
                message.reject("no such customer").result(5)
            else:
                message.ack()
        consumer.flush()
    (letter,) = letters(client, 1)
    assert (letter.id, letter.key, letter.value, letter.producer_group) == (ids[1], b"k", b"order 1", "shop")
    assert letter.created == rejected.created
    told = dict(letter.attributes)
    assert told.pop("country") == "CH"
    assert told.pop("bowstring-delivered") < told.pop("bowstring-ended")
    assert told == {
        "bowstring-reason": "no such customer",
        "bowstring-topic": TOPIC,
        "bowstring-partition": str(rejected.partition),
        "bowstring-offset": str(rejected.offset),
        "bowstring-subscription": "billing",
        "bowstring-retry-count": "1",
        "bowstring-consumer": "worker-1",
    }
    assert client.subscription(TOPIC, "billing").backlog == 0


def test_a_message_that_is_given_back_too_often_becomes_a_dead_letter(client):
    client.create_subscription(TOPIC, "billing", max_deliveries=3)
    publish(client, 1)
    with client.consumer(TOPIC, "billing") as consumer:
        for delivery in range(3):
            message = next(iter(consumer))
            assert message.retry_count == delivery
            message.nack(reason="the till is closed")
        (letter,) = letters(client, 1)
    assert letter.attributes["bowstring-reason"] == "the till is closed"
    assert letter.attributes["bowstring-retry-count"] == "3"


def test_a_mask_rejects_a_batch_and_a_handler_rejects_by_raising(client):
    publish(client, 6)

    def handler(message):
        raise bowstring.Reject("odd")

    with client.consumer(TOPIC, "billing", credit=100) as consumer:
        seen = 0
        for batch in consumer.batches(max_rows=3, max_wait=5):
            batch.reject([True] * len(batch), "even").result(5)
            seen += len(batch)
            if seen == 6:
                break
        assert {letter.attributes["bowstring-reason"] for letter in letters(client, 6)} == {"even"}
        publish(client, 1)
        message = next(iter(consumer))
        with pytest.raises(bowstring.Reject):
            handler(message)
        from bowstring.client import handling

        handling.settle(message, bowstring.Reject("odd"))
        assert letters(client, 7)[-1].attributes["bowstring-reason"] == "odd"


def test_ten_thousand_rejected_messages_are_ten_thousand_letters(client):
    with client.producer(TOPIC) as producer:
        producer.send_batch([f"{number}".encode() for number in range(10_000)]).result(10)
    with client.consumer(TOPIC, "billing", credit=20_000) as consumer:
        left = 10_000
        for batch in consumer.batches(max_rows=10_000):
            batch.reject(None, "all of them")
            left -= len(batch)
            if not left:
                break
        consumer.flush()
    found = letters(client, 10_000)
    assert len({letter.value for letter in found}) == 10_000
    assert len({letter.id for letter in found}) == 10_000


def test_a_dead_letter_of_a_dead_broker_is_written_by_the_next(tmp_path):
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, "billing")
        with client.producer(TOPIC) as producer:
            producer.send(b"bad").result(5)
        with client.consumer(TOPIC, "billing") as consumer:
            next(iter(consumer)).reject("bad").result(5)
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        assert [letter.value for letter in letters(client, 1)] == [b"bad"]
        assert [topic.name for topic in client.topics()] == [TOPIC, COMPANION]


def test_a_companion_comes_and_goes_with_its_subscription(client):
    client.create_subscription(TOPIC, "billing")
    assert client.topic(COMPANION).partitions == 2
    assert client.topic(COMPANION).messages == 0
    client.create_subscription(TOPIC, "audit", dead_letters="lost")
    assert client.subscription(TOPIC, "audit").dead_letters == "lost"
    with pytest.raises(errors.Conflict, match="the dead letters of the subscription 'audit' of 'orders'"):
        client.delete_topic("lost")
    client.delete_subscription(TOPIC, "audit")
    assert "lost" not in [topic.name for topic in client.topics()]


def test_a_companion_of_another_subscription_or_with_other_partitions_is_a_conflict(client):
    client.create_subscription(TOPIC, "billing")
    client.create_topic("narrow", partitions=1)
    for wrong, match in ((COMPANION, "'billing' of 'orders'"), ("narrow", "has 1 partitions"), (TOPIC, "its own dead letters")):
        with pytest.raises(errors.Conflict, match=match):
            client.create_subscription(TOPIC, "audit", dead_letters=wrong)
    with pytest.raises(errors.SubscriptionNotFound):
        client.subscription(TOPIC, "audit")
    with pytest.raises(errors.InvalidArgument, match="not a name for a topic"):
        client.create_subscription(TOPIC, "a" * 240)
    with pytest.raises(errors.NotSupported, match="stay in"):
        client.alter_subscription(TOPIC, "billing", dead_letters="elsewhere")


def test_only_the_broker_writes_to_a_companion(client):
    client.create_subscription(TOPIC, "billing")
    with pytest.raises(errors.Conflict, match="only the broker writes"), client.producer(COMPANION) as producer:
        producer.send(b"forged").result(5)


def test_a_message_that_was_rejected_is_in_the_list_at_once(client):
    publish(client, count=50)
    with client.consumer(TOPIC, "billing", credit=50) as consumer:
        for count, message in enumerate(consumer, 1):
            message.reject("no such customer").result(5)
            assert len(list(client.dead_letters(TOPIC, "billing"))) == count
            if count == 50:
                break


async def test_a_subscription_is_created_again_while_its_deletion_is_under_way(tmp_path, monkeypatch):
    """As a client does whose first attempt to delete it is not answered in time."""
    house, catalog_is_slow = House(tmp_path / "data"), asyncio.Event()
    release = Companions.release

    async def released(self, subscription):
        await catalog_is_slow.wait()
        await release(self, subscription)

    monkeypatch.setattr(Companions, "release", released)
    await house.start()
    async with house.client() as client:
        await client.create_topic(TOPIC)
        await client.create_subscription(TOPIC, "billing")
        deleting = asyncio.create_task(client.delete_subscription(TOPIC, "billing"))
        while [each async for each in client.subscriptions(TOPIC)]:
            assert not deleting.done()
        await client.create_subscription(TOPIC, "billing")
        catalog_is_slow.set()
        await deleting
        with pytest.raises(errors.Conflict, match="has the dead letters of the subscription 'billing'"):
            await client.delete_topic(COMPANION)
    await house.stop()


def test_a_message_that_was_rejected_is_counted_as_dead_at_once(client):
    publish(client, 20)
    with client.consumer(TOPIC, "billing", credit=20) as consumer:
        for count in range(1, 21):
            next(iter(consumer)).reject("late").result()
            facts = client.subscription(TOPIC, "billing")
            assert (facts.dead, facts.backlog) == (count, 20 - count)


def test_a_message_whose_leases_expired_is_counted_as_dead_when_the_clock_has_advanced():
    with Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        client.create_topic(TOPIC)
        client.create_subscription(TOPIC, "billing", max_deliveries=3)
        publish(client, 1)
        with client.consumer(TOPIC, "billing", alive=lambda: False) as consumer:
            for _ in range(3):
                next(iter(consumer))
                broker.clock.advance(31)
        facts = client.subscription(TOPIC, "billing")
        assert (facts.dead, facts.backlog) == (1, 0)
