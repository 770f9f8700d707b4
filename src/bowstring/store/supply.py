"""The supply of empty segments: made before they are needed, because making one takes longer than a
flush may wait.

A segment is handed out only when its file is allocated and its name is durable, so that afterwards
syncing the file is all that it takes. Whether the file is new or a recycled one, the order is the
same: create or rename, then sync the directory, then hand out.

    open ──► list: segments that nothing refers to are put aside (`orphans`) or become free files ──► prepare
    prepare, in the background: a free file that fits, else a new one, else (a full disk) any free file or a smaller new one ──► ready
    take: the one that is ready; if it is too small for the flush, one of the flush's own size

A full disk is never a failure here: nothing was written, the current segment may have room left,
and space may be freed meanwhile. The supply is then short, which `room` tells, and tries again when
a segment is needed, when one has come back, and on request. While it is short it does not grow, and
removes nothing that it could use. The next caller gets any other failure. A directory that cannot
be synced is always a failure, because then the names on the disk are unknown.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bowstring.ports.disk import Disk, File
from bowstring.ports.failures import StorageFailed
from bowstring.store.handles import Handles
from bowstring.store.orphans import Quarantine
from bowstring.store.segments import FreeFile, FreePool, Growth, Inventory, free_name, in_blocks, segment_id, segment_name, take_stock

RESTS = 10
"""The number of rests without demand before free files are removed. The supply keeps as many free
files as were needed within this many rests, because they may be needed again. So a store from which
retention takes as much as is published writes to the same files over and over, and writes no zeros.
"""


@dataclass(slots=True)
class Segment:
    """A segment that can be written to."""

    id: int
    file: File
    size: int
    end: int = 0
    """Where the next flush goes: everything behind it is free, or bytes of an earlier life."""

    def has_room(self, length: int) -> bool:
        return self.end + length <= self.size


def is_full(error: OSError) -> bool:
    """No room on the disk, or none left of what the user may use."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Supply:
    """Makes segments of one incarnation after the other, in one directory."""

    def __init__(self, disk: Disk, handles: Handles, quarantine: Quarantine, growth: Growth, free_files_max: int, shared: bool) -> None:
        self._disk = disk
        self._handles = handles
        self._quarantine = quarantine
        self._growth = growth
        self._pool = FreePool(growth.first, growth.largest, free_files_max)
        self._shared = shared
        """Others may write in this directory too: see `LocalStore`."""
        self._epoch = 0
        self._number = 0
        self._number_rested = 0
        self._rests = 0
        """How often `rest` has found that no segment was made."""
        self._needed: deque[int] = deque(maxlen=RESTS)
        """How many segments were made from rest to rest."""
        self._ready: Segment | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._full: OSError | None = None
        """The error with which the last preparation found the disk full. Until a request, the
        supply does not try again.
        """
        self._error: Exception | None = None
        """A failure in the background, other than a full disk."""

    async def open(self, epoch: int, live: Collection[int], committed: int | None) -> dict[int, int]:
        """Starts an incarnation: reuses segments of earlier ones that nothing refers to. Returns
        the live segments with their sizes.
        """
        await self.close()
        self._raise_error()
        stock = take_stock(self._disk.names(), epoch, live)
        self._number = max(stock.number, self._number if epoch == self._epoch else 0)
        self._epoch = epoch
        self._number_rested = self._number
        self._full = None
        self._growth.start_again()
        self._pool.clear()
        for number in stock.free:
            if self._shared:
                self._disk.unlink(free_name(number))
                continue
            self._unlink(self._pool.add(number, await self._disk.size(free_name(number))))
        await self._put_aside(stock, committed)
        live_now = take_stock(self._disk.names(), epoch, live).live
        sizes = {segment: await self._disk.size(segment_name(segment)) for segment in live_now}
        self.prepare()
        return sizes

    @property
    def room(self) -> int:
        """The size of the next segment if it is ready. One that is being made counts too, unless
        the previous attempt found the disk full: a caller that needs it waits for it, and a busy
        store should not look like a full one.
        """
        if self._ready is not None:
            return self._ready.size
        return self._growth.size if self._preparing is not None and self._full is None else 0

    @property
    def is_short(self) -> bool:
        """Whether the last attempt found the disk full."""
        return self._full is not None

    def prepare(self, again: bool = False) -> None:
        """Prepares the next segment in the background; after a full disk only if `again` says so."""
        if self._ready is None and self._preparing is None and self._error is None and (again or self._full is None):
            self._preparing = asyncio.create_task(self._prepare())

    async def retry(self) -> None:
        """Prepares the next segment, unless it is ready, and waits for that. Raises StorageFailed;
        a full disk is no error.
        """
        await self._prepared()
        self.prepare(again=True)
        await self._prepared()
        self._raise_error()

    def rest(self) -> None:
        """Call this now and then. It removes a free file when no segment was needed for a while, so
        that an idle store becomes small.
        """
        self._needed.append(self._number - self._number_rested)
        if self._number != self._number_rested:
            self._number_rested, self._rests = self._number, 0
        self._rests += 1
        self._pool.needed = sum(self._needed)
        if self._full is None:
            self._unlink(self._pool.shrink() or (self._pool.give_up_one() if self._rests > RESTS else []))

    async def take(self, length: int) -> Segment:
        """An empty segment with room for that many bytes. Raises OSError (if the disk is full, it
        may be asked again later) or StorageFailed.
        """
        await self._prepared()
        self._raise_error()
        if self._ready is None and length <= self._growth.size:
            await self.retry()
            if self._ready is None and self._full is not None:
                raise OSError(self._full.errno, self._full.strerror) from self._full
        ready = self._ready
        if ready is not None and ready.has_room(length):
            self._ready = None
            return ready
        return await self._make(in_blocks(length), in_blocks(length))

    async def give_back(self, segments: Iterable[int]) -> None:
        """Makes the files of these segments free, once they have no readers. The names are durable
        when it returns: a segment that a power cut brought back under its name would look like a
        lost one.
        """
        self._pool.needed = sum(self._needed) + self._number - self._number_rested
        if await self._free(segments):
            await self._sync_directory()

    async def _put_aside(self, stock: Inventory, committed: int | None) -> None:
        """Turns segments that nothing refers to into free files or orphans."""
        before = self._disk.names()
        for segment in stock.unused:
            await self._handles.retire(segment)
        await self._quarantine.take_stock(stock)
        reusable = await self._quarantine.sort_out(stock, committed)
        await self._quarantine.measure()
        if self._disk.names() != before:
            await self._sync_directory()
        await self._free(reusable)

    async def _free(self, segments: Iterable[int]) -> bool:
        """Returns whether there was any; ignores missing files."""
        found = False
        for segment in segments:
            name = segment_name(segment)
            try:
                size = await self._disk.size(name)
            except FileNotFoundError:
                continue
            await self._handles.retire(segment)
            if self._shared:
                self._disk.unlink(name)
            else:
                number = self._pool.new_number()
                self._disk.rename(name, free_name(number))
                self._unlink(self._pool.add(number, size))
            found = True
        return found

    def give_space_back(self) -> None:
        """Removes all free files."""
        while files := self._pool.give_up_one():
            self._unlink(files)

    async def close(self) -> None:
        """Waits for what is under way. A segment that is ready stays behind, and is found when the
        next incarnation takes stock.
        """
        await self._prepared()
        if self._ready is not None:
            self._ready.file.close()
            self._ready = None

    async def _prepared(self) -> None:
        """Waits for the preparation in the background; cancelling the wait does not cancel the
        preparation.
        """
        if self._preparing is not None:
            await asyncio.wait((self._preparing,))

    def _raise_error(self) -> None:
        if self._error is not None:
            raise StorageFailed(f"preparing a segment failed: {self._error}") from self._error

    async def _prepare(self) -> None:
        try:
            await self._prepare_next()
        except Exception as error:  # the next caller that needs a segment gets the error
            if isinstance(error, OSError) and is_full(error):
                self._full = error
            else:
                self._error = error
        finally:
            self._preparing = None

    async def _prepare_next(self) -> None:
        size = self._growth.size
        self._ready = await self._make(size, self._growth.first)
        self._full = None
        if self._ready.size >= size:
            self._growth.grow()
            self._unlink(self._pool.outrun(size))

    async def _make(self, wanted: int, at_least: int) -> Segment:
        """A segment whose name is durable. On a full disk a smaller one will do."""
        self._number += 1
        number = self._number
        segment = segment_id(self._epoch, number)
        try:
            file, size = await self._file(segment_name(segment), wanted, at_least)
        except OSError as error:
            if is_full(error) and number == self._number:
                self._number -= 1  # a disk may be full for a long time, and there are only so many numbers
            raise
        try:
            await self._sync_directory()
        except BaseException:
            file.close()
            raise
        return Segment(segment, file, size)

    async def _file(self, name: str, wanted: int, at_least: int) -> tuple[File, int]:
        free = self._pool.take(wanted)
        size = wanted
        while free is None:
            try:
                return await self._disk.create(name, size), size
            except OSError as error:
                if not is_full(error):
                    raise
                free = self._pool.take_largest(at_least)
                if free is None and size == at_least:
                    raise
                size = max(in_blocks(size // 2), at_least)
        try:
            self._disk.rename(free_name(free.number), name)
        except OSError:
            self._unlink(self._pool.add(*free))
            raise
        return await self._disk.open(name), free.size

    async def _sync_directory(self) -> None:
        try:
            await self._disk.sync_directory()
        except OSError as error:
            raise StorageFailed(f"syncing the directory failed: {error}") from error

    def _unlink(self, files: Iterable[FreeFile]) -> None:
        for file in files:
            self._disk.unlink(free_name(file.number))
