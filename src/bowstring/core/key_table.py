"""Small numbers for keys: everything else about a key is an entry of an array.

A key has a number while rows of it are known. Numbers of keys that are gone are given to others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bowstring.core.key_rows import Hashes, Numbers, once

KEYLESS: Final = 0
"""The hash, and the number, of no key."""
ONE: Final = np.int32(1)
"""Of the same type as counts: adding it to many takes a twentieth of the time that an `int` takes."""
ROOM_FIRST: Final = 64
SLOTS: Final = 4_096
"""Keys prefer consumers by slot: this many of them, by the last bits of the hash."""


class KeyTable:
    """The keys that are known, by their hashes."""

    def __init__(self) -> None:
        self._by_hash: dict[int, int] = {}
        self._unused: list[int] = []
        """Numbers that no key has any more."""
        self._next = 1
        self.hashes: Hashes = np.zeros(ROOM_FIRST, np.uint64)
        """By number."""
        self.rows = np.zeros(ROOM_FIRST, np.int32)
        """By number: how many rows are known."""

    @property
    def size(self) -> int:
        """Numbers are below this."""
        return len(self.hashes)

    def number(self, key: int) -> int | None:
        """None if no row of it is known."""
        return self._by_hash.get(key)

    def numbered(self, hashes: Hashes) -> Numbers:
        """The numbers of keys. A row of each counts as known from here on."""
        if not len(hashes):
            return np.empty(0, np.intp)
        keys, at, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        asked = keys.tolist()
        numbers = [-1 if number is None else number for number in map(self._by_hash.get, asked)]
        if asked[0] == KEYLESS:
            numbers[0] = KEYLESS
        if -1 in numbers:
            self._name(asked, numbers)
        found = np.array(numbers, np.intp)
        self.rows[found] += counts.astype(np.int32)
        return found[at]

    def _name(self, keys: list[int], numbers: list[int]) -> None:
        new = [place for place, number in enumerate(numbers) if number < 0]
        again = [self._unused.pop() for _ in range(min(len(new), len(self._unused)))]
        fresh = len(new) - len(again)
        given = [*again, *range(self._next, self._next + fresh)]
        self._next += fresh
        if self._next > self.size:
            more = max(self._next, 2 * self.size) - self.size
            self.hashes = np.concatenate((self.hashes, np.zeros(more, np.uint64)))
            self.rows = np.concatenate((self.rows, np.zeros(more, np.int32)))
        named = [keys[place] for place in new]
        self.hashes[given] = np.array(named, np.uint64)
        self._by_hash.update(zip(named, given, strict=True))
        for place, number in zip(new, given, strict=True):
            numbers[place] = number

    def forget(self, numbers: Numbers) -> None:
        """A row of each of these keys is not known any more."""
        if not len(numbers):
            return
        np.subtract.at(self.rows, numbers, ONE)
        over = once(numbers[(self.rows[numbers] == 0) & (numbers != KEYLESS)])
        for key in self.hashes[over].tolist():
            del self._by_hash[key]
        self._unused += over.tolist()

    def check(self) -> None:
        """The invariants."""
        assert len(self._by_hash) == int((self.rows[1:] > 0).sum()), "a key without rows has a number"
        assert all(self.hashes[number] == key for key, number in self._by_hash.items())


def slots_of(hashes: Hashes) -> Numbers:
    """The slots of keys."""
    return (hashes & np.uint64(SLOTS - 1)).astype(np.intp)
