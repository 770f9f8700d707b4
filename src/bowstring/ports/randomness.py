"""Randomness, and the ids that are made from it."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    """Values that differ between two runs of a program, but not between two runs of a seed."""

    def unit(self) -> float:
        """Gives a number in [0, 1), for jitter."""
        ...

    def unique(self) -> bytes:
        """16 unique bytes: a UUIDv7, for producers and data directories."""
        ...
