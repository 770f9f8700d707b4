"""What the tests do over and over: publish numbered messages, read them by Spark, compare."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import bowstring

LIMIT_SECONDS = 300
STARTS_MAX = 3


def publish(client: bowstring.Client, topic: str, count: int, first: int = 0) -> None:
    """Sends so many messages with numbers as values, over all partitions by their keys."""
    with client.producer(topic) as producer:
        for number in range(first, first + count):
            producer.send(str(number), key=f"key-{number}", attributes={"number": str(number), "kind": "test"})


def eventually(true: Callable[[], object], what: str, seconds: float = LIMIT_SECONDS) -> None:
    """Waits until something is so."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not true():
        assert time.monotonic() < deadline, f"{what} has not come true in {seconds} s"
        pause.wait(0.02)


class Reads:
    """Reads of one broker."""

    def __init__(self, spark: SparkSession, server: str, place: Path) -> None:
        self.spark = spark
        self.server = server
        self.place = place

    def batch(self, schema: str | None = None, **options: Any) -> DataFrame:
        reader = self.spark.read.format("bowstring").options(server=self.server, **options)
        return (reader.schema(schema) if schema else reader).load()

    def stream(self, schema: str | None = None, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("bowstring").options(server=self.server, **options)
        return (reader.schema(schema) if schema else reader).load()

    def start(self, frame: DataFrame, sink: str = "out", **trigger: Any) -> StreamingQuery:
        """A query that writes Parquet files."""
        writer = frame.writeStream.format("parquet").option("path", str(self.place / sink))
        return (
            writer.option("checkpointLocation", str(self.place / f"{sink}-checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, frame: DataFrame, sink: str = "out") -> StreamingQuery:
        """The same, ended after what is available. On a very busy machine Spark gives up on Python processes that take ten seconds to
        start; then it is started again, a few times."""
        for attempt in range(STARTS_MAX):
            query = self.start(frame, sink)
            try:
                assert query.awaitTermination(LIMIT_SECONDS)
                return query
            except StreamingQueryException as error:
                if "failed to connect back" not in str(error) or attempt + 1 == STARTS_MAX:
                    raise
        raise AssertionError("it was never started")

    def written(self, sink: str = "out") -> DataFrame:
        """What is in the sink."""
        return self.spark.read.parquet(str(self.place / sink))

    def numbers(self, frame: DataFrame) -> list[int]:
        """The numbers that were published, as they were read."""
        return sorted(int(bytes(row.value)) for row in frame.select("value").collect())

    def refused(self, read: Callable[[], object]) -> str:
        """The last line of what Spark tells of a read that is refused."""
        with pytest.raises(PySparkException) as caught:
            read()
        return str(caught.value)


def sizes(query: StreamingQuery) -> list[int]:
    """The rows of each micro-batch that had some."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """Where the rows of one topic are from."""
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def all_places(client: bowstring.Client, topic: str) -> list[tuple[int, int]]:
    """Where a topic has rows."""
    return [(number, offset) for number, offsets in enumerate(client.topic(topic).ranges) for offset in offsets]


def ends(client: bowstring.Client, topic: str) -> Iterable[int]:
    return [offsets.stop for offsets in client.topic(topic).ranges]


def expire(client: bowstring.Client, topic: str) -> None:
    """Everything in the topic expires."""
    moment = timedelta(milliseconds=1)
    client.alter_topic(topic, retention=moment, deduplication=moment)
    eventually(lambda: not any(client.topic(topic).ranges), "all messages have expired")
    client.alter_topic(topic, retention=timedelta(days=1))
