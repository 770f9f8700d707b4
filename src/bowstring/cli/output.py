"""What commands print: a table on a terminal, else JSON, one object per line. Data goes to stdout,
everything else to stderr.

Tables fit the terminal; elsewhere they are as wide as they need to be. Only a terminal shows
progress.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Final

import typer

from bowstring import errors
from bowstring.cli import options
from bowstring.cli.commands import no_such

FORMATS: Final = ("table", "json", "csv", "raw", "arrow", "parquet")
BINARY: Final = ("arrow", "parquet")
_PLAIN_COLUMNS: Final = 200
WRAPPED_LEAST: Final = 16
CUT_LEAST: Final = 8

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="table, json (an object per line), csv, raw (the first column), arrow, parquet. [default: table on a terminal, else json]",
        metavar="FORMAT",
        show_default=False,
    ),
]


class Printer:
    """Prints in the format that was asked for, or else in the one that suits the destination."""

    def __init__(self, output: str | None) -> None:
        output = output or options.given.output
        if output is not None and output not in FORMATS:
            raise no_such("output", output, FORMATS)
        if output in BINARY and sys.stdout.isatty():
            raise errors.InvalidArgument(f"{output} is not for a terminal.", hint=f"Send it to a file: -o {output} > FILE.")
        self.format = output or ("table" if sys.stdout.isatty() else "json")
        self._headed = False
        self._rows: list[Mapping[str, Any]] = []
        if self.format in BINARY:
            options.given.at_end.append(self._write_file)

    @cached_property
    def _console(self) -> Any:
        from rich.console import Console

        class Printing(Console):
            """rich would end the program with a failure when a pipe is closed;
            `commands.closed_pipe` handles that instead.
            """

            def on_broken_pipe(self) -> None:
                raise BrokenPipeError

        plain = not sys.stdout.isatty()
        return Printing(no_color=plain or not options.colours(), highlight=False, width=_PLAIN_COLUMNS if plain else None)

    @property
    def is_data(self) -> bool:
        """Whether it prints objects for programs instead of a table for people."""
        return self.format != "table"

    @property
    def width(self) -> int:
        """How many columns a table may take."""
        width: int = self._console.width
        return width

    def objects(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Prints rows for programs. May be called again with more rows of the same kind."""
        if self.format == "json":
            for row in rows:
                typer.echo(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
        elif self.format == "raw":
            for row in rows:
                typer.echo(_cell(next(iter(row.values()))))
        elif self.format == "csv":
            self._csv(list(rows))
        else:
            self._rows.extend(rows)

    def _csv(self, rows: list[Mapping[str, Any]]) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if rows and not self._headed:
            self._headed = True
            writer.writerow(rows[0])
        writer.writerows([map(_cell, row.values()) for row in rows])
        typer.echo(text.getvalue(), nl=False)

    def _write_file(self) -> None:
        """Writes the rows as Arrow or Parquet once all are there."""
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pylist([dict(row) for row in self._rows])
        if self.format == "parquet":
            pyarrow.parquet.write_table(table, sys.stdout.buffer)
        else:
            with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
                stream.write_table(table)
        sys.stdout.buffer.flush()

    def clear(self) -> None:
        """Begins anew at the top of the terminal."""
        self._console.clear()

    def line(self, text: str = "") -> None:
        self._console.print(text, markup=False, soft_wrap=not sys.stdout.isatty())

    def table(self, columns: Mapping[str, str], rows: Iterable[Iterable[object]], title: str = "") -> None:
        """`columns` says for each heading where it goes: `left`, `right`, `cut` for text that may
        be cut where there is no room, or `wrap` for text that may take several lines.
        """
        from rich.table import Table

        cells = [["–" if cell is None else str(cell) for cell in row] for row in rows]
        widths = _widths(columns, cells, self._console.width)
        table = Table(box=None, pad_edge=False, header_style="bold", title=title or None, title_justify="left", title_style="bold")
        for number, (name, place) in enumerate(columns.items()):
            justify = "right" if place == "right" else "left"
            table.add_column(name, justify=justify, no_wrap=place != "wrap", overflow="ellipsis", width=widths[number])
        for row in cells:
            table.add_row(*row)
        self._console.print(table)

    def stacked(self, columns: Mapping[str, str], rows: Iterable[tuple[list[str], str]], heading: str) -> None:
        """A table with a text below each row, on as many lines as it takes; nothing is cut. `heading`
        is that of the texts.
        """
        from rich.cells import cell_len
        from rich.text import Text

        cells = [(list(columns), heading), *rows]
        widths = [max(cell_len(row[number]) for row, _ in cells) for number in range(len(columns))]
        for line, (row, text) in enumerate(cells):
            padded = [(" " * (width - cell_len(cell)), cell) for width, cell in zip(widths, row, strict=True)]
            joined = "  ".join(
                space + cell if place == "right" else cell + space for place, (space, cell) in zip(columns.values(), padded, strict=True)
            )
            below = textwrap.wrap(text, max(self.width - 2, WRAPPED_LEAST), break_on_hyphens=False)
            whole = "\n".join((joined.rstrip(), *(f"  {each}" for each in below)))
            self._console.print(Text(whole, style="" if line else "bold"), soft_wrap=True)


def _widths(columns: Mapping[str, str], cells: list[list[str]], room: int) -> list[int | None]:
    """The widths of the columns, where they matter: if there is no room for all, the columns that
    may be cut shrink, widest first. Texts that wrap take the rest.
    """
    from rich.cells import cell_len

    places = list(columns.values())
    widths = [max((cell_len(name), *(cell_len(row[number]) for row in cells))) for number, name in enumerate(columns)]
    wrapped = [number for number, place in enumerate(places) if place == "wrap"]
    for number in wrapped:
        widths[number] = min(widths[number], WRAPPED_LEAST)
    while sum(widths) + 2 * (len(widths) - 1) > room:
        cut = [number for number, place in enumerate(places) if place == "cut" and widths[number] > CUT_LEAST]
        if not cut:
            return [None] * len(widths)
        widths[max(cut, key=widths.__getitem__)] -= 1
    return [None if number in wrapped else width for number, width in enumerate(widths)]


def _cell(value: Any) -> Any:
    """A cell of CSV. Lists and objects are JSON."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, dict | list | tuple | bool) else value


def check_can_ask(why: str, *, yes: bool) -> None:
    """Asks before something that cannot be undone. Without a terminal, `--yes` has to confirm it."""
    if not yes and not sys.stdin.isatty():
        raise errors.InvalidArgument(f"{why}, and there is no terminal to ask on.", hint="Say --yes.")


def json_text(data: bytes | None) -> Any:
    """Bytes as JSON: text, or base64 if they are none."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def size(count: int | None) -> str | None:
    """Bytes for people: 1.5 MiB."""
    if count is None or count < 1024:
        return None if count is None else f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def age(seconds: float) -> str:
    """How old something is, in one or two units: 4.2s, 3m 20s, 5h 12m, 2d 3h."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes}m {int(seconds % 60)}s"
    hours = minutes // 60
    return f"{hours}h {minutes % 60}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def short(number: float, digits: int = 0) -> str:
    """A number in at most five characters: 9.5, 999, 1.2k, 45k, 3.4M."""
    if round(number, digits) < 100:
        return f"{number:.{digits}f}"
    if round(number) < 1000:
        return f"{number:.0f}"
    units = "kMGT"
    while round(number / 1000) >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    number /= 1000
    return f"{number:.{1 if round(number, 1) < 10 else 0}f}{units[0]}"


def many(count: int, noun: str) -> str:
    """1 message, 1,000 messages."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress(doing: str, *, shown: bool = True, of: str = "bytes") -> Generator[Callable[[int, int | None], None]]:
    """Shows a bar on stderr while the block runs, if that is a terminal. The block reports how much
    is done and the total, in bytes, messages or milliseconds; for milliseconds the bar shows only
    the time left.
    """
    if not shown or options.given.quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    volume = (DownloadColumn(binary_units=True),) if of == "bytes" else (MofNCompleteColumn(),) if of == "messages" else ()
    columns = (TextColumn("{task.description}"), BarColumn(), *volume, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, no_color=not options.colours()), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def note(text: str) -> None:
    """Prints a note for people to stderr, unless --quiet was given."""
    if not options.given.quiet:
        typer.echo(options.fitted(text), err=True)
