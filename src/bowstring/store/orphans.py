"""Orphans: segments that were written to and that the catalog does not refer to. They are put
aside, never reused in silence.

Most segments that nothing refers to are garbage. But some may hold the only copy of acknowledged
messages: an operator has put a catalog back from a backup, or a bug has lost a reference. The
frames tell the two apart, as far as possible:

    nothing written in this life      the file begins with zeros, or with a frame of an earlier life      reused
    flushes that were never committed  every frame is of a flush behind the end of the journal             reused
    copies that were never finished    and the incarnation before this one made them                       reused
    anything else                                                                                          put aside

A crash in the middle of a flush, of a seal or of a cleaning leaves the second and the third, so a
broker that crashes all the time loses no space by it. A catalog from a backup leaves flushes behind
the end of its journal, too; but no more than `FLUSHES_AHEAD` can be written and not committed, so
one that is further ahead proves that the catalog is older than the directory. Then nothing is
reused that was written to. The same holds if there are segments of a later epoch.

An orphan is renamed to `orphan-`, its id and, if there is a clock, the moment in seconds
since 1970. The log mentions it, and the first opening after `orphan_seconds` removes it, which the
log mentions too. A catalog that refers to it after all (an operator has put the right one back)
finds it again under its old name. docs/decisions/0007-orphans.md has the alternatives.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from bowstring.frames import FRAME_HEADER_BYTES, MAGIC, FrameHeader, header_of, padded
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Buffer, Disk, File
from bowstring.store.segments import BLOCK_BYTES, Inventory, epoch_of, in_blocks, orphan_name, segment_name

# The flusher commits one flush while it writes the next (`broker.log.flusher`): the journal ends at
# most this many before the last frame.
FLUSHES_AHEAD = 2
_READ_BYTES = 256 << 10

_log = logging.getLogger("bowstring.store")


class Traces(NamedTuple):
    """The findings about the frames of one segment, as far as it was read."""

    unclear: str = ""  # why the frames tell nothing, if so
    acknowledged: int = 0  # a flush that is in the journal, or may be; 0 if there is none
    ahead: int = 0  # a flush that is too far behind the journal's end; 0 if there is none
    copies: bool = False
    written: bool = False


class Quarantine:
    """The orphans of one directory."""

    def __init__(self, disk: Disk, clock: Clock | None, orphan_seconds: float) -> None:
        self._disk = disk
        self._clock = clock
        self._orphan_seconds = orphan_seconds
        self.orphans: dict[str, int] = {}

    async def sort_out(self, stock: Inventory, committed: int | None) -> list[int]:
        """Puts aside segments that may still be needed, and returns the other unused ones for
        reuse. The names are not durable yet.
        """
        found = {segment: await self._traces(segment, committed) for segment in stock.unused}
        older = _older(stock, found, committed)
        reusable: list[int] = []
        for segment, traces in found.items():
            reason = _reason(traces, older, epoch_of(segment) == stock.epoch_last)
            if reason:
                self._put_aside(segment, reason)
            else:
                reusable.append(segment)
        return reusable

    async def take_stock(self, stock: Inventory) -> None:
        """Restores the names of orphans that the catalog refers to after all, removes those whose
        time is over, and lists the others.
        """
        self.orphans = {}
        for name, segment, moment in stock.orphans:
            if segment in stock.missing:
                self._disk.rename(name, segment_name(segment))
                _log.warning("%s is referred to by the catalog: it is no orphan any more", name)
            elif self._is_over(moment):
                self._disk.unlink(name)
                _log.warning("removed %s: nothing has referred to it since it was put aside %d days ago", name, self._age(moment) // 86_400)
            else:
                self.orphans[name] = await self._disk.size(name)

    async def measure(self) -> None:
        """The sizes of those that were put aside just now."""
        for name, size in self.orphans.items():
            self.orphans[name] = size or await self._disk.size(name)

    def _put_aside(self, segment: int, reason: str) -> None:
        name = orphan_name(segment, None if self._clock is None else self._clock.now() // 1_000_000)
        self._disk.rename(segment_name(segment), name)
        self.orphans[name] = 0
        _log.warning("put %s aside as %s: nothing in the catalog refers to it, but %s", segment_name(segment), name, reason)

    def _age(self, moment: int | None) -> int:
        return 0 if self._clock is None or moment is None else self._clock.now() // 1_000_000 - moment

    def _is_over(self, moment: int | None) -> bool:
        return self._clock is not None and moment is not None and self._age(moment) >= self._orphan_seconds

    async def _traces(self, segment: int, committed: int | None) -> Traces:
        """Reads the frames of a segment. An unreadable segment may hold anything."""
        try:
            size = await self._disk.size(segment_name(segment))
            file = await self._disk.open(segment_name(segment))
            try:
                return await _look(file, segment, size, committed)
            finally:
                file.close()
        except OSError as error:
            return Traces(unclear=f"it cannot be read: {error}", written=True)


async def _look(file: File, segment: int, size: int, committed: int | None) -> Traces:
    """Walks over the frames, from the first to the last of this life or to one that settles the
    matter.
    """
    walk = _Walk(file, segment, size)
    first = await walk.next()
    if first is None:
        return await _unwritten(walk)
    copies = False
    header: FrameHeader | None = first
    while header is not None:
        if header.copy:
            copies = True
        elif committed is None or header.sequence <= committed:
            return Traces(acknowledged=header.sequence, written=True)
        elif header.sequence > committed + FLUSHES_AHEAD:
            return Traces(ahead=header.sequence, written=True)
        header = await walk.next()
    return Traces(copies=copies, written=True)


async def _unwritten(walk: _Walk) -> Traces:
    beginning = bytes(await walk.bytes_at(0))
    if beginning.startswith(MAGIC) or not any(beginning):
        return Traces()
    return Traces(unclear="it begins with neither zeros nor a page, so it may be a damaged one", written=True)


class _Walk:
    """From frame to frame. The frames of one append lie one behind the other, and each append
    begins with a block.
    """

    def __init__(self, file: File, segment: int, size: int) -> None:
        self._file = file
        self._segment = segment
        self._size = size
        self._position = 0
        self._read: Buffer = b""
        self._read_at = 0

    async def next(self) -> FrameHeader | None:
        while self._position + FRAME_HEADER_BYTES <= self._size:
            data = await self.bytes_at(self._position)
            if len(data) < FRAME_HEADER_BYTES:
                return None
            header = header_of(data)
            if self._is_ours(header):
                self._position += padded(header.length)
                return header
            if not self._position % BLOCK_BYTES:
                return None
            self._position = in_blocks(self._position)
        return None

    async def bytes_at(self, position: int) -> memoryview:
        """A frame header's bytes there, out of a larger read."""
        start = position - self._read_at
        if not 0 <= start <= len(self._read) - FRAME_HEADER_BYTES:
            self._read, self._read_at, start = await self._file.read(position, min(_READ_BYTES, self._size - position)), position, 0
        return memoryview(self._read)[start : start + FRAME_HEADER_BYTES]

    def _is_ours(self, header: FrameHeader) -> bool:
        here = header.version == 1 or header.position == self._position
        return header.magic == MAGIC and header.segment == self._segment and here


def _older(stock: Inventory, found: dict[int, Traces], committed: int | None) -> str:
    """Why the catalog must be older than the directory; empty if it need not be."""
    if stock.later:
        return f"there is {segment_name(stock.later[0])} of a later epoch, so the catalog is an older one"
    ahead = max((traces.ahead for traces in found.values()), default=0)
    return f"there are pages of flush {ahead} and the journal ends at {committed}, so the catalog is an older one" if ahead else ""


def _reason(traces: Traces, older: str, last: bool) -> str:
    """Why a segment may still be needed; empty if it is not."""
    if not traces.written:
        return ""
    if traces.unclear or older:
        return traces.unclear or older
    if traces.acknowledged:
        return f"it has pages of flush {traces.acknowledged}, which may have been acknowledged"
    return "it has pages that were copied by an earlier incarnation" if traces.copies and not last else ""
