"""Redrives from a program's side: dead letters go back to their subscription alone, each of them once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.embedded import Broker

TOPIC, COMPANION = "orders", "orders.billing.dead-letters"


@pytest.fixture
def client(tmp_path):
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        client.create_topic(TOPIC, partitions=2)
        yield client


def publish(client, count=3, **given):
    with client.producer(TOPIC, group="shop") as producer:
        receipts = [producer.send(f"order {number}".encode(), id=f"order-{number}", **given) for number in range(count)]
    return [receipt.id for receipt in receipts]


def reject(client, count, reason="bad", subscription="billing"):
    with client.consumer(TOPIC, subscription, credit=100) as consumer:
        for _, message in zip(range(count), consumer, strict=False):
            message.reject(reason).result(5)
    letters_of(client, count, subscription)


def letters_of(client, count, subscription="billing"):
    """Waits for so many dead letters: they are written after their rejects are answered."""
    for _, found in zip(client.reader(f"{TOPIC}.{subscription}.dead-letters"), range(1, count + 1), strict=False):
        if found == count:
            break
    return list(client.dead_letters(TOPIC, subscription))


def test_dead_letters_are_listed_until_a_redrive_of_them_is_acked(client):
    publish(client)
    client.create_subscription(TOPIC, "audit")
    reject(client, 3)
    assert sorted(letter.id for letter in client.dead_letters(TOPIC, "billing")) == ["order-0", "order-1", "order-2"]
    assert {letter.topic for letter in client.dead_letters(TOPIC, "billing")} == {COMPANION}
    answers = client.redrive(TOPIC, "billing", ["order-1"])
    assert (answers.ok.to_pylist(), answers.topic, answers.refused) == ([True], COMPANION, {})
    facts = client.subscription(TOPIC, "billing")
    assert (facts.dead, facts.redriven) == (3, 1)
    with client.consumer(TOPIC, "billing") as consumer:
        message = next(iter(consumer))
        assert (message.id, message.value, message.topic, message.retry_count) == ("order-1", b"order 1", COMPANION, 0)
        assert message.attributes["bowstring-reason"] == "bad"
        message.ack().result(5)
    assert sorted(letter.id for letter in client.dead_letters(TOPIC, "billing")) == ["order-0", "order-2"]
    assert client.subscription(TOPIC, "audit").backlog == 3
    assert len(list(client.reader(TOPIC, end="latest"))) == 3
    assert list(client.dead_letters(TOPIC, "audit")) == []


def test_a_redrive_that_fails_again_is_one_dead_letter_again(client):
    publish(client)
    reject(client, 3)
    assert len(client.redrive(TOPIC, "billing")) == 3
    reject(client, 3, "worse")
    found = list(client.dead_letters(TOPIC, "billing"))
    while len([letter for letter in found if letter.attributes["bowstring-reason"] == "worse"]) < 3:
        found = list(client.dead_letters(TOPIC, "billing"))
    assert sorted(letter.id for letter in found) == ["order-0", "order-1", "order-2"]
    assert {letter.attributes["bowstring-topic"] for letter in found} == {TOPIC}
    assert len(client.redrive(TOPIC, "billing", dry_run=True)) == 3
    with client.consumer(TOPIC, "billing") as consumer:
        assert client.redrive(TOPIC, "billing").ok.to_pylist() == [True] * 3
        for _, message in zip(range(3), consumer, strict=False):
            message.ack().result(5)
    assert list(client.dead_letters(TOPIC, "billing")) == []
    assert len(client.redrive(TOPIC, "billing")) == 0


def test_what_cannot_be_redriven_is_refused_one_by_one(client):
    ids = publish(client, 4)
    client.create_subscription(TOPIC, "audit")
    reject(client, 2)
    dead = [letter.id for letter in client.dead_letters(TOPIC, "billing")]
    alive = next(one for one in ids if one not in dead)
    client.redrive(TOPIC, "billing", dead[:1])
    answers = client.redrive(TOPIC, "billing", [dead[0], dead[1], alive, "nothing"])
    assert answers.ok.to_pylist() == [False, True, False, False]
    assert answers.offsets.to_pylist()[0] is None
    assert isinstance(answers.refused[0], errors.Conflict)
    assert "redriven already" in str(answers.refused[0])
    assert "is no dead letter of 'billing'" in str(answers.refused[2])
    assert isinstance(answers.refused[3], errors.MessageNotFound)
    with pytest.raises(errors.PartlyRefused):
        answers.raise_for_refused()
    assert "is no dead letter of 'audit'" in str(client.redrive(TOPIC, "audit", dead[:1]).refused[0])
    with client.consumer(TOPIC, "billing", credit=10, name="worker-7") as consumer:
        held = {message.id: message for _, message in zip(range(4), consumer, strict=False)}
        assert "'worker-7' holds it" in str(client.redrive(TOPIC, "billing", dead[:1]).refused[0])
        for message in held.values():
            message.ack().result(5)
    assert "redriven already, and is settled" in str(client.redrive(TOPIC, "billing", dead[:1]).refused[0])
    with pytest.raises(errors.SubscriptionNotFound):
        client.redrive(TOPIC, "biling")
    with pytest.raises(errors.TopicNotFound):
        list(client.dead_letters("order", "billing"))


def test_a_redrive_by_filter_with_a_dry_run_and_a_rate(client):
    with client.producer(TOPIC) as producer:
        producer.send_batch([f"{number}".encode() for number in range(3_000)]).result(10)
    with client.consumer(TOPIC, "billing", credit=5_000) as consumer:
        left = 3_000
        for batch in consumer.batches(max_rows=5_000):
            odd = [message.value[-1] % 2 == 1 for message in batch]
            batch.reject(odd, "odd")
            batch.reject([not one for one in odd], "even")
            left -= len(batch)
            if not left:
                break
        consumer.flush()
    letters_of(client, 3_000)
    where = "attributes['bowstring-reason'] = 'odd'"
    assert len(client.redrive(TOPIC, "billing", where=where, dry_run=True)) == 1_500
    assert client.subscription(TOPIC, "billing").redriven == 0
    answers = client.redrive(TOPIC, "billing", where=where, rate=20_000)
    assert (len(answers), answers.ok.true_count) == (1_500, 1_500)
    assert client.subscription(TOPIC, "billing").redriven == 1_500
    with client.consumer(TOPIC, "billing", credit=5_000) as consumer:
        seen = 0
        for batch in consumer.batches(max_rows=5_000):
            assert {message.attributes["bowstring-reason"] for message in batch} == {"odd"}
            batch.ack()
            seen += len(batch)
            if seen == 1_500:
                break
        consumer.flush()
    assert len(list(client.dead_letters(TOPIC, "billing"))) == 1_500
    assert len(client.redrive(TOPIC, "billing", dry_run=True)) == 1_500


def test_redrives_survive_a_restart(tmp_path):
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        client.create_topic(TOPIC, partitions=2)
        publish(client)
        reject(client, 3)
        client.redrive(TOPIC, "billing", ["order-2"])
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        assert (client.subscription(TOPIC, "billing").dead, client.subscription(TOPIC, "billing").redriven) == (3, 1)
        with client.consumer(TOPIC, "billing") as consumer:
            message = next(iter(consumer))
            assert message.id == "order-2"
            message.ack().result(5)
    with Broker(tmp_path / "data") as broker, broker.connect() as client:
        assert sorted(letter.id for letter in client.dead_letters(TOPIC, "billing")) == ["order-0", "order-1"]


@pytest.mark.parametrize("where", [None, "offset < 100 and partition < 2"])
def test_a_key_shared_or_filtered_subscription_gets_its_letters_back(client, where):
    for mode in ("key_shared", "shared"):
        client.create_subscription(TOPIC, mode, mode=mode, where=where)
    with client.producer(TOPIC) as producer:
        for number in range(4):
            producer.send(b"v", key=f"k{number % 2}", id=f"m{number}").result(5)
    for mode in ("key_shared", "shared"):
        reject(client, 4, subscription=mode)
        with client.consumer(TOPIC, mode, credit=10) as consumer:
            assert client.redrive(TOPIC, mode, ["m0", "m3"]).ok.to_pylist() == [True, True]
            first = {next(iter(consumer)).ack().result(5) and None for _ in range(2)}
            assert first == {None}
            assert client.redrive(TOPIC, mode).ok.to_pylist() == [True, True]
            for _, message in zip(range(2), consumer, strict=False):
                message.ack().result(5)
        assert list(client.dead_letters(TOPIC, mode)) == []


@pytest.mark.parametrize("outcome", ["nack", "reject"])
def test_a_message_that_dies_does_not_hold_back_the_later_ones_of_its_key(client, outcome):
    client.create_subscription(TOPIC, "by-key", mode="key_shared", lease=3600, max_deliveries=1)
    with client.producer(TOPIC) as producer:
        producer.send_batch(pa.table({"value": [b"a", b"b", b"c"], "key": [b"k"] * 3, "id": ["a", "b", "c"]})).result(5)
    with client.consumer(TOPIC, "by-key", credit=10) as consumer:
        first = next(iter(consumer))
        getattr(first, outcome)(reason="bad").result(5)
        for expected in ("b", "c"):
            message = next(iter(consumer))
            assert (message.id, message.retry_count) == (expected, 0)
            message.ack().result(5)
    assert [letter.id for letter in client.dead_letters(TOPIC, "by-key")] == ["a"]
