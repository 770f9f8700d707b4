"""Writes what the reference says from the code: `python tools/reference.py`. With `--check` it only
says whether it is up to date.

    docs/reference/python.md      signatures and docstrings of `bowstring` and `bowstring.aio` (`reference_python`)
    docs/reference/commands.md    the help of every command
    docs/reference/errors.md      the tree of errors, their kinds and status codes
    docs/reference/settings.md    as `bowstring config reference` prints it
    docs/reference/metrics.md     the table of metrics (`bowstring.http.metrics`)
    docs/reference/schema.md      the schema of the protocol

A test compares them with the output of this tool, so they cannot grow stale.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "reference"
COLUMNS: Final = "85"
"""The width that help is written for, whatever the terminal."""

MADE: Final = "\n\n<!-- Made by `python tools/reference.py`: change the code, not this page. -->\n"
"""A note at the end of each page for its editors; readers do not see it."""
COMMANDS: Final = """# Commands

On a terminal commands print tables, anywhere else JSON, one object per line; `-o` chooses. Data
goes to stdout, everything else to stderr. Exit codes are 0 done, 1 refused or conflict, 2 wrong
usage, 3 unavailable, 4 outcome unknown, 5 corrupt or a check failed, 130 interrupted.
"""
ERRORS: Final = """# Errors

```python
import bowstring

with bowstring.connect() as client:
    client.create_topic("orders", exists_ok=True)
    try:
        client.topic("order")
    except bowstring.TopicNotFound as error:
        print(error)  # there is no topic 'order'. Did you mean 'orders'?
        print(error.kind)  # topic-not-found
        print(error.details)  # {'topic': 'order'}
```

There is one tree, shaped by what to do. Catch a branch, or one class. Every error has `kind`, the
same word in every language and on the wire; `message` and `hint`, what is wrong and what to do;
`details` for programs; and `retryable`. The exit code is that of a command that fails with it.

"""
METRICS: Final = """# Metrics

`GET /metrics` on the broker's HTTP port, [27770](settings.md) unless told otherwise, answers in
Prometheus' text format, or in OpenMetrics if the scraper asks for it.
[Operations](../operations.md#metrics-and-health) says how to scrape and what to watch; a Grafana
dashboard is in [grafana/bowstring.json](../grafana/bowstring.json).

Counters begin at 0 with the process unless the table says otherwise. Durations are counted once per
flush, in buckets from {first:g} s to {last:g} s. `process_…` metrics (CPU, memory, open files) are
those of every Prometheus client.

Topics, positions and subscriptions could be many, so only the {topics} largest topics, the
{positions} positions with the largest lag and the {positions} subscriptions with the largest backlog have
metrics of their own; all others are summed up under `topic="{others}"` (settings
`metrics.topics-max`, `metrics.positions-max`). A topic that enters or leaves the largest ones moves
its counts between its own label and that one: for rates over everything use the metrics without a
label.

"""
SCHEMA: Final = """# Schema

`proto/bowstring/v1/bowstring.proto`, copied by `python tools/reference.py`. [The
protocol](../protocol.md) says how it is used.

```protobuf
{text}```
"""


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    import reference_python
    from bowstring.cli import config

    schema = (ROOT / "proto" / "bowstring" / "v1" / "bowstring.proto").read_text(encoding="utf-8")
    found = {
        "python.md": reference_python.python_text(),
        "commands.md": commands_text(),
        "errors.md": errors_text(),
        "settings.md": config.reference_text(),
        "metrics.md": metrics_text(),
        "schema.md": SCHEMA.format(text=schema),
    }
    return {name: text.rstrip("\n") + MADE for name, text in found.items()}


def commands_text() -> str:
    """The help of all commands."""
    from typer.main import get_command

    from bowstring.cli import arguments
    from bowstring.cli.commands import TABLE
    from bowstring.cli.main import app

    before = {name: os.environ.get(name) for name in ("COLUMNS", "TERMINAL_WIDTH")}
    os.environ |= dict.fromkeys(before, COLUMNS)
    try:
        arguments.use_plain()
        root: Any = get_command(app)
        context = _context(root, "bowstring", None)
        parts = [COMMANDS, f"## bowstring\n\n```text\n{root.get_help(context)}\n```\n"]
        for name in TABLE:
            parts += _help(root.get_command(context, name), name, context, "##")
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {name: value} if value is not None else {}
    return "\n".join(parts)


def _help(command: Any, name: str, parent: Any, level: str) -> list[str]:
    """A command, and those that it has."""
    context = _context(command, name, parent)
    found = [f"{level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    for each, below in getattr(command, "commands", {}).items():
        found += _help(below, each, context, "###")
    return found


def _context(command: Any, name: str, parent: Any) -> Any:
    """What a command is called in, at a width that is always the same."""
    width = {"terminal_width": int(COLUMNS), "max_content_width": int(COLUMNS)}
    return command.context_class(command, info_name=name, parent=parent, **{**command.context_settings, **width})


def errors_text() -> str:
    """The tree of errors as a table."""
    from bowstring import errors
    from bowstring.cli import failures
    from bowstring.wire.grpc_status import CODES

    rows: list[str] = ["| error | what it means | kind | gRPC status | exit code |", "|---|---|---|---|---|"]

    def add(cls: type[errors.Error], depth: int) -> None:
        code = next(CODES[each] for each in cls.__mro__ if each in CODES)
        other = [base.__name__ for base in cls.__bases__ if not issubclass(base, errors.Error) and base is not Exception]
        also = f" Also a `{other[0]}`." if other else ""
        text = " ".join((cls.__doc__ or "").split()) + also
        name = "&nbsp;&nbsp;" * depth + f"`{cls.__name__}`"
        rows.append(f"| {name} | {text} | `{cls.kind}` | `{code}` | {failures.exit_code(cls(''))} |")
        for below in cls.__subclasses__():
            if below.__module__ == errors.__name__:
                add(below, depth + 1)

    add(errors.Error, 0)
    return ERRORS + "\n".join(rows) + "\n"


def metrics_text() -> str:
    """The table of metrics."""
    from bowstring.broker.counters import SECONDS
    from bowstring.http.figures import OTHERS
    from bowstring.http.metrics import GROUPS
    from bowstring.settings import Settings

    chosen = Settings()
    bounds = {"topics": chosen.metrics_topics_max, "positions": chosen.metrics_positions_max}
    parts = [METRICS.format(first=SECONDS[0], last=SECONDS[-1], others=OTHERS, **bounds)]
    for title, metrics in GROUPS:
        rows = [f"| `{each.name}` | {each.kind} | {' '.join(f'`{label}`' for label in each.labels)} | {each.meaning} |" for each in metrics]
        parts.append("\n".join([f"## {title}\n", "| metric | kind | labels | what it says |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def main() -> int:
    """Writes the pages, or with --check compares them; 1 if they differ."""
    fresh = pages()
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in fresh.items() if not (FOLDER / name).is_file() or (FOLDER / name).read_text("utf-8") != text]
        if stale:
            print(f"docs/reference: {', '.join(stale)} differ from the code; run 'python tools/reference.py'", file=sys.stderr)
        return 1 if stale else 0
    for name, text in fresh.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
