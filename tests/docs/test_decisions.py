"""Decisions follow one form, so that a reader finds the question, the figures and the way back at the same place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
DECISIONS = sorted(FOLDER.glob("0*.md"))
HEADINGS = ["The question", "What was measured", "The decision", "What would change it"]


def test_numbers_are_used_once() -> None:
    numbers = [decision.name[:4] for decision in DECISIONS]
    assert len(numbers) == len(set(numbers)) >= 29


@pytest.mark.parametrize("decision", DECISIONS, ids=[decision.stem for decision in DECISIONS])
def test_a_decision_has_the_four_headings_in_order(decision: Path) -> None:
    text = decision.read_text(encoding="utf-8")
    assert re.match(rf"# {decision.name[:4]}[.:] \S", text), "the title begins with the number of the file"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("decision", DECISIONS, ids=[decision.stem for decision in DECISIONS])
def test_no_part_of_a_decision_is_empty(decision: Path) -> None:
    parts = re.split(r"^## .+$", decision.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert all(len(part.split()) >= 3 for part in parts)
