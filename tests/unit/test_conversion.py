"""Columns of any library's types become the types of a batch, with the same rows, whole or sliced."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.client.frames import Frame
from bowstring.messages import conversion, encoding, schema

COLUMN = {column.name: column for column in schema.COLUMNS}
LONG = "a text that is longer than a view holds"
IDS = ["a", "b", LONG, "ä", "a"]
TEXTS = ["a", None, "", LONG, "ä", "a"]
INDICES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
TEXT_TYPES = [pa.utf8(), pa.large_utf8(), pa.string_view()]
BYTE_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
PAIRS: list[Any] = [[("a", "b"), ("c", LONG)], None, [], [("ä", "")], [("a", "b")]]


def encoded_dictionary(texts: Sequence[Any], kind: pa.DataType, index: pa.DataType) -> pa.Array:
    """Some of the nulls are among the indices, others among the values."""
    values = list(dict.fromkeys(texts))
    places = [None if text is None and row % 2 else values.index(text) for row, text in enumerate(texts)]
    return pa.DictionaryArray.from_arrays(pa.array(places, index), pa.array(values, kind))


def every_text(texts: Sequence[str | None] = TEXTS) -> Iterator[pa.Array]:
    for kind in TEXT_TYPES:
        yield pa.array(texts, kind)
        yield from (encoded_dictionary(texts, kind, index) for index in INDICES)
    yield pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(texts) + 1), pa.int32()), pa.array(texts))


def every_binary() -> Iterator[pa.Array]:
    data = [None if text is None else text.encode() for text in TEXTS]
    for kind in BYTE_TYPES:
        yield pa.array(data, kind)
        yield from (encoded_dictionary(data, kind, index) for index in INDICES)


def named(array: pa.Array) -> str:
    return str(array.type)


def check_rows(name: str, array: pa.Array, wanted: list[Any]) -> None:
    """The array gives these rows, and each slice of it its own."""
    for first, rows in ((0, len(array)), (1, len(array) - 1), (2, 2), (len(array), 0)):
        found = conversion.converted(COLUMN[name], array.slice(first, rows))
        found.validate(full=True)
        assert found.type == COLUMN[name].type
        assert found.to_pylist() == wanted[first : first + rows]


@pytest.mark.parametrize("array", [*every_text(), *every_binary()], ids=named)
def test_keys_and_values_may_be_any_text_or_bytes(array: pa.Array):
    wanted = [None if text is None else text.encode() for text in TEXTS]
    check_rows("key", array, wanted)
    check_rows("value", array, wanted)


@pytest.mark.parametrize("array", list(every_text(IDS)), ids=named)
def test_ids_may_be_any_text(array: pa.Array):
    check_rows("id", array, IDS)


@pytest.mark.parametrize("array", list(every_text()), ids=named)
def test_an_id_that_is_missing_is_refused_however_it_is_encoded(array: pa.Array):
    with pytest.raises(errors.InvalidArgument, match="1 of the ids are null"):
        encoding.encode(pa.record_batch({"id": array}))


def test_bytes_of_a_fixed_size_and_uuids_are_their_bytes():
    numbers = [uuid.UUID(int=number) for number in (1, 2**127 + 5)]
    raw = [numbers[0].bytes, None, numbers[1].bytes, b"0123456789abcdef"]
    fixed = pa.array(raw, pa.binary(16))
    check_rows("key", fixed, raw)
    check_rows("value", pa.ExtensionArray.from_storage(pa.uuid(), fixed), raw)


def test_an_id_that_is_a_uuid_is_its_text():
    numbers = [uuid.UUID(int=number * 0x1234567890ABCDEF_FEDCBA09) for number in range(5)]
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([number.bytes for number in numbers], pa.binary(16)))
    check_rows("id", array, [str(number) for number in numbers])
    with pytest.raises(errors.InvalidArgument, match=r"id is fixed_size_binary\[16\]. It has to be text"):
        conversion.converted(COLUMN["id"], array.storage)


@pytest.mark.parametrize("name", list(COLUMN))
def test_a_column_of_nulls_may_have_any_type(name: str):
    wanted = COLUMN[name].type
    for array in (pa.nulls(3), pa.nulls(3, wanted)):
        assert conversion.converted(COLUMN[name], array) == pa.nulls(3, wanted)
    for kind in (pa.null(), pa.int32(), pa.float64(), pa.list_(pa.date32()), pa.dictionary(pa.int8(), pa.float64())):
        draft = only_draft(pa.table({name: pa.nulls(3, kind)}))
        assert (schema.names_of(draft.mask), draft.rows) == ("created", 3)
        if name != "value":
            assert schema.names_of(only_draft(pa.table({"value": list("abc"), name: pa.nulls(3, kind)})).mask) == "value, created"


def only_draft(table: pa.Table) -> encoding.Draft:
    (piece,) = Frame.of(table, 7, None).pieces(4, 1 << 20, 1 << 20)
    return piece.encode()[0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "+05:30"])
def test_times_may_have_any_unit_and_zone(unit: str, zone: str):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    array = pa.array([1_790_000_000 * per_second, None, 0, 1], pa.timestamp(unit, zone))
    micros = [1_790_000_000_000_000, None, 0, 10**6 // per_second if per_second <= 10**6 else 0]
    for given in (array, array.dictionary_encode()):
        found = conversion.converted(COLUMN["due"], given)
        assert found.type == COLUMN["due"].type
        assert found.cast(pa.int64()).to_pylist() == micros


def every_map() -> Iterator[pa.Array]:
    for text in TEXT_TYPES:
        entry = pa.struct([("key", text), ("value", text)])
        turned = pa.struct([("value", text), ("key", text)])
        entries = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in PAIRS]
        yield pa.array(PAIRS, pa.map_(text, text))
        yield pa.array(PAIRS, pa.map_(text, text, keys_sorted=True))
        for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
            yield pa.array(entries, kind(entry))
            yield pa.array(entries, kind(turned))
            yield pa.array(PAIRS, kind(pa.list_(text)))
        yield pa.array(PAIRS, pa.list_(pa.list_(text, 2)))
    names = pa.array(["a", "c", "ä", "a"]).dictionary_encode()
    values = pa.array(["b", LONG, "", "b"]).dictionary_encode()
    mask = pa.array([False, True, False, False, False])
    yield pa.MapArray.from_arrays(pa.array([0, 2, 2, 2, 3, 4], pa.int32()), names, values, mask=mask)


@pytest.mark.parametrize("array", list(every_map()), ids=named)
def test_attributes_may_be_maps_and_lists_of_pairs(array: pa.Array):
    check_rows("attributes", array, PAIRS)


@pytest.mark.parametrize("text", TEXT_TYPES, ids=str)
def test_attributes_may_be_lists_of_a_fixed_size(text: pa.DataType):
    entry = pa.struct([("key", text), ("value", text)])
    pairs: list[Any] = [[("a", "b")], None, [("c", LONG)], [("d", "")]]
    array = pa.array([None if row is None else [{"key": key, "value": value} for key, value in row] for row in pairs], pa.list_(entry, 1))
    check_rows("attributes", array, pairs)


@pytest.mark.parametrize("text", [*TEXT_TYPES, pa.dictionary(pa.int8(), pa.utf8()), pa.dictionary(pa.uint32(), pa.string_view())], ids=str)
def test_a_struct_is_its_fields_without_those_that_are_null(text: pa.DataType):
    rows: list[Any] = [{"a": "1", "b": LONG}, {"a": None, "b": "2"}, None, {"a": None, "b": None}, {"a": "", "b": None}]
    fields = [array_of([None if row is None else row[name] for row in rows], text) for name in ("a", "b")]
    array = pa.StructArray.from_arrays(fields, ["a", "b"], mask=pa.array([row is None for row in rows]))
    check_rows("attributes", array, [[("a", "1"), ("b", LONG)], [("b", "2")], None, [], [("a", "")]])


def array_of(texts: list[Any], kind: pa.DataType) -> pa.Array:
    return encoded_dictionary(texts, kind.value_type, kind.index_type) if pa.types.is_dictionary(kind) else pa.array(texts, kind)


def test_a_struct_without_fields_and_fields_of_nulls_are_no_attributes():
    check_rows("attributes", pa.array([{}, None, {}, {}], pa.struct([])), [[], None, [], []])
    check_rows("attributes", pa.array([{"a": None, "b": "c"}] * 4, pa.struct([("a", pa.null()), ("b", pa.utf8())])), [[("b", "c")]] * 4)


def test_what_lies_under_a_null_does_not_come_along():
    secret = pa.array(["secret", "b", "c"], pa.utf8())
    entries = pa.StructArray.from_arrays([secret, secret], ["key", "value"])
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, entries, mask=pa.array([True, False, False]))
    batch = encoding.encode(pa.record_batch({"attributes": lists}))
    assert b"secret" not in batch.data
    assert encoding.decode(batch.mask, batch.data).column("attributes").to_pylist() == [None, [("b", "b")], [("c", "c")]]


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("key", pa.array([1.5]), "key is double. It has to be bytes or text (Arrow binary)."),
        ("key", pa.array([1]).dictionary_encode(), "key is dictionary<values=int64, indices=int32, ordered=0>. It has to be bytes or text"),
        ("value", pa.array([True]), "value is bool. It has to be bytes or text"),
        ("value", pa.array([{"a": "b"}]), "value is struct<a: string>. It has to be bytes or text"),
        ("id", pa.array([b"a"], pa.binary_view()), "id is binary_view. It has to be text (Arrow string)."),
        ("id", pa.array([7]), "id is int64. It has to be text"),
        ("due", pa.array(["2026-11-15T09:00Z"]), "due is string. Times are timestamps with a time zone."),
        ("due", pa.array([1], pa.date32()), "due is date32[day]. Times are timestamps with a time zone."),
        (
            "expires",
            pa.array([1], pa.timestamp("ns")),
            "expires is timestamp[ns], which has no time zone. Give it one: .dt.replace_time_zone",
        ),
        ("created", pa.array([1], pa.duration("us")), "created is duration[us]. Times are timestamps with a time zone."),
        ("attributes", pa.array(['{"a": "b"}']), "attributes is string. It has to be a map of text to text"),
        ("attributes", pa.array([["a", "b"]]), "attributes is list<item: string>. It has to be a map of text to text"),
        (
            "attributes",
            pa.array([[{"name": "a", "value": "b"}]]),
            "attributes is list<item: struct<name: string, value: string>>. It has to be a",
        ),
        (
            "attributes",
            pa.array([[{"key": "a", "value": 1}]]),
            "attributes is list<item: struct<key: string, value: int64>>. The names and values",
        ),
        (
            "attributes",
            pa.array([[{"key": "a", "value": None}, {"key": "b", "value": "c"}]]),
            "There are attributes that are not text: one of them is",
        ),
        ("attributes", pa.array([[None, {"key": "b", "value": "c"}]]), "There are attributes that are not text: one of them is null."),
        (
            "attributes",
            pa.array([[["a", "b", "c"]]]),
            "There are attributes that are not text: one of them is a list, and not of two texts.",
        ),
        (
            "attributes",
            pa.array([[["a", "b"], None]]),
            "There are attributes that are not text: one of them is a list, and not of two texts.",
        ),
        (
            "attributes",
            pa.array([{"a": {"b": "c"}}]),
            "attributes is struct<a: struct<b: string>>. The names and values of attributes are text",
        ),
    ],
)
def test_a_wrong_type_is_refused_with_the_column_its_type_and_what_is_right(name: str, array: pa.Array, says: str):
    with pytest.raises(errors.InvalidArgument) as refused:
        encoding.encode(pa.record_batch({name: array}))
    assert says in str(refused.value)


def test_texts_that_share_their_bytes_are_divided_by_what_they_become(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conversion, "AT_ONCE_BYTES", 1_000)
    texts = [("x" * 100) if row % 2 else "" for row in range(200)]
    for kind in (pa.string_view(), pa.large_utf8()):
        for array in (pa.array(texts, kind), encoded_dictionary(texts, kind, pa.int8())):
            parts = list(conversion.bounded(pa.record_batch({"value": array.slice(3)})))
            assert [text for part in parts for text in part.column("value").to_pylist()] == texts[3:]
            assert [part.num_rows for part in parts[:-1]] == [20] * 9
    (whole,) = conversion.bounded(pa.record_batch({"value": pa.array([b"x" * 100] * 200)}))
    assert whole.num_rows == 200


def test_rows_keep_their_numbers_over_chunks_and_what_is_wrong_in_a_later_one_is_told_in_its_turn():
    good = pa.array([[{"key": "a", "value": "b"}]] * 3)
    bad = pa.array([[{"key": "a", "value": None}]], good.type)
    table = pa.table({"attributes": pa.chunked_array([good.slice(0, 0), good, bad, good]), "value": list("abcdefg")})
    pieces = list(Frame.of(table, 7, None).pieces(4, 1 << 20, 1 << 20))
    assert [list(piece.rows) for piece in pieces] == [[0, 1, 2], [3], [4, 5, 6]]
    with pytest.raises(errors.InvalidArgument, match="one of them is null"):
        pieces[1].encode()
    assert pieces[2].encode()[0].rows == 3


def test_columns_that_the_broker_assigns_are_ignored_and_unknown_ones_are_refused():
    assigned = {name: pa.array([1, 2]) for name in schema.ASSIGNED}
    assert schema.names_of(only_draft(pa.table({"value": ["a", "b"], **assigned})).mask) == "value, created"
    with pytest.raises(errors.InvalidArgument, match="A batch has no column 'price'"):
        Frame.of(pa.table({"value": ["a", "b"], "price": [1, 2]}), 7, None)


def test_ids_that_are_missing_in_one_of_several_chunks_are_refused_at_once():
    ids = pa.chunked_array([pa.array(["a", "b"]), pa.nulls(1, pa.utf8())])
    with pytest.raises(errors.InvalidArgument, match="1 of the ids are null"):
        Frame.of(pa.table({"value": ["a", "b", "c"], "id": ids}), 7, None)


def test_a_table_of_the_right_types_is_not_copied():
    batch = pa.record_batch(
        {"key": pa.array([b"k"]), "value": pa.array([b"v"]), "attributes": pa.array([[("a", "b")]], COLUMN["attributes"].type)}
    )
    assert conversion.canonical(batch) is batch
    assert list(conversion.bounded(batch)) == [batch]
