"""Where pages rest: append to a stream, read by reference.

A page is a batch at rest, as two buffers: a small header (whose rows they are) and the batch's own
bytes. The store frames it (a 64-byte frame header with segment, epoch, sequence, lengths and
CRC-32C) and answers with a `Reference`. Reading is by reference only, never by scanning: a recycled
segment holds old bytes behind its end. The store verifies a page before it returns it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from bowstring.ports.disk import Buffer


class Page(NamedTuple):
    """A page as bytes. The body is the batch as it came from the producer, never copied on the way."""

    header: bytes
    body: Buffer


class Reference(NamedTuple):
    """Where a page is. Segment 0 means: inlined in that row of the broker's journal, `position`
    counting within the row's pages.
    """

    segment: int
    position: int
    length: int
    sequence: int
    broker: int = 0
    """The one whose journal holds an inlined page; 0 for a page in a segment."""


class Store(Protocol):
    """One stream of segments. Segment ids are `epoch << 24 | n`, so no two incarnations ever write
    the same one.
    """

    async def open(self, epoch: int, live: Collection[int], committed: int | None = None) -> None:
        """Starts an incarnation. `live` are the segments that the catalog refers to, or that it
        wants to release itself, and `committed` is the last sequence of its journal. Other segments
        of this epoch or an older one are reused if nothing was written to them in this life, or
        only what was never committed; else they are put aside (`orphans`), never silently removed.
        Without `committed` everything that was written may have been. Ones of a later epoch than
        the catalog knows are left alone. Never appends to an old segment.
        """
        ...

    async def append(self, sequence: int, pages: Sequence[Page], *, copies: bool = False) -> list[Reference]:
        """Writes the pages of one flush, or of one slice of the sealer or cleaner. They are
        durable, names and all, only after `sync`. `copies` says that these pages are also stored
        elsewhere until something refers to the new places, so an unfinished copy can be dropped.
        Raises DiskFull if there is no room: then nothing was written, and the store goes on. (If a
        write itself finds the disk full, which cannot happen in a preallocated file, everything but
        `read` raises DiskFull until `open`, and `room` is 0.) Raises StorageFailed.
        """
        ...

    @property
    def room(self) -> int:
        """Bytes that can be appended with no more space from the disk: the rest of the current
        segment, and the next if it is ready. One that is being made counts as ready, unless the try
        before found the disk full. An append is never split: the largest that fits may be smaller.
        0 while the store is not open.
        """
        ...

    @property
    def is_short(self) -> bool:
        """Whether the last attempt to make a segment found the disk full. Then `room` is all there
        is.
        """
        ...

    async def make_room(self) -> None:
        """Tries once more to make the next segment. A disk that is still full is not an error:
        `room` tells.
        """
        ...

    def give_space_back(self) -> None:
        """Gives the disk the space of files that are kept to be used again, whether or not the store is open:
        for who cannot write a few bytes elsewhere on a full disk.
        """
        ...

    def segments(self) -> dict[int, int]:
        """The segments that are not written to any more and are synced, with the size of their
        files: what the cleaner may look at.
        """
        ...

    def orphans(self) -> dict[str, int]:
        """The orphans by name, with the size of each file."""
        ...

    async def sync(self) -> None:
        """All that was appended before this call is durable when it returns. Raises StorageFailed;
        it is never tried again.
        """
        ...

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """The pages, verified: checksum, segment and sequence of every frame. Neighbouring
        references are read in one go. Raises Damaged naming the first bad reference.
        """
        ...

    async def release(self, segments: Collection[int]) -> None:
        """Releases segments that nothing refers to any more: their files are reused once no read is
        under way in them. A segment that is still being written is left alone: release it again
        when `segments` has it.
        """
        ...

    async def close(self) -> None: ...
