"""The table of dead letters. Neither ids, which commands take, nor reasons are cut: where there is no
room beside the other columns, the reason of each letter is on the lines below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bowstring.cli.output import Printer

REASON_LEAST: Final = 30
"""A reason that is longer gets at least this room beside the other columns."""
COLUMNS: Final = {
    "id": "left",
    "partition": "right",
    "offset": "right",
    "reason": "wrap",
    "retry_count": "right",
    "ended": "left",
    "redriven": "left",
}
PLACE: Final = ("partition", "offset")
"""Columns that a narrow terminal does without."""


def print_letters(printer: Printer, rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints letters, given as their JSON."""
    cells = [_cells(each) for each in rows]
    reasons = max((len(each["reason"]) for each in cells), default=0)
    names = [name for name in COLUMNS if name != "reason"]
    if _needed(names, cells) + 2 + min(max(reasons, len("reason")), REASON_LEAST) <= printer.width:
        return printer.table(COLUMNS, ([each[name] for name in COLUMNS] for each in cells))
    if _needed(names, cells) > printer.width:
        names = [name for name in names if name not in PLACE]
    columns = {name: COLUMNS[name] for name in names}
    return printer.stacked(columns, [([each[name] for name in names], each["reason"]) for each in cells], "reason")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    """When the last delivery ended, to the minute, and whether the letter was sent back."""
    texts = {name: "–" if row[name] is None else str(row[name]) for name in COLUMNS}
    return {**texts, "ended": texts["ended"][:16].replace("T", " "), "redriven": "yes" if row["redriven"] else ""}


def _needed(names: Sequence[str], cells: Sequence[Mapping[str, str]]) -> int:
    return sum(max(len(name), *(len(each[name]) for each in cells)) for name in names) + 2 * (len(names) - 1)
