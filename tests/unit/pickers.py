"""Who decides what a world does next: hypothesis, or a seed."""

from __future__ import annotations

import random
from typing import Protocol


class Picker(Protocol):
    """Who decides."""

    def number(self, low: int, high: int) -> int:
        """One of [low, high]."""
        ...


class Seeded:
    """A seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)
