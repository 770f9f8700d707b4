"""Batch reads: columns, ranges, times, patterns, tasks."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

import bowstring
from tests.spark.reads import Reads, all_places, places, publish

TWELVE = list(range(12))


def test_a_topic_is_read_with_the_columns_of_sparks_kafka_source(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 12)
    frame = reads.batch(subscribe=topic)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    rows = {(row.partition, row.offset): row for row in frame.collect()}
    kit = {(message.partition, message.offset): message for message in client.reader(topic, end="latest")}
    assert rows.keys() == kit.keys()
    for place, message in kit.items():
        row = rows[place]
        assert (bytes(row.key), bytes(row.value), row.topic, row.timestampType) == (message.key, message.value, topic, 1)
        assert row.timestamp.astimezone(UTC) == message.arrived


def test_headers_and_metadata_are_added_when_asked_for(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 3)
    with client.producer(topic, group="shop") as producer:
        producer.send(b"plain", id="natural")
    rows = {bytes(row.value): row for row in reads.batch(subscribe=topic, includeHeaders="true", includeMetadata="true").collect()}
    assert [(header.key, bytes(header.value)) for header in rows[b"2"].headers] == [("number", b"2"), ("kind", b"test")]
    assert rows[b"2"].attributes == {"kind": "test", "number": "2"}
    plain = rows[b"plain"]
    assert (plain.headers, plain.attributes, plain.id, plain.producer_group, plain.due) == (None, None, "natural", "shop", None)
    assert plain.created <= plain.timestamp


def test_only_the_columns_that_are_asked_for_come_in_their_order(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 12)
    frame = reads.batch(subscribe=topic, columns="offset, value,topic")
    assert frame.columns == ["offset", "value", "topic"]
    assert reads.numbers(frame) == TWELVE
    assert reads.batch(subscribe=topic, columns="topic").distinct().collect()[0].topic == topic
    assert reads.batch("value binary", subscribe=topic).columns == ["value"]


def test_offsets_say_from_where_to_where_and_the_end_is_not_included(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 40)
    first, second = (len(offsets) for offsets in client.topic(topic).ranges)
    starting = json.dumps({topic: {"0": 3, "1": -2}})
    ending = json.dumps({topic: {"0": -1, "1": second}})
    frame = reads.batch(subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert places(frame) == [(0, offset) for offset in range(3, first + 1)] + [(1, offset) for offset in range(1, second)]
    assert reads.batch(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0, "1": 0}})).count() == 40


def test_some_partitions_are_read_when_they_are_assigned(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 40)
    frame = reads.batch(assign=json.dumps({topic: [1]}))
    assert places(frame) == [place for place in all_places(client, topic) if place[0] == 1]


def test_a_pattern_finds_topics_by_their_whole_names(client: bowstring.Client, topic: str, reads: Reads) -> None:
    for number, name in enumerate((f"{topic}-ch", f"{topic}-at", f"{topic}-ch-old")):
        client.create_topic(name)
        publish(client, name, 5, 5 * number)
    assert reads.numbers(reads.batch(subscribePattern=f"{topic}-(ch|at)")) == list(range(10))
    assert reads.numbers(reads.batch(subscribe=f"{topic}-ch, {topic}-ch-old")) == [*range(5), *range(10, 15)]
    assert reads.batch(subscribePattern="nothing-is-called-so").count() == 0


@pytest.fixture
def moment(client: bowstring.Client, topic: str) -> datetime:
    """A moment between the numbers below 20 and those from 20 on."""
    publish(client, topic, 20)
    last = max(message.arrived for message in client.reader(topic, end="latest"))
    while datetime.now(UTC) <= last.replace(microsecond=last.microsecond // 1000 * 1000) or time.time_ns() // 1_000_000 % 2:
        pass  # a millisecond that nothing has arrived in
    between = datetime.now(UTC)
    publish(client, topic, 20, 20)
    return between


def test_times_say_from_when_to_when_by_arrival(client: bowstring.Client, topic: str, moment: datetime, reads: Reads) -> None:
    text = moment.isoformat()
    assert reads.numbers(reads.batch(subscribe=topic, startingTimestamp=text)) == list(range(20, 40))
    assert reads.numbers(reads.batch(subscribe=topic, endingTimestamp=text)) == list(range(20))
    later = str(int(moment.timestamp() * 1000) + 1)
    assert len(reads.numbers(reads.batch(subscribe=topic, endingTimestamp=later))) >= 20
    each = json.dumps({topic: {"0": text, "1": 0}})
    expected = len(client.topic(topic).ranges[1]) + sum(
        message.arrived >= moment for message in client.reader(topic, end="latest", partitions=[0])
    )
    assert reads.batch(subscribe=topic, startingOffsetsByTimestamp=each).count() == expected
    assert reads.batch(subscribe=topic, startingTimestamp="-1h").count() == 40


def test_a_time_after_everything_fails_or_is_the_end(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    now = datetime.now(UTC).isoformat()
    said = reads.refused(lambda: reads.batch(subscribe=topic, startingTimestamp=now).count())
    assert f"nothing has arrived in {topic}/0" in said
    assert "startingOffsetsByTimestampStrategy" in said
    lenient = reads.batch(subscribe=topic, startingTimestamp=now, startingOffsetsByTimestampStrategy="latest")
    assert lenient.count() == 0


def test_an_end_that_is_to_come_is_what_is_there(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    assert reads.batch(subscribe=topic, endingTimestamp="+1h").count() == 20
    each = json.dumps({topic: {"0": "+1h", "1": 0}})
    assert reads.batch(subscribe=topic, endingOffsetsByTimestamp=each).count() == len(client.topic(topic).ranges[0])


def test_a_schema_beside_other_columns_is_refused(topic: str, reads: Reads) -> None:
    said = reads.refused(reads.batch("value binary", subscribe=topic, columns="value, offset").collect)
    assert "the schema has value, and columns asks for value, offset. Omit columns, or give no schema." in said
    assert "includeHeaders asks for" in reads.refused(reads.batch("value binary", subscribe=topic, includeHeaders="true").collect)
    assert reads.batch("value binary, offset bigint", subscribe=topic, columns="value, offset").count() == 0


def test_there_are_as_many_tasks_as_asked_for(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 100)
    assert reads.batch(subscribe=topic).rdd.getNumPartitions() == 2
    frame = reads.batch(subscribe=topic, minPartitions="7")
    assert 7 <= frame.rdd.getNumPartitions() <= 8
    assert reads.numbers(frame) == list(range(100))
    frame = reads.batch(subscribe=topic, maxRecordsPerPartition="9")
    assert max(frame.rdd.glom().map(len).collect()) <= 9
    assert places(frame) == all_places(client, topic)


def test_an_empty_topic_has_no_rows(topic: str, reads: Reads) -> None:
    assert reads.batch(subscribe=topic).count() == 0


def test_filters_on_places_read_less(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 40)
    tasks = lambda frame: frame.rdd.getNumPartitions()  # noqa: E731
    frame = reads.batch(subscribe=topic)
    assert tasks(frame.where("partition = 1")) == 1
    assert places(frame.where("partition = 1 and offset >= 3 and offset < 7")) == [(1, offset) for offset in range(3, 7)]
    assert tasks(frame.where(f"topic = '{topic}'")) == 2
    assert frame.where("topic = 'another'").count() == 0
    hour = datetime.now(UTC) - timedelta(hours=1)
    assert reads.numbers(frame.where(frame.timestamp >= hour)) == list(range(40))
    assert frame.where(frame.timestamp < hour).count() == 0
    assert reads.numbers(frame.where("cast(value as string) = '7'")) == [7]
