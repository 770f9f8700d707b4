"""What the guides to the embedded broker and to testing show is run: as programs, and as a test file with the plug-in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.serving import environment
from tests.process.test_testing import PLUGIN

pytest_plugins = ["pytester"]
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (GUIDES / name).read_text(encoding="utf-8"), flags=re.DOTALL)


PROGRAMS = [(name, block) for name in ("embedded.md", "testing.md") for block in blocks(name) if not block.startswith("# test_")]
TESTS = [block for block in blocks("testing.md") if block.startswith("# test_")]


@pytest.mark.parametrize(("name", "program"), PROGRAMS, ids=[f"{name}-{number}" for number, (name, _) in enumerate(PROGRAMS)])
def test_a_program_of_a_guide_runs(name: str, program: str, tmp_path: Path):
    line = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), name
    assert done.stdout


def test_the_tests_of_the_guide_pass(pytester: pytest.Pytester):
    (test_file,) = TESTS
    pytester.makepyfile(test_file)
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", *PLUGIN, "-o", "asyncio_mode=auto"),
        *("-o", "asyncio_default_fixture_loop_scope=function"),
        timeout=120,
    )
    result.assert_outcomes(passed=4)
