"""Reasons of nacks and rejects that no one has thought of: the messages of others are not held up by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring
from bowstring import errors
from tests.process.commanding import Commander


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as broker:
        yield broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        yield client


class Mute(Exception):
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def reasons(client: bowstring.Client) -> list[str]:
    return [letter.attributes["bowstring-reason"] for letter in client.dead_letters("orders", "billing")]


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (bowstring.Reject(), "rejected by its handler"),
        (bowstring.Reject(""), "rejected by its handler"),
        (bowstring.Reject("no such customer"), "no such customer"),
        (bowstring.Reject(ValueError("no such customer")), "no such customer"),
        (bowstring.Reject("x" * 5000), "x" * 4095 + "…"),
        (bowstring.Reject("no file '\udcff'"), "no file '\\udcff'"),
    ],
    ids=["none", "empty", "text", "an exception", "too long", "not UTF-8"],
)
def test_a_handler_may_reject_with_anything_and_the_next_message_is_acked(client, raised: bowstring.Reject, reason: str):
    with client.producer("orders") as producer:
        producer.send_batch([b"bad", b"good"])

    def handle(message: bowstring.LeasedMessage) -> None:
        if message.text() == "bad":
            raise raised
        consumer.close()

    consumer = client.consumer("orders", "billing")
    consumer.run(handle)
    assert reasons(client) == [reason]
    assert client.subscription("orders", "billing").backlog == 0


def test_an_exception_is_the_reason_of_the_dead_letter(client):
    client.alter_subscription("orders", "billing", max_deliveries=1)
    with client.producer("orders") as producer:
        producer.send_batch([b"handler", b"mute", b"block", b"last"])

    def handle(message: bowstring.LeasedMessage) -> None:
        if message.text() == "last":
            return consumer.close()
        if message.text() == "mute":
            raise Mute
        if message.text() == "block":
            with message:
                raise KeyError("order")
        raise OSError("the bank is closed")

    consumer = client.consumer("orders", "billing")
    consumer.run(handle)
    assert sorted(reasons(client)) == ["KeyError: 'order'", "Mute", "OSError: the bank is closed"]


def test_a_reason_that_cannot_be_written_is_refused_at_once(client):
    with client.producer("orders") as producer:
        producer.send_batch([b"a", b"b"])
    with client.consumer("orders", "billing", credit=2) as consumer:
        batch = next(consumer.batches(max_rows=2))
        for call in (
            lambda: batch[0].reject("\udcff"),
            lambda: batch[0].nack(reason="\udcff"),
            lambda: batch.reject([0], "\udcff"),
            lambda: batch.nack([0], reason="\udcff"),
        ):
            with pytest.raises(errors.InvalidArgument, match="cannot be written as UTF-8"):
                call()
        batch.ack().result().raise_for_refused()
    assert reasons(client) == []


def test_many_long_reasons_are_more_than_one_request(client):
    """A traceback for each message: together far more than the broker takes in one request."""
    count = 600
    with client.producer("orders") as producer:
        producer.send_batch([b"a"] * count)
    with client.consumer("orders", "billing", credit=count) as consumer:
        consumer.pause()
        held = consumer.lease([message.id for message in consumer.peek(count)])
        for number, message in enumerate(held):
            message.reject(f"{number}: " + "é" * 4000)
        consumer.flush()
    assert sorted(int(reason.partition(":")[0]) for reason in reasons(client)) == [*range(count)]


def test_keys_that_are_no_text_are_explained_and_peeked_at(client, broker, tmp_path):
    command = Commander(broker.address, str(tmp_path))
    client.create_subscription("orders", "by-key", mode="key_shared")
    with client.producer("orders") as producer:
        producer.send(b"a", key=b"\xff\xfe")
    typed = "\udcff\udcfe"
    (row,) = command.done("peek", "orders", "by-key", "--key", typed).rows
    assert row["key"] == {"base64": "//4="}
    (row,) = command.done("explain", "orders", "by-key", typed).rows
    assert (row["key"], row["waiting"]) == ({"base64": "//4="}, 1)
    assert client.explain("orders", "by-key", b"\xff\xfe").waiting == 1
    assert "no character" in command("dead-letters", "list", "orders", "billing", "--reason", typed).said
    with pytest.raises(errors.InvalidArgument, match="cannot be written as UTF-8"):
        client.explain("orders", "by-key", typed)
    with pytest.raises(errors.InvalidArgument, match="no character"):
        client.create_subscription("orders", "new", where=f"key = '{typed}'")
