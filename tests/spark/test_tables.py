"""Topics in Spark's catalog, and what cannot be written yet."""

from __future__ import annotations

import os

import bowstring
from tests.spark.reads import Reads, publish


def sql(reads: Reads, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in reads.spark.sql(text).collect()]


def test_a_topic_is_a_table(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 12)
    name = topic.replace("-", "_")
    where = f"OPTIONS (server '{reads.server}', subscribe '{topic}', includeHeaders 'true')"
    try:
        sql(reads, f"CREATE TABLE {name} USING bowstring {where} COMMENT 'orders' TBLPROPERTIES ('purpose' = 'test')")
        assert sql(reads, f"SELECT count(*), count(headers) FROM {name}") == [(12, 12)]
        assert sql(reads, f"SELECT count(*) FROM {name} WHERE partition = 0 AND offset < 3") == [(2,)]
        reads.run(reads.spark.readStream.option("startingOffsets", "earliest").table(name))
        assert reads.numbers(reads.written()) == list(range(12))
        assert "writing to topics from Spark comes in a later version" in reads.refused(
            lambda: reads.spark.sql(f"INSERT INTO {name} SELECT * FROM {name}").collect()
        )
    finally:
        sql(reads, f"DROP TABLE IF EXISTS {name}")


def test_a_table_may_have_a_location_and_columns_of_its_own(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """Spark hands no options on where the columns were named; the refusal says what to do."""
    publish(client, topic, 12)
    name = topic.replace("-", "_")
    where = f"USING bowstring OPTIONS (server '{reads.server}', subscribe '{topic}')"
    try:
        sql(reads, f"CREATE TABLE {name}_a {where} LOCATION '{reads.place}'")
        assert sql(reads, f"SELECT count(*) FROM {name}_a") == [(12,)]
        sql(reads, f"CREATE TABLE {name}_b (value binary) {where}")
        said = reads.refused(lambda: sql(reads, f"SELECT * FROM {name}_b"))
        assert "no topic was given." in said
        assert "read it WITH (subscribe = …), or use a view." in said
        assert sql(reads, f"SELECT count(*) FROM {name}_b WITH (server = '{reads.server}', subscribe = '{topic}')") == [(12,)]
        sql(reads, f"CREATE TEMPORARY VIEW {name}_v {where}")
        assert sql(reads, f"SELECT count(*) FROM {name}_v") == [(12,)]
    finally:
        sql(reads, f"DROP TABLE IF EXISTS {name}_a")
        sql(reads, f"DROP TABLE IF EXISTS {name}_b")
        sql(reads, f"DROP VIEW IF EXISTS {name}_v")


def test_writing_says_that_it_comes(client: bowstring.Client, topic: str, reads: Reads) -> None:
    frame = reads.batch(subscribe=topic)
    said = reads.refused(lambda: frame.write.format("bowstring").option("topic", topic).mode("append").save())
    assert "writing to topics from Spark comes in a later version. Until then use a producer" in said
    stream = reads.stream(subscribe=topic).writeStream.format("bowstring").option("topic", topic)
    started = stream.option("checkpointLocation", str(reads.place / "c")).trigger(availableNow=True)
    assert "writing to topics from Spark comes" in reads.refused(lambda: started.start().awaitTermination(60))


def test_a_context_is_looked_up_on_the_driver(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """Tasks run on other machines, which do not have the driver's file."""
    from bowstring.spark.source import Source

    file = reads.place / "bowstring" / "contexts.toml"
    file.parent.mkdir()
    file.write_text(f'[contexts.shop]\nserver = "{reads.server}"\n')
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(reads.place)
    try:
        source = Source({"subscribe": topic, "context": "shop"})
        asked = source.reader(source.schema())._options  # type: ignore[attr-defined]
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before
    assert (asked.server, asked.context) == (reads.server, None)
