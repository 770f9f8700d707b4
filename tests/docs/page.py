"""Runs what a page shows, from top to bottom, in this directory: `python page.py PAGE`.

    ```python     is run; all blocks of a page share their names, as the cells of a notebook do, and may await as those
    ```console    lines that begin with `$ ` are run by bash; what does not end by itself, or installs things, is not (NOT_RUN)

Blocks in any other language are only shown, `py` among them: that is Python which is not for Bowstring.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"^(pip |make |bowstring (dev|serve)\b|.*--follow)")


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of each block that is run."""
    found = [(match[1], match[2]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [(language, text if language == "python" else commands(text)) for language, text in found]


def commands(text: str) -> str:
    """The lines of a block that bash is to run."""
    typed = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    return "\n".join(line for line in typed if not NOT_RUN.match(line))


def run(page: Path) -> None:
    """Runs every block; raises what the first one raises that fails."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for number, (language, text) in enumerate(blocks(page), 1):
            print(f"---- {page.name}, block {number}", flush=True)
            if language == "console":
                subprocess.run(["bash", "-e", "-o", "pipefail", "-x", "-c", text], check=True)
                continue
            code = compile(text, f"{page.name}, block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            ended = eval(code, names)
            if inspect.iscoroutine(ended):
                runner.run(ended)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
