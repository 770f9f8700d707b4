"""Prints the messages of `read` and `consume`: as JSON, CSV, a table, bare values, by a format
string, as Arrow or as Parquet.

Each form takes batches and writes bytes to stdout. JSON has the names of a message's fields, in the
form that `produce --input json` takes. Bytes that are not UTF-8 are `{"base64": "…"}` there and in
CSV, which also survives the round trip (`csv_text`).
"""

from __future__ import annotations

import base64
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from bowstring import errors, times
from bowstring.cli import csv_text, options
from bowstring.cli.commands import either, no_such
from bowstring.cli.output import FORMATS, age

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = (
    *("topic", "partition", "offset", "id", "key", "value"),
    *("attributes", "created", "arrived", "due", "expires", "producer_group"),
)
TABLE_COLUMNS: Final = ("partition", "offset", "arrived", "key", "value", "attributes")
LEASE_COLUMNS: Final = ("retry_count", "age", "lease_end")
"""What a consumer's message has in addition."""
LEASED_COLUMNS: Final = (*COLUMNS, *LEASE_COLUMNS)
LEASED_TABLE_COLUMNS: Final = ("partition", "offset", "age", "retry_count", "key", "value", "attributes")
LEAST: Final = {"offset": 6, "age": 7, "key": 12}
"""Least widths in a table: the first message of a queue comes alone, and later ones are wider."""
TIMES: Final = ("created", "arrived", "due", "expires", "lease_end")
NUMBERS: Final = ("partition", "offset", "retry_count", "age")
TEXTS: Final = ("topic", "id", "key", "value", "attributes", "producer_group")
ROW_GROUP_ROWS: Final = 1 << 17
_PLACE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class OutputForm:
    """Writes batches."""

    def __init__(self, out: BinaryIO, columns: Sequence[str]) -> None:
        self._out = out
        self.columns = columns

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes all rows of a batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Writes the end of the output."""


class Json(OutputForm):
    """An object per line."""

    def write(self, batch: pa.RecordBatch) -> None:
        encode = msgspec.json.Encoder().encode
        names = self.columns
        self._out.write(b"".join([encode(dict(zip(names, row, strict=True))) + b"\n" for row in rows(batch, names)]))


class Csv(OutputForm):
    """A header, then a row per message."""

    def __init__(self, out: BinaryIO, columns: Sequence[str]) -> None:
        super().__init__(out, columns)
        self._headed = False

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [_csv_cells(batch, name) for name in self.columns]
        if not self._headed:
            self._headed = True
            self._out.write(csv_text.line(self.columns).encode())
        self._out.write("".join(map(csv_text.line, zip(*columns, strict=True))).encode())


class Raw(OutputForm):
    """The values, a line each."""

    def write(self, batch: pa.RecordBatch) -> None:
        self._out.write(b"".join([(value or b"") + b"\n" for value in batch.column("value").to_pylist()]))


class Format(OutputForm):
    """A line per message, by a text with {fields} in it."""

    def __init__(self, out: BinaryIO, template: str, known: Sequence[str] = COLUMNS) -> None:
        self._parts, columns = parse_format(template, known)
        super().__init__(out, columns)

    def write(self, batch: pa.RecordBatch) -> None:
        for row in rows(batch, self.columns):
            fields = dict(zip(self.columns, row, strict=True))
            line = b"".join([part if isinstance(part, bytes) else part(fields) for part in self._parts])
            self._out.write(line + b"\n")


Part = bytes | Callable[[dict[str, Any]], bytes]


def parse_format(template: str, known: Sequence[str] = COLUMNS) -> tuple[list[Part], list[str]]:
    """The parts of a format string, and the columns that it needs."""
    template = re.sub(r"\\[ntr0\\]", lambda match: _ESCAPES[match[0]], template)
    parts: list[Part] = []
    columns: dict[str, None] = {}
    end = 0
    for match in _PLACE.finditer(template):
        parts.append(template[end : match.start()].encode())
        end = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(match[0][:1].encode())
            continue
        if match[1] is None:
            raise errors.InvalidArgument(
                f"--format has a single '{match[0]}'.", hint="Write {offset} for a field, and {{ or }} for a brace."
            )
        name, _, attribute = match[1].partition(".")
        if name not in known or (attribute and name != "attributes"):
            hint = f"Use {either(f'{{{column}}}' for column in known)}, or '{{attributes.country}}'."
            raise errors.InvalidArgument(f"--format has {match[0]}, which is not a field of a message.", hint=hint)
        columns[name] = None
        parts.append(_part(name, attribute))
    parts.append(template[end:].encode())
    return [part for part in parts if part], list(columns) or ["offset"]


def _part(name: str, attribute: str) -> Callable[[dict[str, Any]], bytes]:
    if attribute:
        return lambda fields: (fields[name] or {}).get(attribute, "").encode()
    return lambda fields: _plain(fields[name])


def _plain(value: Any) -> bytes:
    if isinstance(value, dict) and list(value) == ["base64"]:
        return base64.b64decode(value["base64"])
    return str(_cell(value)).encode()


class Table(OutputForm):
    """Rows that fit the terminal. The first rows decide the widths; later rows are cut to them."""

    def __init__(self, out: BinaryIO, columns: Sequence[str], width: int | None = None) -> None:
        super().__init__(out, columns)
        self._width = width or (shutil.get_terminal_size().columns if out.isatty() else 200)
        self._bold = out.isatty() and options.colours()
        self._widths: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        cells = [[_shown(name, cell) for name, cell in zip(self.columns, row, strict=True)] for row in rows(batch, self.columns)]
        if not self._widths:
            self._widths = self._fitted(cells)
            head = self._line([name for name in self.columns])
            self._out.write((f"\x1b[1m{head}\x1b[0m\n" if self._bold else head + "\n").encode())
        self._out.write("".join([self._line(row) + "\n" for row in cells]).encode())

    def _fitted(self, cells: list[list[str]]) -> list[int]:
        """Gives each column the width that it needs, then narrows the widest until all fit: texts
        first, because cutting them does less harm than cutting numbers and times.
        """
        widths = [max([displayed(name), *(displayed(row[number]) for row in cells)]) for number, name in enumerate(self.columns)]
        least = LEAST if "age" in self.columns else {"offset": LEAST["offset"]}
        widths = [max(width, least.get(name, 0)) for name, width in zip(self.columns, widths, strict=True)]
        while sum(widths) + 2 * (len(widths) - 1) > self._width and max(widths) > 3:
            texts = [number for number, name in enumerate(self.columns) if name in TEXTS and widths[number] > 8]
            widths[max(texts or range(len(widths)), key=widths.__getitem__)] -= 1
        return widths

    def _line(self, cells: list[str]) -> str:
        padded = [_fit(cell, width, right=name in NUMBERS) for name, cell, width in zip(self.columns, cells, self._widths, strict=True)]
        return "  ".join(padded).rstrip()


class Arrow(OutputForm):
    """An Arrow IPC stream."""

    def __init__(self, out: BinaryIO, columns: Sequence[str]) -> None:
        super().__init__(out, columns)
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        batch = batch.select(self.columns)
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._out, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._out, empty(self.columns).schema)
        self._writer.close()


class Parquet(OutputForm):
    """A Parquet file, in row groups of many batches."""

    def __init__(self, out: BinaryIO, columns: Sequence[str]) -> None:
        super().__init__(out, columns)
        self._writer: Any = None
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch.select(self.columns))
        if sum(batch.num_rows for batch in self._batches) >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_batches(self._batches or [empty(self.columns)])
        self._batches = []
        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._out, table.schema)
        if table.num_rows:
            self._writer.write_table(table)

    def close(self) -> None:
        if self._batches or self._writer is None:
            self._flush()
        writer: Any = self._writer
        writer.close()


def form(name: str, out: BinaryIO, columns: Sequence[str] | None, *, several: bool = False, known: Sequence[str] = COLUMNS) -> OutputForm:
    """The form of this name. A table of several topics has a column for the topic."""
    if name == "table":
        shown = LEASED_TABLE_COLUMNS if known is LEASED_COLUMNS else TABLE_COLUMNS
        return Table(out, columns or (("topic", *shown) if several else shown))
    forms = {"json": Json, "csv": Csv, "raw": Raw, "arrow": Arrow, "parquet": Parquet}
    return forms[name](out, [column for column in known if columns is None or column in columns])


def chosen(
    output: str | None, format: str | None, columns: str | None, *, several: bool = False, known: Sequence[str] = COLUMNS
) -> OutputForm:
    """The form that the flags ask for, to stdout."""
    out = sys.stdout.buffer
    if format is not None:
        if output is not None or columns is not None:
            raise errors.InvalidArgument("--format was given with --output or --columns.", hint="It says itself what is printed.")
        return Format(out, format, known)
    name = output or options.given.output or ("table" if sys.stdout.isatty() else "json")
    if name not in FORMATS:
        raise no_such("output", name, FORMATS)
    if name in ("arrow", "parquet") and sys.stdout.isatty():
        raise errors.InvalidArgument(f"{name} is not for a terminal.", hint=f"Send it to a file: -o {name} > FILE.")
    return form(name, out, _chosen_columns(columns, known), several=several, known=known)


def _chosen_columns(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise no_such("column", name, known)
    return list(dict.fromkeys(names))


def empty(columns: Sequence[str]) -> pa.RecordBatch:
    """No rows, with the columns of a reader's batch, or of a consumer's."""
    import pyarrow as pa

    from bowstring.client.pages import COLUMNS as READ

    kinds = {"retry_count": pa.int32(), "age": pa.duration("us"), "lease_end": pa.timestamp("us", "UTC")}
    schema = pa.schema([READ.field(name) if name in COLUMNS else pa.field(name, kinds[name]) for name in columns])
    return pa.RecordBatch.from_pylist([], schema)


# ---- cells -----------------------------------------------------------------------------------------------------------


def rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, each cell as JSON has it."""
    return zip(*[_cells(batch, name) for name in columns], strict=True)


def _cells(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name in ("key", "value"):
        return [None if cell is None else _text(cell) for cell in batch.column(name).to_pylist()]
    if name == "attributes":
        return [dict(cell) if cell else {} for cell in batch.column(name).to_pylist()]
    if name in TIMES:
        return [None if cell is None else times.to_text(cell) for cell in batch.column(name).cast("int64").to_pylist()]
    if name == "age":
        return [cell / 1e6 for cell in batch.column(name).cast("int64").to_pylist()]
    return batch.column(name).to_pylist()


def _csv_cells(batch: pa.RecordBatch, name: str) -> list[str | None]:
    """A column as CSV has it. Attributes are a JSON object."""
    if name in ("key", "value"):
        return [None if cell is None else csv_text.text_of(cell) for cell in batch.column(name).to_pylist()]
    return [None if cell is None or cell == {} else str(_cell(cell)) for cell in _cells(batch, name)]


def _text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _cell(value: Any) -> Any:
    if value is None or value == {}:
        return ""
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


def _shown(name: str, value: Any) -> str:
    """A cell for a terminal: on one line, and without control characters."""
    if value is None or value == {}:
        return "–" if value is None else ""
    if name == "age":
        return age(value)
    if name in TIMES:
        return f"{value[:10]} {value[11:19]}Z"  # as --start takes it
    if name == "attributes":
        text = " ".join(f"{key}={text}" for key, text in value.items())
    elif isinstance(value, dict):
        text = "0x" + base64.b64decode(value["base64"])[:256].hex()
    else:
        text = str(value)
    return "".join([character if character.isprintable() else _visible(character) for character in text[:1000]])


def _visible(character: str) -> str:
    return {"\n": "⏎", "\t": "⇥"}.get(character, "·")


def displayed(text: str) -> int:
    """The width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _fit(text: str, width: int, *, right: bool) -> str:
    if displayed(text) > width:
        while displayed(text) > width - 1:
            text = text[: max(width - 1, len(text) - (displayed(text) - width) - 1)] if text.isascii() else text[:-1]
        text += "…"
    space = " " * (width - displayed(text))
    return space + text if right else text + space
