"""Streaming reads: what a query reads, how much at a time, and what it tells."""

from __future__ import annotations

import json
import time

from pyspark.sql.streaming.datasource import ReadAllAvailable

import bowstring
from bowstring.spark import columns, options
from bowstring.spark.source import arrow_schema
from bowstring.spark.stream import IDLE_SECONDS, StreamReader
from tests.spark.reads import Reads, all_places, ends, eventually, places, publish, sizes


def test_available_now_reads_everything_that_is_there_once(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 50)
    stream = reads.stream(subscribe=topic, startingOffsets="earliest")
    reads.run(stream)
    assert places(reads.written()) == all_places(client, topic)
    publish(client, topic, 30, 50)
    reads.run(stream)
    assert places(reads.written()) == all_places(client, topic)
    assert reads.numbers(reads.written()) == list(range(80))


def test_a_running_stream_gets_what_comes_and_begins_at_the_latest(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 10)
    query = reads.start(reads.stream(subscribe=topic), processingTime="0 seconds")
    try:
        eventually(lambda: not query.isActive or query.lastProgress is not None, "the first trigger")
        publish(client, topic, 10, 10)
        query.processAllAvailable()
        assert reads.numbers(reads.written()) == list(range(10, 20))
        publish(client, topic, 10, 20)
        query.processAllAvailable()
        assert reads.numbers(reads.written()) == list(range(10, 30))
    finally:
        query.stop()


def test_a_micro_batch_has_no_more_offsets_than_asked_for(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 100)
    query = reads.run(reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="30"))
    assert sizes(query) == [30, 30, 30, 10]
    assert places(reads.written()) == all_places(client, topic)


def test_a_micro_batch_has_about_as_many_bytes_as_asked_for(client: bowstring.Client, topic: str, reads: Reads) -> None:
    with client.producer(topic) as producer:
        producer.send_batch([b"x" * 10_000] * 100)
    query = reads.run(reads.stream(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=str(30 * 10_000)))
    assert all(25 <= size <= 30 for size in sizes(query)[:-1])
    assert sum(sizes(query)) == 100


def test_too_few_offsets_wait_until_the_delay_is_over(client: bowstring.Client, topic: str, reads: Reads) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "20", "maxTriggerDelay": "1h"}
    publish(client, topic, 5)
    query = reads.start(reads.stream(**options), processingTime="0 seconds")
    try:
        eventually(lambda: not query.isActive or 5 in sizes(query), "the first micro-batch, which is overdue at once")
        publish(client, topic, 19, 5)
        publish(client, topic, 1, 24)
        eventually(lambda: not query.isActive or 20 in sizes(query), "a micro-batch of all that waited")
    finally:
        query.stop()
    assert sizes(query) == [5, 20]
    publish(client, topic, 3, 25)
    reads.run(reads.stream(**options))
    assert reads.numbers(reads.written()) == list(range(28))


def test_a_topic_that_appears_later_is_read_from_its_beginning(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 10)
    stream = reads.stream(subscribePattern=f"{topic}.*")
    reads.run(stream)
    client.create_topic(f"{topic}-new")
    publish(client, f"{topic}-new", 10, 10)
    publish(client, topic, 10, 20)
    reads.run(stream)
    assert reads.numbers(reads.written()) == list(range(10, 30))


def test_progress_tells_offsets_as_the_kafka_source_does(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 50)
    query = reads.run(reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40"))
    first, second = (progress["sources"][0] for progress in query.recentProgress[:2])
    latest = {str(number): end for number, end in enumerate(ends(client, topic))}
    assert first["startOffset"] in (None, "null")
    assert json.loads(first["latestOffset"])[topic] == latest
    assert sum(json.loads(first["endOffset"])[topic].values()) == 42
    assert second["startOffset"] == first["endOffset"]
    assert json.loads(second["endOffset"])[topic] == latest


def test_progress_carries_rows_bytes_and_lag(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """In the latest offsets: Spark asks sources in Python for no other figures."""
    publish(client, topic, 50)
    query = reads.run(reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40"))
    told = [json.loads(progress["sources"][0]["latestOffset"])["_metrics"] for progress in query.recentProgress[:2]]
    assert [(metrics["rows"], metrics["lag"]) for metrics in told] == [(40, {topic: 10}), (10, {topic: 0})]
    assert all(metrics["bytes"] > metrics["rows"] for metrics in told)
    assert told[0]["description"] == f"{topic} of {reads.server}"
    latest = query.recentProgress[0]["sources"][0]["latestOffset"]
    reads.run(reads.stream(subscribe=topic, startingOffsets=latest), "rest")
    assert reads.written("rest").count() == 0


def test_an_idle_stream_waits_at_the_broker(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """Spark asks again at once; each question but the first waits for news, and news ends it."""
    asked = options.parse({"server": reads.server, "subscribePattern": f"{topic}.*"}, time.time_ns() // 1000, "stream")
    reader = StreamReader(asked, arrow_schema(columns.schema(asked)))
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    watch = reader._watch
    assert watch is not None
    asking, waits = watch.look, list[float]()
    watch.look = lambda seconds=0.0: (waits.append(seconds), asking(seconds))[1]  # type: ignore[method-assign,func-returns-value]
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    publish(client, topic, 5)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert sum(end[topic].values()) - sum(start[topic].values()) == 5
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert waits == [IDLE_SECONDS, IDLE_SECONDS, 0.0]
    client.create_topic(f"{topic}-new")
    assert f"{topic}-new" in reader.latestOffset(end, ReadAllAvailable()) or f"{topic}-new" in (reader.reportLatestOffset() or {})
    reader.stop()


def test_offsets_of_a_progress_start_another_stream(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 50)
    query = reads.run(reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40"))
    middle = query.recentProgress[0]["sources"][0]["endOffset"]
    reads.run(reads.stream(subscribe=topic, startingOffsets=middle), "rest")
    assert reads.written("rest").count() == 10


def test_a_stream_starts_at_a_time(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 50)
    reads.run(reads.stream(subscribe=topic, startingTimestamp="-1h", minPartitions="5"))
    assert reads.numbers(reads.written()) == list(range(50))


def test_progress_is_kept_under_a_name_also_of_the_last_micro_batch(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 50)
    options = {"subscribe": topic, "name": f"files of {topic}"}
    reads.run(reads.stream(**options, startingOffsets="earliest", maxOffsetsPerTrigger="20"))
    position = client.position(f"files of {topic}", topic)
    assert position.offsets == dict(enumerate(ends(client, topic)))
    publish(client, topic, 10, 50)
    assert sum(client.position(f"files of {topic}", topic).lag.values()) == 10
    reads.run(reads.stream(**options))
    assert sum(client.position(f"files of {topic}", topic).lag.values()) == 0
