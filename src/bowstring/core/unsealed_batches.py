"""Batches whose pages are not sealed: what a seal writes to the ids section, so that generated ids are found there.

`producers` knows batches too, but forgets them when the deduplication window has passed. A generated
id is known for as long as its message is there, so this has every batch until it is sealed. It holds
what the page index holds, and comes back at load like that: from the rows of the journal.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from bowstring.core.decisions import BatchName, Rows
from bowstring.core.deletions import Deletions

PRODUCER_BYTES = 16


class UnsealedBatches:
    """Producer, number and first offset of each committed batch with rows, by offset."""

    def __init__(self) -> None:
        self._producers = bytearray()
        self._numbers = array("q")
        self._firsts = array("q")

    def add(self, producer: bytes, number: int, first_offset: int) -> None:
        """The batch is committed. Its rows are behind all others."""
        self._producers += producer
        self._numbers.append(number)
        self._firsts.append(first_offset)

    def find(self, name: BatchName) -> list[int]:
        """The first offsets of the batches of that name, the newest first."""
        places = np.flatnonzero(np.array(self._numbers, np.int64) == name.number).tolist()
        return [self._firsts[at] for at in reversed(places) if self._producer(at) == name.producer]

    def below(self, end: int, deletions: Deletions) -> tuple[bytes, Rows, Rows]:
        """Producers (16 bytes each), numbers and first offsets of the batches whose rows are before that offset, without those that were
        taken back."""
        count = bisect_left(self._firsts, end)
        numbers, firsts = np.array(self._numbers[:count], np.int64), np.array(self._firsts[:count], np.int64)
        producers = np.frombuffer(bytes(self._producers[: count * PRODUCER_BYTES]), np.int64).reshape(-1, 2)
        freed = deletions.freed(int(firsts[0]), end) if count and len(deletions) else firsts[:0]
        stays = ~np.isin(firsts, freed)
        return producers[stays].tobytes(), numbers[stays], firsts[stays]

    def drop_below(self, end: int) -> None:
        """Rows before that offset are sealed, or gone."""
        count = bisect_left(self._firsts, end)
        del self._producers[: count * PRODUCER_BYTES], self._numbers[:count], self._firsts[:count]

    def __len__(self) -> int:
        return len(self._numbers)

    def _producer(self, at: int) -> bytes:
        return bytes(self._producers[at * PRODUCER_BYTES : (at + 1) * PRODUCER_BYTES])
