"""Tells strangers at once: a Bloom filter over 64-bit hashes, asked for those of a whole batch.

Three bits an entry, all derived from the first 32 of the hash: that much every ids section keeps, also the smallest one. The second bit is
looked at only where the first one is set, and so on, so asking costs little more than one access to memory for each hash. That access is
what recognising costs: 13 sieves of a million entries took 3.5 ms to ask for 9,000 hashes, one of 13 million 0.3 (with two bits an entry).
So there should be few sieves, each before many runs or sections.

Of a thousand strangers about five pass with 16 bits of room for an entry, 31 with 8; and one more for every four million entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

BITS_AN_ENTRY = 16
_MULTIPLIERS = (1, 0x9E3779B1, 0x85EBCA77)
"""Odd, so that two hashes that differ stay different."""
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MASKS = np.left_shift(1, np.arange(8)).astype(np.uint8)


class Sieve:
    """Which hashes may have been added. It does not grow: with more than `capacity` of them more strangers pass."""

    def __init__(self, capacity: int, bits_an_entry: int = BITS_AN_ENTRY) -> None:
        self._bytes = np.zeros(min(max(capacity * bits_an_entry // 8, 8), 1 << 29), np.uint8)
        self._size = np.uint64(8 * len(self._bytes))

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes

    def add(self, hashes: Hashes) -> None:
        for multiplier in _MULTIPLIERS:
            bits = self._places(hashes, multiplier)
            places, masks = bits >> 3, _MASKS[bits & 7]
            while len(places):  # of several bits in one byte only one is set at a time
                self._bytes[places] |= masks
                left = np.flatnonzero((self._bytes[places] & masks) == 0)
                places, masks = places[left], masks[left]

    def passing(self, hashes: Hashes) -> NDArray[np.int64]:
        """The rows whose hashes may be here, ascending."""
        rows = np.flatnonzero(self._has(hashes, _MULTIPLIERS[0]))
        for multiplier in _MULTIPLIERS[1:]:
            if len(rows):
                rows = rows[self._has(hashes[rows], multiplier)]
        return rows

    def _has(self, hashes: Hashes, multiplier: int) -> NDArray[np.bool_]:
        bits = self._places(hashes, multiplier)
        return (self._bytes[bits >> 3] & _MASKS[bits & 7]) != 0

    def _places(self, hashes: Hashes, multiplier: int) -> NDArray[np.int64]:
        numbers = hashes >> _HALF
        if multiplier != 1:
            numbers = numbers * np.uint64(multiplier) & _LOW
        return (numbers * self._size >> _HALF).view(np.int64)
