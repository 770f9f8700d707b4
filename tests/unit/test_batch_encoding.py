"""Writing batches from lists, from Arrow, and from rows of other batches."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.messages import layout, limits, schema
from bowstring.messages.encoding import Encoded, decode, draft_value, encode, encode_columns, encode_values, take
from bowstring.messages.metadata import form

MOMENT = pa.timestamp("us", "UTC")
MAP = pa.map_(pa.utf8(), pa.utf8())


def read(batch: Encoded) -> dict[str, list[Any]]:
    """What a batch holds, after the broker's check of it."""
    return layout.check(schema.BYTES_SCHEMA, *batch, bytes_max=2**24).to_pydict()


def column(name: str, array: pa.Array) -> Encoded:
    return encode(pa.record_batch({name: array}))


# -- from lists


def test_attributes_that_rows_share_are_written_as_if_each_had_its_own():
    few: list[Any] = [{"country": "CH", "ü": ""}, {}, None, {"country": "AT"}]
    shared = [few[row * row % 7 % 4] for row in range(1000)]
    own = [each if each is None else dict(each) for each in shared]
    written = [encode_columns(1000, values=[b""] * 1000, attributes=attributes) for attributes in (shared, own)]
    assert written[0] == written[1]
    assert read(written[0])["attributes"] == [each if each is None else list(each.items()) for each in own]


def test_a_list_of_values_becomes_one_column():
    batch = encode_values([b"a", b"", "ü", None])
    assert (batch.mask, batch.rows) == (schema.VALUE, 4)
    assert read(batch) == {"value": [b"a", b"", "ü".encode(), None]}


def test_lists_are_written_without_pandas():
    """pyarrow imports it for the first Python object that it converts, and that takes a quarter of a second."""
    script = """
import sys
import numpy as np
from bowstring.messages.encoding import encode_columns
texts, moments = ["a", "ü"], [None, 7]
encode_columns(2, values=[b"a", b"b"], keys=texts, attributes=[{"a": "b"}, None], created=np.arange(2), due=moments, ids=texts)
encode_columns(9, values=[b""] * 9, attributes=[{"a": "b"}] * 9)
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@given(st.lists(st.text() | st.binary() | st.none(), min_size=2), st.lists(st.none() | st.integers(0, 2**50), min_size=2))
@example(["a", "b"], [1, 2])
@example(["ü", "b"], [None, 2])
@example([b"a", bytes(9)], [0, 0])
def test_lists_are_written_as_pyarrow_would_write_them(texts: list[Any], moments: list[Any]):
    assert encode_columns(len(texts), values=texts) == encode(pa.record_batch({"value": pa.array(texts, pa.binary())}))
    columns = {"value": [b""] * len(moments), "due": pa.array(moments, MOMENT)}
    assert encode_columns(len(moments), values=columns["value"], due=moments) == encode(pa.record_batch(columns))


@given(st.binary(max_size=100), st.integers(0, limits.MOMENT_MAX - 1))
@example(bytes(70_000), 0)
def test_one_value_alone_is_written_as_any_other_batch(value: bytes, created: int):
    assert draft_value(value, created).encoded() == encode_columns(1, values=[value], created=created)
    assert draft_value(value, created).size == len(draft_value(value, created).encoded().data)


@pytest.mark.parametrize("created", [-1, limits.MOMENT_MAX])
def test_one_value_alone_has_a_time_that_is_possible(created: int):
    with pytest.raises(errors.InvalidArgument, match="out of range"):
        draft_value(b"x", created)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_all_columns_come_back_as_they_were_given(rows: int):
    ids = [f"id-{row}" for row in range(rows)]
    due = list(range(rows))
    batch = encode_columns(
        rows, values=[b"v"] * rows, keys=["k"] * rows, attributes=[{"a": "b", "ü": ""}] * rows, created=7, due=due, expires=due, ids=ids
    )
    columns = read(batch)
    assert batch.mask == schema.ALL
    assert columns["key"] == [b"k"] * rows
    assert columns["value"] == [b"v"] * rows
    assert columns["attributes"] == [[("a", "b"), ("ü", "")]] * rows
    assert columns["created"] == [datetime(1970, 1, 1, microsecond=7, tzinfo=UTC)] * rows
    assert columns["due"] == columns["expires"] == [datetime(1970, 1, 1, microsecond=row, tzinfo=UTC) for row in range(rows)]
    assert columns["id"] == ids


def test_one_message_packed_by_hand_is_what_many_are_made_of():
    """The same row by both ways: the hand-made batch of one equals a row taken from a batch of two."""
    given: dict[str, list[Any]] = {"values": [b"v"], "keys": ["k"], "attributes": [{"a": "b", "c": "d"}], "ids": ["i"]}
    one = encode_columns(1, created=[1], due=[2], expires=[3], **given)
    two = encode_columns(2, created=[1] * 2, due=[2] * 2, expires=[3] * 2, **{name: given[name] * 2 for name in given})
    assert take(decode(two.mask, two.data), np.array([1])) == one


@pytest.mark.parametrize("rows", [1, 3])
def test_columns_of_nothing_are_left_out(rows: int):
    nothing = [None] * rows
    batch = encode_columns(rows, values=nothing, keys=[b"k"] * rows, attributes=nothing, due=nothing)
    assert batch.mask == schema.KEY
    empty = encode_columns(rows, values=nothing, keys=nothing, attributes=nothing, expires=nothing)
    assert (empty.mask, read(empty)) == (schema.VALUE, {"value": nothing})
    assert empty == encode(pa.record_batch({"key": pa.nulls(rows), "due": pa.nulls(rows, MOMENT)}))


def test_an_empty_mapping_is_not_an_absent_one():
    assert read(encode_columns(2, values=[b"", b""], attributes=[{}, None]))["attributes"] == [[], None]
    assert read(encode_columns(1, values=[b""], attributes=[{}]))["attributes"] == [[]]


def test_bytes_of_any_kind_are_values():
    for kind in (bytes, bytearray, memoryview):
        assert encode_values([kind(b"ab")]) == encode_values([b"ab"])
        assert encode_values([kind(b"ab"), b""]) == encode_values([b"ab", b""])


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"values": [3]}, "a value that is neither bytes nor text"),
        ({"values": ["\ud800"]}, "a value that is neither bytes nor text: .*surrogates"),
        ({"keys": [3.5]}, "a key that is neither bytes nor text"),
        ({"attributes": [{"a": 1}]}, "attributes that are not text"),
        ({"attributes": [{"a": b"b"}]}, "attributes that are not text"),
        ({"attributes": [{1: "b"}]}, "attributes that are not text"),
        ({"attributes": [{"a": None}]}, "attributes that are not text"),
        ({"attributes": [{"\ud800": ""}]}, "attributes that are not text"),
        ({"attributes": ["text"]}, "attributes that are not text"),
        ({"attributes": [{"bowstring-reason": "b"}]}, "begins with 'bowstring-'"),
        ({"created": ["yesterday"]}, "created is not a time"),
        ({"due": [2**64]}, "due is not a time"),
        ({"due": 2**64}, "due is not a time"),
        ({"due": [-1]}, "due in row 0 is -1 µs since 1970"),
        ({"expires": limits.MOMENT_MAX}, "expires in row 0 is 7258118400000000 µs since 1970"),
        ({"ids": [b"bytes"]}, "an id that is not text"),
        ({"ids": [None]}, "an id that is not text"),
        ({"ids": [""]}, "The id in row 0 is empty"),
        ({"ids": ["ü" * 129]}, "The id in row 0 has 258 bytes"),
    ],
)
def test_wrong_entries_are_refused_where_they_were_written(rows: int, given: dict[str, Any], sentence: str):
    repeated = {name: each * rows if isinstance(each, list) else each for name, each in given.items()}
    with pytest.raises(errors.InvalidArgument, match=sentence) as caught:
        encode_columns(rows, **{"values": [b""] * rows, **repeated})
    assert caught.value.hint


def test_lists_have_an_entry_for_each_row():
    with pytest.raises(errors.InvalidArgument, match="key has 1 entries for 2 rows"):
        encode_columns(2, values=[b"", b""], keys=[b""])
    with pytest.raises(errors.InvalidArgument, match="due has 2 entries for 1 rows"):
        encode_columns(1, values=[b""], due=[1, 2])
    with pytest.raises(errors.InvalidArgument, match="value has 0 entries for 0 rows"):
        encode_values([])


# -- from Arrow


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2), pa.string(), pa.large_string(), pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.binary()),
        *([pa.json_()] if hasattr(pa, "json_") else []),
    ],
)  # fmt: skip
def test_texts_and_bytes_of_all_arrow_types_become_binary(kind: pa.DataType):
    if isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, pa.array(["ab", None, "cd"]))
    else:
        array = pa.array([b"ab", None, b"cd"], pa.binary()).cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
        array = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
    for name in ("key", "value"):
        assert column(name, array) == column(name, pa.array([b"ab", None, b"cd"]))
        assert column(name, array.slice(1)) == column(name, pa.array([None, b"cd"]))


def test_times_of_all_zones_and_units_become_microseconds():
    for unit, count in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        array = pa.array([5 * count, None], pa.timestamp(unit, "Europe/Zurich"))
        assert column("due", array) == column("due", pa.array([5_000_000, None], MOMENT))
    assert column("due", pa.array([1_999], pa.timestamp("ns", "UTC"))) == column("due", pa.array([1], MOMENT))


def test_attributes_are_maps_of_any_text():
    pairs = [[("a", "b")], None, [], [("c", "d"), ("e", "f")]]
    wide = pa.array(pairs, pa.map_(pa.large_string(), pa.string_view()))
    assert column("attributes", wide) == column("attributes", pa.array(pairs, MAP))
    assert column("attributes", wide.slice(2, 2)) == column("attributes", pa.array(pairs[2:], MAP))


def test_columns_may_come_in_any_order():
    columns = {"id": pa.array(["i"]), "value": pa.array([b"v"]), "key": pa.array([b"k"])}
    batch = encode(pa.record_batch(columns))
    assert batch == encode_columns(1, values=[b"v"], keys=[b"k"], ids=["i"])


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("vlaue", pa.array([b""]), "no column 'vlaue'"),
        ("value", pa.array([1]), "value is int64. It has to be bytes or text"),
        ("value", pa.array([[b"a"]]), "value is list"),
        ("id", pa.array([b"a"]), "id is binary. It has to be text"),
        ("id", pa.array(["a", None]), "1 of the ids are null"),
        ("id", pa.array(["a", ""]), "The id in row 1 is empty"),
        ("due", pa.array([1], pa.timestamp("us")), "due is timestamp.us., which has no time zone"),
        ("due", pa.array([1]), "due is int64. Times are timestamps with a time zone"),
        ("due", pa.array([2**62], pa.timestamp("s", "UTC")), "due cannot be turned into timestamp"),
        ("due", pa.array([-1], pa.timestamp("s", "UTC")), "due in row 0 is -1000000 µs"),
        ("attributes", pa.array(["a=b"]), "attributes is string. It has to be a map of text to text"),
        ("attributes", pa.array([{"a": 1}]), "attributes is struct.* are text"),
        ("attributes", pa.array([[("a", 1)]], pa.map_(pa.utf8(), pa.int64())), "attributes is map.* are text"),
        ("attributes", pa.array([[("a", None)]], MAP), "attributes that are not text: one of them is null"),
        ("attributes", pa.array([[("a", "b"), ("a", "c")]], MAP), "Row 0 has the attribute 'a' twice"),
        ("attributes", pa.array([None, [("bowstring-a", "b")]], MAP), "An attribute in row 1 has a name that begins"),
        ("value", pa.array([], pa.binary()), "The batch is empty"),
    ],
)
def test_arrow_columns_that_cannot_be_ours_are_refused(name: str, array: pa.Array, sentence: str):
    with pytest.raises(errors.InvalidArgument, match=sentence):
        column(name, array)


def test_a_column_that_is_there_twice_is_refused():
    with pytest.raises(errors.InvalidArgument, match="'value' is there twice"):
        encode(pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"]))


# -- no byte of another row (invariant 13)

SECRET = b"\xee\xdd\xcc\xbb"


def guarded(rows: int) -> pa.RecordBatch:
    """Rows 3, 5, 7 … are plain, all others hold nothing but secrets and nulls."""
    plain = [row % 2 == 1 and row >= 3 for row in range(rows)]
    text = "\U000fedcb" * 9
    return pa.record_batch(
        {
            "key": pa.array([b"k%d" % row if is_plain else SECRET * 7 for row, is_plain in enumerate(plain)]),
            "value": pa.array([(b"v" * row if row % 3 else None) if is_plain else SECRET * row for row, is_plain in enumerate(plain)]),
            "attributes": pa.array([[("a", "b")] if is_plain else [(text, text)] for is_plain in plain], MAP),
            "due": pa.array([row if is_plain else 0x0EDDCCBBEEDDCC for row, is_plain in enumerate(plain)], MOMENT),
            "id": pa.array([f"id-{row}" if is_plain else text for row, is_plain in enumerate(plain)]),
        }
    )


def has_secrets(data: bytes) -> bool:
    return SECRET[:2] in data or bytes(reversed(SECRET))[:2] in data or "\U000fedcb".encode() in data


@pytest.mark.parametrize("row", range(3, 31, 2))
def test_a_slice_holds_no_byte_of_its_neighbours(row: int):
    batch = guarded(33)
    assert has_secrets(encode_values(batch.column("value").to_pylist()).data)
    one = encode(batch.slice(row, 1))
    assert not has_secrets(one.data)
    assert one == encode(pa.RecordBatch.from_pylist(batch.slice(row, 1).to_pylist(), schema=batch.schema))
    assert read(one) == batch.slice(row, 1).select(schema.arrow_schema(one.mask).names).to_pydict()


def test_rows_taken_hold_no_byte_of_those_left():
    whole = encode(guarded(64))
    rows = np.arange(3, 64, 2)
    for batch in (decode(whole.mask, whole.data), guarded(64)):
        taken = take(batch, rows)
        assert not has_secrets(taken.data)
        assert read(taken) == {name: [batch.column(name)[int(row)].as_py() for row in rows] for name in batch.schema.names}
        assert take(batch, pa.array(rows)) == taken
        assert take(batch, rows[::-1].copy()).rows == len(rows)


def test_what_lies_under_nulls_stays_there():
    bitmap = pa.py_buffer(b"\x05")
    spots = pa.py_buffer(np.array([0, 1, 5, 6], np.int32))
    value = pa.Array.from_buffers(pa.binary(), 3, [bitmap, spots, pa.py_buffer(b"a" + SECRET + b"b")])
    due = pa.Array.from_buffers(MOMENT, 3, [bitmap, pa.py_buffer(np.array([1, 0x0EDDCCBBEEDDCC, 2]))])
    entries = pa.array([{"key": str(row), "value": SECRET.hex()} for row in range(6)])
    maps = pa.Array.from_buffers(MAP, 3, [bitmap, spots], children=[entries])
    batch = pa.record_batch({"value": value, "due": due, "attributes": maps})
    encoded = encode(batch)
    assert not has_secrets(encoded.data)
    assert encoded.data.count(SECRET.hex().encode()) == 2
    assert read(encoded)["value"] == [b"a", None, b"b"]
    assert take(batch, np.arange(3)) == encoded


def test_bits_of_neighbours_are_no_part_of_a_bitmap():
    """Of 40 rows every other is null; behind the 3 that are sent no bit is left."""
    values = pa.array([b"x" if row % 2 else None for row in range(40)])
    for start in range(17):
        batch = column("value", values.slice(start, 3))
        bitmap = batch.data[form(schema.VALUE).size : form(schema.VALUE).size + 8]
        assert bitmap[0] < 8
        assert bitmap[1:] == bytes(7)


# -- rows of others, compression


def test_taking_no_rows_or_rows_that_are_not_there_is_an_error():
    batch = decode(schema.VALUE, encode_values([b"a", b"b"]).data)
    with pytest.raises(errors.InvalidArgument, match="The batch is empty"):
        take(batch, np.array([], np.int64))
    with pytest.raises(IndexError):
        take(batch, np.array([2]))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compression_makes_smaller_and_changes_nothing(compression: str):
    values: list[bytes | str | None] = [b"a" * 100, None, b"b" * 200] * 30
    plain = encode_values(values)
    small = encode_values(values, compression=compression)
    assert len(small.data) < len(plain.data) / 3
    assert read(small) == read(plain)
    assert encode(decode(small.mask, small.data)) == plain


def test_what_cannot_be_compressed_is_sent_as_it_is():
    assert encode_values([b"short"], compression="zstd") == encode_values([b"short"])
    noise = np.random.default_rng(1).bytes(100_000)
    mixed = encode_columns(100, values=[noise[:1000]] * 100, keys=[b"k"] * 100, compression="lz4")
    assert len(mixed.data) < 10_000
    half = encode_columns(1, values=[noise], keys=[b"k" * 1000], compression="zstd")
    assert noise in half.data
    assert read(half)["value"] == [noise]


def test_an_unknown_compression_is_refused():
    with pytest.raises(errors.InvalidArgument, match=r"compression='gzip' is not known. Use None, 'lz4' or 'zstd'"):
        encode_values([b""], compression="gzip")


@pytest.mark.parametrize("rows", [2, 50])
@pytest.mark.parametrize(
    ("first", "last", "wrong"),
    [
        ([("a", "1"), ("b", "2")], [("a", "1"), ("b", "2")], None),
        ([("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")], None),
        ([("ab", "1"), ("c", "2")], [("a", "1"), ("bc", "2")], None),
        ([("a", "1"), ("b", "2")], [("a", "1"), ("a", "2")], "Row -1 has the attribute 'a' twice"),
        ([("a", "1"), ("a", "2")], [("a", "1"), ("a", "2")], "Row 0 has the attribute 'a' twice"),
        ([("a", "1"), ("b", "2")], [("c", "1")], None),
    ],
)
def test_a_name_that_comes_twice_is_found_whether_rows_are_alike_or_not(rows: int, first: Any, last: Any, wrong: str | None):
    attributes = pa.array([first] * (rows - 1) + [last], pa.map_(pa.utf8(), pa.utf8()))
    batch = pa.record_batch({"value": [b""] * rows, "attributes": attributes})
    if wrong is None:
        assert read(encode(batch))["attributes"] == attributes.to_pylist()
    else:
        with pytest.raises(errors.InvalidArgument, match=wrong.replace("Row -1", f"Row {rows - 1}")):
            encode(batch)
