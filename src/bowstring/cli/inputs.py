"""What `bowstring produce` is given, as Arrow tables: lines, JSON, CSV, Arrow, Parquet, or a whole file as one message.

Each input is a generator of tables with the columns of a batch (`value`, and any of key, attributes, id, created, due, expires). What a
reader's output has besides (topic, partition, offset, arrived, producer_group) is left out, so that `read` pipes into `produce`. Rows that
come before something wrong are given first: they are published, and the error says where it was found.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa

from bowstring import errors, times
from bowstring.cli.commands import either

CHUNK_BYTES: Final = 1 << 20
CHUNK_ROWS: Final = 10_000
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
LEFT_OUT: Final = ("topic", "partition", "offset", "arrived", "producer_group", "transaction")
_VALUE_HINT: Final = 'Right would be text, {"base64": "…"} for bytes, or "json": … for a value to be written as JSON.'

Tables = Iterator[pa.Table]
Row = dict[str, Any]


def lines(stream: BinaryIO, name: str, separator: bytes | None) -> Tables:
    """A message per line; with a separator what is before its first one is the key. What has arrived is given at once."""
    rest = b""
    first = 1
    while read := _read1(stream, CHUNK_BYTES):
        whole, newline, rest = (rest + read).rpartition(b"\n")
        if newline:
            values = whole.split(b"\n")
            yield from _of_lines(values, name, separator, first)
            first += len(values)
    if rest:
        yield from _of_lines([rest], name, separator, first)


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
        raise errors.Rejected(f"{name} line {first + wrong} has no separator '{shown}'.", hint="What is before it is the key.")


def whole(stream: BinaryIO, name: str) -> Tables:
    """All of it is one message."""
    yield pa.table({"value": pa.array([stream.read()], pa.binary())})


def json_lines(stream: BinaryIO, name: str) -> Tables:
    """An object per line, with the keys that `read -o json` prints."""
    decode = msgspec.json.Decoder().decode

    def rows() -> Iterator[Row]:
        for number, line in enumerate(stream, 1):
            if line.isspace():
                continue
            where = f"{name} line {number}"
            try:
                given = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise errors.Rejected(
                    f"{where} is not JSON: {error}.", hint='Right would be an object per line: {"value": "one"}.'
                ) from None
            if not isinstance(given, dict):
                raise errors.Rejected(f"{where} is not a JSON object.", hint='Right would be {"value": "one"}, or --input lines.')
            yield _row(given, where)

    return _tables(rows())


def csv_rows(stream: BinaryIO, name: str, separator: str) -> Tables:
    """A header, then a row per message. Columns are those of a batch; `attributes.country` is an attribute."""
    text = (line.decode().removeprefix("\ufeff" if number == 0 else "") for number, line in enumerate(stream))
    reader = csv.reader(text, delimiter=separator, strict=True)

    def rows() -> Iterator[Row]:
        try:
            header = next(reader, None)
            if header is None:
                return
            _check_names([column.partition(".")[0] for column in header], f"{name} line 1")
            for cells in reader:
                where = f"{name} line {reader.line_num}"
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise errors.Rejected(f"{where} has {len(cells)} of the header's {len(header)} cells.", hint="Quote cells with commas.")
                yield _row(_of_cells(header, cells, where), where)
        except UnicodeDecodeError:
            raise errors.Rejected(f"{name} is not UTF-8.", hint="Save it as UTF-8.") from None
        except csv.Error as error:
            where = f"{name} line {reader.line_num}"
            raise errors.Rejected(f"{where} is not CSV: {error}.", hint="See --separator for others than commas.") from None

    return _tables(rows())


def _of_cells(header: list[str], cells: list[str], where: str) -> Row:
    """An empty cell is nothing, but of `value` it is an empty value."""
    row: Row = {}
    for column, cell in zip(header, cells, strict=True):
        field, dot, attribute = column.partition(".")
        if dot and field == "attributes":
            if cell:
                row.setdefault("attributes", {})[attribute] = cell
        elif column == "attributes" and cell:
            try:
                row.setdefault("attributes", {}).update(msgspec.json.decode(cell))
            except (msgspec.DecodeError, TypeError, ValueError):
                raise errors.Rejected(
                    f"{where}: attributes is not a JSON object: '{cell}'.", hint='Right would be {"country": "CH"}.'
                ) from None
        elif cell or column == "value":
            row[column] = cell
    return row


def arrow(stream: BinaryIO, name: str) -> Tables:
    """Arrow IPC, the stream or the file."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # pyright: ignore[reportArgumentType]
    try:
        if buffered.peek(6)[:6] == b"ARROW1":
            file = pa.ipc.open_file(pa.py_buffer(buffered.read()))
            batches: Iterable[pa.RecordBatch] = (file.get_batch(number) for number in range(file.num_record_batches))
        else:
            batches = pa.ipc.open_stream(buffered)
        yield from _columns(batches, name)
    except (pa.ArrowException, EOFError) as error:
        raise errors.Rejected(f"{name} is not Arrow: {_first_line(error)}.", hint="Right would be an Arrow IPC stream or file.") from None


def parquet(stream: BinaryIO, name: str) -> Tables:
    """A Parquet file. From a pipe it is read whole first, because its index is at its end."""
    import pyarrow.parquet

    try:
        source = stream if stream.seekable() else pa.py_buffer(stream.read())
        file = pyarrow.parquet.ParquetFile(source)
        yield from _columns(file.iter_batches(batch_size=65536), name)
    except pa.ArrowException as error:
        raise errors.Rejected(f"{name} is not Parquet: {_first_line(error)}.", hint="See --input for other forms.") from None


def _columns(batches: Iterable[pa.RecordBatch], name: str) -> Tables:
    for batch in batches:
        _check_names(batch.schema.names, name)
        kept = [column for column in batch.schema.names if column in TAKEN]
        if batch.num_rows:
            yield pa.Table.from_batches([batch]).select(kept)


# ---- rows of JSON and CSV --------------------------------------------------------------------------------------------


def _tables(rows: Iterator[Row]) -> Generator[pa.Table]:
    """Rows in tables. What is wrong with a row is raised when those before it have been given."""
    chunk: list[Row] = []
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == CHUNK_ROWS:
                yield table(chunk)
                chunk = []
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
        if name not in TAKEN and name not in LEFT_OUT and name != "json":
            close = difflib.get_close_matches(name, [*TAKEN, "json"], n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"Right would be {either([*TAKEN, 'json'])}."
            raise errors.Rejected(f"{where}: '{name}' is nothing that a message has.", hint=hint)


def _row(given: Mapping[str, Any], where: str) -> Row:
    """A message of an object, checked; names the key that is wrong."""
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
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            raise errors.InvalidArgument(f"'{_short(value['base64'])}' is not base64.", hint=_VALUE_HINT) from None
    raise errors.InvalidArgument(f"{_short(msgspec.json.encode(value).decode())} is not text.", hint=_VALUE_HINT)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise errors.InvalidArgument(f"{_short(msgspec.json.encode(value).decode())} is not text.", hint='Right would be "order-7".')
    return value


def _attributes(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        shown = _short(msgspec.json.encode(value).decode())
        raise errors.InvalidArgument(f"{shown} is not text by text.", hint='Right would be {"country": "CH"}.')
    return list(value.items())


def _moment(value: Any) -> int:
    if not isinstance(value, str) or value[:1] in ("+", "-"):
        shown = _short(msgspec.json.encode(value).decode())
        raise errors.InvalidArgument(f"{shown} is not a moment.", hint='Right would be "2026-11-15T09:30:00.000000Z".')
    try:
        return times.moment_from_text(value, "", 0)
    except errors.InvalidArgument as error:
        hint = error.hint if "time zone" in error.message else 'Right would be "2026-11-15T09:00Z".'
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
