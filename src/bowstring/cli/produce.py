"""`bowstring produce TOPIC [FILE…]`: publishes values, lines, or whole files.

What is read is handed to the kit in Arrow tables, which waits when 64 MiB are under way; so memory is bounded however large the input is.
Receipts are settled in their order. What was stored is printed, also when something after it was wrong; the first failure ends it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from bowstring import errors, times
from bowstring.cli.commands import no_such
from bowstring.cli.connecting import Context, Server, Timeout, connect, moment, seconds_of, span
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, note, progress

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.client.sync_producer import BatchReceipt, Producer

HELP = """Publishes messages: each --value, each line of stdin or of FILEs, or each row of FILEs.

--input says what the input is: `lines` (the default), `json` (an object per line, as `read -o json` prints it), `csv` (with a header),
`arrow`, `parquet`, or `raw` (a whole file is one message). Files that end in .json, .jsonl, .ndjson, .csv, .arrow or .parquet are known
by that. Files that end in .gz, .zst, .bz2 or .lz4 are unpacked first, but for `raw`. Rows may have value (or json), key, attributes, id,
due, expires and created; flags fill in what rows do not have.

Lines end in LF or CRLF, and neither is part of the message. In CSV an empty cell is null, a cell that is `""` is empty text, and
`{"base64":"..."}` stands for bytes: what `read -o csv` prints comes back as it was.

What is printed is durable. For values it is a row each; for input it is a sum, or with --receipts a row each.

Examples:

\b
  bowstring produce orders -v 'one coffee' -k customer-42 -a country=CH
  printf 'a\\nb\\n' | bowstring produce orders
  echo 'customer-42:one tea' | bowstring produce orders --separator :
  bowstring produce orders --value 'paid' --id order-7 --delay 15m
  bowstring produce orders orders.parquet
  bowstring read orders -o json | bowstring produce orders-copy --input json

Exit codes: 1 something was refused, 3 the broker is unavailable and the rest certainly not stored, 4 not known: repeat it, with the
same ids nothing is stored twice.
"""
INPUTS: Final = ("lines", "json", "csv", "arrow", "parquet", "raw")
ALIASES: Final = {"text": "lines", "ndjson": "json", "jsonl": "json", "feather": "arrow", "ipc": "arrow"}
ENDINGS: Final = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".arrow": "arrow", ".parquet": "parquet"}
_PACKED: Final = re.compile(r"\.(gz|zst|bz2|lz4)$")
RECEIPTS_UNDER_WAY: Final = 256


def add_to(app: typer.Typer) -> None:
    app.command("produce", help=HELP)(produce)


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Files; - is stdin.", show_default=False)] = None,
    value: Annotated[list[str] | None, typer.Option("--value", "-v", metavar="TEXT", help="A message; may be repeated.")] = None,
    form: Annotated[str | None, typer.Option("--input", "-i", metavar="FORM", help="lines, json, csv, arrow, parquet or raw.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", metavar="TEXT", help="Messages of one key keep their order.")] = None,
    attribute: Annotated[list[str] | None, typer.Option("--attribute", "-a", metavar="K=V", help="May be repeated.")] = None,
    id: Annotated[str | None, typer.Option("--id", metavar="TEXT", help="Published twice, stored once; of a single message.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="SPAN", help="Due after this span: 15m.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="MOMENT", help="Due at this moment: 2026-11-15T09:00Z.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="SPAN|MOMENT", help="Delivered to nobody after this.")] = None,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="The producer group, which owns the messages.")] = "default",
    separator: Annotated[str | None, typer.Option("--separator", metavar="TEXT", help="In lines: key before, value after it.")] = None,
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
    filled = Filled(key, attribute, id, delay, at, expires)
    sources = [] if value else [Source(name, known, separator) for name in files or ["-"]]
    with connect(server, context, timeout) as client:
        producer = client.producer(topic, group=group, compression=compression, timeout=seconds_of(timeout))
        publishing = Publishing(topic, producer, printer, each=bool(value) or receipts, filled=filled)
        try:
            if value:
                publishing.values(value)
            else:
                publishing.run(sources)
        finally:
            publishing.end()


class Filled:
    """What flags say of messages that do not say it themselves."""

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
            due = now + times.microseconds(_delay(delay))
        self.id = id
        self.columns: dict[str, Any] = {
            "key": None if key is None else key.encode(),
            "attributes": [_attribute(text) for text in attributes] if attributes else None,
            "id": id,
            "due": due,
            "expires": None if expires is None else _expiry(expires, now),
        }

    def into(self, table: pa.Table, rows_before: int) -> pa.Table:
        """The table with columns for what it has none of."""
        import pyarrow as pa

        from bowstring.cli.inputs import TAKEN

        if self.id is not None and rows_before + table.num_rows > 1:
            raise errors.InvalidArgument("--id is the id of one message, and there are more.", hint="Give ids in the input: --input json.")
        for name, given in self.columns.items():
            if given is not None and name not in table.schema.names:
                table = table.append_column(name, pa.array([given] * table.num_rows, TAKEN[name]))
        return table


class Source:
    """A file, or stdin."""

    def __init__(self, path: str, form: str | None, separator: str | None) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self.form = form or ENDINGS.get(os.path.splitext(_PACKED.sub("", path.lower()))[1], "lines")
        self.separator = separator
        length = 1 if separator is None else len(_unescaped(separator))
        if not length or (self.form == "csv" and length != 1) or (separator is not None and self.form not in ("lines", "csv")):
            hint = "It is some text for lines, and one character for CSV."
            raise errors.InvalidArgument(f"--separator '{separator}' is not taken for {self.form}.", hint=hint)
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


class Publishing:
    """Sends, settles, and prints what was stored."""

    def __init__(self, topic: str, producer: Producer, printer: Printer, *, each: bool, filled: Filled) -> None:
        self._topic = topic
        self._producer = producer
        self._printer = printer
        self._each = each
        self._filled = filled
        self._under_way: deque[tuple[BatchReceipt, int]] = deque()
        self._sent = self._stored = 0
        self._offsets: dict[int, tuple[int, int]] = {}
        self._rows: list[dict[str, Any]] = []
        self._failure: errors.Error | None = None
        self._input = False

    def values(self, values: list[str]) -> None:
        """A message for each value; they are sent together, and told one by one."""
        given = self._filled
        if given.id is not None and len(values) > 1:
            raise errors.InvalidArgument("--id is the id of one message, and there are more.", hint="Give one --value.")
        columns = {name: value for name, value in given.columns.items() if value is not None and name != "expires" and name != "due"}
        if "attributes" in columns:
            columns["attributes"] = dict(columns["attributes"])
        for name, moment_given in (("at", given.columns["due"]), ("expires", given.columns["expires"])):
            if moment_given is not None:
                columns[name] = times.to_datetime(moment_given)
        for receipt in [self._producer.send(value, **columns) for value in values]:
            self._sent += 1
            try:
                stored = receipt.result()
            except errors.Error as error:
                self._failure = self._failure or error
            else:
                self._stored += 1
                self._tell(stored._asdict())

    def run(self, sources: list[Source]) -> None:
        """All of the sources, until something fails."""
        self._input = True
        total = sum(source.size for source in sources) if all(source.path != "-" for source in sources) else None
        done = 0
        if any(source.path == "-" for source in sources) and sys.stdin.isatty():
            note("Type messages, a line each; Ctrl-D ends.")
        quiet = sys.stdin.isatty() and total is None
        with progress("publishing", shown=not quiet) as told:

            def counted(size: int) -> None:
                nonlocal done
                done += size
                told(done, total if total is None else max(done, total))

            for source in sources:
                for table in source.tables(counted):
                    self._send(table)
                    if self._failure is not None:
                        return

    def _send(self, table: pa.Table) -> None:
        filled = self._filled.into(table, self._sent)
        try:
            receipt = self._producer.send_batch(filled)
        except errors.InvalidArgument as error:
            said = re.sub(r"\brow (\d+)", lambda match: f"message {self._sent + int(match[1]) + 1:,}", error.message)
            raise errors.Rejected(said, hint=error.hint) from None
        self._under_way.append((receipt, self._sent))
        self._sent += table.num_rows
        while self._under_way and (self._under_way[0][0].done() or len(self._under_way) > RECEIPTS_UNDER_WAY):
            self._settle()

    def _settle(self) -> None:
        receipt, first = self._under_way.popleft()
        answers = receipt.result()
        if answers.refused and self._failure is None:
            row, error = next(iter(answers.refused.items()))
            self._failure = type(error)(f"message {first + row + 1:,}: {error.message}", hint=error.hint, details=error.details)
        self._stored += len(answers) - len(answers.refused)
        if self._each:
            ids = receipt.ids
            for row, (ok, partition, offset) in enumerate(zip(answers.ok, answers.partitions, answers.offsets, strict=True)):
                if ok.as_py():
                    told = {"topic": self._topic, "partition": partition.as_py(), "offset": offset.as_py(), "id": ids[row]}
                    self._tell(told)
        else:
            self._count(answers)

    def _count(self, answers: Any) -> None:
        """The least and the greatest offset of each partition."""
        import pyarrow as pa

        placed = pa.table({"partition": answers.partitions, "offset": answers.offsets}).filter(answers.ok)
        for found in placed.group_by("partition").aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
            least, most = self._offsets.get(found["partition"], (found["offset_min"], found["offset_max"]))
            self._offsets[found["partition"]] = min(least, found["offset_min"]), max(most, found["offset_max"])

    def _tell(self, row: dict[str, Any]) -> None:
        if self._printer.is_data:
            self._printer.objects([row])
        else:
            self._rows.append(row)

    def end(self) -> None:
        """Waits for what is under way, says what was stored, and raises what failed."""
        if not isinstance(sys.exc_info()[1], Exception | None):
            return  # interrupted: nothing more is waited for
        while self._under_way:
            self._settle()
        if not self._each:
            if self._stored or not (self._failure or sys.exc_info()[1]):
                self._print_sum()
        elif self._rows:
            columns = {"partition": "right", "offset": "right", "id": "left", "": "left"}
            rows = [
                (row["partition"], f"{row['offset']:,}", row["id"], "stored before" if row.get("duplicate") else "") for row in self._rows
            ]
            self._printer.table(columns, rows)
        if self._failure is not None:
            if self._sent > 1:
                note(f"{self._stored:,} of the {self._sent:,} messages that were sent are stored.")
            raise self._failure

    def _print_sum(self) -> None:
        if self._printer.is_data:
            offsets = {str(partition): list(self._offsets[partition]) for partition in sorted(self._offsets)}
            return self._printer.objects([{"topic": self._topic, "messages": self._stored, "offsets": offsets}])
        places = [f"{number}@{first:,}–{last:,}" for number, (first, last) in sorted(self._offsets.items())[:8]]
        where = f" ({', '.join(places)}{', …' if len(self._offsets) > 8 else ''})" if places else ""
        many = "1 message is" if self._stored == 1 else f"{self._stored:,} messages are"
        return self._printer.line(f"{many} stored in {self._topic}{where}.")


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise errors.InvalidArgument(f"--attribute '{text}' is not of the form K=V.", hint="Right would be --attribute country=CH.")
    return name, value


def _delay(text: str) -> float:
    """A span until messages are due. What looks like a Unix time is none."""
    seconds = span(text, "--delay")
    if seconds > times.DELAY_MAX:
        moment_meant = f"{times.to_datetime(times.microseconds(seconds)):%Y-%m-%dT%H:%MZ}"
        hint = f"If it is a Unix time: --at {moment_meant}." if seconds < times.SPAN_MAX / 2 else "At most 10 years are taken."
        raise errors.InvalidArgument(f'--delay = "{text}" is {int(seconds / times.YEAR)} years.', hint=hint)
    return seconds


def _expiry(text: str, now: int) -> int:
    try:
        return now + times.microseconds(span(text, "--expires"))
    except errors.InvalidArgument:
        return moment(text, "--expires")


def _unescaped(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\0", "\0")
