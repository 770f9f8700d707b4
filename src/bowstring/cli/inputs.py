"""Turns the input of `bowstring produce` into Arrow tables: lines, JSON, CSV, Arrow, Parquet, or a
whole file as one message.

Each input is a generator of tables with the columns of a batch (`value`, and any of key,
attributes, id, created, due, expires). The further columns of a reader's or a consumer's output
(topic, partition, offset, arrived, producer_group, retry_count, age, lease_end) are left out, so
that `read` and `consume` pipe into `produce`. An input yields the rows before a mistake first: they
are published, and the error says where the mistake is.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa

from bowstring import errors, times
from bowstring.cli import csv_text
from bowstring.cli.commands import either
from bowstring.cli.forms import LEASE_COLUMNS
from bowstring.messages import schema

CHUNK_BYTES: Final = 1 << 20
CHUNK_ROWS: Final = 10_000
ROWS_BYTES: Final = 8 << 20
"""Bytes of values in one table; an input yields a table as soon as it has this many."""
COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_MOMENT: Final = pa.timestamp("us", "UTC")
TAKEN: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "attributes": pa.map_(pa.utf8(), pa.utf8()),
    "id": pa.utf8(),
    "created": _MOMENT,
    "due": _MOMENT,
    "expires": _MOMENT,
}
ASSIGNED: Final = (*schema.ASSIGNED, *LEASE_COLUMNS)
"""What `read` and `consume` print, and no message can be published with."""
_NEVER_EMPTY: Final = ("id", "attributes", "created", "due", "expires")
_BOM: Final = b"\xef\xbb\xbf"
_VALUE_HINT: Final = 'Use text, {"base64": "…"} for bytes, or "json": … for a value to be written as JSON.'

Tables = Iterator[pa.Table]
Row = dict[str, Any]


def unpacked(stream: BinaryIO, path: str) -> BinaryIO:
    """Decompresses a file whose name says that it is compressed; leaves any other as it is."""
    codec = COMPRESSIONS.get(os.path.splitext(path)[1].lower())
    return stream if codec is None else io.BufferedReader(pa.CompressedInputStream(stream, codec), CHUNK_BYTES)


def lines(stream: BinaryIO, name: str, separator: bytes | None) -> Tables:
    """A message per line. With a separator, the text before its first occurrence is the key. Lines
    are yielded as soon as they arrive. A line ends in LF or CRLF; neither is part of it, nor is a
    byte order mark at the beginning.
    """
    rest = b""
    first = 1
    while read := _read1(stream, CHUNK_BYTES):
        whole, newline, rest = (rest + read).rpartition(b"\n")
        if newline:
            values = _split(whole, first)
            yield from _of_lines(values, name, separator, first)
            first += len(values)
    if rest and rest != _BOM:
        yield from _of_lines(_split(rest, first), name, separator, first)


def _split(text: bytes, first: int) -> list[bytes]:
    text = text.removeprefix(_BOM) if first == 1 else text
    values = text.split(b"\n")
    return [value.removesuffix(b"\r") for value in values] if b"\r" in text else values


def _read1(stream: BinaryIO, size: int) -> bytes:
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(size)


def _of_lines(values: list[bytes], name: str, separator: bytes | None, first: int) -> Tables:
    if separator is None:
        yield pa.table({"value": pa.array(values, pa.binary())})
        return
    split = [line.partition(separator) for line in values]
    wrong = next((row for row, (_, found, _) in enumerate(split) if not found), None)
    if pairs := split[:wrong]:
        keys = pa.array([key for key, _, _ in pairs], pa.binary())
        yield pa.table({"key": keys, "value": pa.array([value for _, _, value in pairs], pa.binary())})
    if wrong is not None:
        shown = separator.decode(errors="backslashreplace")
        raise errors.Rejected(f"{name} line {first + wrong} has no separator '{shown}'.", hint="The text before it is the key.")


def whole(stream: BinaryIO, name: str) -> Tables:
    """All of it is one message."""
    yield pa.table({"value": pa.array([stream.read()], pa.binary())})


def json_lines(stream: BinaryIO, name: str) -> Tables:
    """An object per line, with the keys that `read -o json` prints."""
    decode = msgspec.json.Decoder().decode

    def rows() -> Iterator[Row]:
        for number, line in enumerate(stream, 1):
            line = line.removeprefix(_BOM) if number == 1 else line
            if not line or line.isspace():
                continue
            where = f"{name} line {number}"
            try:
                given = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise errors.Rejected(f"{where} is not JSON: {error}.", hint='Use an object per line: {"value": "one"}.') from None
            if not isinstance(given, dict):
                raise errors.Rejected(f"{where} is not a JSON object.", hint='Use {"value": "one"}, or --input lines.')
            yield _row(given, where)

    return _tables(rows())


def csv_rows(stream: BinaryIO, name: str, separator: str) -> Tables:
    """A header, then a row per message. Columns are those of a batch; `attributes.country` is an
    attribute.
    """
    reader = csv_text.CsvReader(stream, name, separator)

    def rows() -> Iterator[Row]:
        lines = iter(reader)
        header = [column or "" for column in next(lines, csv_text.CsvRow(1, [])).cells]
        _check_names(["attributes" if column.startswith("attributes.") else column for column in header], f"{name} line 1")
        _check_once(header, f"{name} line 1")
        used = [(at, *column.partition(".")) for at, column in enumerate(header) if column not in ASSIGNED]
        for number, cells in lines:
            where = f"{name} line {number}"
            if cells == [None] and len(header) > 1:
                continue
            if len(cells) != len(header):
                raise errors.Rejected(f"{where} has {len(cells)} of the header's {len(header)} cells.", hint="Quote cells with commas.")
            yield _row(_of_cells(used, cells, where), where)

    return _tables(rows())


def _of_cells(used: list[tuple[int, str, str, str]], cells: list[str | None], where: str) -> Row:
    """The cells of a row that have a value. An empty cell counts as null for columns whose text
    cannot be empty.
    """
    row: Row = {}
    for at, column, dot, attribute in used:
        cell = cells[at]
        if cell is None or (not cell and column in _NEVER_EMPTY and not dot):
            continue
        if column in ("key", "value"):
            row[column] = _cell_bytes(column, cell, where)
        elif column != "attributes":
            row[column] = cell
        elif dot:
            row.setdefault("attributes", {})[attribute] = cell
        else:
            row.setdefault("attributes", {}).update(_cell_attributes(cell, where))
    return row


def _cell_attributes(cell: str, where: str) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(cell))
    except (msgspec.DecodeError, TypeError, ValueError):
        hint = 'Use {"country": "CH"}.'
        raise errors.Rejected(f"{where}: attributes is not a JSON object: '{cell}'.", hint=hint) from None


def _cell_bytes(column: str, cell: str, where: str) -> bytes:
    try:
        return csv_text.bytes_of(cell)
    except errors.InvalidArgument as error:
        raise errors.Rejected(f"{where}: {column}: {error.message}", hint=error.hint) from None


def arrow(stream: BinaryIO, name: str) -> Tables:
    """Arrow IPC, the stream or the file. A file is read whole from a pipe, because its index is at
    its end.
    """
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # pyright: ignore[reportArgumentType]
    try:
        if buffered.peek(6)[:6] == b"ARROW1":
            file = pa.ipc.open_file(buffered if buffered.seekable() else pa.py_buffer(buffered.read()))
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
            yield from _columns(file.schema, batches, name)
        else:
            reader = pa.ipc.open_stream(buffered)
            yield from _columns(reader.schema, reader, name)
    except (pa.ArrowException, EOFError) as error:
        raise errors.Rejected(f"{name} is not Arrow: {_first_line(error)}.", hint="Use an Arrow IPC stream or file.") from None


def parquet(stream: BinaryIO, name: str) -> Tables:
    """A Parquet file. From a pipe it is read whole first, because its index is at its end."""
    import pyarrow.parquet

    try:
        source = stream if stream.seekable() else pa.py_buffer(stream.read())
        file = pyarrow.parquet.ParquetFile(source)
        yield from _columns(file.schema_arrow, file.iter_batches(batch_size=65536), name)
    except pa.ArrowException as error:
        raise errors.Rejected(f"{name} is not Parquet: {_first_line(error)}.", hint="See --input for other forms.") from None


def _columns(found: pa.Schema, batches: Iterable[pa.RecordBatch], name: str) -> Tables:
    _check_names(found.names, name)
    _check_once(found.names, name)
    if "json" in found.names:
        what = "both 'value' and 'json'" if "value" in found.names else "a column 'json', which only JSON and CSV may have"
        raise errors.Rejected(f"{name} has {what}.", hint="Give the payload once, as 'value'.")
    kept = [number for number, column in enumerate(found.names) if column in TAKEN]
    if not kept:
        raise errors.Rejected(f"{name} has no column that a message has.", hint=f"Use {either(TAKEN)}.")
    for batch in batches:
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).select(kept)


# ---- rows of JSON and CSV --------------------------------------------------------------------------------------------


def _tables(rows: Iterator[Row]) -> Generator[pa.Table]:
    """Collects rows in tables. Raises the error of a row after yielding the rows before it."""
    chunk: list[Row] = []
    size = 0
    try:
        for row in rows:
            chunk.append(row)
            size += len(row.get("value") or b"")
            if len(chunk) == CHUNK_ROWS or size > ROWS_BYTES:
                yield table(chunk)
                chunk, size = [], 0
    except errors.Rejected:
        if chunk:
            yield table(chunk)
        raise
    if chunk:
        yield table(chunk)


def table(rows: list[Row]) -> pa.Table:
    """Rows as columns."""
    names = [name for name in TAKEN if name == "value" or any(name in row for row in rows)]
    return pa.table({name: pa.array([row.get(name) for row in rows], TAKEN[name]) for name in names})


def _check_names(names: Iterable[str], where: str) -> None:
    import difflib

    for name in names:
        if name not in TAKEN and name not in ASSIGNED and name != "json":
            close = difflib.get_close_matches(name, [*TAKEN, "json"], n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Use {either([*TAKEN, 'json'])}."
            raise errors.Rejected(f"{where}: '{name}' is not a field of a message.", hint=hint)


def _check_once(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen and name not in ASSIGNED:
            raise errors.Rejected(f"{where} has the column '{name}' twice.", hint="Give each column once.")
        seen.add(name)


def _row(given: Mapping[str, Any], where: str) -> Row:
    """The message that an object stands for. Errors name the key that is wrong."""
    _check_names(given, where)
    row: Row = {}
    for name, value in given.items():
        if value is not None and (name in TAKEN or name == "json"):
            try:
                row[name] = _PARSERS[name](value)
            except errors.Error as error:
                raise errors.Rejected(f"{where}: {name}: {error.message}", hint=error.hint) from None
    if "json" in row:
        if "value" in row:
            raise errors.Rejected(f"{where} has both 'value' and 'json'.", hint="Give one of them.")
        row["value"] = row.pop("json")
    return row


def _bytes(value: Any) -> bytes:
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise errors.InvalidArgument(f"'{_short(value['base64'])}' is not base64.", hint=_VALUE_HINT) from None
    raise errors.InvalidArgument(f"{_short(msgspec.json.encode(value).decode())} is not text.", hint=_VALUE_HINT)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise errors.InvalidArgument(f"{_short(msgspec.json.encode(value).decode())} is not text.", hint='Use "order-7".')
    return value


def _attributes(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        shown = _short(msgspec.json.encode(value).decode())
        raise errors.InvalidArgument(f"{shown} is not text by text.", hint='Use {"country": "CH"}.')
    return list(value.items())


def _moment(value: Any) -> int:
    if not isinstance(value, str) or value[:1] in ("+", "-"):
        shown = _short(msgspec.json.encode(value).decode())
        raise errors.InvalidArgument(f"{shown} is not a moment.", hint='Use "2026-11-15T09:30:00.000000Z".')
    try:
        return times.moment_from_text(value, "", 0)
    except errors.InvalidArgument as error:
        hint = error.hint if "time zone" in error.message else 'Use "2026-11-15T09:00Z".'
        raise errors.InvalidArgument(error.message.removeprefix(" = "), hint=hint) from None


_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "key": _bytes,
    "value": _bytes,
    "json": msgspec.json.encode,
    "id": _text,
    "attributes": _attributes,
    "created": _moment,
    "due": _moment,
    "expires": _moment,
}


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else "it is empty"
