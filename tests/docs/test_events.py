"""The table of events in docs/operations.md is the one that the code has."""

from __future__ import annotations

import logging
from pathlib import Path

from bowstring.ports.events import EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_every_event_is_in_the_table_as_the_code_has_it():
    table = PAGE.read_text(encoding="utf-8").partition("| event | level |")[2].partition("\n\n")[0]
    expected = [f"| `{name}` | {level(kind.level)} | {kind.message} | {kind.meaning} |" for name, kind in EVENTS.items()]
    assert table.splitlines()[2:] == expected


def level(number: int) -> str:
    return logging.getLevelName(number).lower()
