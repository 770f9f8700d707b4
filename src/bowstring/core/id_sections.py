"""Hashes at rest: by which sealed messages are recognised, sorted, so that the ids of a whole batch
are looked for at once.

A section belongs to an extent and has an entry for every natural id in it, and one for every batch
(a kit's generated ids are derived from the batch). An entry is a hash and an offset; a match is
only a candidate, and is compared with the stored id.

    hash:   | bucket: `bits` | key: 32 bits | the rest is not kept |

Entries are sorted by hash. The bucket's bits are not stored with the entry but follow from its place: `starts` says where each bucket
begins. With `bits` chosen so that a bucket has 16 to 32 entries, all those of a row's bucket can be looked at at once, with no search.

In memory (`Filter`) there are the last 20 bits of every key, and `starts`: 2.7 bytes an entry. A stranger that is looked for here passes
in one of 50,000 sections or so. Who is looked for at all is decided before, by one sieve for many sections (`known_ids`). Whole keys and
offsets are in blocks of their own, which are read only for a match: 8 bytes an entry on the disk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.natural_ids import Offsets
from bowstring.core.sieve import Hashes

BLOCK_ENTRIES = 1 << 12
BLOCK_ENTRIES_ONCE = 1 << 15
"""What sections of earlier releases have in a block."""
BITS_MAX = 24
PART_BITS = 16
"""About 2 to the power of this many entries are sorted at a time: two or three milliseconds."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def batch_hashes(producers: bytes, numbers: NDArray[np.int64]) -> Hashes:
    """A 64-bit hash for each batch; `producers` has 16 bytes for each. It is stored and so never
    changes; it decides about speed, never about truth.
    """
    halves = np.frombuffer(producers, np.dtype("<u8")).astype(np.uint64).reshape(-1, 2)
    hashes = numbers.astype(np.uint64) * _GOLDEN
    for word in (halves[:, 0], halves[:, 1]):
        hashes = (hashes ^ word) * _MIX
        hashes ^= hashes >> np.uint64(29)
    hashes *= _GOLDEN
    return hashes ^ (hashes >> np.uint64(32))


class BlockPlace(NamedTuple):
    """Where a block of a section is."""

    segment: int
    position: int
    length: int


class Blocks(NamedTuple):
    """The blocks of a section: where each is, and how many entries it has; the last one may have fewer."""

    places: list[BlockPlace]
    entries: int = BLOCK_ENTRIES

    @staticmethod
    def of(count: int, places: list[BlockPlace]) -> Blocks:
        """Those of a section with so many entries: how many blocks there are tells how large they are."""
        return Blocks(places, BLOCK_ENTRIES if len(places) == -(-count // BLOCK_ENTRIES) else BLOCK_ENTRIES_ONCE)


class Filter:
    """A section as it is kept in memory: where buckets begin, and the last 20 bits of each key. It is filled block by block. The first
    bits would tell less: a sieve has asked about those already, as far as they are among the first 32 of the hash."""

    def __init__(self, bits: int, starts: NDArray[np.uint32]) -> None:
        self.bits = bits
        self.starts = starts
        self._last = np.empty(int(starts[-1]), np.uint16)
        self._more = np.zeros((int(starts[-1]) + 1) // 2, np.uint8)
        """Four bits of two keys in each byte."""

    @property
    def count(self) -> int:
        return len(self._last)

    @property
    def bytes(self) -> int:
        return self.starts.nbytes + self._last.nbytes + self._more.nbytes

    def keys_of(self, hashes: Hashes) -> NDArray[np.uint32]:
        """What a block keeps of these hashes."""
        return _split(hashes, self.bits)[1]

    def fill(self, first: int, keys: NDArray[np.uint32]) -> None:
        """The keys of the entries from that place on, which is even."""
        assert first % 2 == 0, "two keys share a byte"
        self._last[first : first + len(keys)] = keys.astype(np.uint16)
        more = (keys >> np.uint32(16) & np.uint32(15)).astype(np.uint8)
        at = first // 2
        self._more[at : at + (len(keys) + 1) // 2] = more[::2]
        self._more[at : at + len(keys) // 2] |= more[1::2] << np.uint8(4)

    def find(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the hashes that are in here, and the place of each entry. A row comes as often as
        there are entries. All entries of the rows' buckets are looked at, so there should not be
        many rows: those that a sieve lets pass.
        """
        bucket, keys = _split(hashes, self.bits)
        firsts = self.starts[bucket].astype(np.int64)
        counts = self.starts[bucket + 1].astype(np.int64) - firsts
        ends = np.cumsum(counts)
        rows = np.repeat(np.arange(len(hashes)), counts)
        places = np.arange(len(rows)) + np.repeat(firsts - ends + counts, counts)
        same = np.flatnonzero(self._last[places] == keys.astype(np.uint16)[rows])
        rows, places = rows[same], places[same]
        more = self._more[places >> 1] >> ((places & 1) << 2).astype(np.uint8) & np.uint8(15)
        same = np.flatnonzero(more == (keys[rows] >> np.uint32(16) & np.uint32(15)))
        return rows[same], places[same]


class Directory:
    """A section as it is searched on the disk: which block holds the entries of a hash, and where
    that block is.
    """

    def __init__(self, bits: int, starts: NDArray[np.uint32], blocks: Blocks) -> None:
        """From where the buckets begin: of the first entry of each block the bucket is kept."""
        self._bits = bits
        self.blocks = blocks
        self._firsts = np.searchsorted(starts, np.arange(len(blocks.places)) * blocks.entries, side="right") - 1

    @property
    def bytes(self) -> int:
        return 200 * (1 + len(self.blocks.places))

    def blocks_of(self, hashes: Hashes) -> list[tuple[int, NDArray[np.int64]]]:
        """The blocks in which entries of these hashes may be, and the rows of the hashes for each."""
        buckets, _ = _split(hashes, self._bits)
        low = np.maximum(np.searchsorted(self._firsts, buckets, side="left") - 1, 0)
        counts = np.maximum(np.searchsorted(self._firsts, buckets, side="right") - low, 0)
        rows = np.repeat(np.arange(len(hashes)), counts)
        blocks = np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(len(rows))
        return [(number, rows[blocks == number]) for number in np.flatnonzero(np.bincount(blocks)).tolist()]

    def keys_of(self, hashes: Hashes) -> NDArray[np.uint32]:
        """The part of these hashes that a block keeps."""
        return _split(hashes, self._bits)[1]


def find_keys(keys: NDArray[np.uint32], wanted: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the wanted keys that are among those of a block, and the place of each. A row comes as often as there are entries; of
    a block's entries those of another bucket count too, so a stranger is found in one of a million blocks."""
    order = np.argsort(keys)
    low, high = np.searchsorted(keys, wanted, "left", order), np.searchsorted(keys, wanted, "right", order)
    counts = high - low
    rows = np.repeat(np.arange(len(wanted)), counts)
    return rows, order[np.repeat(low - np.cumsum(counts) + counts, counts) + np.arange(len(rows))]


def known_hashes(bits: int, starts: NDArray[np.uint32], keys: NDArray[np.uint32], first: int) -> Hashes:
    """What is known of the hashes of entries that follow each other, from the one at `first` on:
    all but the last bits.
    """
    end = first + len(keys)
    low, high = int(np.searchsorted(starts, first, side="right")) - 1, int(np.searchsorted(starts, end))
    counts = np.diff(np.clip(starts[low : high + 1].astype(np.int64), first, end))
    hashes = keys.astype(np.uint64) << np.uint64(32 - bits)
    return hashes | np.repeat(np.arange(low, high, dtype=np.uint64) << np.uint64(64 - bits), counts) if bits else hashes


class Built(NamedTuple):
    """A section in the making: what its directory holds, and its blocks of keys and offsets."""

    bits: int
    starts: NDArray[np.uint32]
    blocks: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]]


def parts_of(count: int) -> int:
    """In how many steps a section of so many entries is to be made, as the number of bits that tell
    them apart: each is a moment's work.
    """
    return (max(count, 1) - 1 >> PART_BITS).bit_length()


def parts_in(hashes: Hashes, bits: int) -> NDArray[np.int64]:
    """Where each of the parts begins in sorted hashes, and at last where they end."""
    firsts = (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), np.int64)
    return np.searchsorted(firsts, np.arange((1 << bits) + 1)).astype(np.int64)


class Builder:
    """Makes a section, a part of the hashes after the other. Offsets are kept as distances from the
    extent's first one.
    """

    def __init__(self, count: int, first_offset: int, bits_max: int = BITS_MAX) -> None:
        """`count` is about how many entries there will be."""
        self._first_offset = first_offset
        self._bits = min(max(count.bit_length() - 5, 0), bits_max)
        self._counts = np.zeros((1 << self._bits) + 1, np.int64)
        self._taken: list[tuple[Hashes, Offsets]] = []
        self._keys: list[NDArray[np.uint32]] = []
        self._distances: list[NDArray[np.uint32]] = []
        self._blocks: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]] = []
        self._pending = 0

    def take(self, hashes: Hashes, offsets: Offsets) -> None:
        """Entries of the part that is being made, in any order. Those before the first offset are
        left out.
        """
        inside = offsets >= self._first_offset
        self._taken.append((hashes[inside], offsets[inside]))

    def sort(self) -> Hashes:
        """The part is complete: the hashes of the next one are all behind those of this one. Gives them, ascending."""
        taken, self._taken = self._taken, []
        if not any(len(hashes) for hashes, _ in taken):
            return np.empty(0, np.uint64)
        hashes, offsets = np.concatenate([hashes for hashes, _ in taken]), np.concatenate([offsets for _, offsets in taken])
        order = np.argsort(hashes, kind="stable")  # what was taken is a few sorted runs, which are merged so
        hashes = hashes[order]
        bucket, keys = _split(hashes, self._bits)
        first = int(bucket[0])
        counts = np.bincount(bucket - first)
        self._counts[first + 1 : first + 1 + len(counts)] += counts
        self._keys.append(keys)
        self._distances.append((offsets[order] - self._first_offset).astype(np.uint32))
        self._pending += len(keys)
        if self._pending >= BLOCK_ENTRIES:
            self._cut(BLOCK_ENTRIES)
        return hashes

    def _cut(self, least: int) -> None:
        """Makes blocks of what is there, as long as so much is left."""
        keys, distances = np.concatenate(self._keys), np.concatenate(self._distances)
        at = 0
        while len(keys) - at >= least:
            self._blocks.append((keys[at : at + BLOCK_ENTRIES], distances[at : at + BLOCK_ENTRIES]))
            at += BLOCK_ENTRIES
        self._keys, self._distances, self._pending = [keys[at:]], [distances[at:]], max(len(keys) - at, 0)

    def built(self) -> Built:
        if self._pending:
            self._cut(1)
        return Built(self._bits, np.cumsum(self._counts).astype(np.uint32), self._blocks)


def _split(hashes: Hashes, bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    bucket = (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), np.int64)
    return bucket, (hashes >> np.uint64(32 - bits)).astype(np.uint32)
