"""Randomness, and the ids that are made from it."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    """Numbers that differ between two runs of a program, and are the same in two runs of a seed."""

    def unit(self) -> float:
        """Gives a number in [0, 1), for jitter."""
        ...

    def unique(self) -> bytes:
        """Gives 16 bytes that are unique: a UUIDv7, for producers and data directories."""
        ...
