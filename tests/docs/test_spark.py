"""What docs/guides/spark.md shows is run: its Python blocks, one after the other in one program, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bowstring.errors import NotSupported
from bowstring.spark import java
from tests.process.serving import environment

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_examples_of_the_spark_guide_run(tmp_path: Path) -> None:
    try:
        java.home(os.environ)
    except NotSupported as error:
        pytest.skip(str(error))
    assert len(BLOCKS) >= 5
    program = tmp_path / "guide.py"
    program.write_text("\n".join(BLOCKS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "|-- value: binary" in done.stdout
