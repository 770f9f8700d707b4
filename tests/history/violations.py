"""The findings of a checker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Violation(NamedTuple):
    """A promise that was broken, and the case."""

    checker: str
    case: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.case}"


Cases = Iterator[str]
