"""`bowstring read TOPIC`: prints messages, and removes nothing.

It ends where the topic ended when it began; with --follow it continues until Ctrl-C, or until the
reader of its output is gone. Its output is always complete: it finishes Arrow and Parquet files
also after Ctrl-C.
"""

from __future__ import annotations

import logging
import select
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bowstring import errors
from bowstring.cli import completing
from bowstring.cli.connecting import Context, Server, Timeout, connect
from bowstring.cli.interrupts import Interrupts
from bowstring.cli.options import TIMEOUT, given
from bowstring.cli.place import place, reachable, settled, told_as_given

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.cli.forms import OutputForm
    from bowstring.client.sync import Client
    from bowstring.client.sync_reader import Reader

HELP = """Reads topics as a log. It removes nothing, and without --follow it ends where the topics
ended when it began.

TOPIC may be a pattern, in quotes: 'orders.*' reads the matching topics that exist now.

--start and --end (not included) are `beginning`, `latest`, an offset, offsets by partition
(`0:17,1:4`), `-100` for the newest hundred, or a moment: `2026-11-15T09:00Z`, `'2026-11-15
09:00Z'`, `-1h`, or a Unix time, `@1794740400`.

With --name it continues where a reader of that name stopped, and commits how far it has printed;
see `bowstring position`.

--where is a filter over key, attributes, times, partition and offset that the broker applies:
"attributes.country = 'CH' and key is not null".

On a terminal it prints a table, elsewhere JSON; -o takes table, json, csv, raw (the values, a line
each), arrow and parquet. --format prints a line per message: {partition} {offset} {id} {key}
{value} {attributes} {attributes.country} {created} {arrived} {due} {expires} {producer_group}
{topic}, with \\n, \\t and {{ }}.

Examples:

\b
  bowstring read orders
  bowstring read orders --last 10 --follow
  bowstring read orders --start -1h --where "attributes.country = 'CH'"
  bowstring read orders --format '{offset} {key}: {value}'
  bowstring read orders --start 5001 --limit 100 -o json | jq .value
  bowstring read orders --columns key,value -o parquet > orders.parquet
  bowstring read orders clicks --name report -o csv >> report.csv
  bowstring read 'orders.*' --last 20
  bowstring read orders -o json | bowstring produce copy --input json
"""
BATCH_ROWS: Final = 65536
LOOK_SECONDS: Final = 0.5
"""How often a reader that follows checks whether its output is still read."""
COMMIT_SECONDS: Final = 1.0
"""How often a reader that follows commits its position."""

Form_ = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FORM", help="table, json, csv, raw, arrow or parquet.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    app.command("read", help=HELP)(read)


def read(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="The topics; 'orders.*' is a pattern.", autocompletion=completing.topics)
    ],
    start: Annotated[str | None, typer.Option(metavar="PLACE", help="Where to begin. [default: beginning]", show_default=False)] = None,
    end: Annotated[str | None, typer.Option(metavar="PLACE", help="Where to end. [default: latest]", show_default=False)] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Begin with the newest N messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with messages that are published from now on.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="At most this many messages.")] = None,
    partition: Annotated[list[int] | None, typer.Option(metavar="N", help="Only this partition; may be repeated.")] = None,
    columns: Annotated[str | None, typer.Option(metavar="A,B", help="Only these fields.")] = None,
    format: Annotated[str | None, typer.Option(metavar="TEXT", help="A line per message: '{offset} {key}: {value}'.")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Continue where the reader of this name stopped.", autocompletion=completing.readers)
    ] = None,
    where: Annotated[str | None, typer.Option(metavar="EXPR", help="Only messages for which this holds.")] = None,
    uncommitted: Annotated[bool, typer.Option("--uncommitted", help="Messages of open transactions, too.")] = False,
    output: Form_ = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.cli import forms

    if follow and end is not None:
        raise errors.InvalidArgument("both --follow and --end were given.", hint="With --end it stops there; omit --follow.")
    if last is not None and start is not None:
        raise errors.InvalidArgument("both --last and --start were given.", hint="Give one of them.")
    places = {"start": place(start, "--start"), "end": place(end, "--end") if end is not None else None if follow else "latest"}
    if last is not None:
        places["start"] = -last
    elif isinstance(places["start"], int) and places["start"] < 0:
        last = -places["start"]
    several = len(topics) > 1 or any(map(is_pattern, topics))
    form = forms.chosen(output, format, columns, several=several)
    options: dict[str, Any] = {"partitions": partition or None, "name": name, "where": where, "uncommitted": uncommitted}
    options["columns"] = _needed(form, name, last if not follow else None)
    with connect(server, context, timeout) as client, told_as_given(start=start, end=end), absences_told(follow):
        topics = named(client, topics)
        places = {what: settled(client, topics, wanted) for what, wanted in places.items()}
        ends = {topic: reachable(client, topic, places["end"]) for topic in topics}
        places["end"] = ends if several else ends[topics[0]]
        with client.reader(topics if several else topics[0], **places, **options) as reader:
            printing = RowPrinting(reader, form, kept=name is not None, flush=follow)
            batches = _batches(reader, follow=follow)
            if last is not None and not follow:
                batches = newest(batches, last)
            printing.run(batches, limit)


def is_pattern(topic: str) -> bool:
    """Whether it is a glob: topic names never have these characters."""
    return any(character in topic for character in "*?[")


def named(client: Client, topics: list[str]) -> list[str]:
    """The topics, each once, with every pattern replaced by the topics that match now."""
    found: dict[str, None] = {}
    for topic in topics:
        matching = [each.name for each in client.topics(topic)] if is_pattern(topic) else [topic]
        if not matching:
            raise errors.TopicNotFound(f"no topic is like '{topic}'.", hint="`bowstring topic list` has them all.")
        found.update(dict.fromkeys(matching))
    return list(found)


def _needed(form: OutputForm, name: str | None, last: int | None) -> list[str]:
    """The columns that the form prints, and those that locate a row: the broker sends no others."""
    printed = ["value"] if type(form).__name__ == "Raw" else list(form.columns)
    more = ("topic", "partition", "offset") if name is not None or last is not None else ()
    return list(dict.fromkeys([*printed, *more, *(("arrived",) if last is not None else ())]))


def newest(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """The newest messages, in the order of their arrival, including those that arrive during the
    search.
    """
    import pyarrow as pa

    found = list(batches)
    if found:
        order = [("arrived", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        table = pa.Table.from_batches(found).sort_by(order)
        yield from table.slice(max(0, table.num_rows - count)).to_batches()


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


@contextmanager
def absences_told(follow: bool) -> Generator[None]:
    """Shows the kit's log on stderr while following: that the broker is away, and that it is back;
    that a consumer lost messages. --verbose shows it anyway.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("bowstring: %(message)s."))
    logs = [logging.getLogger(f"bowstring.client.{name}") for name in ("connection", "consumer")]
    for log in logs:
        if follow and not given.quiet and not given.verbose:
            log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


def nobody_reads() -> bool:
    """Whether stdout is a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


class RowPrinting:
    """Prints batches, and commits the position if the reader has a name."""

    def __init__(self, reader: Reader, form: OutputForm, *, kept: bool, flush: bool) -> None:
        self._reader = reader
        self._form = form
        self._kept = kept
        self._flush = flush
        self._committed_at = time.monotonic()
        self._position: Any = None
        """The position behind the printed rows that is not committed yet."""

    def run(self, batches: Iterator[pa.RecordBatch], limit: int | None) -> None:
        """Prints at most this many rows. However it ends, the output is complete and the position
        is committed.
        """
        with Interrupts() as interrupts:
            try:
                left = limit
                for batch in batches:
                    printed = batch if left is None else batch.slice(0, left)
                    with interrupts.held():
                        self._print(printed, whole=printed.num_rows == batch.num_rows)
                    left = None if left is None else left - printed.num_rows
                    if left == 0:
                        break
            except BrokenPipeError:
                raise
            except BaseException:
                self._finish()
                raise
            self._finish()

    def _print(self, batch: pa.RecordBatch, *, whole: bool) -> None:
        self._form.write(batch)
        if self._flush:
            sys.stdout.buffer.flush()
        if self._kept:
            self._position = self._reader.position if whole else behind(batch, self._reader.position)
            if time.monotonic() - self._committed_at >= COMMIT_SECONDS and self._flush:
                self._commit()

    def _commit(self) -> None:
        if self._position:
            self._reader.commit(self._position)
        self._position, self._committed_at = None, time.monotonic()

    def _finish(self) -> None:
        self._form.close()
        sys.stdout.buffer.flush()
        self._commit()


def behind(batch: pa.RecordBatch, position: dict[Any, Any]) -> dict[Any, Any]:
    """The position behind these rows, which are the first of a batch that the reader has handed out
    whole. It has only the partitions of these rows.
    """
    found: dict[str, dict[int, int]] = {}
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    for topic, partition, offset in zip(*columns, strict=True):
        found.setdefault(topic, {})[partition] = offset + 1
    several = any(isinstance(offsets, dict) for offsets in position.values())
    return found if several else next(iter(found.values()), {})
