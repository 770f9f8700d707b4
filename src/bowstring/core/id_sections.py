"""Hashes at rest: by which sealed messages are recognised, sorted, so that the ids of a whole batch are looked for at once.

A section belongs to an extent and has an entry for every natural id in it, and one for every batch (a kit's generated ids are derived from
the batch). An entry is a hash and an offset; a match is a candidate only, and is compared with what is stored.

    hash:   | bucket: `bits` | key: 32 bits | the rest is not kept |

Entries are sorted by hash. The bucket's bits are not stored with the entry but follow from its place: `starts` says where each bucket
begins. With `bits` chosen so that a bucket has 32 to 64 entries, 4 bytes in memory tell a stranger from a known one but for one in
70 million or so, and a search is six steps of NumPy over the whole batch. The offsets are in blocks of their own, which are read
only for a match: 8 bytes an entry on the disk, 4 and a bit in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.natural_ids import Hashes, Offsets

BLOCK_ENTRIES = 1 << 15
BITS_MAX = 24

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def batch_hashes(producers: list[bytes], numbers: list[int]) -> Hashes:
    """A 64-bit hash for each batch. It is stored and so never changes; it decides about speed, never about truth."""
    halves = np.frombuffer(b"".join(producers), np.dtype("<u8")).astype(np.uint64).reshape(-1, 2)
    hashes = np.array(numbers, np.uint64) * _GOLDEN
    for word in (halves[:, 0], halves[:, 1]):
        hashes = (hashes ^ word) * _MIX
        hashes ^= hashes >> np.uint64(29)
    hashes *= _GOLDEN
    return hashes ^ (hashes >> np.uint64(32))


class Filter(NamedTuple):
    """A section as it is kept in memory: everything but the offsets."""

    bits: int
    starts: NDArray[np.uint32]
    keys: NDArray[np.uint32]

    @property
    def bytes(self) -> int:
        return self.starts.nbytes + self.keys.nbytes

    def hashes(self) -> Hashes:
        """What is known of the entries' hashes; the rest of their bits is 0."""
        counts = np.diff(self.starts.astype(np.int64))
        buckets = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
        return (buckets << np.uint64(64 - self.bits) if self.bits else buckets) | (self.keys.astype(np.uint64) << np.uint64(32 - self.bits))

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the hashes that are in here, and the place of each entry. A row comes as often as there are entries."""
        bucket, key = _split(hashes, self.bits)
        low = self.starts[bucket].astype(np.int64)
        high = end = self.starts[bucket + 1].astype(np.int64)
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            inside = middle < high
            less = inside & (self.keys[np.minimum(middle, len(self.keys) - 1)] < key)
            low = np.where(less, middle + 1, low)
            high = np.where(less | ~inside, high, middle)
        wanted = np.arange(len(hashes))
        rows, places = [wanted[:0]], [low[:0]]
        while len(wanted):
            wanted = wanted[low[wanted] < end[wanted]]
            wanted = wanted[self.keys[low[wanted]] == key[wanted]]
            rows.append(wanted)
            places.append(low[wanted])
            low[wanted] += 1
        return np.concatenate(rows), np.concatenate(places)


class Built(NamedTuple):
    """A section in the making: what its directory holds, and its blocks of keys and offsets."""

    bits: int
    starts: NDArray[np.uint32]
    blocks: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]]


def build(hashes: Hashes, offsets: Offsets, first_offset: int, bits_max: int = BITS_MAX) -> Built:
    """A section of these entries, in any order. Offsets are kept as distances from the extent's first one."""
    order = np.argsort(hashes, kind="stable")
    bits = min(max(len(hashes).bit_length() - 6, 0), bits_max)
    bucket, keys = _split(hashes[order], bits)
    distances = (offsets[order] - first_offset).astype(np.uint32)
    starts = np.searchsorted(bucket, np.arange((1 << bits) + 1)).astype(np.uint32)
    cuts = range(0, len(keys), BLOCK_ENTRIES)
    return Built(bits, starts, [(keys[cut : cut + BLOCK_ENTRIES], distances[cut : cut + BLOCK_ENTRIES]) for cut in cuts])


def joined(parts: list[tuple[Filter, Offsets]], first_offset: int) -> Built:
    """One section of the entries of several, from filters and offsets. Of their hashes only what the filters kept is known, so there are
    no more buckets than the least of them had."""
    hashes = np.concatenate([part.hashes() for part, _ in parts]) if parts else np.empty(0, np.uint64)
    offsets = np.concatenate([offsets for _, offsets in parts]) if parts else np.empty(0, np.int64)
    inside = offsets >= first_offset
    return build(hashes[inside], offsets[inside], first_offset, min((part.bits for part, _ in parts), default=0))


def _split(hashes: Hashes, bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    bucket = (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), np.int64)
    return bucket, (hashes >> np.uint64(32 - bits)).astype(np.uint32)
