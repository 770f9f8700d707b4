"""What commands print: a table on a terminal, else JSON, one object per line. Data goes to stdout, everything else to stderr.

Tables fit the terminal; on anything else they are as wide as they need to be. Progress is shown on a terminal only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Final

import typer

FORMATS: Final = ("table", "json", "text")
_TEXT_COLUMNS: Final = 200

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="`table`, `json` (one object per line) or `text` (a plain table). [default: table on a terminal, else json]",
        metavar="FORMAT",
        show_default=False,
    ),
]


class Printer:
    """Prints in the format that was asked for, or that fits where it goes."""

    def __init__(self, output: str | None) -> None:
        if output is not None and output not in FORMATS:
            raise typer.BadParameter(f"{output!r} is not a format here. It is one of {', '.join(FORMATS)}.", param_hint="--output")
        self.format = output or ("table" if sys.stdout.isatty() else "json")

    @cached_property
    def _console(self) -> Any:
        from rich.console import Console

        plain = self.format == "text" or not sys.stdout.isatty()
        return Console(no_color=plain or bool(os.environ.get("NO_COLOR")), highlight=False, width=_TEXT_COLUMNS if plain else None)

    @property
    def is_json(self) -> bool:
        return self.format == "json"

    def objects(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            typer.echo(json.dumps(row, ensure_ascii=False, separators=(",", ":")))

    def line(self, text: str = "") -> None:
        self._console.print(text, markup=False, soft_wrap=self.format == "text")

    def table(self, columns: Mapping[str, str], rows: Iterable[Iterable[object]], title: str = "") -> None:
        """`columns` says for each heading where it goes: `left`, `right`, or `wrap` for text that may take several lines."""
        from rich.table import Table

        style = None if self.format == "text" else "bold"
        table = Table(box=None, pad_edge=False, header_style=style, title=title or None, title_justify="left", title_style=style)
        for name, place in columns.items():
            table.add_column(name, justify="right" if place == "right" else "left", no_wrap=place != "wrap", overflow="ellipsis")
        for row in rows:
            table.add_row(*("–" if cell is None else str(cell) for cell in row))
        self._console.print(table)


def size(count: int | None) -> str | None:
    """Bytes for people: 1.5 MiB."""
    if count is None or count < 1024:
        return None if count is None else f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


@contextmanager
def progress(doing: str, *, shown: bool = True) -> Generator[Callable[[int, int | None], None]]:
    """A bar on stderr while the block runs, if that is a terminal: the block tells bytes done and bytes in all."""
    if not shown or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def note(text: str) -> None:
    """Something for people, on stderr."""
    typer.echo(text, err=True)
