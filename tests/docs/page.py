"""Runs what a page shows, from top to bottom, in this directory: `python page.py PAGE [RECORD]`.

    ```python     is run; all blocks of a page share their names, as the cells of a notebook do, and may await as those
    ```console    lines that begin with `$ ` are run by bash (a `\\` at the end goes on in the next line); the lines below are what a
                  terminal shows then (`terminal`). What installs things is not run (NOT_RUN), and has no output

Blocks in any other language are only shown, `py` among them: that is Python which is not for Bowstring.

RECORD is where the output of each command is written, as JSON. `test_pages` compares it with the page, and `make shown` writes it there.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import terminal

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"^(pip|make|source) ")
VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z?"  # a moment
    r"|\b\d\d:\d\d:\d\dZ"  # a time of this day
    r"|\b[0-9a-f]{32}\b"  # the id of a batch
    r"|\b\d[\d.,]*\s?([KMG]i)?B\b"  # a size
    r"|\b(\d+m )?\d[\d.]* ?(ms|s)\b|_seconds=[\d.]+"  # how long it took
    r"|\b[\d,.]+ (delivered|acked|nacked|expired)(?=[,:]|$)|(?<=\s)\d+\.\d(?=\s)"  # how fast
    r"|\b\d+@[\d,]+"  # a place that depends on how messages were gathered
    r"|\bsegment-?\s?[0-9a-f]+\b|\bpid \d+|:\d{5}\b|\s+"
)
"""What is different each time."""


class Command(NamedTuple):
    """A command of a console block, and what the page shows below it."""

    typed: str
    output: str

    @property
    def runs(self) -> bool:
        return not NOT_RUN.match(self.typed)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block that is run."""
    return [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def commands(text: str) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for typed, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        found.append(Command(re.sub(r"\\\n\s*", "", typed), output))
    return found


def shown(page: Path) -> list[Command]:
    """All commands of a page, in their order."""
    return [command for language, text in blocks(page) if language == "console" for command in commands(text)]


def rewritten(text: str, outputs: list[str]) -> str:
    """The text of a page with these outputs below its commands."""
    left = iter(outputs)

    def block(match: re.Match[str]) -> str:
        if match[1] != "console":
            return match[0]
        body = re.sub(r"^(\$ (?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", lambda command: command[1] + next(left), match[2], flags=re.MULTILINE)
        return f"```console\n{body}```"

    return BLOCK.sub(block, text)


def steady(output: str) -> str:
    """What is the same each time."""
    return VOLATILE.sub("~", output)


def run(page: Path, record: Path | None = None) -> None:
    """Runs every block; raises what the first one raises that fails."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[str] = []
    with asyncio.Runner() as runner:
        for number, (language, text) in enumerate(blocks(page), 1):
            print(f"---- {page.name}, block {number}", flush=True)
            if language == "console":
                outputs += [terminal.run(command.typed) if command.runs else command.output for command in commands(text)]
                continue
            code = compile(text, f"{page.name}, block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            ended = eval(code, names)
            if inspect.iscoroutine(ended):
                runner.run(ended)
    if record is not None:
        record.write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
