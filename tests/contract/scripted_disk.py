"""A disk in memory that does what a test tells it, and writes down what it was asked to do.

It is as forgetful as a real one: `cut` takes away every byte that was not synced and every name that was not made durable by syncing
the directory. It fails when it is told to (`fail`), is full when it has no room left, and can be held up in the middle of an operation
(`hold`). The simulation has a disk of its own, which does all this by chance; this one does it on purpose.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bowstring import errors
from bowstring.ports.disk import Buffer


class Inode:
    """A file's bytes: as they are, and as they would be after a power cut."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.durable = bytes(size)


class Platter:
    """What outlives a process: files and names. `holder` is the address of the disk that has locked it."""

    def __init__(self, room: int | None = None) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.room = room
        self.holder: str | None = None
        self.cuts = 0

    def cut(self) -> None:
        """The power goes: disks that were made before do nothing any more."""
        self.cuts += 1
        for inode in {*self.names.values(), *self.durable_names.values()}:
            inode.data = bytearray(inode.durable)
        self.names = dict(self.durable_names)
        self.holder = None

    @property
    def used(self) -> int:
        return sum(len(inode.data) for inode in self.names.values())


class ScriptedDisk:
    """A `Disk` over a platter. The log has one tuple per operation, in the order in which they ended."""

    def __init__(self, platter: Platter | None = None) -> None:
        self.platter = platter or Platter()
        self._cuts = self.platter.cuts
        self.log: list[tuple[object, ...]] = []
        self.open_files = 0
        self._failures: dict[str, list[int]] = defaultdict(list)
        self._held: dict[str, asyncio.Event] = {}
        self._arrived: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    # What tests do

    def fail(self, operation: str, number: int) -> None:
        """The next such operation fails with that errno."""
        self._failures[operation].append(number)

    @contextmanager
    def hold(self, operation: str) -> Iterator[asyncio.Event]:
        """Such operations wait until the block ends; the event says that one has come."""
        self._held[operation] = asyncio.Event()
        self._arrived[operation].clear()
        try:
            yield self._arrived[operation]
        finally:
            self._held.pop(operation).set()

    def done(self, operation: str) -> list[tuple[object, ...]]:
        """The log's entries for that operation, without its name."""
        return [entry[1:] for entry in self.log if entry[0] == operation]

    async def step(self, operation: str) -> None:
        self._arrived[operation].set()
        if operation in self._held:
            await self._held[operation].wait()
        self.check(operation)

    def check(self, operation: str) -> None:
        if self.platter.cuts != self._cuts:
            raise OSError(errno.EIO, "the power is gone")
        if self._failures[operation]:
            number = self._failures[operation].pop(0)
            raise OSError(number, os.strerror(number))

    # The port

    def lock(self, address: str) -> None:
        if self.platter.holder is not None:
            raise errors.Conflict(f"served by {self.platter.holder}", details={"address": self.platter.holder})
        self.platter.holder = address

    def unlock(self) -> None:
        self.platter.holder = None

    def names(self) -> list[str]:
        return sorted(self.platter.names)

    async def create(self, name: str, size: int) -> ScriptedFile:
        await self.step("create")
        if name in self.platter.names:
            raise FileExistsError(errno.EEXIST, "exists", name)
        if self.platter.room is not None and self.platter.used + size > self.platter.room:
            raise OSError(errno.ENOSPC, "no room", name)
        self.platter.names[name] = Inode(size)
        self.log.append(("create", name, size))
        return ScriptedFile(self, name)

    async def open(self, name: str) -> ScriptedFile:
        await self.step("open")
        file = ScriptedFile(self, name)
        self.log.append(("open", name))
        return file

    async def size(self, name: str) -> int:
        await self.step("size")
        return len(self._inode(name).data)

    def rename(self, old: str, new: str) -> None:
        self.check("rename")
        self._inode(old)
        self.platter.names[new] = self.platter.names.pop(old)
        self.log.append(("rename", old, new))

    def unlink(self, name: str) -> None:
        self.check("unlink")
        self._inode(name)
        del self.platter.names[name]
        self.log.append(("unlink", name))

    async def sync_directory(self) -> None:
        names = dict(self.platter.names)
        await self.step("sync_directory")
        self.platter.durable_names = names
        self.log.append(("sync_directory",))

    def _inode(self, name: str) -> Inode:
        if name not in self.platter.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return self.platter.names[name]


class ScriptedFile:
    """A `File` of a scripted disk."""

    def __init__(self, disk: ScriptedDisk, name: str) -> None:
        if name not in disk.platter.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        self.name = name
        self._disk = disk
        self._inode = disk.platter.names[name]
        self._is_open = True
        disk.open_files += 1

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """A write that fails has written half."""
        self._require_open()
        data = b"".join(buffers)
        failure: OSError | None = None
        try:
            self._disk.check("write")
        except OSError as error:
            failure, data = error, data[: len(data) // 2]
        self._inode.data[position : position + len(data)] = data
        if failure is not None:
            raise failure
        self._disk.log.append(("write", self.name, position, len(data)))

    async def sync(self) -> None:
        self._require_open()
        data = bytes(self._inode.data)
        await self._disk.step("sync")
        self._inode.durable = data
        self._disk.log.append(("sync", self.name))

    async def read(self, position: int, length: int) -> Buffer:
        self._require_open()
        await self._disk.step("read")
        self._require_open()
        self._disk.log.append(("read", self.name, position, length))
        return bytes(self._inode.data[position : position + length])

    async def read_all(self, places: Sequence[tuple[int, int]]) -> list[Buffer]:
        return [await self.read(position, length) for position, length in places]

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._disk.open_files -= 1

    def _require_open(self) -> None:
        if not self._is_open:
            raise OSError(errno.EBADF, "the file is closed", self.name)
