"""What becomes of messages that retention reaches before a subscription has settled them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bowstring import errors
from bowstring.embedded import Broker

TOPIC, COMPANION = "orders", "orders.billing.dead-letters"
RETENTION = 3600
LOOK = 61
"""Kept messages are looked at once a minute."""


@pytest.fixture
def broker():
    with Broker.ephemeral(clock="manual") as broker:
        yield broker


@pytest.fixture
def client(broker):
    with broker.connect() as client:
        client.create_topic(TOPIC, retention=RETENTION)
        yield client


def publish(client, count=4, first=1, **given):
    with client.producer(TOPIC, group="shop") as producer:
        receipts = [producer.send(f"order {number}".encode(), **given) for number in range(first, first + count)]
    return [receipt.id for receipt in receipts]


def worked_off(client, count, name="billing"):
    """So many messages, each acked."""
    found = []
    with client.consumer(TOPIC, name, create=False) as consumer:
        for message in consumer:
            found.append(message.text())
            message.ack()
            if len(found) == count:
                break
        consumer.flush()
    return found


def until(broker, found, seconds=LOOK):
    """Lets time pass until something is found: the broker looks at topics in turns."""
    for _ in range(100):
        result = found()
        if result:
            return result
        broker.clock.advance(seconds)
    raise AssertionError("it never came")


def letters(client):
    return [letter.text() for letter in client.dead_letters(TOPIC, "billing")]


def read(client):
    return [message.text() for message in client.reader(TOPIC, end="latest")]


def test_messages_that_retention_reaches_are_dropped_and_counted(broker, client):
    client.create_subscription(TOPIC, "billing")
    publish(client, 3)
    worked_off(client, 1)
    broker.clock.advance(RETENTION + 1)
    publish(client, 1, first=4)
    until(broker, lambda: client.subscription(TOPIC, "billing").overtaken == 2, seconds=1)
    assert worked_off(client, 1) == ["order 4"]
    subscription = client.subscription(TOPIC, "billing")
    assert (subscription.backlog, subscription.overtaken) == (0, 2)
    assert letters(client) == []


def test_messages_that_retention_reaches_become_dead_letters(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="dead_letter")
    ids = publish(client, 3, attributes={"country": "CH"})
    worked_off(client, 1)
    broker.clock.advance(RETENTION + 1)
    publish(client, 1, first=4)
    found = until(broker, lambda: len(letters(client)) == 2 and list(client.dead_letters(TOPIC, "billing")), seconds=1)
    assert [letter.id for letter in found] == ids[1:]
    told = dict(found[0].attributes)
    assert told.pop("bowstring-ended")
    assert told == {
        "country": "CH",
        "bowstring-reason": "retention reached it before it was settled",
        "bowstring-topic": TOPIC,
        "bowstring-partition": "0",
        "bowstring-offset": "2",
        "bowstring-subscription": "billing",
        "bowstring-retry-count": "0",
    }
    assert read(client) == ["order 4"]
    assert worked_off(client, 1) == ["order 4"]
    assert client.subscription(TOPIC, "billing").overtaken == 0
    client.redrive(TOPIC, "billing").raise_for_refused()
    assert worked_off(client, 2) == ["order 2", "order 3"]


def test_a_message_that_is_too_old_when_it_is_to_be_delivered_becomes_a_dead_letter_at_once(broker, client):
    """Whether retention has come to it yet or not: the consumer waits for messages when they grow old."""
    client.create_subscription(TOPIC, "billing", unsettled="dead_letter")
    publish(client, 2)
    with client.consumer(TOPIC, "billing", credit=1, name="ada") as consumer:
        first = next(iter(consumer))
        consumer.pause()
        broker.clock.advance(RETENTION + 1)
        consumer.resume()
        assert first.text() == "order 1"
        until(broker, lambda: len(letters(client)) == 2, seconds=1)
    assert sorted(letters(client)) == ["order 1", "order 2"]


def test_messages_are_kept_until_they_are_settled_and_only_for_the_subscription_that_keeps_them(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="keep")
    client.create_subscription(TOPIC, "mailing")
    publish(client, 3)
    broker.clock.advance(RETENTION + 1)
    publish(client, 1, first=4)
    for _ in range(5):
        broker.clock.advance(LOOK)
    assert read(client) == ["order 4"], "readers of the log go by the retention"
    assert worked_off(client, 1, "mailing") == ["order 4"]
    assert worked_off(client, 4) == ["order 1", "order 2", "order 3", "order 4"]
    assert (client.subscription(TOPIC, "billing").overtaken, client.subscription(TOPIC, "mailing").overtaken) == (0, 3)
    until(broker, lambda: client.topic(TOPIC).messages <= 1)


def test_messages_are_kept_for_a_while_only(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=timedelta(hours=2))
    publish(client, 2)
    broker.clock.advance(RETENTION)
    publish(client, 1, first=3)
    broker.clock.advance(2 * RETENTION - 10)
    publish(client, 1, first=4)
    with client.consumer(TOPIC, "billing", credit=1) as consumer:
        assert next(iter(consumer)).text() == "order 1"
        assert consumer.peek().column("value").to_pylist() == [b"order 2", b"order 3", b"order 4"]
    broker.clock.advance(20)
    assert worked_off(client, 2) == ["order 3", "order 4"]
    assert until(broker, lambda: client.subscription(TOPIC, "billing").overtaken) == 2


def test_kept_messages_go_by_the_limit_also_when_no_one_consumes_them(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=timedelta(hours=1))
    publish(client, 2)
    broker.clock.advance(RETENTION + 60)
    publish(client, 1, first=3)
    for _ in range(5):
        broker.clock.advance(LOOK)
    assert client.topic(TOPIC).messages == 3
    broker.clock.advance(RETENTION)
    publish(client, 1, first=4)
    until(broker, lambda: client.subscription(TOPIC, "billing").overtaken == 2)


def test_a_message_that_one_subscription_keeps_for_ever_goes_by_the_limit_of_another(broker, client):
    client.create_subscription(TOPIC, "archive", unsettled="keep")
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=timedelta(hours=1))
    publish(client, 2)
    broker.clock.advance(RETENTION + 60)
    publish(client, 1, first=3)
    broker.clock.advance(RETENTION)
    publish(client, 1, first=4)
    until(broker, lambda: client.subscription(TOPIC, "billing").overtaken == 2)
    assert client.subscription(TOPIC, "billing").backlog == 2
    facts = client.subscription(TOPIC, "archive")
    assert (facts.overtaken, facts.backlog) == (0, 4)
    assert worked_off(client, 2) == ["order 3", "order 4"]
    assert worked_off(client, 4, "archive") == ["order 1", "order 2", "order 3", "order 4"]


def test_a_message_under_a_lease_is_overtaken_by_its_limit_when_the_lease_has_ended(broker, client):
    client.create_subscription(TOPIC, "archive", unsettled="keep")
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=timedelta(hours=1))
    publish(client, 2)
    broker.clock.advance(2 * RETENTION - 10)
    with client.consumer(TOPIC, "billing", credit=1, lease=3600) as consumer:
        message = next(iter(consumer))
        consumer.pause()
        broker.clock.advance(300)
        for _ in range(3):
            broker.clock.advance(LOOK)
        assert client.subscription(TOPIC, "billing").overtaken == 1
        message.ack().result()
    for _ in range(3):
        broker.clock.advance(LOOK)
    facts = client.subscription(TOPIC, "billing")
    assert (facts.overtaken, facts.backlog) == (1, 0)


def test_a_scheduled_message_is_kept_from_its_due_time_on(broker, client):
    """It is due after the time at which it would go by its arrival."""
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=timedelta(hours=1))
    publish(client, 1, delay=3 * RETENTION)
    publish(client, 1, first=2)
    broker.clock.advance(4 * RETENTION + 60)
    for _ in range(3):
        broker.clock.advance(LOOK)
    assert worked_off(client, 1) == ["order 1"]
    assert client.subscription(TOPIC, "billing").overtaken == 1


def test_a_message_with_an_end_of_its_own_is_no_dead_letter(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="dead_letter")
    publish(client, 1, expires=60)
    publish(client, 1, first=2)
    broker.clock.advance(RETENTION + 1)
    publish(client, 1, first=3)
    until(broker, lambda: len(letters(client)) == 1, seconds=1)
    assert worked_off(client, 1) == ["order 3"]
    assert letters(client) == ["order 2"]


def test_messages_that_a_filter_leaves_out_are_no_dead_letters(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="dead_letter", where="attributes.country = 'CH'")
    publish(client, 2, attributes={"country": "IT"})
    publish(client, 2, first=3, attributes={"country": "CH"})
    broker.clock.advance(RETENTION + 1)
    publish(client, 1, first=5, attributes={"country": "CH"})
    until(broker, lambda: len(letters(client)) == 2, seconds=1)
    assert worked_off(client, 1) == ["order 5"]
    assert letters(client) == ["order 3", "order 4"]


def test_rows_scheduled_between_old_ones_come_when_they_are_due(broker, client):
    """No consumer is there when retention passes them; one was there before, and knows what is due."""
    client.create_subscription(TOPIC, "billing", unsettled="dead_letter")
    publish(client, 1, first=0, delay=1)
    broker.clock.advance(2)
    worked_off(client, 1)
    publish(client, 1)
    publish(client, 1, first=2, delay=3 * RETENTION)
    publish(client, 1, first=3, delay=RETENTION // 2)
    publish(client, 1, first=4)
    broker.clock.advance(RETENTION // 2 + 60)  # the third is due now
    broker.clock.advance(RETENTION // 2)
    until(broker, lambda: len(letters(client)) == 2, seconds=1)
    assert worked_off(client, 1) == ["order 3"]
    broker.clock.advance(2 * RETENTION)
    assert worked_off(client, 1) == ["order 2"]
    assert letters(client) == ["order 1", "order 4"]


def test_dead_letters_of_old_messages_survive_a_restart(tmp_path):
    with Broker(tmp_path / "data", clock="manual") as broker, broker.connect() as client:
        client.create_topic(TOPIC, retention=RETENTION)
        client.create_subscription(TOPIC, "billing", unsettled="dead_letter")
        client.create_subscription(TOPIC, "mailing")
        publish(client, 3)
        broker.clock.advance(RETENTION + 1)
        until(broker, lambda: len(letters(client)) == 3, seconds=1)
        broker.kill()
        broker.restart()
        assert letters(client) == ["order 1", "order 2", "order 3"]
        until(broker, lambda: client.subscription(TOPIC, "mailing").overtaken == 3)


def test_the_choice_can_be_altered(broker, client):
    client.create_subscription(TOPIC, "billing", unsettled="keep", keep_max=60)
    altered = client.alter_subscription(TOPIC, "billing", unsettled="dead_letter")
    assert (altered.unsettled, altered.keep_max) == ("dead_letter", None)
    publish(client, 1)
    broker.clock.advance(RETENTION + 1)
    until(broker, lambda: letters(client) == ["order 1"], seconds=1)


@pytest.mark.parametrize("unsettled", ["drop", "dead_letter"])
def test_a_limit_goes_with_keep(client, unsettled):
    with pytest.raises(errors.InvalidArgument, match="keep_max goes with unsettled='keep'"):
        client.create_subscription(TOPIC, "billing", unsettled=unsettled, keep_max=60)
