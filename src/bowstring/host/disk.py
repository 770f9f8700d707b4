"""The data directory on the real machine.

Which thread does what: the loop's own thread writes, renames and unlinks, at once; one thread
syncs; one makes new files; a few read. Threads start on first use and end with `unlock`.

A new file is allocated and then, for a short while, written full of zeros; `zeros` says why.
Measured on ext4 on a virtual disk, alone on two cores (append and fdatasync, MB/s / CPU seconds per
GB, by 1 MiB and by 4 MiB):

    growing file             1,411 / 0.30      512 / 1.49
    allocated                1,287 / 0.24    1,444 / 0.25
    allocated, zeros         2,319 / 0.21    3,317 / 0.12
    recycled                 2,410 / 0.19    3,490 / 0.13
    recycled, O_DIRECT       3,093 / 0.10    4,405 / 0.06

("zeros" there went through the page cache, which was still warm.) The store as a whole, by 1 MiB,
medians of five rounds on the same machine with a load of seven: 131 MB/s without zeros, 169 with
zeros through the page cache, 307 with zeros past it; CPU seconds per GB 1.4, 2.4 and 0.7; median
append and sync 7.5, 0.9 and 1.3 ms; the longest, which waits for a new file, 86, 1,236 and 328 ms.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from bowstring import errors
from bowstring.host.file import HostFile
from bowstring.host.lock import DirectoryLock
from bowstring.host.worker import Threads
from bowstring.host.zeros import write_zeros

_READERS = 4


class HostDisk:
    """A `Disk`: one directory of the machine's file system."""

    def __init__(self, path: str | os.PathLike[str], *, prewrite_seconds: float = 0.5, embedded: bool = False) -> None:
        self._path = os.path.abspath(path)
        self._prewrite_seconds = prewrite_seconds
        """The longest time to fill a new file with zeros; 0 switches that off."""
        self._lock = DirectoryLock(self._path, embedded=embedded)
        self._stopping = threading.Event()
        self._start_threads()

    def lock(self, address: str) -> None:
        """See `Disk.lock`. A directory that is missing is made; one that cannot be written to is
        refused.
        """
        try:
            self._make_directory()
            self._lock.take(address)
        except OSError as error:
            raise self._unusable(error) from error

    def unlock(self) -> None:
        """Ends the threads, then releases the lock. It abandons a file that is being made, and
        waits for a sync under way: no other process may take the directory while this one still
        writes.
        """
        self._stopping.set()
        self._makers.join()
        self._syncs.join()
        self._reads.end()
        self._stopping.clear()
        self._start_threads()
        self._lock.give_back()

    def names(self) -> list[str]:
        """See `Disk.names`."""
        with os.scandir(self._path) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    async def create(self, name: str, size: int) -> HostFile:
        """See `Disk.create`. If it fails, no file is left."""
        return await self._opened(self._makers, lambda: self._create(name, size))

    async def open(self, name: str) -> HostFile:
        """See `Disk.open`."""
        return await self._opened(self._reads, lambda: self._file(name, os.open(self._at(name), os.O_RDWR | os.O_CLOEXEC)))

    async def size(self, name: str) -> int:
        """See `Disk.size`."""
        return await self._reads.run(lambda: os.stat(self._at(name)).st_size)

    def rename(self, old: str, new: str) -> None:
        """See `Disk.rename`."""
        os.rename(self._at(old), self._at(new))

    def unlink(self, name: str) -> None:
        """See `Disk.unlink`."""
        os.unlink(self._at(name))

    async def sync_directory(self) -> None:
        """See `Disk.sync_directory`."""
        await self._syncs.run(lambda: sync_directory(self._path))

    def _start_threads(self) -> None:
        self._syncs = Threads(1, "disk-sync")
        self._makers = Threads(1, "disk-create")
        self._reads = Threads(_READERS, "disk-read")

    def _at(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _file(self, name: str, descriptor: int) -> HostFile:
        return HostFile(name, descriptor, self._syncs, self._reads)

    async def _opened(self, threads: Threads, call: Callable[[], HostFile]) -> HostFile:
        """Opens a file on a thread; closes it again if the caller has given up by then."""
        opening = threads.begin(call)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise

    def _create(self, name: str, size: int) -> HostFile:
        path = self._at(name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                os.posix_fallocate(descriptor, 0, size)
            write_zeros(path, size, self._prewrite_seconds, self._stopping)
            if self._stopping.is_set():
                raise OSError(errno.ECANCELED, "the directory is being unlocked", name)
            os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(path)
            raise
        return self._file(name, descriptor)

    def _make_directory(self) -> None:
        """Makes the directory and any missing ones above it; each name is durable in its parent."""
        missing: list[str] = []
        path = self._path
        while not os.path.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            with suppress(FileExistsError):  # another process was quicker, or it is not a directory: then taking the lock reports it
                os.mkdir(directory, 0o700)
            sync_directory(os.path.dirname(directory))

    def _unusable(self, error: OSError) -> errors.Error:
        """The error that says why this cannot be a data directory, and what to do."""
        match error.errno:
            case errno.ENOTDIR:
                reason, hint = "is not a directory.", "Name a directory, or one that can be made."
            case errno.EROFS:
                reason, hint = "is on a file system that is mounted read-only.", "Name a directory that can be written to."
            case errno.EACCES | errno.EPERM:
                reason, hint = f"cannot be written to by this user (uid {os.geteuid()}).", "Give it to this user, or name another one."
            case errno.ENOSPC | errno.EDQUOT:
                return errors.Full(f"the data directory {self._path} is on a disk that is full.", hint="Free some space, and repeat.")
            case _:
                reason, hint = f"cannot be used: {error.strerror}.", "Name a directory on a local disk that can be written to."
        return errors.InvalidArgument(f"the data directory {self._path} {reason}", hint=hint)


def sync_directory(path: str) -> None:
    """Makes created and changed names in the directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Makes everything written to the file durable, by any process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _close_opened(opening: asyncio.Future[HostFile]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
