"""The lower bounds in pyproject.toml are true: an environment with exactly these versions passes what matters most.

The test creates a new environment, with packages from wherever this machine gets them. It installs the
oldest allowed version of each direct dependency, and whatever those versions need.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil")
ESSENTIAL = (
    *("tests/unit", "tests/process/test_embedded.py", "tests/process/test_kit.py", "tests/process/test_readers.py"),
    *("tests/process/test_grpc_transport.py", "tests/process/test_commands_topics.py", "tests/process/test_commands_output.py"),
    *("tests/process/test_http.py", "tests/process/test_metrics.py", "tests/contract/test_store.py", "tests/contract/test_catalog.py"),
)
NOT_HERE = (
    "tests/unit/test_tidy.py",  # about this tree, not about versions
    "tests/unit/test_codec.py::test_the_generated_code_is_that_of_the_schema",  # needs grpcio-tools, which is not for users
    # These need Polars, DuckDB and pandas, for which we have no lower bound.
    *("tests/process/test_readers.py::test_a_batch_is_a_polars_frame", "tests/process/test_readers.py::test_duckdb_asks_a_batch"),
    *("tests/process/test_readers.py::test_a_batch_is_a_pandas_frame", "tests/process/test_readers.py::test_an_empty_batch_is_one_too"),
)


@pytest.mark.long
def test_the_oldest_versions_that_we_allow_pass_what_matters_most(tmp_path: Path):
    python = _environment(tmp_path / "oldest")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "BOWSTRING_"))}
    left_out = [argument for name in NOT_HERE for argument in (("--deselect" if "::" in name else "--ignore"), name)]
    passed = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--override-ini", "minversion=8", *left_out, *ESSENTIAL],
        cwd=ROOT,
        env={**variables, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert passed.returncode == 0, passed.stdout[-20_000:] + passed.stderr[-2_000:]


def _environment(place: Path) -> str:
    """A virtual environment with the oldest versions, and the tools that run the tests as they are here."""
    python = str(place / "bin" / "python")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(place)], check=True)
    tools = [f"{name}=={version(name)}" for name in TOOLS]
    install = [*uv, "pip", "install", "--python", python, "--resolution", "lowest-direct", "--editable", ".[grpc]", *tools]
    installed = subprocess.run(install, cwd=ROOT, capture_output=True, text=True, check=False)
    if "error sending request" in installed.stderr or "dns error" in installed.stderr:
        pytest.skip("packages cannot be fetched on this machine: make them available to uv")
    assert installed.returncode == 0, installed.stderr
    return python
