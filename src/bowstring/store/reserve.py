"""A little space that is kept for the catalog: a file that is given up when the disk is full.

A broker without room for messages still has to write: acknowledgements, deletions, the retention
that makes room again. All that is small and goes into the catalog, and SQLite allocates nothing
before it needs it. So a file of a few megabytes lies in the directory while all is well. When the
catalog meets a full disk, the broker removes the file, so that the catalog can write. When there is
space again, the broker makes the file anew.

    hold      makes the file if it is missing; allocated whole, its name durable
    give_up   removes it. The directory is synced, because file systems hand out blocks again only when the removal is on the disk
"""

from __future__ import annotations

import asyncio

from bowstring.ports.disk import Disk
from bowstring.ports.failures import StorageFailed
from bowstring.store.segments import MIB
from bowstring.store.supply import is_full

RESERVE = "reserve"


class Reserve:
    """The file `reserve` of one directory. Both calls raise StorageFailed if the directory cannot
    be synced, or for an I/O error.
    """

    def __init__(self, disk: Disk, size: int = 8 * MIB) -> None:
        self._disk = disk
        self._size = size
        self._held = False
        self._changing = asyncio.Lock()

    @property
    def held(self) -> bool:
        """Whether this object has made sure that the space is kept."""
        return self._held

    async def hold(self) -> bool:
        """Makes sure that the space is kept. False if there is no room for it; then it takes none."""
        async with self._changing:
            if not self._held:
                try:
                    self._held = await self._is_there() or await self._make()
                except OSError as error:
                    raise StorageFailed(f"keeping a reserve of {self._size} bytes failed: {error}") from error
            return self._held

    async def give_up(self) -> None:
        """Frees the space. Does nothing if there is no such file."""
        async with self._changing:
            self._held = False
            try:
                if RESERVE in self._disk.names():
                    self._disk.unlink(RESERVE)
                    await self._disk.sync_directory()
            except OSError as error:
                raise StorageFailed(f"giving up the reserve failed: {error}") from error

    async def _is_there(self) -> bool:
        """Removes a file of another size, left by a crash or by another setting."""
        if RESERVE not in self._disk.names():
            return False
        if await self._disk.size(RESERVE) == self._size:
            return True
        self._disk.unlink(RESERVE)
        return False

    async def _make(self) -> bool:
        try:
            file = await self._disk.create(RESERVE, self._size)
        except OSError as error:
            if is_full(error):
                return False
            raise
        file.close()
        await self._disk.sync_directory()
        return True
