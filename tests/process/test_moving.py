"""Messages that their owner moves to another due time before they are due."""

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


@pytest.fixture
def producer(client: bowstring.Client) -> Iterator[Any]:
    with client.producer("orders") as producer:
        yield producer


def publish(producer: Any, **delays: float | None) -> None:
    """Messages with their names as values and ids, each due after its delay."""
    for name, delay in delays.items():
        producer.send(name, id=name, delay=delay)
    producer.flush()


def taken(consumer: Any, count: int) -> list[str]:
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


def dues(client: bowstring.Client, **options: Any) -> dict[str, datetime | None]:
    return {message.text(): message.due for message in client.reader("orders", end="latest", **options)}


@pytest.mark.parametrize("when", ["before", "between", "never"])
@pytest.mark.parametrize("restarted", [False, True], ids=["live", "restarted"])
def test_moved_messages_come_once_at_their_new_time(
    broker: bowstring.Broker, client: bowstring.Client, producer: Any, when: str, restarted: bool
):
    with client.consumer("orders", "billing", credit=100) as consumer:
        publish(producer, sooner=200, later=10, far=30, same=20, now=None)
        assert taken(consumer, 1) == ["now"]
        if when == "before":
            stored.seal(broker)
        assert producer.move(["sooner"], delay=5).ok.to_pylist() == [True]
        assert producer.move(["later"], delay=40).ok.to_pylist() == [True]
        assert producer.move(["far"], delay=500).ok.to_pylist() == [True]
        if when == "between":
            stored.seal(broker)
        if restarted:
            broker.restart()
        broker.clock.advance(4.9)
        assert leased(client, consumer) == 0
        broker.clock.advance(0.2)
        assert taken(consumer, 1) == ["sooner"]
        broker.clock.advance(14.5)
        assert leased(client, consumer) == 0
        broker.clock.advance(1)
        assert taken(consumer, 1) == ["same"]
        broker.clock.advance(19)
        assert leased(client, consumer) == 0
        broker.clock.advance(2)
        assert taken(consumer, 1) == ["later"]
        for _ in range(9):
            broker.clock.advance(50)
            assert leased(client, consumer) == 0
        broker.clock.advance(50)
        assert taken(consumer, 1) == ["far"]
        broker.clock.advance(3600)
        assert leased(client, consumer) == 0
        assert client.subscription("orders", "billing").backlog == 0


def test_a_consumer_that_comes_later_gets_them_at_their_new_time(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, later=10, sooner=60, now=None)
    producer.move(["later"], delay=60).raise_for_refused()
    producer.move(["sooner"], delay=10).raise_for_refused()
    with client.consumer("orders", "billing", credit=100) as consumer:
        assert taken(consumer, 1) == ["now"]
        broker.clock.advance(11)
        assert taken(consumer, 1) == ["sooner"]
        assert leased(client, consumer) == 0
        broker.clock.advance(50)
        assert taken(consumer, 1) == ["later"]


@pytest.mark.parametrize("sealed", [False, True], ids=["unsealed", "sealed"])
def test_readers_filters_and_lists_show_the_new_time(broker: bowstring.Broker, client: bowstring.Client, producer: Any, sealed: bool):
    publish(producer, moved=10, other=20, now=None)
    if sealed:
        stored.seal(broker)
    moment = datetime(2180, 1, 1, tzinfo=UTC)
    producer.move(["moved"], at=moment).raise_for_refused()
    for _ in range(2):
        assert dues(client)["moved"] == moment
        assert dues(client)["other"] != moment
        assert dues(client)["now"] is None
        assert dues(client, where="due > '2100-01-01T00:00Z'") == {"moved": moment}
        assert next((message.id, message.due) for message in producer.scheduled()) == ("moved", moment)
        assert [message.id for message in producer.scheduled(timedelta(minutes=5))] == ["other"]
        broker.restart()


def test_the_delivered_message_says_its_new_time(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, a=10, b=10)
    producer.move(["a"], delay=60).raise_for_refused()
    (expected,) = [message.due for message in producer.scheduled() if message.id == "a"]
    broker.clock.advance(61)
    with client.consumer("orders", "billing", credit=100) as consumer:
        found = {message.text(): message.due for message in (next(iter(consumer)), next(iter(consumer)))}
    assert found["a"] == expected


def test_now_is_when_the_moment_has_passed(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, a=1000, b=2000)
    with client.consumer("orders", "billing", credit=100) as consumer:
        producer.move(["a"], delay=0).raise_for_refused()
        producer.move(["b"], at=datetime(2000, 1, 1, tzinfo=UTC)).raise_for_refused()
        assert taken(consumer, 2) == ["a", "b"]


def test_what_may_not_be_moved_is_refused_by_itself(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, due=5, now=None, later=60, gone=60)
    producer.send("expires", id="expires", delay=60, expires=120)
    producer.flush()
    with client.producer("orders", group="others") as others:
        publish(others, theirs=60)
    producer.cancel(["gone"]).raise_for_refused()
    broker.clock.advance(5)
    answers = producer.move(["due", "now", "later", "gone", "nothing", "theirs", "expires"], delay=300)
    kinds = {row: type(error) for row, error in answers.refused.items()}
    conflict, missing = errors.Conflict, errors.MessageNotFound
    assert kinds == {0: conflict, 1: conflict, 3: missing, 4: missing, 5: errors.NotAuthorised, 6: errors.InvalidArgument}
    assert answers.ok.to_pylist() == [False, False, True, False, False, False, False]
    assert "is due: it cannot be moved any more" in str(answers.refused[0])
    assert "expires at" in str(answers.refused[6])


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({}, "neither delay= nor at="),
        ({"delay": 1, "at": datetime(2100, 1, 1, tzinfo=UTC)}, "Both delay= and at="),
        ({"at": datetime(2100, 1, 1)}, "has no time zone"),
        ({"at": datetime(2300, 1, 1, tzinfo=UTC)}, "2200"),
        ({"delay": -1}, "negative"),
        ({"delay": float("nan")}, "delay=nan"),
        ({"delay": 1794740400}, "looks like a Unix time"),
        ({"delay": timedelta(days=4000)}, "10 years"),
        ({"at": "tomorrow"}, "at='tomorrow'"),
    ],
    ids=str,
)
def test_times_that_make_no_sense_are_refused(producer: Any, times: dict[str, Any], problem: str):
    publish(producer, a=60)
    with pytest.raises(errors.InvalidArgument) as raised:
        producer.move(["a"], **times)
    assert problem in str(raised.value)
    with pytest.raises(errors.InvalidArgument):
        producer.move([], delay=60)


def test_a_moved_message_can_be_moved_again_and_cancelled(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, a=60, b=60)
    with client.consumer("orders", "billing", credit=100) as consumer:
        for delay in (10, 600, 30):
            producer.move(["a", "b"], delay=delay).raise_for_refused()
        producer.move(["b"], delay=7200).raise_for_refused()
        broker.clock.advance(3600)
        assert taken(consumer, 1) == ["a"]
        assert isinstance(producer.cancel(["a"]).refused[0], errors.Conflict)
        producer.cancel(["b"]).raise_for_refused()
        broker.clock.advance(7200)
        assert leased(client, consumer) == 0


def test_retention_counts_from_the_new_time(broker: bowstring.Broker, client: bowstring.Client, producer: Any):
    publish(producer, earlier=timedelta(days=30).total_seconds(), later=60, now=None)
    producer.move(["later"], delay=timedelta(days=20)).raise_for_refused()
    producer.move(["earlier"], delay=timedelta(days=2)).raise_for_refused()
    stored.seal(broker)
    found: dict[int, list[str]] = {}
    for day in range(1, 30):
        broker.clock.advance(timedelta(days=1).total_seconds())
        stored.retain(broker)
        found[day] = [message.text() for message in client.reader("orders", start="beginning", end="latest")]
    assert found[6] == ["earlier", "later", "now"]
    assert found[8] == ["earlier", "later"]
    assert found[10] == ["later"]
    assert found[26] == ["later"]
    assert found[28] == []
