"""`bowstring produce` and `bowstring read`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import bowstring
from bowstring import errors
from bowstring.cli import forms, produce
from tests.process import ephemeral
from tests.process.commanding import Commander, commanding

SENT = ("key", "value", "attributes", "id", "created", "due", "expires")


broker = ephemeral.broker_on_request


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commander]:
    monkeypatch.chdir(tmp_path)
    yield from commanding(broker, tmp_path, orders=2, copy=3)


@pytest.fixture
def filled(command: Commander) -> Commander:
    """A broker with messages of all kinds in `orders`."""
    command.done("produce", "orders", "-v", "one", "-v", "two", "--key", "k", "--attribute", "country=CH", "--expires", "1h")
    command.done("produce", "orders", "-v", "paid", "--id", "order-7", "--at", "2030-01-01T00:00Z", "--group", "shop")
    command.done("produce", "orders", "--input", "raw", stdin=b"\xff\xfe")
    command.done("produce", "orders", stdin='a\nb, "c"\n\nlast')
    return command


def values(command: Commander, *arguments: str) -> list[bytes]:
    return command.done("read", "orders", "-o", "raw", *arguments).out.split(b"\n")[:-1]


# Publishing


def test_values_are_told_one_by_one(command: Commander):
    first, second = command.done("produce", "orders", "-v", "one", "-v", "two", "--key", "k").rows
    assert (first["topic"], first["offset"], second["offset"], first["duplicate"]) == ("orders", 1, 2, False)
    assert first["partition"] == second["partition"]
    assert first["id"] != second["id"]
    again = [command.done("produce", "orders", "-v", "x", "--id", "order-7").rows[0] for _ in range(2)]
    assert [row["duplicate"] for row in again] == [False, True]
    assert "stored before" in command.done("produce", "orders", "-v", "x", "--id", "order-7", "-o", "table").text


def test_flags_are_in_the_messages(filled: Commander):
    rows = filled.done("read", "orders").rows
    one = next(row for row in rows if row["value"] == "one")
    assert (one["key"], one["attributes"]) == ("k", {"country": "CH"})
    assert one["expires"] > one["created"]
    paid = next(row for row in rows if row["value"] == "paid")
    assert (paid["id"], paid["due"], paid["producer_group"]) == ("order-7", "2030-01-01T00:00:00.000000Z", "shop")
    assert {"base64": "//4="} in [row["value"] for row in rows]


def test_lines(command: Commander):
    told = command.done("produce", "orders", "--key", "k", stdin="a\n\nb\r\nlast").rows
    (offsets,) = told[0]["offsets"].values()
    assert (told[0]["messages"], offsets) == (4, [1, 4])
    assert values(command) == [b"a", b"", b"b", b"last"]
    text = command.done("produce", "orders", "-o", "table", "--key", "k", stdin="c\n").text
    assert text.startswith("1 message is stored in orders (")


def test_keys_before_a_separator(command: Commander):
    assert command("produce", "orders", "--separator", ":", stdin="k:a:b\nj:c\nnone\nl:d").code == 1
    assert sorted((row["key"], row["value"]) for row in command.done("read", "orders").rows) == [("j", "c"), ("k", "a:b")]


def test_receipts_for_each_row(command: Commander):
    rows = command.done("produce", "orders", "--receipts", "--key", "k", stdin="a\nb\n").rows
    assert [row["offset"] for row in rows] == [1, 2]
    assert [row["id"] for row in rows] == [row["id"] for row in command.done("read", "orders").rows]


def test_nothing_is_published_and_that_is_no_error(command: Commander):
    assert command.done("produce", "orders").rows == [{"topic": "orders", "messages": 0, "duplicates": 0, "offsets": {}}]
    assert command.done("produce", "orders", "--input", "csv").rows[0]["messages"] == 0
    assert command.done("produce", "orders", "--input", "json", stdin="\n \n").rows[0]["messages"] == 0


def test_csv_with_attributes(command: Commander, tmp_path: Path):
    rows = '"one, ""two""",k,CH,2030-01-01T00:00Z\n,,,\n"","","",""\n'
    (tmp_path / "in.csv").write_text(f"value,key,attributes.country,due\n{rows}")
    command.done("produce", "orders", "in.csv")
    first, second, third = sorted(command.done("read", "orders").rows, key=lambda row: str(row["value"]), reverse=True)
    assert (first["value"], first["key"], first["attributes"]) == ('one, "two"', "k", {"country": "CH"})
    assert (second["value"], second["key"], second["attributes"], second["due"]) == (None, None, {}, None)
    assert (third["value"], third["key"], third["attributes"], third["due"]) == ("", "", {"country": ""}, None)


def test_several_files_each_by_its_ending(command: Commander, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"value": "from json"}\n{"json": {"order": 7}}\n')
    (tmp_path / "b.csv").write_text("value\nfrom csv\n")
    (tmp_path / "c.txt").write_text("a line\n")
    pyarrow.parquet.write_table(pa.table({"value": ["from parquet"], "offset": [5]}), tmp_path / "d.parquet")
    with pa.ipc.new_file(str(tmp_path / "e.arrow"), pa.schema({"value": pa.utf8()})) as writer:
        writer.write_table(pa.table({"value": ["from arrow"]}))
    told = command.done("produce", "orders", "--attribute", "a=b", "a.jsonl", "b.csv", "c.txt", "d.parquet", "e.arrow").rows
    assert told[0]["messages"] == 6
    assert sorted(values(command)) == [b"a line", b"from arrow", b"from csv", b"from json", b"from parquet", b'{"order":7}']
    assert {row["attributes"]["a"] for row in command.done("read", "orders").rows} == {"b"}


def test_what_comes_before_something_wrong_is_stored_and_told(command: Commander):
    ended = command(
        "produce", "orders", "--input", "json", "--key", "k", stdin='{"value": "a"}\n{"value": "b"}\n{"value": 5}\n{"value": "c"}\n'
    )
    assert ended.code == 1
    assert ended.rows[0]["messages"] == 2
    assert ended.said.startswith("bowstring: stdin line 3: value: 5 is not text.")
    assert values(command) == [b"a", b"b"]


def test_a_value_that_is_too_large(broker: bowstring.Broker, command: Commander):
    ended = command("produce", "orders", "--input", "raw", stdin=b"x" * (17 * 2**20))
    assert (ended.code, ended.out) == (1, b"")
    assert "a batch may have 16 MiB here" in ended.said


@pytest.mark.parametrize(
    ("error", "code"), [(errors.Full("full."), 3), (errors.OutcomeUnknown("who knows."), 4), (errors.TooLarge("large."), 1)]
)
def test_what_the_broker_does_not_take(command: Commander, monkeypatch: pytest.MonkeyPatch, error: errors.Error, code: int):
    class Answers:
        refused = {1: error}
        ok, partitions, offsets = pa.array([True, False]), pa.array([0, 0]), pa.array([1, None])

        def __len__(self) -> int:
            return 2

    class Receipt:
        def done(self) -> bool:
            return True

        def result(self) -> Answers:
            return Answers()

    monkeypatch.setattr(produce.Publishing, "_send", lambda self, table: (self._under_way.append((Receipt(), 10)), self._settle()))
    ended = command("produce", "orders", stdin="a\nb\n")
    assert (ended.code, ended.rows[0]["messages"]) == (code, 1)
    assert f"bowstring: message 12: {error.message}" in ended.said


# Reading


def test_json_goes_round(filled: Commander):
    read = filled.done("read", "orders", "-o", "json")
    assert filled.done("produce", "copy", "--input", "json", stdin=read.out).rows[0]["messages"] == len(read.rows)
    there, here = (
        sorted([{name: row[name] for name in SENT} for row in rows], key=json.dumps)
        for rows in (filled.done("read", "copy").rows, read.rows)
    )
    assert there == here
    again = filled.done("produce", "copy", "--input", "json", stdin=read.out)
    assert len(filled.done("read", "copy").rows) == len(read.rows), again


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_files_go_round(filled: Commander, form: str):
    read = filled.done("read", "orders", "-o", form)
    table = pa.ipc.open_stream(read.out).read_all() if form == "arrow" else pyarrow.parquet.read_table(io.BytesIO(read.out))
    assert table.num_rows == 8
    assert table.schema.names == list(forms.COLUMNS)
    filled.done("produce", "copy", "--input", form, stdin=read.out)
    there, here = (
        sorted([{name: row[name] for name in SENT} for row in filled.done("read", topic).rows], key=json.dumps)
        for topic in ("copy", "orders")
    )
    assert there == here


@pytest.mark.parametrize("form", ["arrow", "parquet", "json", "csv", "table", "raw"])
def test_an_empty_topic_is_no_error(command: Commander, form: str):
    read = command.done("read", "orders", "-o", form)
    if form in ("arrow", "parquet"):
        assert command.done("produce", "copy", "--input", form, stdin=read.out).rows[0]["messages"] == 0
    else:
        assert read.out == b""


def test_csv_and_columns(filled: Commander):
    lines = filled.done("read", "orders", "--columns", "value,key,attributes", "-o", "csv").text.splitlines()
    assert lines[0] == "key,value,attributes"
    assert 'k,one,"{""country"":""CH""}"' in lines
    assert filled.done("read", "orders", "--columns", "offset", "--limit", "1").rows == [{"offset": 1}]


def test_format_strings(filled: Commander):
    text = filled.done("read", "orders", "--format", r"{{{partition}}}\t{key}|{value}|{attributes.country}|{attributes}|\\").out
    assert b'\tk|one|CH|{"country":"CH"}|\\\n' in text
    assert b"\t|\xff\xfe|||\\\n" in text
    assert text.startswith(b"{")


def test_starts_ends_and_limits(command: Commander):
    command.done("produce", "orders", "--key", "k", stdin="".join(f"{number}\n" for number in range(1, 11)))
    partition = command.done("read", "orders", "--limit", "1").rows[0]["partition"]
    every = [b"%d" % number for number in range(1, 11)]
    for arguments, expected in (
        (["--start", "8"], every[7:]),
        (["--end", "3"], every[:2]),
        (["--start", "2", "--end", "4"], every[1:3]),
        (["--start", f"{partition}:9"], every[8:]),
        (["--start", "latest"], []),
        (["--last", "3"], every[7:]),
        (["--start", "-3"], every[7:]),
        (["--last", "100"], every),
        (["--limit", "4"], every[:4]),
        (["--limit", "10"], every),
        (["--partition", str(1 - partition)], []),
        (["--partition", str(partition), "--last", "1"], every[9:]),
    ):
        assert values(command, *arguments) == expected, arguments


def test_the_newest_over_all_partitions(command: Commander):
    for number in range(12):
        command.done("produce", "orders", "-v", str(number), "--key", f"key {number}")
    partitions = {row["partition"] for row in command.done("read", "orders").rows}
    assert len(partitions) == 2
    assert sorted(map(int, values(command, "--last", "5"))) == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_the_terminal(width: int):
    batch = pa.record_batch(
        {
            "partition": pa.array([0, 11], pa.int32()),
            "offset": pa.array([1, 12345], pa.int64()),
            "arrived": pa.array([0, 1], pa.timestamp("us", "UTC")),
            "key": pa.array([b"k" * 50, None], pa.binary()),
            "value": pa.array(["漢字" * 60, "line\n\x1b[31m and \ttab"], pa.utf8()).cast(pa.binary()),
            "attributes": pa.array([[("country", "CH")], None], pa.map_(pa.utf8(), pa.utf8())),
        }
    )
    out = io.BytesIO()
    forms.Table(out, forms.TABLE_COLUMNS, width).write(batch)
    lines = out.getvalue().decode().splitlines()
    assert len(lines) == 3
    assert max(forms.displayed(line) for line in lines) <= width
    assert "…" in lines[1]
    assert "1970-01-01 00:00:00" in lines[2]
    assert "line⏎·[31m" in lines[2]
    assert "\x1b" not in "".join(lines)
