"""The first micro-batch of a stream: when it fails and the query is started again, it reads what it was to read the first time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame

import bowstring
from bowstring.errors import Conflict
from bowstring.spark import columns, options, places
from bowstring.spark.source import arrow_schema
from bowstring.spark.stream import StreamReader
from tests.spark.reads import Reads, all_places, expire, publish
from tests.spark.reads import places as places_of

NOW = 1_800_000_000_000_000


def fails(reads: Reads, stream: DataFrame) -> None:
    """Runs the first micro-batch, whose tasks fail. Its end is in Spark's log by then."""
    assert "no luck" in reads.refused(lambda: reads.run(stream.where("assert_true(false, 'no luck') is null")))
    assert (reads.place / "out-checkpoint" / "offsets" / "0").exists()
    assert not (reads.place / "out-checkpoint" / "commits" / "0").exists()


def now() -> str:
    return datetime.now(UTC).isoformat()


def test_a_start_by_time_stays_where_it_was_when_the_first_batch_fails(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """By the restart the option means a later moment, as `-30s` does after a while."""
    publish(client, topic, 100)
    fails(reads, reads.stream(subscribe=topic, startingTimestamp="-1h"))
    later = now()
    publish(client, topic, 10, 100)
    reads.run(reads.stream(subscribe=topic, startingTimestamp=later))
    assert reads.numbers(reads.written()) == list(range(110))


def test_a_restart_needs_no_newer_rows(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    fails(reads, reads.stream(subscribe=topic, startingTimestamp="-1h"))
    reads.run(reads.stream(subscribe=topic, startingTimestamp=now()))
    assert reads.numbers(reads.written()) == list(range(20))


def test_what_retention_takes_before_a_restart_is_lost_loudly(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    stream = {"subscribe": topic, "startingOffsets": "earliest"}
    fails(reads, reads.stream(**stream))
    expire(client, topic)
    publish(client, topic, 20, 20)
    assert "1 was asked for" in reads.refused(lambda: reads.run(reads.stream(**stream)))
    reads.run(reads.stream(**stream, failOnDataLoss="false"))
    assert places_of(reads.written()) == all_places(client, topic)


def test_a_stream_from_the_latest_keeps_its_place_through_an_empty_first_batch(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 10)
    stream = reads.stream(subscribe=topic)
    reads.run(stream)
    for file in ("0", ".0.crc"):  # as if the driver had died before it committed
        (reads.place / "out-checkpoint" / "commits" / file).unlink()
    publish(client, topic, 10, 10)
    reads.run(stream)
    assert reads.numbers(reads.written()) == list(range(10, 20))


def test_a_first_start_that_cannot_be_is_refused(client: bowstring.Client, topic: str, reads: Reads) -> None:
    assert f"nothing has arrived in {topic}/0" in reads.refused(lambda: reads.run(reads.stream(subscribe=topic, startingTimestamp=now())))
    assert f"there is no topic '{topic}-no'" in reads.refused(lambda: reads.run(reads.stream(subscribe=f"{topic}-no"), "other"))


def test_the_initial_offset_asks_nobody() -> None:
    asked = options.parse({"subscribe": "orders", "server": "bowstring://nobody.invalid", "startingTimestamp": "-1s"}, NOW, "stream")
    reader = StreamReader(asked, arrow_schema(columns.schema(asked)))
    assert reader.initialOffset() == reader.initialOffset() == {places.INITIAL: True}


def test_an_end_without_its_start_is_refused_instead_of_guessed() -> None:
    end = places.to_json({"orders": {0: 5}}, {"orders": 1})
    assert places.start_of({places.INITIAL: True}, {**end, places.START: end}) == end
    assert places.start_of(end, end) == end
    with pytest.raises(Conflict, match="start with a new checkpoint location"):
        places.start_of({places.INITIAL: True}, end)
