"""What the creator of a topic does not say is the broker's to fill in, whichever way the topic is made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
from bowstring import errors
from tests.process.commanding import Commander
from tests.process.serving import serving

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def client() -> Iterator[bowstring.Client]:
    with bowstring.Broker.ephemeral(topic_retention=DAY, topic_deduplication=HOUR) as broker, broker.connect() as connected:
        yield connected


def spans(topic: bowstring.Topic) -> tuple[timedelta, timedelta]:
    return topic.retention, topic.deduplication


def test_settings_of_serve_reach_topics_that_commands_and_kits_make(tmp_path: Path):
    with serving("--data", str(tmp_path / "data"), "--topic-retention", "30d", "--topic-deduplication", "1h") as served:
        commander = Commander(served.address, str(tmp_path))
        made = commander.done("topic", "create", "by-command").rows[0]
        assert (made["retention"], made["deduplication"]) == (30 * 86400.0, 3600.0)
        with bowstring.connect(served.address) as client:
            assert spans(client.create_topic("by-kit")) == (30 * DAY, HOUR)


def test_settings_of_an_embedded_broker_reach_its_topics(client: bowstring.Client):
    assert spans(client.create_topic("made")) == (DAY, HOUR)
    with client.producer("made-on-publish") as producer:
        producer.send(b"x").result(30)
    assert spans(client.topic("made-on-publish")) == (DAY, HOUR)


def test_without_settings_a_topic_keeps_seven_days_and_recognises_ids_for_ten_minutes():
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
        assert spans(client.create_topic("made")) == (7 * DAY, 10 * MINUTE)


def test_what_is_given_beats_the_settings(client: bowstring.Client):
    assert spans(client.create_topic("both", retention=2 * DAY, deduplication=2 * DAY)) == (2 * DAY, 2 * DAY)
    assert spans(client.create_topic("no-window", deduplication=0)) == (DAY, timedelta(0))


def test_a_retention_below_the_default_window_shortens_the_window(client: bowstring.Client):
    assert spans(client.create_topic("short", retention=MINUTE)) == (MINUTE, MINUTE)
    with pytest.raises(errors.InvalidArgument, match=r"deduplication=600 s is out of range\. It is at most the retention, 60 s"):
        client.create_topic("refused", retention=MINUTE, deduplication=10 * MINUTE)


def test_a_window_follows_the_retention_down_and_up_again(tmp_path: Path):
    with bowstring.Broker(tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
        assert spans(client.alter_topic("orders", retention=MINUTE)) == (MINUTE, MINUTE)
        with pytest.raises(errors.InvalidArgument, match="at most the retention, 60 s"):
            client.alter_topic("orders", deduplication=10 * MINUTE)
        broker.restart()
        assert spans(client.topic("orders")) == (MINUTE, MINUTE)
        assert spans(client.alter_topic("orders", retention=DAY)) == (DAY, 10 * MINUTE)


def test_a_shortened_window_is_the_one_that_counts():
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        client.create_topic("orders", retention=2 * MINUTE)
        with client.producer("orders") as producer:
            first = producer.send(b"x", id="order-7").result(30)
            assert producer.send(b"x", id="order-7").result(30).offset == first.offset
            broker.clock.advance(150)
            assert producer.send(b"x", id="order-7").result(30).offset > first.offset


def test_a_topic_that_is_there_is_returned_as_it_is_and_the_command_tells_what_differs(client: bowstring.Client, tmp_path: Path):
    client.create_topic("orders", partitions=2, retention=2 * DAY)
    assert spans(client.create_topic("orders", partitions=2, exists_ok=True)) == (2 * DAY, HOUR)
    (address,) = [info.address for info in client.info.brokers]
    commander = Commander(f"bowstring://{address}", str(tmp_path))
    commander.done("topic", "create", "orders", "--exists-ok")
    commander.done("topic", "create", "orders", "--exists-ok", "--retention", "48h", "--partitions", "2")
    told = commander("topic", "create", "orders", "--exists-ok", "--retention", "1d", "--partitions", "3")
    assert told.code == 0
    assert "'orders' was there already: partitions is 2, not 3." in told.said
    assert "'orders' was there already: retention is 2d, not 1d." in told.said
