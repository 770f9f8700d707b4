"""What was found, for people and for programs: a table on the terminal, the same as Markdown, and all of it as JSON."""

from __future__ import annotations

import json
import textwrap
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Plan, Results
from benchmarks.table import Row

HEADINGS = ("work", "Bowstring", "Kafka", "share", "bar", "met")
MARKS = {True: "yes", False: "no", None: ""}
COLOURS = {True: "green", False: "red", None: ""}
NOTES = (
    "Medians over the rounds. Latencies are median / 99 %. Catalog: bytes a flush, beside inlined pages. README.md says what is compared.",
    "Bowstring has synced every message that it acknowledges; Kafka runs with its default, without sync.",
)


def print_table(rows: list[Row], results: Results) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (0, 5) else "right", no_wrap=not number, overflow="fold")
    for row in rows:
        table.add_row(*row[:5], MARKS[row.met], style=COLOURS[row.met])
    console = Console()
    console.print(table)
    for note in _notes(results):
        console.print(note, style="dim")


def write(folder: Path, rows: list[Row], results: Results, plan: Plan, machine: dict[str, Any]) -> list[Path]:
    """The JSON of this run and the Markdown of the latest one; says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    date = time.strftime("%Y-%m-%d-%H%M")
    everything = {
        "date": date,
        "machine": machine,
        "plan": asdict(plan),
        "table": [row._asdict() for row in rows],
        **asdict(results),
    }
    as_json, as_markdown = folder / f"{date}.json", folder / "latest.md"
    as_json.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    as_markdown.write_text(markdown(date, rows, results, plan, machine))
    return [as_json, as_markdown]


def markdown(date: str, rows: list[Row], results: Results, plan: Plan, machine: dict[str, Any]) -> str:
    counts = ", ".join(f"{count:,} messages of {size} B" for size, count in plan.counts.items())
    lines = [f"# Figures of {date}", "", f"{plan.rounds} rounds, {counts}; `{date}.json` has every single run.", ""]
    lines += [f"- {note}" for note in _notes(results)]
    facts = "- " + ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in machine.items())
    lines += [*textwrap.wrap(facts, width=136, subsequent_indent="  "), ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for row in rows:
        indent = "\u2003" if row.work.startswith("  ") else ""
        lines.append("| " + " | ".join((indent + row.work.strip(), *row[1:5], MARKS[row.met])) + " |")
    return "\n".join(lines) + "\n"


def _notes(results: Results) -> list[str]:
    if not results.has_kafka:
        return [*NOTES, f"Kafka was not measured: {results.kafka}. Bars beside it are not judged."]
    best = [f"{results.kafka_best(kind, size)} ({kind}, {size} B)" for size in (100, 1024) for kind in ("publish", "read")]
    return [*NOTES, f"Kafka {results.kafka}, the faster variant each: {', '.join(best)}; plain consume() judges the speed of reading."]
