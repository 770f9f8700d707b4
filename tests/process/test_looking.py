"""Looking into a queue and choosing from it, with both faces of the kit: filters, seek, peek, leases by id."""

from __future__ import annotations

import pytest

import bowstring
from tests.process import still_clock
from tests.process.still_clock import taken

broker = still_clock.broker
client = still_clock.client


def sent(client: bowstring.Client, rows: int, topic: str = "orders", country: str = "CH") -> list[str]:
    with client.producer(topic) as producer:
        receipts = [producer.send(b"%d" % number, key=b"%d" % number, attributes={"country": country}) for number in range(rows)]
    return [receipt.id for receipt in receipts]


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


def test_scheduled_messages_that_a_filter_leaves_out_hold_nothing_up(broker, client):
    client.create_topic("jobs")
    client.create_subscription("jobs", "swiss", where="attributes.country = 'CH'")
    with client.consumer("jobs", "swiss", credit=10) as consumer, client.producer("jobs") as producer:
        for country, delay in (("DE", 60), ("CH", 0), ("DE", 60), ("CH", 60), ("CH", 0)):
            producer.send(country, attributes={"country": country}, delay=delay).result()
        now = taken(consumer, 2)
        assert [message.offset for message in now] == [2, 5]
        for message in now:
            message.ack()
        consumer.flush()
        broker.clock.advance(61)
        assert [message.offset for message in taken(consumer, 1)] == [4]


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


# ---- seek


def test_a_subscription_is_set_back_and_forward_and_a_dry_run_tells_what_comes_of_it(client):
    sent(client, 20)
    with client.consumer("orders", "billing", credit=100) as consumer:
        for message in taken(consumer, 20):
            message.ack()
        consumer.flush()
        told = client.seek_subscription("orders", "billing", "beginning", dry_run=True)
        assert (told.again, told.skipped, told.leased, told.dry_run) == (20, 0, 0, True)
        assert client.subscription("orders", "billing").backlog == 0
        done = client.seek_subscription("orders", "billing", "beginning")
        assert (done.again, done.skipped, done.offsets) == (20, 0, {0: 1, 1: 1})
        assert {message.retry_count for message in taken(consumer, 20)} == {0}
        told = client.seek_subscription("orders", "billing", "latest", dry_run=True)
        assert (told.again, told.skipped, told.leased) == (0, 20, 20)
        client.seek_subscription("orders", "billing", "latest")
        assert client.subscription("orders", "billing").backlog == 0


def test_any_start_of_a_reader_is_a_place_to_seek_to(broker, client):
    client.create_topic("one")
    sent(client, 10, "one")
    broker.clock.advance(60)
    sent(client, 5, "one")
    client.create_subscription("one", "billing")
    from datetime import timedelta

    for to, offset in (("beginning", 1), ("latest", 16), (7, 7), ({0: 3}, 3), (-4, 12), (timedelta(seconds=-30), 11)):
        assert client.seek_subscription("one", "billing", to).offsets == {0: offset}
        assert client.subscription("one", "billing").backlog == 16 - offset


def test_a_seek_ends_leases_and_says_so(client):
    sent(client, 4)
    with client.consumer("orders", "billing", credit=4, name="worker") as consumer:
        messages = taken(consumer, 4)
        client.seek_subscription("orders", "billing", "beginning")
        for message in messages:
            with pytest.raises(bowstring.LeaseLost, match=r"was ended and the subscription was set to another place\. Leave the message"):
                message.ack().result()
        again = taken(consumer, 4)
        assert {message.id for message in again} == {message.id for message in messages}
        for message in again:
            message.ack().result()
    assert client.subscription("orders", "billing").backlog == 0


def test_a_place_that_is_not_there_is_refused_and_nothing_changes(client):
    sent(client, 4)
    client.create_subscription("orders", "billing")
    for to, told in (
        ({0: 99}, r"orders/0 holds offsets 1\.\.\d, 99 was asked for"),
        ({7: 1}, "'orders' has no partition 7"),
        ({}, "names no partition"),
        ("nowhere", "to='nowhere' is not a place in a topic"),
        (None, "to=None is no place"),
    ):
        with pytest.raises(bowstring.Rejected, match=told):
            client.seek_subscription("orders", "billing", to)
    with pytest.raises(bowstring.SubscriptionNotFound, match="Did you mean 'billing'"):
        client.seek_subscription("orders", "biling", "latest")
    assert client.subscription("orders", "billing").backlog == 4


def test_a_filter_looks_again_after_a_seek(client):
    sent(client, 10, country="DE")
    sent(client, 10, country="CH")
    with client.consumer("orders", "swiss", where="attributes.country = 'CH'", credit=100) as consumer:
        for _ in range(3):
            messages = taken(consumer, 10)
            assert {message.attributes["country"] for message in messages} == {"CH"}
            for message in messages:
                message.ack()
            consumer.flush()
            assert client.seek_subscription("orders", "swiss", "beginning").skipped == 0


# ---- peek


def test_peek_shows_what_would_come_next_and_takes_nothing(client):
    sent(client, 10)
    with client.consumer("orders", "billing", credit=1) as consumer, client.consumer("orders", "billing", credit=1) as other:
        (held,), (also,) = taken(consumer, 1), taken(other, 1)
        consumer.pause()
        other.pause()
        batch = consumer.peek()
        assert len(batch) == 8
        assert {held.id, also.id}.isdisjoint(message.id for message in batch)
        assert [message.id for message in other.peek(100)] == [message.id for message in batch]
        assert len(consumer.peek(3)) == 3
        for partition in (0, 1):
            offsets = [message.offset for message in batch if message.partition == partition]
            assert offsets == sorted(offsets)
        assert [message.key for message in consumer.peek(where="key = '7'")] in ([b"7"], [])
        held.nack().result()
        assert len(consumer.peek()) == 9
        assert client.subscription("orders", "billing").backlog == 10


def test_peek_applies_the_filter_of_the_subscription(client):
    sent(client, 5, country="DE")
    sent(client, 3, country="CH")
    with client.consumer("orders", "swiss", where="attributes.country = 'CH'", credit=1) as consumer:
        taken(consumer, 1)
        assert [message.attributes["country"] for message in consumer.peek(100)] == ["CH"] * 2
        assert len(consumer.peek(where="attributes.country = 'DE'")) == 0


def test_peek_at_nothing_is_empty_and_wrong_arguments_are_refused(client):
    with client.consumer("orders", "billing") as consumer:
        assert len(consumer.peek()) == 0
        for limit in (0, -1, 10_001, True, "all"):
            with pytest.raises(bowstring.InvalidArgument, match=r"is not valid\. Use a whole number from 1 to 10000"):
                consumer.peek(limit)
        with pytest.raises(bowstring.InvalidArgument, match="'value' is no column"):
            consumer.peek(where="value = 'a'")
        client.delete_subscription("orders", "billing")
        with pytest.raises(bowstring.SubscriptionNotFound):
            consumer.peek()


def test_peek_leaves_out_what_is_not_due(broker, client):
    client.create_topic("jobs")
    client.create_subscription("jobs", "all")
    delays = {"soon": 60, "now": 0, "late": 600, "then": 0}
    with client.consumer("jobs", "all", credit=10) as consumer, client.producer("jobs") as producer:
        consumer.pause()

        def seen():
            return [message.text() for message in consumer.peek()]

        stored = {name: producer.send(name, delay=delay).result() for name, delay in delays.items()}
        assert seen() == ["now", "then"]
        producer.move([stored["late"].id], delay=30)
        broker.clock.advance(31)
        assert seen() == ["now", "late", "then"]
        consumer.resume()
        for message in taken(consumer, 3):
            message.ack()
        consumer.flush()
        consumer.pause()
        assert seen() == []  # the cursor has passed the one that is not due
        broker.clock.advance(30)
        assert seen() == ["soon"]
