"""What `read` prints as CSV, JSON, Arrow or Parquet is what `produce` takes in: every key, value, attribute, id and time, exactly."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.cli import csv_text, forms, inputs
from bowstring.client.pages import COLUMNS

SENT = ("key", "value", "attributes", "id", "created", "due", "expires")
TEXT = st.text(max_size=12) | st.text('",\r\n ;a', max_size=8)
LIKE_BYTES = st.builds('{{"base64":{}"{}"}}'.format, st.sampled_from(["", " "]), st.text("AQ=-", max_size=5))
CONTENT = st.none() | st.binary(max_size=12) | (TEXT | LIKE_BYTES).map(str.encode) | st.just(b"\xef\xbb\xbfmark")
MOMENT = st.integers(0, 7_258_118_399_999_999)
MESSAGE = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "a,b"]),
        "partition": st.integers(0, 5),
        "offset": st.integers(1, 2**40),
        "id": st.text(min_size=1, max_size=12),
        "key": CONTENT,
        "value": CONTENT,
        "attributes": st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
        "created": MOMENT,
        "arrived": MOMENT,
        "due": st.none() | MOMENT,
        "expires": st.none() | MOMENT,
        "producer_group": st.just("default"),
    }
)


def batch_of(messages: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays: list[pa.Array] = []
    for field in COLUMNS:
        cells = [message[field.name] for message in messages]
        if field.name == "attributes":
            cells = [None if cell is None else list(cell.items()) for cell in cells]
        arrays.append(pa.array(cells, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def printed(form: str, batches: list[pa.RecordBatch], columns: list[str] | None = None) -> bytes:
    out = io.BytesIO()
    writer = forms.form(form, out, columns)
    for batch in batches:
        writer.write(batch)
    if form != "parquet":
        writer.close()
        return out.getvalue()
    kept = pa.BufferOutputStream()
    writer = forms.form(form, kept, columns)  # type: ignore[arg-type]
    for batch in batches:
        writer.write(batch)
    writer.close()
    return kept.getvalue().to_pybytes()


def taken(form: str, data: bytes) -> list[dict[str, Any]]:
    stream = io.BytesIO(data)
    read = {
        "csv": lambda: inputs.csv_rows(stream, "it", ","),
        "json": lambda: inputs.json_lines(stream, "it"),
        "arrow": lambda: inputs.arrow(stream, "it"),
        "parquet": lambda: inputs.parquet(stream, "it"),
    }
    return [row for table in read[form]() for row in rows_of(table)]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(table.schema.names, table.columns, strict=True)
    }
    rows = pa.table(columns).to_pylist()
    return [{name: dict(row.get(name) or ()) if name == "attributes" else row.get(name) for name in SENT} for row in rows]


def wanted(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: (message[name] or {}) if name == "attributes" else message[name] for name in SENT} for message in messages]


@pytest.mark.parametrize("form", ["csv", "json", "arrow", "parquet"])
@given(messages=st.lists(MESSAGE, min_size=1, max_size=6), halves=st.integers(0, 6))
def test_messages_come_back_as_they_were(form: str, messages: list[dict[str, Any]], halves: int):
    batches = [batch_of(part) for part in (messages[:halves], messages[halves:]) if part]
    assert taken(form, printed(form, batches)) == wanted(messages)


@pytest.mark.parametrize("form", ["csv", "json", "arrow", "parquet"])
@given(messages=st.lists(MESSAGE, min_size=1, max_size=6), column=st.sampled_from(["key", "value", "id", "attributes"]))
def test_a_single_column_comes_back_with_all_its_rows(form: str, messages: list[dict[str, Any]], column: str):
    found = taken(form, printed(form, [batch_of(messages)], [column]))
    assert [row[column] for row in found] == [row[column] for row in wanted(messages)]


@given(st.lists(st.lists(st.none() | st.text(max_size=8) | st.text('",\r\n', max_size=6), min_size=2, max_size=4), max_size=5))
def test_rows_of_csv_are_read_as_pythons_own_module_reads_them(rows: list[list[str | None]]):
    text = "".join(map(csv_text.line, rows))
    found = [row.cells for row in csv_text.CsvReader(io.BytesIO(text.encode()), "it", ",")]
    assert found == rows
    assert list(csv.reader(io.StringIO(text, newline=""))) == [[cell or "" for cell in row] for row in rows]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_rows_of_csv_may_be_cut_anywhere_by_a_pipe(size: int):
    class Slow(io.BytesIO):
        def read1(self, most: int | None = -1, /) -> bytes:
            return super().read(size)

    text = '\ufeffvalue,key\r\n"a ""quoted""\r\nword",\r\n,""\n\n"",ä\r5" pipe,"x"'
    rows = list(csv_text.CsvReader(Slow(text.encode()), "it", ","))
    assert [row.cells for row in rows] == [
        ["value", "key"],
        ['a "quoted"\r\nword', None],
        [None, ""],
        [None],
        ["", "ä"],
        ['5" pipe', "x"],
    ]
    assert [row.line for row in rows] == [1, 3, 4, 5, 6, 7]


def test_a_value_of_many_megabytes_goes_through_csv():
    value = b'"' * 100 + b"x,\n" * 1_000_000
    message = {name: None for name in COLUMNS.names} | {"topic": "t", "partition": 0, "offset": 1, "id": "i", "created": 0, "arrived": 0}
    message |= {"producer_group": "g", "value": value}
    (row,) = taken("csv", printed("csv", [batch_of([message])]))
    assert row["value"] == value


def test_a_quote_that_is_never_closed_ends_before_memory_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(csv_text, "ROW_CHARACTERS_MAX", 1 << 20)
    monkeypatch.setattr(csv_text, "READ_BYTES", 1 << 16)
    stream = io.BytesIO(b'value\na\n"never closed' + b"\nx" * (4 << 20))
    tables = inputs.csv_rows(stream, "it", ",")
    assert next(tables).column("value").to_pylist() == [b"a"]
    with pytest.raises(errors.Rejected, match=r"it line 3 is part of a row of more than 1 Mi characters\. Is there a quote"):
        next(tables)
    assert stream.tell() < 4 << 20


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('value,key\n"a"b,c\n', "it line 2 is not CSV: ',' expected after '\"'."),
        ('value,key\na,b\n"c\nd', "it line 3 is not CSV: unexpected end of data."),
        ("value,key,value\n", "it line 1 has the column 'value' twice. Give each column once."),
        ("value,attributes.a,attributes.a\n", "it line 1 has the column 'attributes.a' twice."),
        ('value,key\n"{""base64"":""A""}",k\n', "it line 2: value: 'A' is not base64."),
        ("value,key\n\na,b,c\n", "it line 3 has 3 of the header's 2 cells."),
        ("value.a,key\n", "it line 1: 'value.a' is not a field of a message. Did you mean 'value'?"),
        ("value,,key\n", "it line 1: '' is not a field of a message."),
    ],
)
def test_wrong_csv_is_refused_with_its_line(text: str, says: str):
    with pytest.raises(errors.Rejected) as refused:
        list(inputs.csv_rows(io.BytesIO(text.encode()), "it", ","))
    assert says in str(refused.value)


def test_quoted_cells_that_cannot_be_empty_are_nothing():
    text = b'"value","key","id","due","attributes","attributes.a","attributes.b"\n"","","","","","",\n'
    (row,) = taken("csv", text)
    assert row == {"value": b"", "key": b"", "attributes": {"a": ""}, "id": None, "created": None, "due": None, "expires": None}


@pytest.mark.parametrize("separator", [";", "\t", "|", "^", "]", "-"])
def test_csv_has_other_separators(separator: str):
    data = f'value{separator}key\n"a{separator}b"{separator}c\n'.encode()
    (table,) = inputs.csv_rows(io.BytesIO(data), "it", separator)
    assert table.to_pylist() == [{"key": b"c", "value": f"a{separator}b".encode()}]


@pytest.mark.parametrize("form", ["json", "csv", "lines"])
def test_a_byte_order_mark_at_the_beginning_is_no_part_of_the_input(form: str):
    text = {"json": '{"value":"\ufeffa"}\n', "csv": "value\n\ufeffa\n", "lines": "x\n\ufeffa\n"}[form]
    stream = io.BytesIO(b"\xef\xbb\xbf" + text.encode())
    tables = {"json": inputs.json_lines, "csv": lambda s, n: inputs.csv_rows(s, n, ","), "lines": lambda s, n: inputs.lines(s, n, None)}
    (table,) = tables[form](stream, "it")
    assert table.column("value").to_pylist()[-1] == "\ufeffa".encode()
    assert table.column("value").to_pylist()[0] in (b"x", "\ufeffa".encode())
    assert list(tables[form](io.BytesIO(b"\xef\xbb\xbf"), "it")) == []


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_lines_end_in_lf_or_crlf_which_are_no_part_of_them(end: bytes):
    class Slow(io.BytesIO):
        def read1(self, most: int | None = -1, /) -> bytes:
            return super().read(2)

    for stream in (io.BytesIO, Slow):
        tables = inputs.lines(stream(b"a\r\nb\n\r\nc\rd\r\re" + end), "it", None)
        assert [value for table in tables for value in table.column("value").to_pylist()] == [b"a", b"b", b"", b"c\rd\r\re"]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["value", "key", "value"], "it has the column 'value' twice. Give each column once."),
        (["value", "json"], "it has both 'value' and 'json'. Give the payload once, as 'value'."),
        (["json"], "it has a column 'json', which only JSON and CSV may have. Give the payload once, as 'value'."),
        (["topic", "offset"], "it has no column that a message has. Use 'key', 'value', 'attributes'"),
        (["price"], "it: 'price' is not a field of a message."),
    ],
)
def test_files_with_columns_that_do_not_go_together_are_refused_in_a_sentence(form: str, names: list[str], says: str):
    import pyarrow.parquet

    table = pa.Table.from_arrays([pa.array(["a"])] * len(names), names=names)
    sink = pa.BufferOutputStream()
    if form == "parquet":
        pyarrow.parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(errors.Rejected) as refused:
        taken(form, sink.getvalue().to_pybytes())
    assert str(refused.value).startswith(says)


def test_large_rows_are_given_before_there_are_many():
    line = b'{"value":"' + b"x" * (1 << 20) + b'"}\n'
    tables = inputs.json_lines(io.BytesIO(line * 20), "it")
    assert next(tables).num_rows == 9


def test_an_arrow_file_is_not_read_whole():
    sink = io.BytesIO()
    batch = pa.record_batch({"value": pa.array([b"x" * 1000] * 1000)})
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(20):
            writer.write_batch(batch)

    class Counted(io.BytesIO):
        read_bytes = 0

        def readinto(self, buffer: Any, /) -> int:
            count = super().readinto(buffer)
            self.read_bytes += count
            return count

    stream = Counted(sink.getvalue())
    assert next(inputs.arrow(stream, "it")).num_rows == 1000
    assert stream.read_bytes < 3_000_000
