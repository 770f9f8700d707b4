"""Randomness, and the ids that are made from it."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    """What must differ between two runs of a program, and must not between two runs of a seed."""

    def unit(self) -> float:
        """A number in [0, 1), for jitter."""
        ...

    def unique(self) -> bytes:
        """16 bytes that nobody else has: a UUIDv7, for producers and data directories."""
        ...
