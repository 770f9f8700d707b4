"""Keys whose rows were lost with a consumer come in smaller parts, up to where they were lost.

Of the rows of a key only the first one is suspected when a lease ends (`keys`). If a later one lets
consumers crash, all rows before it would have their turn with it, and be lost with it. So when rows of
a key were lost twice the next grants have a quarter as many of it at most, and less with each time:
what is done in between is done. Nothing here is durable: a broker that is loaded begins anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.key_rows import Hashes
from bowstring.core.key_table import KEYLESS
from bowstring.core.offset_set import Offsets

PART: Final = 4
"""A grant has one of so many rows of the key that were lost."""
ALL: Final = 1 << 62
"""How many rows come of a key that was lost once: consumers are slow sometimes."""
KEYS_MAX: Final = 65_536


class _Narrowed(NamedTuple):
    most: int
    last: int
    """The last row of the key that was lost."""


class NarrowedKeys:
    """These keys, by their hashes."""

    def __init__(self) -> None:
        self._keys: dict[int, _Narrowed] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def lose(self, hashes: Hashes, offsets: Offsets) -> None:
        """Leases on these ascending rows of one grant have ended in vain."""
        keys, at, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        last = np.zeros(len(keys), np.int64)
        np.maximum.at(last, at, offsets)
        many = (counts > 1) & (keys != KEYLESS)
        if len(self._keys) + int(many.sum()) > KEYS_MAX:
            self._keys.clear()
        for key, count, end in zip(keys[many].tolist(), counts[many].tolist(), last[many].tolist(), strict=True):
            known = self._keys.get(key)
            self._keys[key] = _Narrowed(ALL, end) if known is None else _Narrowed(max(1, count // PART), max(end, known.last))

    def too_many(self, hashes: Hashes, offsets: Offsets) -> NDArray[np.bool_]:
        """Which of these ascending rows are too many for one grant. A key that has passed what was lost
        is like any other.
        """
        keys, first, at = np.unique(hashes, return_index=True, return_inverse=True)
        most = np.full(len(keys), len(hashes), np.int64)
        for place, key in enumerate(keys.tolist()):
            known = self._keys.get(key)
            if known is not None and offsets[first[place]] > known.last:
                del self._keys[key]
            elif known is not None:
                most[place] = known.most
        order = np.argsort(at, kind="stable")
        sorted_keys = at[order]
        rank = np.empty(len(at), np.int64)
        rank[order] = np.arange(len(at)) - np.searchsorted(sorted_keys, sorted_keys)
        return rank >= most[at]
