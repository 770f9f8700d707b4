"""Every example of the README and of docs/ is run as it stands (`page`), with a broker at BOWSTRING_SERVER: one as `bowstring dev` is, or
for pages that are about `make run` a `bowstring serve`, which makes no topics by itself.

What commands print stands below them on the page, and has to be what they print now. `make shown` writes it there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from bowstring.errors import NotSupported
from bowstring.spark import java
from tests.docs import page
from tests.process import stored
from tests.process.serving import environment, serving

ROOT = Path(__file__).parents[2]
OF_THEIR_OWN = {"embedded.md", "services.md", "testing.md"}
"""test_guides and test_services run these: each block is a program of its own, or a file of tests."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [each for each in PAGES if each.name not in OF_THEIR_OWN and page.blocks(each)]
SHOWN_BY = {"README.md": "rows as Arrow", "tutorial.md": "Stored(topic='orders'", "spark.md": "|-- value: binary", "files.md": "Graz"}
SERVED = {"README.md"}
LIMIT_SECONDS = 400
CODE = re.compile(r"^```(python|py|console|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CODE_COLUMNS = 85
WRITE = os.environ.get("BOWSTRING_WRITE_SHOWN") == "1"


def test_there_are_pages_with_examples() -> None:
    names = {each.name for each in WITH_EXAMPLES}
    assert {"README.md", "index.md", "tutorial.md", "from-kafka.md", "files.md", "notebooks.md", "reading.md", "operations.md"} <= names
    assert {"spark.md", "errors.md", "queues.md", "from-queues.md", "operating-queues.md"} <= names


@pytest.fixture
def here() -> Iterator[Path]:
    """A directory with a short name, because commands wrap what they say of long ones."""
    with tempfile.TemporaryDirectory(prefix="b", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("shown", WITH_EXAMPLES, ids=[str(each.relative_to(ROOT)) for each in WITH_EXAMPLES])
def test_the_examples_of_a_page_run(shown: Path, tmp_path: Path, here: Path) -> None:
    if any("bowstring.spark" in text for _, text in page.blocks(shown)):
        try:
            java.home(os.environ)
        except NotSupported as error:
            pytest.skip(str(error))
    if shown.name in ("operations.md", "formats.md"):
        stored.store(here / "data")
    path = f"{commands(tmp_path)}{os.pathsep}{os.environ['PATH']}"
    record = tmp_path / "outputs.json"
    line = [sys.executable, "-W", "error::ResourceWarning", str(Path(page.__file__)), str(shown), str(record)]
    with serving("--data", str(tmp_path / "data")) if shown.name in SERVED else bowstring.Broker.ephemeral() as broker:
        variables = environment({"BOWSTRING_SERVER": broker.address, "PATH": path, "HOME": str(tmp_path)})
        done = subprocess.run(line, cwd=here, env=variables, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert SHOWN_BY.get(shown.name, "") in done.stdout
    outputs = json.loads(record.read_text(encoding="utf-8"))
    if WRITE:
        shown.write_text(page.rewritten(shown.read_text(encoding="utf-8"), outputs), encoding="utf-8")
    for command, output in zip(page.shown(shown), outputs, strict=True):
        assert page.steady(command.output) == page.steady(output), f"{command.typed}: `make shown` writes what it prints now"


@pytest.mark.parametrize("shown", PAGES, ids=[str(each.relative_to(ROOT)) for each in PAGES])
def test_code_fits_the_page(shown: Path) -> None:
    """Output is as long as it is: a line of JSON is scrolled."""
    wide: list[str] = []
    for language, text in CODE.findall(shown.read_text(encoding="utf-8")):
        typed = [command.typed for command in page.commands(text)] if language == "console" else []
        lines = [line for line in text.splitlines() if language != "console" or any(line.removeprefix("$ ") in each for each in typed)]
        wide += [line for line in lines if len(line) > CODE_COLUMNS]
    assert not wide


def commands(folder: Path) -> Path:
    """A folder with a `bowstring` that is this one."""
    folder = folder / "bin"
    folder.mkdir()
    script = folder / "bowstring"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bowstring.cli.main "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder
