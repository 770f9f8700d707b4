"""The version is one, wherever it is asked for, and asking for it loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import bowstring
from bowstring.version import VERSION


def test_the_version_is_an_attribute():
    assert bowstring.__version__ == VERSION


def test_asking_for_the_version_loads_nothing_heavy():
    code = """
import sys, bowstring
assert bowstring.__version__
loaded = {name.split(".")[0] for name in sys.modules} & {"pyarrow", "numpy", "grpc", "asyncio", "typer", "starlette", "importlib_metadata"}
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_module_is_the_command():
    told = subprocess.run([sys.executable, "-m", "bowstring", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"bowstring {VERSION}\n"
