"""Reports the results: a table on the terminal, the same as Markdown, everything as JSON, and a
picture.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import picture
from benchmarks.rounds import Plan, Results
from benchmarks.table import Row

HEADINGS = ("work", "Bowstring", "peer", "ratio", "bar", "met")
WIDTH = 120
"""Columns of the table where it does not go to a terminal."""
MARKS = {True: "yes", False: "no", None: ""}
COLOURS = {True: "green", False: "red", None: ""}
NOTES = (
    "Medians over the rounds. Latencies are median / 99 %. Catalog: bytes a flush, beside inlined pages. README.md says what is compared.",
    "Bowstring has synced every message that it acknowledges; Kafka runs with its default, without sync, where the line does not say so.",
)


def print_table(rows: list[Row], results: Results) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (0, 5) else "right", no_wrap=not number, overflow="fold")
    for row in rows:
        table.add_row(*row[:5], MARKS[row.met], style="bold" if row.is_heading else COLOURS[row.met])
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    for note in _notes(results):
        console.print(note, style="dim")


def write(folder: Path, rows: list[Row], results: Results, plan: Plan, machine: dict[str, Any]) -> list[Path]:
    """The JSON of this run, the Markdown and the picture of the latest one; says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    date = time.strftime("%Y-%m-%d-%H%M")
    everything = {
        "date": date,
        "machine": machine,
        "plan": asdict(plan),
        "table": [row._asdict() | {"met": row.met} for row in rows],
        **asdict(results),
    }
    as_json, as_markdown, as_picture = folder / f"{date}.json", folder / "latest.md", folder / "latest.svg"
    as_json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    as_markdown.write_text(markdown(date, rows, results, plan, machine))
    as_picture.write_text(picture.draw(rows, f"Bowstring, figures of {date}"))
    return [as_json, as_markdown, as_picture]


def markdown(date: str, rows: list[Row], results: Results, plan: Plan, machine: dict[str, Any]) -> str:
    counts = ", ".join(f"{count:,} messages of {size} B" for size, count in plan.counts.items())
    lines = [f"# Figures of {date}", "", f"{plan.rounds} rounds, {counts}; `{date}.json` has every single run.", ""]
    facts = "- " + ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in machine.items())
    for item in (*(f"- {note}" for note in _notes(results)), facts):
        lines += textwrap.wrap(item, width=136, subsequent_indent="  ")
    lines.append("")
    lines += ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for row in rows:
        indent = "\u2003" if row.work.startswith("  ") else ""
        title = f"**{row.work}**" if row.is_heading else indent + row.work.strip()
        lines.append("| " + " | ".join((title, *row[1:5], MARKS[row.met])) + " |")
    return "\n".join(lines) + "\n"


def _notes(results: Results) -> list[str]:
    absent = [f"{peer} was not measured: {reason}. Bars beside it are not judged." for peer, reason in results.missing.items()]
    absent += [f"{name} FAILED: {reason.splitlines()[-1]}" for name, reason in results.failed.items()]
    if not results.has_kafka:
        return [*NOTES, *absent]
    best = [f"{results.kafka_best(kind, size)} ({kind}, {size} B)" for size in (100, 1024) for kind in ("publish", "read")]
    return [
        *NOTES,
        *absent,
        f"Kafka {results.kafka}, the faster variant each: {', '.join(best)}; plain consume() judges the speed of reading.",
    ]
