"""Looking into a queue and choosing from it, with both faces of the kit: filters, seek, peek, leases by id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral(clock="manual") as broker:
        yield broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders", partitions=2)
        yield client


def sent(client: bowstring.Client, rows: int, topic: str = "orders", country: str = "CH") -> list[str]:
    with client.producer(topic) as producer:
        receipts = [producer.send(b"%d" % number, key=b"%d" % number, attributes={"country": country}) for number in range(rows)]
    return [receipt.id for receipt in receipts]


def taken(consumer: bowstring.Consumer, count: int) -> list[bowstring.LeasedMessage]:
    found: list[bowstring.LeasedMessage] = []
    for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    return found


# ---- filters


def test_a_subscription_with_a_filter_gets_what_passes_and_settles_the_rest(broker, client):
    for country in ("DE", "CH", "FR", "CH", "DE"):
        sent(client, 10, country=country)
    made = client.create_subscription("orders", "swiss", where="attributes.country = 'CH'")
    assert (made.where, made.backlog) == ("attributes.country = 'CH'", 50)
    with client.consumer("orders", "swiss", credit=100) as consumer:
        messages = taken(consumer, 20)
        assert {message.attributes["country"] for message in messages} == {"CH"}
        assert sorted(message.text() for message in messages) == sorted(f"{number}" for number in range(10) for _ in range(2))
        for message in messages:
            message.ack()
        consumer.flush()
        broker.clock.advance(6)
        sent(client, 3, country="CH")
        assert len(taken(consumer, 3)) == 3
        assert client.subscription("orders", "swiss").backlog == 3


def test_the_floor_rises_though_no_message_passes_the_filter(broker, client):
    with client.consumer("orders", "swiss", where="attributes.country = 'CH'") as consumer:
        sent(client, 100, country="DE")
        batches = consumer.batches(max_wait=0.05)
        sent(client, 1, country="CH")
        assert [message.attributes["country"] for message in next(iter(batches))] == ["CH"]
        sent(client, 100, country="DE")
        broker.clock.advance(6)
        while client.subscription("orders", "swiss").backlog > 1:
            broker.clock.advance(1)


def test_another_filter_than_the_subscription_has_is_a_conflict(client):
    client.create_subscription("orders", "swiss", where="attributes.country = 'CH'")
    client.create_subscription("orders", "all")
    client.create_subscription("orders", "swiss", where="attributes['country']='CH'", exists_ok=True)
    with pytest.raises(bowstring.Conflict, match=r"the subscription 'swiss' has the filter \"attributes.country = 'CH'\"\. Omit where="):
        client.create_subscription("orders", "swiss", where="attributes.country = 'DE'", exists_ok=True)
    for name, create in (("swiss", True), ("swiss", False), ("all", True)):
        with pytest.raises(bowstring.Conflict), client.consumer("orders", name, where="key = 'a'", create=create) as consumer:
            next(iter(consumer))
    with client.consumer("orders", "swiss") as consumer:
        sent(client, 1)
        taken(consumer, 1)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (
            "created >= '-1h'",
            r"where is not understood at character 12 \(created >= ▸'-1h'\): '-1h' counts from now, and this filter lasts",
        ),
        ("value = 'a'", "'value' is no column"),
        ("", "where is empty"),
        (7, "where=7 is of type int"),
    ],
)
def test_a_wrong_filter_is_refused_at_once(client, where, told):
    with pytest.raises(bowstring.InvalidArgument, match=told):
        client.create_subscription("orders", "swiss", where=where)
    with pytest.raises(bowstring.InvalidArgument, match=told):
        client.consumer("orders", "swiss", where=where)


def test_a_filter_outlives_the_broker(tmp_path):
    for lives in range(3):
        with bowstring.Broker(tmp_path) as broker, broker.connect() as client:
            client.create_topic("orders", exists_ok=True)
            sent(client, 10, country="DE")
            sent(client, 5, country="CH")
            with client.consumer("orders", "swiss", where="attributes.country = 'CH'", credit=100) as consumer:
                messages = taken(consumer, 5 + lives)
                assert {message.attributes["country"] for message in messages} == {"CH"}
                assert sum(message.retry_count for message in messages) == lives * (lives + 1) // 2
                for message in messages:
                    message.ack() if message.text() != "4" else message.nack()
                consumer.flush()
