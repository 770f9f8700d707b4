"""The page about readers: its examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bowstring

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    with bowstring.Broker.ephemeral() as broker:
        monkeypatch.setenv("BOWSTRING_SERVER", broker.address)
        names: dict[str, bowstring.Client] = {}
        exec(compile(code, str(PAGE), "exec"), names)
        names["client"].close()
