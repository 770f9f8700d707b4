"""`bowstring read TOPIC`: prints messages, and removes nothing.

It ends where the topic ended when it began; with --follow it goes on until Ctrl-C, or until nobody reads what it prints. What was printed
when it ends is whole: files of Arrow and Parquet are finished also after Ctrl-C.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bowstring import errors, times
from bowstring.cli import options
from bowstring.cli.commands import no_such
from bowstring.cli.connecting import Context, Server, Timeout, connect, moment
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.cli.forms import Form
    from bowstring.client.sync import Client
    from bowstring.client.sync_reader import Reader

HELP = """Reads a topic as a log. It removes nothing, and ends where the topic ended when it began, unless told to --follow.

--start and --end (not included) are `beginning`, `latest`, an offset, offsets by partition (`0:17,1:4`), `-100` for the newest hundred, or
a moment: `2026-11-15T09:00Z`, `-1h`.

On a terminal it prints a table, elsewhere JSON; -o takes table, json, csv, raw (the values, a line each), arrow and parquet. --format
prints a line per message: {partition} {offset} {id} {key} {value} {attributes} {attributes.country} {created} {arrived} {due} {expires}
{producer_group} {topic}, with \\n, \\t and {{ }}.

Examples:

\b
  bowstring read orders
  bowstring read orders --last 10 --follow
  bowstring read orders --format '{offset} {key}: {value}'
  bowstring read orders --start 5001 --limit 100 -o json | jq .value
  bowstring read orders --columns key,value,arrived -o parquet > orders.parquet
  bowstring read orders -o json | bowstring produce orders-copy --input json
"""
BATCH_ROWS: Final = 65536
LOOK_SECONDS: Final = 0.5
"""How often a reader that follows looks whether anybody still reads what it prints."""

Form_ = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FORM", help="table, json, csv, raw, arrow or parquet.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    app.command("read", help=HELP)(read)


def read(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topic.")],
    start: Annotated[str | None, typer.Option(metavar="PLACE", help="Where to begin.", show_default="beginning")] = None,
    end: Annotated[str | None, typer.Option(metavar="PLACE", help="Where to end; not included.", show_default="latest")] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Begin with the newest N messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is published from now on.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many messages.")] = None,
    partition: Annotated[list[int] | None, typer.Option(metavar="N", help="Only this partition; may be repeated.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these fields.")] = None,
    format: Annotated[str | None, typer.Option(metavar="TEXT", help="A line per message: '{offset} {key}: {value}'.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Go on where the reader of this name was.")] = None,
    where: Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages for which this holds.")] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Messages of open transactions, too.")] = False,
    output: Form_ = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    if follow and end is not None:
        raise errors.InvalidArgument("both --follow and --end were given.", hint="With --end it stops there; leave --follow away.")
    if last is not None and start is not None:
        raise errors.InvalidArgument("both --last and --start were given.", hint="Give one of them.")
    places = {"start": place(start, "--start"), "end": place(end, "--end") if end is not None else None if follow else "latest"}
    if isinstance(places["start"], int) and places["start"] < 0:
        last = -places["start"]
    form = _form(output, format, columns)
    names = _needed(form)
    options: dict[str, Any] = {"partitions": partition or None, "columns": names, "name": name, "where": where, "uncommitted": uncommitted}
    with connect(server, context, timeout) as client:
        if last is not None:
            places["start"] = newest(client, topics[0], last, partition)
        places["end"] = reachable(client, topics[0], places["end"])
        with _reader(client, topics, {"--start": start, "--end": end}, **places, **options) as reader:
            _print(form, _limited(_batches(reader, follow=follow), limit), flush=follow)


def _reader(client: Client, topics: list[str], given: dict[str, str | None], **arguments: Any) -> Reader:
    """The reader; what it does not take is shown as it was given."""
    try:
        return client.reader(topics, **arguments)
    except errors.NotSupported as error:
        for flag, text in given.items():
            if text is not None and error.message.startswith(f"{flag.removeprefix('--')}="):
                said = error.message.rpartition(": ")[2]
                raise errors.NotSupported(f'{flag} = "{text}": {said}', hint=error.hint) from None
        raise


def _form(output: str | None, format: str | None, columns: str | None) -> Form:
    from bowstring.cli import forms

    out = sys.stdout.buffer
    if format is not None:
        if output is not None or columns is not None:
            raise errors.InvalidArgument("--format was given with --output or --columns.", hint="It says itself what is printed.")
        return forms.Format(out, format)
    name = output or options.given.output or ("table" if sys.stdout.isatty() else "json")
    if name not in FORMATS:
        raise no_such("output", name, FORMATS)
    if name in ("arrow", "parquet") and sys.stdout.isatty():
        raise errors.InvalidArgument(f"{name} is nothing for a terminal.", hint=f"Send it to a file: -o {name} > FILE.")
    return forms.form(name, out, _columns(columns))


def _columns(text: str | None) -> list[str] | None:
    from bowstring.cli import forms

    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in forms.COLUMNS:
            raise no_such("column", name, forms.COLUMNS)
    return list(dict.fromkeys(names))


def _needed(form: Form) -> list[str]:
    """The columns that the form prints: no others are made."""
    return ["value"] if type(form).__name__ == "Raw" else list(form.columns)


def place(text: str | None, name: str) -> Any:
    """A start or an end, as the kit takes it."""
    if text is None or text in ("beginning", "latest"):
        return text
    with suppress(ValueError):
        return int(text)
    if ":" in text and "T" not in text:
        try:
            pairs = [pair.split(":") for pair in text.split(",")]
            return {int(partition): int(offset) for partition, offset in pairs}
        except ValueError:
            raise errors.InvalidArgument(
                f'{name} = "{text}" is not a place.', hint='Right would be "0:17,1:4": offsets by partition.'
            ) from None
    if text[:1] == "-" and text[1:2].isdigit():
        return timedelta(seconds=-times.span_from_text(text[1:], name))
    try:
        return times.to_datetime(moment(text, name))
    except errors.InvalidArgument as error:
        if "not a moment" not in error.message:
            raise
        hint = 'Right would be "beginning", "latest", an offset, "0:17,1:4", "-100" or "2026-11-15T09:00Z".'
        raise errors.InvalidArgument(f'{name} = "{text}" is not a place in a topic.', hint=hint) from None


def reachable(client: Client, topic: str, end: Any) -> Any:
    """An end that is an offset, in each partition as far as there is something: nobody waits for what is not published yet."""
    if not isinstance(end, dict) and not (isinstance(end, int) and end > 0):
        return end
    ranges = client.topic(topic).ranges
    wanted = end if isinstance(end, dict) else dict.fromkeys(range(len(ranges)), end)
    return {number: min(wanted.get(number, offsets.stop), offsets.stop) for number, offsets in enumerate(ranges)}


def newest(client: Client, topic: str, count: int, partitions: list[int] | None) -> dict[int, int]:
    """Where the newest messages of a topic begin, in each partition: by arrival, over all of them."""
    import pyarrow as pa

    described = client.topic(topic)
    chosen = [number for number in partitions or range(described.partitions) if number < described.partitions]
    ends = {number: described.ranges[number].stop for number in chosen}
    starts = {number: max(described.ranges[number].start, ends[number] - count) for number in chosen}
    if len(chosen) <= 1:
        return starts
    found: list[pa.RecordBatch] = []
    with client.reader(topic, start=starts, end=ends, columns=["partition", "offset", "arrived"]) as reader:
        found.extend(batch.to_arrow() for batch in reader.batches())
    table = pa.Table.from_batches(found, found[0].schema) if found else None
    if table is None or table.num_rows <= count:
        return starts
    order = table.sort_by([("arrived", "descending"), ("offset", "descending")]).slice(0, count)
    begun = {row["partition"]: row["offset_min"] for row in order.group_by("partition").aggregate([("offset", "min")]).to_pylist()}
    return {number: begun.get(number, ends[number]) for number in chosen}


def _batches(reader: Reader, *, follow: bool) -> Iterator[pa.RecordBatch]:
    if not follow:
        yield from (batch.to_arrow() for batch in reader.batches(BATCH_ROWS))
        return
    while True:
        batch = reader.poll(LOOK_SECONDS, BATCH_ROWS)
        if batch:
            yield batch.to_arrow()
        elif nobody_reads():
            return


def nobody_reads() -> bool:
    """Whether stdout is a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None or batch.num_rows < left:
            left = None if left is None else left - batch.num_rows
            yield batch
        else:
            yield batch.slice(0, left)
            return


def _print(form: Form, batches: Iterator[pa.RecordBatch], *, flush: bool) -> None:
    with Interrupts() as interrupts:
        try:
            for batch in batches:
                with interrupts.held():
                    form.write(batch)
                    if flush:
                        sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except BaseException:
            _finish(form)
            raise
        _finish(form)


def _finish(form: Form) -> None:
    form.close()
    sys.stdout.buffer.flush()


class Interrupts:
    """Ctrl-C while a batch is written counts when it is written whole, or at once when it comes a second time."""

    def __init__(self) -> None:
        self._writing = self._asked = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, number: int, frame: object) -> None:
        if not self._writing or self._asked:
            raise KeyboardInterrupt
        self._asked = True

    @contextmanager
    def held(self) -> Generator[None]:
        """While this block runs."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False
        if self._asked:
            raise KeyboardInterrupt
