"""The data directory: a flat set of named files, and the calls that make them durable.

Writes are inline, because copying into the page cache is quicker than handing over to a thread;
syncs, reads and creation block and are awaited. A written byte is durable after `File.sync`, a
created or renamed name only after `Disk.sync_directory`. Errors are `OSError` with their errno; the
store translates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. Positions are explicit; there is no cursor."""

    name: str

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Writes all the buffers one behind the other from the position on, or raises. Not durable
        yet.
        """
        ...

    async def sync(self) -> None:
        """Makes durable everything that was written before this call (fdatasync)."""
        ...

    async def read(self, position: int, length: int) -> Buffer:
        """Reads up to `length` bytes; fewer only at the end of the file."""
        ...

    async def read_all(self, places: Sequence[tuple[int, int]]) -> list[Buffer]:
        """The result of `read` for each position and length, with one hand-over to a thread and
        back, which costs more than a small read.
        """
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One directory of a file system, owned by one process at a time."""

    def lock(self, address: str) -> None:
        """Takes the directory for this process and leaves its address in the lock file, or raises
        `Conflict` with the holder's.
        """
        ...

    def unlock(self) -> None: ...

    def names(self) -> list[str]:
        """Gives the names of the files, sorted."""
        ...

    async def create(self, name: str, size: int) -> File:
        """A new file of that size, its blocks allocated, its length synced. The name is durable
        after `sync_directory`.
        """
        ...

    async def open(self, name: str) -> File:
        """Opens an existing file for reading and writing."""
        ...

    async def size(self, name: str) -> int: ...

    def rename(self, old: str, new: str) -> None:
        """Renames a file, and replaces an existing `new`. Durable after `sync_directory`."""
        ...

    def unlink(self, name: str) -> None:
        """Removes a file. Durable after `sync_directory`."""
        ...

    async def sync_directory(self) -> None:
        """Makes durable every create, rename and unlink before this call."""
        ...
