"""Open segment files, and their readers.

A segment that is being written stays open: the system reports a disk error only to the handle that
was open when it happened, so the handle that wrote is the one that syncs. Other segments are opened
for a read, and the least recently used are closed again. A file that is reused must have no
readers: `retire` waits for those under way, and admits no new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bowstring.ports.disk import Buffer, Disk, File
from bowstring.ports.failures import Damaged, StorageFailed
from bowstring.store.segments import segment_name


class _Handle:
    """One segment's file. It is here while it is open or has readers."""

    __slots__ = ("file", "idle", "readers", "written")

    def __init__(self, file: File | None, written: bool) -> None:
        self.file = file
        self.written = written
        """Whether it has unsynced bytes, or is still to be written to. Such a file is never closed
        to make room.
        """
        self.readers = 0
        self.idle: asyncio.Future[None] | None = None
        """Set while `retire` waits for the readers to leave; it admits no new ones."""


class Handles:
    """The handles of one directory, at most `handles_max` open in addition to those that are being
    written or read.
    """

    def __init__(self, disk: Disk, handles_max: int) -> None:
        self._disk = disk
        self._handles_max = handles_max
        self._handles: dict[int, _Handle] = {}  # the least recently used first
        self._is_open = True

    def open(self) -> None:
        self._is_open = True

    def adopt(self, segment: int, file: File) -> None:
        """Adds a new segment, which is written to from now on."""
        self._handles[segment] = _Handle(file, written=True)

    def settle(self, segment: int) -> None:
        """The segment will not be written to again, and all of it is synced."""
        self._handles[segment].written = False
        self._close_surplus()

    async def read(self, segment: int, places: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Bytes of the segment for each position and length, fewer only at its end. Raises OSError,
        or Damaged if it is given back.
        """
        if not self._is_open:
            raise StorageFailed("the store is closed, so nothing in it can be read")
        handle = self._handles.pop(segment, None) or _Handle(None, written=False)
        self._handles[segment] = handle
        if handle.idle is not None:
            raise Damaged(f"segment {segment:#x} was released, so nothing in it can be read")
        handle.readers += 1
        try:
            file = handle.file or await self._open(segment, handle)
            return await file.read_all(places)
        finally:
            handle.readers -= 1
            if not handle.readers:
                self._left(segment, handle)

    async def retire(self, segment: int) -> None:
        """Closes the file as soon as it has no readers."""
        handle = self._handles.get(segment)
        if handle is None:
            return
        if handle.readers:
            handle.idle = handle.idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(handle.idle)
        elif handle.file is not None:
            handle.file.close()
        self._handles.pop(segment, None)

    def close(self) -> None:
        """Closes everything. Reads under way end by themselves, well or with an error."""
        self._is_open = False
        for handle in self._handles.values():
            if handle.file is not None:
                handle.file.close()
        self._handles.clear()

    async def _open(self, segment: int, handle: _Handle) -> File:
        """Opens the file. If two readers open it at once, the second handle is closed again."""
        file = await self._disk.open(segment_name(segment))
        if handle.file is not None or self._handles.get(segment) is not handle:
            return self._instead(file, handle)
        handle.file = file
        self._close_surplus()
        return file

    def _instead(self, file: File, handle: _Handle) -> File:
        file.close()
        if handle.file is None:
            raise StorageFailed(f"{file.name} was closed while it was being opened")
        return handle.file

    def _left(self, segment: int, handle: _Handle) -> None:
        """The last reader has gone."""
        if handle.idle is not None:
            if handle.file is not None:
                handle.file.close()
                handle.file = None
            if not handle.idle.done():
                handle.idle.set_result(None)
        elif handle.file is None:
            if self._handles.get(segment) is handle:
                del self._handles[segment]
        else:
            self._close_surplus()

    def _close_surplus(self) -> None:
        surplus = len(self._handles) - self._handles_max
        if surplus <= 0:
            return
        closable = [segment for segment, handle in self._handles.items() if not handle.written and not handle.readers]
        for segment in closable[:surplus]:
            handle = self._handles.pop(segment)
            if handle.file is not None:
                handle.file.close()
