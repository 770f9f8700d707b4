"""`bowstring produce TOPIC [FILE…]`: publishes values, lines, or whole files.

This file handles the flags and the files; `publishing` sends their messages, and reports what was
stored.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from bowstring import errors, times
from bowstring.cli import completing
from bowstring.cli.commands import no_such
from bowstring.cli.connecting import Context, Server, Timeout, connect, moment, seconds_of, span, span_until_due
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer
from bowstring.cli.publishing import Publishing

if TYPE_CHECKING:
    import pyarrow as pa

HELP = """Publishes messages: each --value, each line of stdin or of FILEs, or each row of FILEs.

--input says what the input is: `lines` (the default), `json` (an object per line, as `read -o json`
prints it), `csv` (with a header), `arrow`, `parquet`, or `raw` (a whole file is one message). The
ending .json, .jsonl, .ndjson, .csv, .arrow or .parquet of a file says the same. Files that end in
.gz, .zst, .bz2 or .lz4 are unpacked first, except with `raw`. Rows may have value (or json), key,
attributes, id, due, expires and created; flags fill in fields that rows lack.

Lines end in LF or CRLF, and neither is part of the message. In CSV an empty cell is null, a cell
that is `""` is empty text, and `{"base64":"..."}` stands for bytes: the output of `read -o csv`
comes back unchanged.

Everything printed is durable: a row for each value; for input a summary, or with --receipts a row
for each message. Ctrl-C ends the input, waits for the messages under way, and prints what is
stored; a second Ctrl-C ends at once.

A key decides the partition. --partition overrides it; then a key's order holds only among these
messages.

Examples:

\b
  bowstring produce orders -v 'one coffee' -k customer-42 -a country=CH
  printf 'a\\nb\\n' | bowstring produce orders
  echo 'customer-42:one tea' | bowstring produce orders --separator :
  bowstring produce orders --value 'paid' --id order-7 --delay 15m
  bowstring produce orders orders.parquet
  bowstring read orders -o json | bowstring produce orders-copy --input json

Exit codes: 1 something was refused, 3 the broker is unavailable and the rest is certainly not
stored, 4 the outcome is unknown: repeat it; with the same ids nothing is stored twice.
"""
INPUTS: Final = ("lines", "json", "csv", "arrow", "parquet", "raw")
ALIASES: Final = {"text": "lines", "ndjson": "json", "jsonl": "json", "feather": "arrow", "ipc": "arrow"}
ENDINGS: Final = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".arrow": "arrow", ".parquet": "parquet"}
_PACKED: Final = re.compile(r"\.(gz|zst|bz2|lz4)$")


def add_to(app: typer.Typer) -> None:
    app.command("produce", help=HELP)(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completing.topics)],
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Files; - is stdin.", show_default=False)] = None,
    value: Annotated[list[str] | None, typer.Option("--value", "-v", metavar="TEXT", help="A message; may be repeated.")] = None,
    form: Annotated[str | None, typer.Option("--input", "-i", metavar="FORM", help="lines, json, csv, arrow, parquet or raw.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="Messages of one key keep their order.")] = None,
    attribute: Annotated[list[str] | None, typer.Option("--attribute", "-a", metavar="K=V", help="May be repeated.")] = None,
    id: Annotated[str | None, typer.Option("--id", metavar="TEXT", help="The id of one message: published twice, stored once.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="Due after this span: 15m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="MOMENT", help="Due at this moment: 2026-11-15T09:00Z.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="SPAN|MOMENT", help="Not delivered after this.")] = None,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="The producer group, which owns the messages.")] = "default",
    partition: Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="To this partition, whatever the keys.")] = None,
    separator: Annotated[str | None, typer.Option("--separator", metavar="TEXT", help="In lines: the text between key and value.")] = None,
    compression: Annotated[str | None, typer.Option("--compression", metavar="KIND", help="lz4 or zstd.")] = None,
    receipts: Annotated[bool, typer.Option("--receipts", help="Print a row for each message of the input.")] = False,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    printer = Printer(output)
    if value and files:
        raise errors.InvalidArgument("both --value and files were given.", hint="Give one of them.")
    known = form and ALIASES.get(form, form)
    if known and known not in INPUTS:
        raise no_such("input", f"{form}", INPUTS)
    if compression not in (None, "lz4", "zstd"):
        raise no_such("compression", compression, ("lz4", "zstd"))
    filled = FilledBatch(key, attribute, id, delay, at, expires)
    sources = [] if value else [LineSource(name, known, separator) for name in files or ["-"]]
    with connect(server, context, timeout) as client:
        producer = client.producer(topic, group=group, compression=compression, timeout=seconds_of(timeout))
        publishing = Publishing(topic, producer, printer, each=bool(value) or receipts, filled=filled, partition=partition)
        try:
            if value:
                publishing.values(value)
            else:
                publishing.run(sources)
        finally:
            publishing.end()


class FilledBatch:
    """The fields that flags give to messages that lack them."""

    def __init__(
        self, key: str | None, attributes: list[str] | None, id: str | None, delay: str | None, at: str | None, expires: str | None
    ) -> None:
        now = time.time_ns() // 1000
        if delay is not None and at is not None:
            raise errors.InvalidArgument(
                "both --delay and --at were given.", hint="Give --delay for a span from now, or --at for a moment."
            )
        due = None if at is None else moment(at, "--at")
        if delay is not None:
            due = now + times.microseconds(span_until_due(delay))
        self.id = id
        self.columns: dict[str, Any] = {
            "key": None if key is None else key.encode(),
            "attributes": [_attribute(text) for text in attributes] if attributes else None,
            "id": id,
            "due": due,
            "expires": None if expires is None else _expiry(expires, now),
        }

    def into(self, table: pa.Table, rows_before: int) -> pa.Table:
        """The table, with a column for each field that it lacks."""
        import pyarrow as pa

        from bowstring.cli.inputs import TAKEN

        if self.id is not None and rows_before + table.num_rows > 1:
            raise errors.InvalidArgument("--id is the id of one message, and there are more.", hint="Give ids in the input: --input json.")
        for name, given in self.columns.items():
            if given is not None and name not in table.schema.names:
                table = table.append_column(name, pa.array([given] * table.num_rows, TAKEN[name]))
        return table


class LineSource:
    """A file, or stdin."""

    def __init__(self, path: str, form: str | None, separator: str | None) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self.form = form or ENDINGS.get(os.path.splitext(_PACKED.sub("", path.lower()))[1], "lines")
        self.separator = separator
        length = 1 if separator is None else len(_unescaped(separator))
        if not length or (self.form == "csv" and length != 1) or (separator is not None and self.form not in ("lines", "csv")):
            hint = "It is some text for lines, and one character for CSV."
            raise errors.InvalidArgument(f"--separator '{separator}' is not valid for {self.form}.", hint=hint)
        self.size = 0
        if os.path.isdir(path):
            raise errors.InvalidArgument(f"{path} is a directory.", hint="Name the files in it.")
        if path != "-":
            try:
                self.size = os.stat(path).st_size
            except OSError as error:
                hint = f"To publish this text itself: --value '{path}'." if isinstance(error, FileNotFoundError) else ""
                raise errors.InvalidArgument(f"{path} cannot be read: {error.strerror}.", hint=hint) from None

    def tables(self, counted: Callable[[int], None]) -> Iterator[pa.Table]:
        """What is in it."""
        from bowstring.cli import inputs

        try:
            stream: BinaryIO = sys.stdin.buffer if self.path == "-" else open(self.path, "rb")  # noqa: SIM115 -- stdin stays open
        except OSError as error:
            raise errors.Rejected(f"{self.path} cannot be read: {error.strerror}.") from None
        packed = stream
        try:
            stream = packed if self.form == "raw" else inputs.unpacked(packed, self.path)
            separator = None if self.separator is None else _unescaped(self.separator)
            forms: dict[str, Callable[[], Iterator[pa.Table]]] = {
                "lines": lambda: inputs.lines(stream, self.name, None if separator is None else separator.encode()),
                "json": lambda: inputs.json_lines(stream, self.name),
                "csv": lambda: inputs.csv_rows(stream, self.name, separator or ","),
                "arrow": lambda: inputs.arrow(stream, self.name),
                "parquet": lambda: inputs.parquet(stream, self.name),
                "raw": lambda: inputs.whole(stream, self.name),
            }
            for table in forms[self.form]():
                yield table
                counted(table.nbytes)
        except OSError as error:
            raise errors.Rejected(f"{self.name} cannot be read: {error.strerror or error}.") from None
        finally:
            if self.path != "-":
                stream.close()
                packed.close()


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise errors.InvalidArgument(f"--attribute '{text}' is not of the form K=V.", hint="Use --attribute country=CH.")
    return name, value


def _expiry(text: str, now: int) -> int:
    try:
        return now + times.microseconds(span(text, "--expires"))
    except errors.InvalidArgument:
        return moment(text, "--expires")


def _unescaped(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\0", "\0")
