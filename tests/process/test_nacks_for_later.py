"""Messages that are given back for later: by a delay, at a moment, by the subscription's backoff."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring import errors
from tests.process import still_clock

broker = still_clock.broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders", retention=timedelta(days=7))
        client.create_subscription("orders", "billing", lease=3600)
        yield client


def publish(client: bowstring.Client, *values: bytes) -> None:
    with client.producer("orders") as producer:
        producer.send_batch(list(values))


def next_values(consumer: Any, count: int) -> list[bytes]:
    """The next messages, which are acked."""
    found: list[bytes] = []
    for message in consumer:
        found.append(message.value)
        message.ack()
        if len(found) == count:
            return found
    return found


def first(consumer: Any) -> Any:
    return next(iter(consumer))


def is_idle(client: bowstring.Client, consumer: Any) -> bool:
    """Whether nothing more is delivered: a settled flush has gone to and fro since."""
    consumer.flush()
    return client.subscription("orders", "billing").leased == 0


def test_a_nacked_message_comes_again_after_its_delay_and_not_before(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    with client.consumer("orders", "billing") as consumer:
        first(consumer).nack(delay=60)
        assert is_idle(client, consumer)
        broker.clock.advance(59.9)
        assert is_idle(client, consumer)
        broker.clock.advance(0.1)
        message = first(consumer)
        assert (message.value, message.retry_count) == (b"a", 1)
        message.ack()


def test_a_nacked_message_comes_again_at_its_moment(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a", b"b")
    at = broker.clock.now() + timedelta(hours=2)
    with client.consumer("orders", "billing", credit=1) as consumer:
        first(consumer).nack(at=at.astimezone(), reason="later")
        assert next_values(consumer, 1) == [b"b"]
        assert is_idle(client, consumer)
        broker.clock.advance(timedelta(hours=1, minutes=59, seconds=59))
        assert is_idle(client, consumer)
        broker.clock.advance(1)
        assert next_values(consumer, 1) == [b"a"]


def test_a_moment_in_the_past_means_now(client: bowstring.Client):
    publish(client, b"a")
    with client.consumer("orders", "billing") as consumer:
        first(consumer).nack(at=datetime(2001, 1, 1, tzinfo=UTC))
        first(consumer).nack(delay=0)
        assert next_values(consumer, 1) == [b"a"]


def test_a_mask_gives_some_of_a_batch_back_for_later(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a", b"b", b"c", b"d")
    with client.consumer("orders", "billing", credit=10) as consumer:
        batch = next(iter(consumer.batches(max_rows=4)))
        batch.nack([True, False, True, False], delay=timedelta(seconds=10))
        batch.nack([False, True, False, False], delay=20)
        batch.ack()
        assert is_idle(client, consumer)
        broker.clock.advance(10)
        assert next_values(consumer, 2) == [b"a", b"c"]
        broker.clock.advance(10)
        assert next_values(consumer, 1) == [b"b"]
        consumer.flush()
        assert client.subscription("orders", "billing").backlog == 0


def test_it_is_refused_beyond_the_retention_of_the_message(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    until = broker.clock.now() + timedelta(days=7)
    broker.clock.advance(timedelta(days=2))
    with client.consumer("orders", "billing") as consumer:
        message = first(consumer)
        with pytest.raises(errors.InvalidArgument, match=until.strftime("is kept until %Y-%m-%dT%H:%M")):
            message.nack(delay=timedelta(days=5, seconds=1))
        with pytest.raises(errors.InvalidArgument, match=until.strftime("is kept until %Y-%m-%dT%H:%M")):
            message.nack(at=until + timedelta(seconds=1))
        message.nack(at=until - timedelta(seconds=5))
        assert is_idle(client, consumer)
        broker.clock.advance(timedelta(days=5) - timedelta(seconds=5))
        assert next_values(consumer, 1) == [b"a"]


def test_of_a_batch_none_is_settled_if_one_is_not_kept(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"old")
    broker.clock.advance(timedelta(days=6))
    publish(client, b"young")
    with client.consumer("orders", "billing", credit=10) as consumer:
        batch = next(iter(consumer.batches(max_rows=2)))
        with pytest.raises(errors.InvalidArgument, match="orders/0@1 is kept until"):
            batch.nack(delay=timedelta(days=2))
        batch.nack([1], delay=timedelta(days=2)).result().raise_for_refused()
        batch.ack()
        assert is_idle(client, consumer)


@pytest.mark.parametrize(
    ("times", "match"),
    [
        ({"delay": 5, "at": datetime(2100, 1, 1, tzinfo=UTC)}, "Both delay= and at="),
        ({"delay": -1}, "is negative"),
        ({"delay": float("nan")}, "not a length of time"),
        ({"delay": float("inf")}, "not a length of time"),
        ({"delay": "5s"}, "is text"),
        ({"delay": 1794740400}, "looks like a Unix time"),
        ({"delay": timedelta(days=3653)}, "is more than 10 years"),
        ({"at": datetime(2100, 1, 1)}, "has no time zone"),
        ({"at": date(2100, 1, 1)}, "is a date"),
        ({"at": 5}, "is of type int"),
        ({"at": datetime(2200, 1, 1, tzinfo=UTC)}, "after 2200"),
        ({"at": timedelta(seconds=5)}, "a span, not a moment"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused_and_settles_nothing(client: bowstring.Client, times: dict[str, Any], match: str):
    publish(client, b"a")
    with client.consumer("orders", "billing") as consumer:
        batch = next(iter(consumer.batches()))
        for call in (batch.nack, batch[0].nack):
            with pytest.raises(errors.InvalidArgument, match=match):
                call(**times)
        batch[0].ack().result(timeout=10)


def test_a_delay_outlives_the_broker(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, clock="manual") as broker, broker.connect() as client:
        client.create_topic("orders", retention=timedelta(days=7), exists_ok=True)
        client.create_subscription("orders", "billing", lease=3600)
        publish(client, b"a", b"b")
        with client.consumer("orders", "billing", credit=10) as consumer:
            batch = next(iter(consumer.batches(max_rows=2)))
            batch.nack([0], delay=100)
            batch.nack([1], delay=200)
            consumer.flush()
            broker.restart()
            broker.clock.advance(90)
            assert is_idle(client, consumer)
            broker.clock.advance(15)
            assert next_values(consumer, 1) == [b"a"]
            broker.clock.advance(100)
            assert next_values(consumer, 1) == [b"b"]


BACKOFF = (10, 2, 35)


def test_a_nack_without_a_time_waits_for_its_backoff(broker: bowstring.Broker, client: bowstring.Client):
    client.alter_subscription("orders", "billing", backoff=BACKOFF)
    publish(client, b"a")
    with client.consumer("orders", "billing") as consumer:
        for count, wait in enumerate((10, 20, 35, 35)):
            message = first(consumer)
            assert message.retry_count == count
            message.nack()
            assert is_idle(client, consumer)
            broker.clock.advance(wait - 0.1)
            assert is_idle(client, consumer)
            broker.clock.advance(0.1)
        first(consumer).nack(delay=1)
        assert is_idle(client, consumer)
        broker.clock.advance(1)
        first(consumer).nack(delay=0)
        assert next_values(consumer, 1) == [b"a"]


def test_a_lease_that_ends_waits_for_its_backoff(broker: bowstring.Broker, client: bowstring.Client):
    client.alter_subscription("orders", "billing", backoff=BACKOFF, lease=5)
    publish(client, b"a")
    with client.consumer("orders", "billing", alive=lambda: False) as consumer:
        first(consumer)
        broker.clock.advance(5)
        assert is_idle(client, consumer)
        broker.clock.advance(9.9)
        assert is_idle(client, consumer)
        broker.clock.advance(0.1)
        message = first(consumer)
        assert message.retry_count == 1
        message.ack()
