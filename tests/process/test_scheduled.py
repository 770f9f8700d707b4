"""Messages that are published for later: consumers get them when they are due, readers at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring import errors
from tests.process import stored


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[bowstring.Broker]:
    with bowstring.Broker(data=tmp_path, clock="manual") as broker:
        yield broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders", retention=timedelta(days=7))
        client.create_subscription("orders", "billing", lease=3600)
        yield client


def publish(client: bowstring.Client, **delays: float | None) -> None:
    """Messages with their names as values, each due after its delay."""
    with client.producer("orders") as producer:
        for name, delay in delays.items():
            producer.send(name, delay=delay)


def taken(consumer: Any, count: int) -> list[str]:
    """The next messages, in the order in which they come; they are acked, durably."""
    found: list[str] = []
    for message in consumer:
        found.append(message.text())
        message.ack()
        if len(found) == count:
            break
    consumer.flush()
    return found


def leased(client: bowstring.Client, consumer: Any) -> int:
    consumer.flush()
    return client.subscription("orders", "billing").leased


def test_rows_are_delivered_when_they_are_due_and_never_early(broker: bowstring.Broker, client: bowstring.Client):
    with client.consumer("orders", "billing", credit=100) as consumer:
        publish(client, late=60, first=None, soon=10, second=None, past=0)
        assert taken(consumer, 3) == ["first", "second", "past"]
        broker.clock.advance(9.999)
        assert leased(client, consumer) == 0
        broker.clock.advance(0.001)
        assert taken(consumer, 1) == ["soon"]
        broker.clock.advance(49.999)
        assert leased(client, consumer) == 0
        broker.clock.advance(0.001)
        assert taken(consumer, 1) == ["late"]
        assert client.subscription("orders", "billing").backlog == 0


def test_a_reader_sees_them_at_once(client: bowstring.Client):
    publish(client, late=60, now=None)
    assert [message.text() for message in client.reader("orders", end="latest")] == ["late", "now"]


def test_they_come_in_the_order_of_due_time_and_offset(broker: bowstring.Broker, client: bowstring.Client):
    with client.consumer("orders", "billing", credit=1) as consumer:
        publish(client, e=50, d=40, a=10, c=30, b=20, b2=20, first=None)
        assert taken(consumer, 1) == ["first"]
        broker.clock.advance(60)
        assert taken(consumer, 6) == ["a", "b", "b2", "c", "d", "e"]


def test_a_consumer_that_comes_later_gets_them_when_they_are_due(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, late=60, soon=10, now=None)
    with client.consumer("orders", "billing", credit=100) as consumer:
        assert taken(consumer, 1) == ["now"]
        assert leased(client, consumer) == 0
        broker.clock.advance(10)
        assert taken(consumer, 1) == ["soon"]
    broker.clock.advance(50)
    with client.consumer("orders", "billing", credit=100) as consumer:
        assert taken(consumer, 1) == ["late"]


@pytest.mark.parametrize("sealed", [False, True], ids=["unsealed", "sealed"])
def test_they_outlive_restarts_and_seals(broker: bowstring.Broker, client: bowstring.Client, sealed: bool):
    with client.consumer("orders", "billing", credit=100) as consumer:
        publish(client, late=200, soon=10, now=None, middle=90)
        assert taken(consumer, 1) == ["now"]
        if sealed:
            stored.seal(broker)
        assert leased(client, consumer) == 0
        broker.clock.advance(10)
        assert taken(consumer, 1) == ["soon"]
        broker.restart()
        assert leased(client, consumer) == 0
        broker.clock.advance(79)
        assert leased(client, consumer) == 0
        broker.clock.advance(1.5)
        assert taken(consumer, 1) == ["middle"]
        broker.clock.advance(110)
        assert taken(consumer, 1) == ["late"]
        assert client.subscription("orders", "billing").backlog == 0


def test_what_was_due_while_the_broker_was_away_comes_at_once(broker: bowstring.Broker, client: bowstring.Client):
    with client.consumer("orders", "billing", credit=100) as consumer:
        publish(client, late=200, soon=10, now=None)
        assert taken(consumer, 1) == ["now"]
    stored.seal(broker)
    broker.kill()
    broker.clock.advance(50)
    broker.restart()
    with client.consumer("orders", "billing", credit=100) as consumer:
        assert taken(consumer, 1) == ["soon"]
        assert leased(client, consumer) == 0


def test_a_new_subscription_passes_sealed_rows_that_are_not_due(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, late=200, soon=10, now=None)
    stored.seal(broker)
    client.create_subscription("orders", "new")
    with client.consumer("orders", "new", credit=100) as consumer:
        assert taken(consumer, 1) == ["now"]
        broker.clock.advance(10)
        assert taken(consumer, 1) == ["soon"]
        broker.clock.advance(190)
        assert taken(consumer, 1) == ["late"]


def test_a_filter_does_not_lose_what_is_due_later(broker: bowstring.Broker, client: bowstring.Client):
    client.create_subscription("orders", "swiss", where="attributes.country = 'CH'")
    with client.producer("orders") as producer:
        for number in range(6):
            producer.send(f"{number}", delay=10 if number % 3 else None, attributes={"country": "CH" if number % 2 else "DE"})
    with client.consumer("orders", "swiss", credit=100) as consumer:
        assert taken(consumer, 1) == ["3"]
        broker.clock.advance(10)
        assert taken(consumer, 2) == ["1", "5"]


def test_a_deleted_row_is_never_due(broker: bowstring.Broker, client: bowstring.Client):
    with client.consumer("orders", "billing", credit=100) as consumer, client.producer("orders") as producer:
        gone = producer.send("gone", delay=10)
        producer.send("kept", delay=10)
        producer.flush()
        assert leased(client, consumer) == 0
        producer.delete([gone.id]).raise_for_refused()
        broker.clock.advance(10)
        assert taken(consumer, 1) == ["kept"]
        assert client.subscription("orders", "billing").backlog == 0


# ---- the owner's calls


def test_the_owner_lists_what_is_not_due(broker: bowstring.Broker, client: bowstring.Client):
    with client.producer("orders") as producer, client.producer("orders", group="other") as other:
        other.send("theirs", delay=10)
        for name, delay in {"late": 7200, "now": None, "soon": 60}.items():
            producer.send(name, delay=delay)
            producer.flush()
        other.flush()
        assert [message.text() for message in producer.scheduled()] == ["late", "soon"]
        assert [message.text() for message in producer.scheduled(before=timedelta(hours=1))] == ["soon"]
        assert [message.text() for message in producer.scheduled(before=broker.clock.now() + timedelta(days=1))] == ["late", "soon"]
        assert [message.text() for message in other.scheduled()] == ["theirs"]
        broker.clock.advance(60)
        assert [message.text() for message in producer.scheduled()] == ["late"]


@pytest.mark.parametrize("sealed", [False, True], ids=["unsealed", "sealed"])
def test_the_owner_cancels_what_is_not_due(broker: bowstring.Broker, client: bowstring.Client, sealed: bool):
    with (
        client.consumer("orders", "billing", credit=100) as consumer,
        client.producer("orders") as producer,
        client.producer("orders", group="other") as other,
    ):
        late, soon = producer.send("late", id="late", delay=60), producer.send("soon", delay=10)
        plain, theirs = producer.send("plain", id="plain"), other.send("theirs", delay=60)
        producer.flush()
        other.flush()
        assert taken(consumer, 1) == ["plain"]
        if sealed:
            stored.seal(broker)
        broker.clock.advance(10)
        held = next(iter(consumer))
        assert held.text() == "soon"
        answers = producer.cancel([late.id, soon.id, plain.id, theirs.id, "nobody's"])
        assert answers.ok.to_pylist() == [True, False, False, False, False]
        kinds = {row: error.kind for row, error in answers.refused.items()}
        assert kinds == {1: "conflict", 2: "conflict", 3: "not-authorised", 4: "message-not-found"}
        assert "is due" in str(answers.refused[1])
        assert producer.cancel(["late"]).ok.to_pylist() == [True]
        held.ack()
        assert list(producer.scheduled()) == []
        broker.clock.advance(50)
        assert taken(consumer, 1) == ["theirs"]
        assert client.subscription("orders", "billing").backlog == 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda producer: producer.cancel([]), "no id|ids"),
        (lambda producer: producer.cancel("abc"), "ids"),
        (lambda producer: producer.cancel([""]), "id"),
        (lambda producer: list(producer.scheduled(before=5)), "before=5 is of type int"),
        (lambda producer: list(producer.scheduled(before="+1h")), "is text"),
        (lambda producer: list(producer.scheduled(before=datetime(2100, 1, 1))), "has no time zone"),
        (lambda producer: list(producer.scheduled(before=datetime(2200, 1, 1, tzinfo=UTC))), "after 2200"),
        (lambda producer: producer.move(["a"]), "neither delay= nor at="),
        (lambda producer: producer.move(["a"], delay=1, at=datetime(2100, 1, 1, tzinfo=UTC)), "Both delay= and at="),
        (lambda producer: producer.move(["a"], delay=-1), "is negative"),
    ],
)
def test_wrong_calls_of_the_owner_are_refused(client: bowstring.Client, call: Any, match: str):
    with client.producer("orders") as producer, pytest.raises(errors.InvalidArgument, match=match):
        call(producer)


def test_rows_that_came_while_there_was_no_subscription_wait_until_they_are_due(broker: bowstring.Broker, client: bowstring.Client):
    with client.consumer("orders", "billing", credit=100) as consumer:
        publish(client, first=None)
        assert taken(consumer, 1) == ["first"]
    client.delete_subscription("orders", "billing")
    publish(client, late=60, second=None)
    client.create_subscription("orders", "billing", lease=3600)
    with client.consumer("orders", "billing", credit=100) as consumer:
        assert taken(consumer, 2) == ["first", "second"]
        assert leased(client, consumer) == 0
        broker.clock.advance(60.001)
        assert taken(consumer, 1) == ["late"]
