"""Frames of pyarrow, Polars, DuckDB and pandas, sent to several partitions and read back exactly; what was read, sent again."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bowstring
from bowstring import errors
from tests.process import ephemeral

ROWS = 40
LONG = "a text that is longer than a view holds, and so lies elsewhere"
KEYS: list[Any] = [None if row % 7 == 3 else f"customer-{row % 9}" for row in range(ROWS)]
VALUES: list[Any] = [None if row % 11 == 5 else "" if row % 11 == 6 else f"{row} {LONG if row % 2 else 'ä'}" for row in range(ROWS)]
IDS = [f"id-{row}" for row in range(ROWS)]
ATTRIBUTES: list[Any] = [{} if row % 5 == 1 else {"country": "CH", "note": LONG} if row % 2 else {"country": "ä"} for row in range(ROWS)]
DUE = [datetime(2030, 1, 1, 12, 30, row, 250_000, tzinfo=UTC) for row in range(ROWS)]
WHOLE = {"key": KEYS, "value": VALUES, "id": IDS}
BYTES = {"key": [key and key.encode() for key in KEYS], "value": [None if v is None else v.encode() for v in VALUES], "id": IDS}


broker = ephemeral.broker
client = ephemeral.client


@pytest.fixture
def topic(client: bowstring.Client) -> Iterator[str]:
    client.create_topic("frames", partitions=4)
    yield "frames"
    client.delete_topic("frames")


def published(client: bowstring.Client, topic: str, frame: object) -> list[bowstring.Message]:
    """Sends a frame, and reads all that is there, in the order of the frame's ids."""
    with client.producer(topic) as producer:
        answers = producer.send_batch(frame).result(timeout=30)
    answers.raise_for_refused()
    found = list(client.reader(topic, end="latest"))
    assert {(message.partition, message.offset) for message in found} == set(
        zip(answers.partitions.to_pylist(), answers.offsets.to_pylist(), strict=True)
    )
    return sorted(found, key=lambda message: IDS.index(message.id) if message.id in IDS else 0)


def check(client: bowstring.Client, topic: str, frame: object, **further: list[Any]) -> None:
    """What is read is what the frame has, row by row."""
    found = published(client, topic, frame)
    wanted = {**BYTES, **further}
    for name, column in wanted.items():
        assert [getattr(message, name) for message in found] == column, name
    assert len({message.partition for message in found}) == 4


ARROW_TYPES = [
    *((text, text) for text in (pa.utf8(), pa.large_utf8(), pa.string_view())),
    *((data, pa.utf8()) for data in (pa.binary(), pa.large_binary(), pa.binary_view())),
    *((pa.dictionary(index, text), text) for index in (pa.int8(), pa.int64(), pa.uint32()) for text in (pa.utf8(), pa.large_utf8())),
]


@pytest.mark.parametrize(("kind", "id_kind"), ARROW_TYPES, ids=str)
def test_pyarrow(client: bowstring.Client, topic: str, kind: pa.DataType, id_kind: pa.DataType):
    columns = {name: pa.array(column, kind if name != "id" else id_kind) for name, column in WHOLE.items()}
    table = pa.table(columns)
    check(client, topic, pa.concat_tables([table.slice(0, 7), table.slice(0, 0), table.slice(7)]))


POLARS: dict[str, Callable[[], pl.DataFrame]] = {
    "text": lambda: pl.DataFrame(WHOLE),
    "binary": lambda: pl.DataFrame(BYTES),
    "categorical": lambda: pl.DataFrame(WHOLE, schema={"key": pl.Categorical, "value": pl.Categorical, "id": pl.Categorical}),
    "enum": lambda: pl.DataFrame(
        WHOLE, schema={name: pl.Enum(sorted({cell for cell in WHOLE[name] if cell is not None})) for name in WHOLE}
    ),
    "sliced": lambda: pl.concat([pl.DataFrame(WHOLE)[:5], pl.DataFrame(WHOLE)[5:20], pl.DataFrame(WHOLE)[20:]], rechunk=False),
    "lazy": lambda: pl.LazyFrame(WHOLE).with_columns(pl.col("key").str.to_lowercase()).collect(),
}


@pytest.mark.parametrize("name", POLARS)
def test_polars(client: bowstring.Client, topic: str, name: str):
    check(client, topic, POLARS[name]())


def test_polars_with_everything_else_that_a_message_has(client: bowstring.Client, topic: str):
    frame = pl.DataFrame(WHOLE).with_columns(
        attributes=pl.Series([[{"key": name, "value": text} for name, text in row.items()] for row in ATTRIBUTES]),
        due=pl.Series(DUE).dt.cast_time_unit("ms"),
        expires=pl.Series(DUE).dt.cast_time_unit("ns").dt.convert_time_zone("Asia/Tokyo"),
        created=pl.lit(None),
    )
    check(client, topic, frame, attributes=ATTRIBUTES, due=DUE, expires=DUE)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_polars_with_a_struct_as_attributes(client: bowstring.Client, topic: str, kind: Any):
    columns = [pl.Series(name, [row.get(name) for row in ATTRIBUTES], kind) for name in ("country", "note")]
    frame = pl.DataFrame(WHOLE).with_columns(attributes=pl.struct(*columns))
    check(client, topic, frame, attributes=ATTRIBUTES)


def test_an_arrow_file_and_a_parquet_file_that_polars_has_written(client: bowstring.Client, topic: str, tmp_path: Any):
    pl.DataFrame(WHOLE).write_ipc(tmp_path / "frame.arrow")
    check(client, topic, pa.ipc.open_file(tmp_path / "frame.arrow").read_all())


def test_a_series_is_a_list_of_values(client: bowstring.Client, topic: str):
    found = published(client, topic, pl.Series(["a", None, LONG]))
    assert sorted(message.text() for message in found) == ["", "a", LONG]


@pytest.mark.parametrize(
    "query",
    [
        "select key, value, id from frame",
        "select encode(key) as key, encode(value) as value, id from frame",
        "select key::enum_of_keys as key, value, id from frame",
        "select *, map_from_entries(attributes) as attributes, due::timestamptz as due, null as expires from frame_with_more",
        "select * from frame_with_more",
    ],
)
def test_duckdb(client: bowstring.Client, topic: str, query: str):
    frame = pa.table(WHOLE)
    entries = pa.array([[{"key": name, "value": text} for name, text in row.items()] for row in ATTRIBUTES])
    frame_with_more = frame.append_column("attributes", entries).append_column("due", pa.array(DUE))
    further: dict[str, list[Any]] = {"attributes": ATTRIBUTES, "due": DUE} if "more" in query else {}
    with duckdb.connect() as connection:
        connection.sql("set timezone = 'Europe/Zurich'")
        connection.register("frame", frame)
        connection.register("frame_with_more", frame_with_more)
        connection.sql("create type enum_of_keys as enum (select distinct key from frame where key is not null)")
        query = query.replace("select *, map", "select * exclude (attributes, due), map")
        check(client, topic, connection.sql(query), **further)


def pandas_object(nothing: Any) -> Callable[[], pd.DataFrame]:
    return lambda: pd.DataFrame({name: [nothing if cell is None else cell for cell in column] for name, column in WHOLE.items()})


def pandas_of(dtype: Any) -> Callable[[], pd.DataFrame]:
    return lambda: pd.DataFrame(WHOLE).astype(dtype)


PANDAS: dict[str, Callable[[], pd.DataFrame]] = {
    "None": pandas_object(None),
    "NaN": pandas_object(float("nan")),
    "numpy's NaN": pandas_object(np.nan),
    "NA": pandas_object(pd.NA),
    "bytes": lambda: pd.DataFrame(BYTES),
    "bytes and text": lambda: pd.DataFrame({**WHOLE, "value": [*WHOLE["value"][:20], *BYTES["value"][20:]]}),
    "categories": pandas_of("category"),
    "string": pandas_of("string"),
    "string[pyarrow]": pandas_of("string[pyarrow]"),
    **{f"ArrowDtype {kind}": pandas_of(pd.ArrowDtype(kind)) for kind in (pa.utf8(), pa.large_utf8(), pa.dictionary(pa.int32(), pa.utf8()))},
    "an index of its own": lambda: pd.DataFrame(WHOLE).sort_values("id").sort_index(ascending=False).iloc[::-1],
    "ids as the index": lambda: pd.DataFrame(WHOLE).set_index("id"),
}


@pytest.mark.parametrize("name", PANDAS)
def test_pandas(client: bowstring.Client, topic: str, name: str):
    check(client, topic, PANDAS[name]())


def test_pandas_with_everything_else_that_a_message_has(client: bowstring.Client, topic: str):
    frame = pd.DataFrame(WHOLE).assign(
        attributes=ATTRIBUTES, due=pd.to_datetime(pd.Series(DUE)), expires=pd.Series(DUE).dt.tz_convert("America/New_York"), created=np.nan
    )
    check(client, topic, frame, attributes=ATTRIBUTES, due=DUE, expires=DUE)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pl.DataFrame({"value": ["a"], "key": [1]}), "key is int64. It has to be bytes or text"),
        (pl.DataFrame({"value": ["a"], "due": [datetime(2030, 1, 1)]}), "due is timestamp[us], which has no time zone. Give it one"),
        (pd.DataFrame({"value": ["a"], "due": [pd.Timestamp("2030-01-01")]}), "due is timestamp[ns], which has no time zone. Give it one"),
        (pl.DataFrame({"value": ["a"], "attributes": [{"number": 1}]}), "attributes is struct<number: int64>. The names and values"),
        (pl.DataFrame({"value": ["a"], "attributes": ["x=y"]}), "attributes is string_view. It has to be a map of text to text"),
        (pd.DataFrame({"value": ["a", 1]}), "A batch cannot be made of DataFrame: "),
        (pd.DataFrame({"value": ["a", 1]}), "Conversion failed for column value with type object"),
        (pl.DataFrame({"value": ["a"], "price": [1.5]}), "A batch has no column 'price'"),
        (pl.DataFrame({"value": []}), "The batch is empty"),
        (pl.Series([1, 2]), "value is int64. It has to be bytes or text"),
    ],
)
def test_what_is_wrong_is_refused_in_words_before_the_broker_is_asked(broker: bowstring.Broker, frame: object, says: str):
    """The producer is new and knows no partitions yet: it must not wait for them."""
    with (
        broker.connect() as client,
        client.producer("there-is-no-such-topic") as producer,
        pytest.raises(errors.InvalidArgument) as refused,
    ):
        producer.send_batch(frame)
    assert says in str(refused.value)


# ---- what was read


def one_batch(client: bowstring.Client, topic: str, **options: Any) -> bowstring.Batch:
    with client.reader(topic, end="latest", **options) as reader:
        (batch,) = reader.batches(max_wait=5)
        return batch


def to_pandas(batch: bowstring.Batch) -> pd.DataFrame:
    return batch.to_arrow().to_pandas()


AGAIN: dict[str, Callable[[bowstring.Batch], object]] = {
    "as it is": lambda batch: batch,
    "pyarrow": pa.table,
    "Polars": pl.DataFrame,
    "DuckDB": lambda batch: duckdb.sql("from batch"),
    "pandas": to_pandas,
    "pandas' own way": pd.DataFrame,
    "pickled": lambda batch: pickle.loads(pickle.dumps(batch)),
}


@pytest.fixture
def filled(client: bowstring.Client, topic: str) -> str:
    """A topic with rows of all kinds: natural ids and generated ones, keys and none."""
    with client.producer(topic, group="shop") as producer:
        for row in range(ROWS):
            more: dict[str, Any] = {"key": KEYS[row], "attributes": ATTRIBUTES[row] or None}
            producer.send(VALUES[row], at=DUE[row] if row % 2 else None, id=IDS[row] if row % 3 else None, **more)
    return topic


def told(message: bowstring.Message) -> tuple[Any, ...]:
    return message.id, message.key, message.value, message.attributes, message.created, message.due, message.expires


@pytest.mark.parametrize("name", AGAIN)
def test_a_batch_that_was_read_can_be_sent_to_another_topic_twice_and_is_there_once(client: bowstring.Client, filled: str, name: str):
    client.create_topic("copy", partitions=3)
    try:
        batch = one_batch(client, filled)
        with client.producer("copy") as producer:
            for _ in range(2):
                producer.send_batch(AGAIN[name](batch)).result(timeout=30).raise_for_refused()
        copied = list(client.reader("copy", end="latest"))
        assert sorted(map(told, copied), key=str) == sorted(map(told, batch), key=str)
        assert {message.producer_group for message in copied} == {"default"}
    finally:
        client.delete_topic("copy")


def test_a_batch_goes_into_its_own_topic_again_only_without_its_ids(client: bowstring.Client, filled: str):
    batch = one_batch(client, filled)
    with client.producer(filled) as producer:
        assert producer.send_batch(batch).result(timeout=30).duplicates.true_count == ROWS
        assert client.topic(filled).messages == ROWS
        producer.send_batch(batch.to_arrow().drop_columns(["id"])).result(timeout=30).raise_for_refused()
        assert client.topic(filled).messages == 2 * ROWS
        producer.send_batch(one_batch(client, filled, columns=["key", "value"])).result(timeout=30).raise_for_refused()
        assert client.topic(filled).messages == 4 * ROWS


COLUMNS = [None, ["key", "value"], ["offset"], ["value", "arrived", "producer_group"], ["topic", "attributes", "due"]]


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_batches_and_messages_can_be_pickled_and_copied(client: bowstring.Client, filled: str, columns: list[str] | None):
    batch = one_batch(client, filled, columns=columns)
    for made in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert made.to_arrow() == batch.to_arrow()
        assert repr(made) == repr(batch)
        assert [repr(message) for message in made] == [repr(message) for message in batch]
    for message in (batch[0], batch[-1]):
        for made in (pickle.loads(pickle.dumps(message)), copy.copy(message), copy.deepcopy(message)):
            assert dataclasses.asdict(made) == dataclasses.asdict(message)
            assert (made.topic, made.partition, made.offset) == (message.topic, message.partition, message.offset)
            assert list(dataclasses.asdict(made)) == batch.schema.names
    missing = {"key", "due"} - set(columns or ["key", "due"])
    for name in missing:
        with pytest.raises(errors.InvalidArgument, match="leaves"):
            getattr(pickle.loads(pickle.dumps(batch[0])), name)


def test_a_pickled_message_has_only_its_own_row(client: bowstring.Client, topic: str):
    with client.producer(topic) as producer:
        producer.send_batch([b"mine", b"somebody else's" * 1000])
    mine = min(client.reader(topic, end="latest"), key=lambda message: message.offset)
    assert mine.value == b"mine"
    assert b"somebody" not in pickle.dumps(mine)
    assert len(pickle.dumps(mine)) < 4000


def test_an_empty_batch_can_be_pickled(client: bowstring.Client, topic: str):
    empty = client.reader(topic, start="latest").poll()
    assert pickle.loads(pickle.dumps(empty)).to_arrow() == empty.to_arrow()


def length_of(message: bowstring.Message) -> tuple[str, int]:
    return message.id, len(message.value or b"")


def rows_of(batch: bowstring.Batch) -> tuple[int, bowstring.Batch]:
    return len(batch), batch


def test_messages_and_batches_go_to_other_processes_and_back(client: bowstring.Client, filled: str):
    batch = one_batch(client, filled)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(length_of, batch) == [length_of(message) for message in batch]
        rows, back = pool.apply(rows_of, (batch,))
    assert rows == ROWS
    assert back.to_arrow() == batch.to_arrow()


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_pandas_makes_a_frame_of_a_batch(client: bowstring.Client, filled: str, columns: list[str] | None):
    batch = one_batch(client, filled, columns=columns)
    frame = pd.DataFrame(batch)
    assert list(frame.columns) == batch.schema.names
    assert len(frame) == ROWS
    for name in {"key", "value", "offset", "id"} & set(frame.columns):
        assert frame[name].tolist() == batch.column(name).to_pylist()
    for name in {"arrived", "due"} & set(frame.columns):
        assert [None if pd.isna(cell) else cell.to_pydatetime() for cell in frame[name]] == batch.column(name).to_pylist()


def test_times_of_any_zone_are_read_as_utc(client: bowstring.Client, topic: str):
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2030, 6, 1, 12, 0, 0, 123_456, zone)
    frame = pa.table({"value": ["a"], "due": pa.array([moment], pa.timestamp("us", "+05:30"))})
    (message,) = published(client, topic, frame)
    assert message.due == moment
    assert message.due is not None
    assert message.due.tzinfo is UTC
