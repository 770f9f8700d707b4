"""Values as text, as JSON, as Arrow; and what happens to those that are something else."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import bowstring
from bowstring.spark import json_values
from tests.spark.reads import Reads


def send(client: bowstring.Client, topic: str, *values: bytes | str | None) -> None:
    with client.producer(topic) as producer:
        for number, value in enumerate(values):
            producer.send(value, key=f"key-{number}", attributes={"number": str(number)})


@pytest.fixture
def topic(client: bowstring.Client, topic: str) -> str:
    """A topic with one partition."""
    client.create_topic(f"{topic}-one")
    return f"{topic}-one"


def test_text_is_text(client: bowstring.Client, topic: str, reads: Reads) -> None:
    send(client, topic, "one", "zwölf", None, "")
    frame = reads.batch(subscribe=topic, payload="text")
    assert frame.schema["value"].dataType.simpleString() == "string"
    assert [row.value for row in frame.orderBy("offset").collect()] == ["one", "zwölf", None, ""]


def test_bytes_that_are_no_text_are_named_by_their_place(client: bowstring.Client, topic: str, reads: Reads) -> None:
    send(client, topic, "one", b"\xff\xfe")
    said = reads.refused(lambda: reads.batch(subscribe=topic, payload="text", columns="value").collect())
    assert f"the value of {topic}/0@2 is not UTF-8. Set onBadPayload to null or skip, or read it with payload=bytes" in said


def test_json_has_the_columns_that_the_schema_names(client: bowstring.Client, topic: str, reads: Reads) -> None:
    full = (
        '{"order": 7, "amount": 1.5, "price": "12.30", "paid": true, "at": "2026-11-15T09:30:00Z", "day": "2026-11-15",'
        ' "customer": {"name": "Ada", "tags": ["a", "b"]}, "more": {"not": "asked"}}'
    )
    send(client, topic, full, "{}", None, '\n{\n "order": 8 }\n', '{"order": null, "amount": 3}')
    schema = (
        "order bigint, amount double, price decimal(10,2), paid boolean, at timestamp, day date, "
        "customer struct<name: string, tags: array<string>>, _key binary, _topic string, _partition int, _offset bigint, "
        "_timestamp timestamp, _headers array<struct<key string, value binary>>"
    )
    rows = reads.batch(schema, subscribe=topic, payload="json").orderBy("_offset").collect()
    first = rows[0]
    assert (first.order, first.amount, first.price, first.paid) == (7, 1.5, Decimal("12.30"), True)
    assert (first["at"].astimezone(UTC), first.day) == (datetime(2026, 11, 15, 9, 30, tzinfo=UTC), date(2026, 11, 15))
    assert (first.customer.name, first.customer.tags) == ("Ada", ["a", "b"])
    assert [row.order for row in rows] == [7, None, None, 8, None]
    assert [row.amount for row in rows] == [1.5, None, None, None, 3.0]
    assert [row["_offset"] for row in rows] == [1, 2, 3, 4, 5]
    assert (bytes(first["_key"]), first["_topic"], first["_partition"]) == (b"key-0", topic, 0)
    assert [(header.key, bytes(header.value)) for header in rows[3]["_headers"]] == [("number", b"3")]


@pytest.mark.parametrize("wrong", ["3", "", "{}{}", '{"order": "x"}', '{"order": 1', "[]", '{"order": 1} x', '{} {"order": {'])
def test_json_that_is_none_is_found(wrong: str) -> None:
    """Beside others, because all are read in one go."""
    schema = pa.schema([("order", pa.int64())])
    with pytest.raises(pa.ArrowInvalid):
        json_values.parsed(pa.array([b'{"order": 1}', wrong.encode(), b'{"order": 2}']), schema)


def test_json_that_is_none_is_named_by_its_place(client: bowstring.Client, topic: str, reads: Reads) -> None:
    send(client, topic, '{"order": 1}', '{"order": "x"}', '{"order": 2}')
    said = reads.refused(reads.batch("order bigint", subscribe=topic, payload="json").collect)
    assert f"the value of {topic}/0@2 is not JSON of these columns" in said


def test_arrow_gives_all_rows_of_each_message(client: bowstring.Client, topic: str, reads: Reads) -> None:
    def stream(**columns: list[object]) -> bytes:
        table, out = pa.table(columns), io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        return out.getvalue()

    send(client, topic, stream(order=[1, 2], name=["a", "b"]), stream(order=[]), None, stream(order=[3], other=[None]))
    frame = reads.batch("order int, name string, _offset bigint, _key binary", subscribe=topic, payload="arrow")
    rows = [(row.order, row.name, row["_offset"], bytes(row["_key"])) for row in frame.orderBy("order").collect()]
    assert rows == [(1, "a", 1, b"key-0"), (2, "b", 1, b"key-0"), (3, None, 4, b"key-3")]
    send(client, topic, b"no arrow")
    said = reads.refused(lambda: reads.batch("order int", subscribe=topic, payload="arrow").collect())
    assert f"the value of {topic}/0@5 is not an Arrow stream of these columns" in said


def test_a_typed_payload_needs_a_schema(topic: str, reads: Reads) -> None:
    assert "payload=json does not say which columns the messages have. Name them: .schema(" in reads.refused(
        lambda: reads.batch(subscribe=topic, payload="json")
    )


@pytest.mark.parametrize(
    ("schema", "payload", "sentence"),
    [
        ("value string", "bytes", "the schema has 'value' as string. It is binary."),
        ("amount double", "bytes", "the schema has a column 'amount'. There are key, value,"),
        ("_offset int, a int", "json", "the schema has '_offset' as int. It is bigint."),
        ("a map<string, int>", "json", "payload=json cannot read 'a' as map<string,int>. Take it as text"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(topic: str, reads: Reads, schema: str, payload: str, sentence: str) -> None:
    assert sentence in reads.refused(lambda: reads.batch(schema, subscribe=topic, payload=payload).collect())


def test_typed_rows_stream(client: bowstring.Client, topic: str, reads: Reads) -> None:
    send(client, topic, '{"order": 1}', '{"order": 2}')
    reads.run(reads.stream("order bigint, _offset bigint", subscribe=topic, payload="json", startingOffsets="earliest"))
    assert sorted((row.order, row["_offset"]) for row in reads.written().collect()) == [(1, 1), (2, 2)]
