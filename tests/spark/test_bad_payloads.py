"""Values that are not what they should be: the query fails, gives nulls with a reason, or passes over them."""

from __future__ import annotations

import io
import logging

import numpy as np
import pyarrow as pa
import pytest

import bowstring
from bowstring.spark import options
from bowstring.spark.nullness import declared, lacking, loose
from bowstring.spark.payloads import Rows, _bad
from tests.spark.reads import Reads
from tests.spark.test_payloads import send, topic  # noqa: F401  (a fixture)

POISON = ['{"order": 1, "name": "a"}', "poison", '{"order": 2}', '{"order": "x"}', '{"order": 3, "name": "c"}']


def arrow(**columns: list[object]) -> bytes:
    table, out = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def test_a_field_that_is_missing_is_no_zero(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, '{"order": 1}', '{"amount": 2}')
    said = reads.refused(reads.batch("order bigint not null", subscribe=topic, payload="json").collect)
    assert f"the value of {topic}/0@2 has no 'order', and the schema says NOT NULL. Set onBadPayload to null or skip" in said
    skipping = {"subscribe": topic, "payload": "json", "onBadPayload": "skip"}
    assert [row.order for row in reads.batch("order bigint not null", **skipping).collect()] == [1]


def test_nullability_holds_inside_of_columns(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, '{"who": {"name": "Ada"}}', '{"who": {}}', "{}")
    schema = "who struct<name: string not null>, _offset bigint not null"
    said = reads.refused(reads.batch(schema, subscribe=topic, payload="json").collect)
    assert f"the value of {topic}/0@2 has no 'who.name', and the schema says NOT NULL." in said
    rows = reads.batch(schema, subscribe=topic, payload="json", onBadPayload="skip").orderBy("_offset").collect()
    assert [(row.who and row.who.name, row["_offset"]) for row in rows] == [("Ada", 1), (None, 3)]


def test_arrow_without_a_string_that_must_be_there_is_bad(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, arrow(order=[1], name=["a"]), arrow(order=[2, 3]), arrow(order=[4], name=[None]))
    said = reads.refused(reads.batch("order int, name string not null", subscribe=topic, payload="arrow").collect)
    assert f"{topic}/0@2 is not an Arrow stream of these columns (it has no 'name' in row 0, and the schema says NOT NULL)" in said
    skipping = {"subscribe": topic, "payload": "arrow", "onBadPayload": "skip"}
    assert [(row.order, row.name) for row in reads.batch("order int, name string not null", **skipping).collect()] == [(1, "a")]


def test_keys_may_not_be_missing_where_the_schema_says_so(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    with client.producer(topic) as producer:
        producer.send(b"a", key="k")
        producer.send(b"b")
    said = reads.refused(reads.batch("key binary not null, value binary", subscribe=topic).collect)
    assert f"the message {topic}/0@2 has no 'key', and the schema says NOT NULL. Omit NOT NULL." in said


def test_bad_payloads_are_null_with_a_reason(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, *POISON)
    schema = "order bigint, name string, _offset bigint, _problem string"
    rows = reads.batch(schema, subscribe=topic, payload="json", onBadPayload="null").orderBy("_offset").collect()
    assert [(row.order, row.name) for row in rows] == [(1, "a"), (None, None), (2, None), (None, None), (3, "c")]
    assert [row["_problem"] is None for row in rows] == [True, False, True, False, True]
    assert rows[1]["_problem"].startswith(f"the value of {topic}/0@2 is not JSON of these columns (it is not one object in braces)")
    send(client, topic, b"\xff", "fine")
    frame = reads.batch(subscribe=topic, payload="text", onBadPayload="null")
    assert frame.columns[-1] == "_problem"
    texts = frame.orderBy("offset").collect()
    assert [row.value for row in texts] == [*POISON, None, "fine"]
    assert [row["_problem"] for row in texts if row["_problem"]] == [f"the value of {topic}/0@6 is not UTF-8."]


def test_bad_arrow_is_one_row_of_nulls(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, arrow(order=[1, 2]), "poison", arrow(order=[3]))
    frame = reads.batch("order int, _offset bigint, _problem string", subscribe=topic, payload="arrow", onBadPayload="null")
    rows = frame.orderBy("_offset", "order").collect()
    assert [(row.order, row["_offset"]) for row in rows] == [(1, 1), (2, 1), (None, 2), (3, 3)]
    assert "is not an Arrow stream" in rows[2]["_problem"]


def test_a_stream_passes_over_poison(client: bowstring.Client, topic: str, reads: Reads) -> None:  # noqa: F811
    send(client, topic, *POISON)
    stream = {"subscribe": topic, "payload": "json", "startingOffsets": "earliest"}
    assert "@2 is not JSON" in reads.refused(lambda: reads.run(reads.stream("order bigint", **stream)))
    reads.run(reads.stream("order bigint", **stream, onBadPayload="skip"))
    assert sorted(row.order for row in reads.written().collect()) == [1, 2, 3]


class Batch:
    """As much of a batch as rows are made of."""

    def __init__(self, values: list[bytes]) -> None:
        self._columns = {"value": pa.array(values, pa.binary()), "offset": pa.array(range(1, len(values) + 1))}

    def __len__(self) -> int:
        return len(self._columns["value"])

    def column(self, name: str) -> pa.Array:
        return self._columns[name]


def test_what_is_skipped_is_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    asked = options.parse({"subscribe": "orders", "payload": "json", "onBadPayload": "skip"}, 0)
    rows = Rows(asked, pa.schema([("order", pa.int64())]), "orders", 3)
    for _ in range(2):
        made = list(rows.make(Batch([value.encode() for value in POISON])))  # type: ignore[arg-type]
        assert made[0].column(0).to_pylist() == [1, 2, 3]
    with caplog.at_level(logging.WARNING, "bowstring.spark"):
        rows.report()
    assert "onBadPayload=skip left out 4 messages of orders/3. The first: the value of orders/3@2 is not JSON" in caplog.text


def test_a_few_bad_values_among_many_are_found_with_few_reads() -> None:
    reads = 0

    def read(values: pa.Array) -> None:
        nonlocal reads
        reads += 1
        if 7 in values.to_pylist() or 9_000 in values.to_pylist():
            raise ValueError("bad")

    assert [row for row, _ in _bad(pa.array(range(10_000)), read, 0)] == [7, 9_000]
    assert reads < 60


def test_a_type_is_declared_over_nested_arrays() -> None:
    strict = pa.struct(
        [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.field("element", pa.string(), nullable=False)))]
    )
    values = [{"a": 1, "b": ["x", "y"]}, None, {"a": 2, "b": None}, {"a": 3, "b": [None]}, {"a": None, "b": []}]
    array, field = pa.array(values, loose(strict)), pa.field("s", strict)
    found = {where: np.flatnonzero(mask).tolist() for mask, where in lacking(array, field)}
    assert found == {"s.a": [4], "s.b.element": [3]}
    good = array.slice(0, 3)
    assert list(lacking(good, field)) == []
    assert declared(good, strict).type == strict
    assert declared(good, strict).to_pylist() == values[:3]


@pytest.mark.parametrize(
    ("schema", "given", "sentence"),
    [
        (
            "a int not null",
            {"payload": "json", "onBadPayload": "null"},
            "the schema has 'a' as NOT NULL, and onBadPayload=null makes nulls.",
        ),
        ("a int, _problem int", {"payload": "json", "onBadPayload": "null"}, "the schema has '_problem' as int. It is string."),
        ("value binary", {"onBadPayload": "skip"}, "onBadPayload=skip needs a payload: bytes are never bad."),
    ],
)
def test_what_contradicts_the_policy_is_refused(
    topic: str,  # noqa: F811
    reads: Reads,
    schema: str,
    given: dict[str, str],
    sentence: str,
) -> None:
    assert sentence in reads.refused(lambda: reads.batch(schema, subscribe=topic, **given).collect())
