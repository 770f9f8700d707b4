"""What docs/operations.md shows is run: every `$ bowstring` line in its order, in a directory where ./data is a broker's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.process import stored

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```console\n(.*?)```", TEXT, flags=re.DOTALL) for line in block.splitlines()]


def test_the_commands_of_the_operations_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.store(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert len(LINES) >= 6
    for line in LINES:
        assert line.startswith("$ bowstring ")
        done = stored.command(*shlex.split(line)[2:])
        assert done.returncode == 0, f"{line}: {done.stderr}"
