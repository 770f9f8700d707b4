"""The store over a local disk: one stream of segments, appended to by flush, read by reference.

    append   frames the pages and writes them in one go into the current segment; when it has no room left, into the next one
    sync     the data of every file that was written since the last sync; their names are durable before they are written to
    read     neighbouring references together, every frame verified
    release  the files of segments that nothing refers to are reused

An append is contiguous: if it does not fit behind the current end it goes to the next segment
whole, and a flush that is larger than a segment gets one of its own size. It begins on a block
boundary (`segments.BLOCK_BYTES` says why). So `room` can be more than what the largest append that
fits would take.

Files are allocated whole, so the store notices a full disk before it writes a byte: it refuses that
append, and continues with appends that fit, reads, syncs and releases. When a write or a sync
fails, the state of these bytes is unknown, and nothing after them may count. So the store refuses
everything from then on but reads, each time with the same kind of failure. After a write that found
no room (a file system that copies on writing) the broker loads anew and opens the store again under
a new epoch: nothing refers to what was half written. After any other failure this object is dead,
and refuses even `open`: a failed sync is never tried again, because the kernel has dropped the
bytes that it could not write, and the next sync would succeed without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

from bowstring.frames import frame, framed_length, padded, verify
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Buffer, Disk
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.ports.store import Page, Reference
from bowstring.store.handles import Handles
from bowstring.store.orphans import Quarantine
from bowstring.store.segments import BLOCK_BYTES, MIB, Growth, in_blocks
from bowstring.store.spans import Span, reads, spans
from bowstring.store.supply import Segment, Supply, is_full

# The next segment is prepared when this part of a first segment is written: an idle broker has one
# segment, a busy one always two.
_PREPARE_AT = 1 / 8
_READS_AT_ONCE = 8
_ZEROS = memoryview(bytes(BLOCK_BYTES))


class LocalStore:
    """A `Store` in segments of one directory."""

    def __init__(
        self,
        disk: Disk,
        *,
        segment_bytes_first: int = 16 * MIB,
        segment_bytes_max: int = 256 * MIB,
        free_files_max: int = 4,
        shared: bool = False,
        handles_max: int = 64,
        clock: Clock | None = None,
        orphan_seconds: float = 7 * 86_400.0,
    ) -> None:
        """`orphan_seconds` is how long an orphan is kept at least, by the clock; without one it is
        kept for ever.

        `shared` says that another node may write in this directory, and does not know yet that it
        has lost its fence. Its last writes may come at any time, to files that it has open. So no
        file is ever used again: a released segment is removed, and late writes go to a file without
        a name.
        """
        self._handles = Handles(disk, handles_max)
        self._quarantine = Quarantine(disk, clock, orphan_seconds)
        growth = Growth(segment_bytes_first, segment_bytes_max)
        self._supply = Supply(disk, self._handles, self._quarantine, growth, free_files_max, shared)
        self._prepare_at = int(segment_bytes_first * _PREPARE_AT)
        self._epoch = 0
        self._current: Segment | None = None
        self._sizes: dict[int, int] = {}
        """All segments of this stream that something may refer to, with the size of their files."""
        self._unsynced: dict[int, Segment] = {}
        """Written since the last sync that covers it, in the order in which they were begun."""
        self._is_open = False
        self._failure: DiskFull | StorageFailed | None = None
        """The failure after which nothing is written any more, in this incarnation or for good."""
        self._appending = asyncio.Lock()
        self._syncing = asyncio.Lock()
        self._releasing = asyncio.Lock()

    async def open(self, epoch: int, live: Collection[int], committed: int | None = None) -> None:
        """See `Store.open`. It can be called again after a full disk, with a new epoch."""
        if isinstance(self._failure, StorageFailed):
            self._refuse()
        self._is_open = False
        async with self._appending, self._syncing, self._releasing:
            self._abandon()
            self._handles.open()
            try:
                self._sizes = await self._supply.open(epoch, live, committed)
            except (OSError, StorageFailed) as error:
                raise self._failed("opening the store", error) from error
            self._epoch = epoch
            self._failure = None
            self._is_open = True

    async def append(self, sequence: int, pages: Sequence[Page], *, copies: bool = False) -> list[Reference]:
        """See `Store.append`. Appends are written in the order of the calls."""
        async with self._appending:
            self._refuse()
            lengths = [framed_length(page) for page in pages]
            length = in_blocks(sum(map(padded, lengths)))
            if not length:
                return []
            segment = self._current
            if segment is None or not segment.has_room(length):
                segment = await self._next_segment(length)
                self._refuse()
            return self._write(segment, sequence, pages, lengths, copies)

    @property
    def room(self) -> int:
        """See `Store.room`."""
        if self._failure is not None or not self._is_open:
            return 0
        current = self._current
        return self._supply.room + (0 if current is None else current.size - current.end)

    @property
    def is_short(self) -> bool:
        return self._supply.is_short

    async def make_room(self) -> None:
        """See `Store.make_room`."""
        async with self._releasing:
            self._refuse()
            try:
                await self._supply.retry()
                self._supply.rest()
            except (OSError, StorageFailed) as error:
                raise self._refused("making room", error) from error

    def give_space_back(self) -> None:
        """See `Store.give_space_back`."""
        self._supply.give_space_back()

    def segments(self) -> dict[int, int]:
        """See `Store.segments`. One that has bytes which are not synced is not among them yet."""
        return {segment: size for segment, size in self._sizes.items() if not self._is_written(segment)}

    def orphans(self) -> dict[str, int]:
        """See `Store.orphans`."""
        return dict(self._quarantine.orphans)

    async def sync(self) -> None:
        """See `Store.sync`. A second caller waits for the first: what the first is syncing is not
        durable yet.
        """
        async with self._syncing:
            self._refuse()
            written = [(segment, segment.end) for segment in self._unsynced.values()]
            try:
                for segment, _ in written:
                    await segment.file.sync()
            except OSError as error:
                raise self._failed("syncing a segment", StorageFailed(str(error))) from error
            for segment, end in written:
                if segment.end == end:
                    self._unsynced.pop(segment.id, None)
                    self._settle(segment)

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """See `Store.read`. A page's body is a view into what was read."""
        todo = reads(spans(references))
        pages: list[Page] = []
        for at in range(0, len(todo), _READS_AT_ONCE):
            together = todo[at : at + _READS_AT_ONCE]
            found = [await self._read(together[0])] if len(together) == 1 else await self._read_together(together)
            pages.extend(page for part in found for page in part)
        return pages

    async def release(self, segments: Collection[int]) -> None:
        """See `Store.release`. Raises DiskFull if there is no room to change a name: the segments
        are then kept, and may be released again.
        """
        async with self._releasing:
            self._refuse()
            released = sorted(segment for segment in set(segments) if not self._is_written(segment))
            try:
                await self._supply.give_back(released)
            except (OSError, StorageFailed) as error:
                raise self._refused("releasing segments", error) from error
            for segment in released:
                self._sizes.pop(segment, None)
            if self._supply.is_short:
                self._supply.prepare(again=True)
            self._foresee()

    async def close(self) -> None:
        """Ends appending and syncing; unsynced bytes do not count any more."""
        self._is_open = False
        async with self._appending, self._syncing, self._releasing:
            self._abandon()
            await self._supply.close()
            self._handles.close()

    # Writing

    def _write(self, segment: Segment, sequence: int, pages: Sequence[Page], lengths: list[int], copies: bool) -> list[Reference]:
        """Frames the pages and writes them behind the segment's end."""
        references: list[Reference] = []
        buffers: list[Buffer] = []
        position = segment.end
        for page, length in zip(pages, lengths, strict=True):
            references.append(Reference(segment.id, position, length, sequence))
            buffers += frame(page, segment.id, self._epoch, sequence, position, copy=copies)
            position += padded(length)
        end = in_blocks(position)
        if end > position:
            buffers.append(_ZEROS[: end - position])
        self._unsynced[segment.id] = segment
        try:
            segment.file.write(segment.end, buffers)
        except OSError as error:
            raise self._failed("writing to a segment", error) from error
        segment.end = end
        self._foresee()
        return references

    async def _next_segment(self, length: int) -> Segment:
        """Leaves the current segment for one with room for the flush."""
        try:
            segment = await self._supply.take(length)
        except (OSError, StorageFailed) as error:
            raise self._refused("making room for a flush", error) from error
        left, self._current = self._current, segment
        self._sizes[segment.id] = segment.size
        self._handles.adopt(segment.id, segment.file)
        if left is not None:
            self._settle(left)
        return segment

    def _foresee(self) -> None:
        if self._current is not None and self._current.end >= self._prepare_at:
            self._supply.prepare()

    def _is_written(self, segment: int) -> bool:
        return segment in self._unsynced or (self._current is not None and segment == self._current.id)

    def _settle(self, segment: Segment) -> None:
        """The segment's file may be closed when it is neither written to any more nor has unsynced
        bytes.
        """
        if not self._is_written(segment.id):
            self._handles.settle(segment.id)

    def _abandon(self) -> None:
        """Nothing is written to the segments of this incarnation any more, and what is not synced
        is never counted.
        """
        written = dict.fromkeys(self._unsynced)
        if self._current is not None:
            written[self._current.id] = None
        self._unsynced, self._current = {}, None
        for segment in written:
            self._handles.settle(segment)

    # Failing

    def _failed(self, doing: str, error: OSError | StorageFailed) -> DiskFull | StorageFailed:
        """The failure that this caller and all later ones raise. A full disk never replaces
        something worse.
        """
        failure = (DiskFull if isinstance(error, OSError) and is_full(error) else StorageFailed)(f"{doing} failed: {error}")
        if not isinstance(self._failure, StorageFailed):
            self._failure = failure
        return failure

    def _refused(self, doing: str, error: OSError | StorageFailed) -> DiskFull | StorageFailed:
        """The same if nothing was written yet: a full disk then concerns only this caller."""
        if isinstance(error, OSError) and is_full(error):
            return DiskFull(f"{doing} failed: {error}")
        return self._failed(doing, error)

    def _refuse(self) -> None:
        """Raises if nothing may be written: a new exception each time, so that none gathers the
        traces of all who were refused.
        """
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
        if not self._is_open:
            raise StorageFailed("the store is not open")

    # Reading

    async def _read_together(self, together: list[list[Span]]) -> list[list[Page]]:
        """Several reads at once. Raises the first of several failures in the order of the
        references, not of time.
        """
        found = await asyncio.gather(*map(self._read, together), return_exceptions=True)
        pages: list[list[Page]] = []
        for part in found:
            if isinstance(part, BaseException):
                raise part
            pages.append(part)
        return pages

    async def _read(self, parts: list[Span]) -> list[Page]:
        """Spans of one segment. If the joint read fails, reads them one by one, to find the one
        that is damaged.
        """
        segment = parts[0].segment
        try:
            found = await self._handles.read(segment, [(span.position, span.length) for span in parts])
        except OSError as error:
            if len(parts) > 1:
                return [page for span in parts for page in await self._read([span])]
            first = parts[0].references[0]
            raise Damaged(f"segment {segment:#x} cannot be read at {first.position} (flush {first.sequence}): {error}") from error
        return [page for span, data in zip(parts, found, strict=True) for page in _pages(span, memoryview(data))]


def _pages(span: Span, data: memoryview) -> Iterator[Page]:
    for reference in span.references:
        start = reference.position - span.position
        page = verify(data[start : start + reference.length], reference)
        yield Page(page.header, bytes(page.body)) if span.outlives(reference) else page
