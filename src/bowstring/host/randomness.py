"""The machine's randomness.

All of it comes from the operating system: a process that forks must not hand its child the same
numbers.
"""

from __future__ import annotations

import random

import uuid_utils


class SystemRandomness:
    """A `Randomness` that cannot be repeated."""

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self._source.random()

    def unique(self) -> bytes:
        """A UUIDv7: 48 bits of time, the rest random."""
        return uuid_utils.uuid7().bytes
