"""The decisions about segments that need no disk: names, ids, sizes, and which free file is reused.

A segment is a file of pages, allocated whole before anything is written to it. Its id is `epoch <<
24 | number`, so that two incarnations never write the same one, and its name is the id in
hexadecimal. When nothing refers to it any more, its file becomes a free file that is later renamed
into a new segment: overwriting blocks that were written before is two to four times faster than
writing new ones. Bytes of the earlier life stay behind the new end; `frames` says why they are
never served.

Sizes start small, because an idle broker should be small, and double with every segment, because a
busy one should not change segments all the time. A file that is too small by now is removed instead
of reused, unless the disk is full. So is a file beyond the largest size, which was made for a
single large flush.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

MIB = 1 << 20
# A flush begins on a boundary of the device's blocks, and its last block is filled with zeros. So a
# write never touches a block that holds synced bytes (a torn block cannot take them along), and
# never has to read one first.
BLOCK_BYTES = 4096
_NUMBER_BITS = 24
_SEGMENT = re.compile(r"segment-([0-9a-f]{16})")
_FREE = re.compile(r"free-(0|[1-9][0-9]{0,17})")
_ORPHAN = re.compile(r"orphan-([0-9a-f]{16})(?:-(0|[1-9][0-9]{0,11}))?")


def segment_id(epoch: int, number: int) -> int:
    """The id of an incarnation's segment. Numbers start at 1: id 0 means a page that is inlined in
    the journal.
    """
    if not 0 < number < 1 << _NUMBER_BITS:
        raise ValueError(f"an incarnation has segments 1 to {(1 << _NUMBER_BITS) - 1}, not {number}")
    return epoch << _NUMBER_BITS | number


def epoch_of(segment: int) -> int:
    return segment >> _NUMBER_BITS


def number_of(segment: int) -> int:
    return segment & (1 << _NUMBER_BITS) - 1


def segment_name(segment: int) -> str:
    return f"segment-{segment:016x}"


def free_name(number: int) -> str:
    return f"free-{number}"


def orphan_name(segment: int, moment: int | None) -> str:
    """The name of a segment that was put aside, at a moment in seconds since 1970 if there was a
    clock.
    """
    return f"orphan-{segment:016x}" + ("" if moment is None else f"-{moment}")


def in_blocks(length: int) -> int:
    """The length, rounded up to whole blocks."""
    return -(-length // BLOCK_BYTES) * BLOCK_BYTES


class Orphan(NamedTuple):
    name: str
    segment: int
    moment: int | None  # when it was put aside, in seconds since 1970


class Inventory(NamedTuple):
    """The files that a new incarnation finds in its directory. It never touches files with other
    names.
    """

    live: list[int]  # segments that the catalog refers to
    unused: list[int]  # segments that nothing refers to
    free: list[int]  # numbers of the free files
    number: int  # the highest number among the segments and orphans of this very epoch, 0 if there is none
    missing: frozenset[int] = frozenset()  # segments that the catalog refers to, and that are not there under their names
    later: tuple[int, ...] = ()  # segments of a later epoch
    orphans: tuple[Orphan, ...] = ()  # segments that were put aside
    epoch_last: int = 0  # the last epoch, up to this one, of which there is a segment


def take_stock(names: Iterable[str], epoch: int, live: Collection[int]) -> Inventory:
    """Classifies the files of a directory. A segment of a later epoch belongs to a newer catalog:
    it is neither used nor reused.
    """
    names = list(names)
    segments = sorted(int(found[1], 16) for name in names if (found := _SEGMENT.fullmatch(name)))
    free = [int(found[1]) for name in names if (found := _FREE.fullmatch(name))]
    kept = frozenset(live)
    ours = [segment for segment in segments if epoch_of(segment) <= epoch]
    orphans = tuple(_orphan(name, found[1], found[2]) for name in names if (found := _ORPHAN.fullmatch(name)))
    taken = [*segments, *(orphan.segment for orphan in orphans)]
    return Inventory(
        live=[each for each in ours if each in kept],
        unused=[each for each in ours if each not in kept],
        free=sorted(free),
        number=max((number_of(segment) for segment in taken if epoch_of(segment) == epoch), default=0),
        missing=kept.difference(segments),
        later=tuple(segment for segment in segments if epoch_of(segment) > epoch),
        orphans=orphans,
        epoch_last=max(map(epoch_of, ours), default=0),
    )


def _orphan(name: str, segment: str, moment: str | None) -> Orphan:
    return Orphan(name, int(segment, 16), None if moment is None else int(moment))


class Growth:
    """The size of the next segment: twice the one before, between the first and the largest."""

    def __init__(self, first: int, largest: int) -> None:
        if not 0 < first <= largest:
            raise ValueError(f"segments cannot start at {first} bytes and grow to {largest}: it has to be 0 < first <= largest")
        self.first = in_blocks(first)
        self.largest = in_blocks(largest)
        self.size = self.first

    def start_again(self) -> None:
        self.size = self.first

    def grow(self) -> None:
        self.size = min(2 * self.size, self.largest)


class FreeFile(NamedTuple):
    number: int
    size: int


class FreePool:
    """The free files, each of a size that a segment may have. It keeps at most `files_max`, or as
    many as its owner says were needed lately.
    """

    def __init__(self, size_min: int, size_max: int, files_max: int) -> None:
        self._size_min = size_min
        self._size_max = size_max
        self._files_max = files_max
        self.needed = 0
        """How many segments were needed lately."""
        self._files: dict[int, int] = {}  # number -> size
        self._number_last = 0

    def __len__(self) -> int:
        return len(self._files)

    def clear(self) -> None:
        self._files.clear()

    def new_number(self) -> int:
        """A number that no free file has."""
        self._number_last += 1
        return self._number_last

    def add(self, number: int, size: int) -> list[FreeFile]:
        """Adds a file, and returns those to remove: files of a wrong size, or the smallest of too
        many.
        """
        self._number_last = max(self._number_last, number)
        if not self._size_min <= size <= self._size_max:
            return [FreeFile(number, size)]
        self._files[number] = size
        return self._remove(self._by_size()[: self.surplus])

    @property
    def surplus(self) -> int:
        """The number of files beyond the limit."""
        return max(0, len(self._files) - max(self._files_max, self.needed))

    def shrink(self) -> list[FreeFile]:
        """Gives up half of the surplus."""
        return self._remove(self._by_size()[: -(-self.surplus // 2)])

    def take(self, size: int) -> FreeFile | None:
        """The smallest file of at least that size."""
        fitting = [file for file in self._by_size() if file.size >= size]
        return self._remove(fitting[:1])[0] if fitting else None

    def take_largest(self, size: int) -> FreeFile | None:
        """The largest file, if it has at least that size: the best choice when the disk is full."""
        largest = [file for file in self._by_size()[-1:] if file.size >= size]
        return self._remove(largest)[0] if largest else None

    def give_up_one(self) -> list[FreeFile]:
        """Gives up the largest file, if there is any."""
        return self._remove(self._by_size()[-1:])

    def outrun(self, size: int) -> list[FreeFile]:
        """Gives up the files that are smaller than segments are by now."""
        return self._remove([file for file in self._by_size() if file.size < size])

    def _by_size(self) -> list[FreeFile]:
        return sorted((FreeFile(*item) for item in self._files.items()), key=lambda file: (file.size, file.number))

    def _remove(self, files: list[FreeFile]) -> list[FreeFile]:
        for file in files:
            del self._files[file.number]
        return files
