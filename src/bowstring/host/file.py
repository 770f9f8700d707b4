"""An open file of the real machine: writes inline, syncs and reads on threads.

A file may be closed while a thread still syncs or reads in it. The descriptor must stay open until
then, or the thread would read in the next file that gets the same number. So the last one to leave
closes it.

A sync that fails stays failed. The kernel reports a lost write once, to one sync, and lets the next
one succeed. If the caller of the failed sync was cancelled meanwhile, the loss would be forgotten.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from bowstring.host.worker import Threads
from bowstring.ports.disk import Buffer

BUFFERS_AT_ONCE = os.sysconf("SC_IOV_MAX")


class HostFile:
    """A `File`."""

    def __init__(self, name: str, descriptor: int, syncs: Threads, reads: Threads) -> None:
        self.name = name
        self._descriptor = descriptor
        self._syncs = syncs
        self._reads = reads
        self._users = 0
        self._is_closed = False
        self._changing = threading.Lock()
        """Guards the two above, which threads change too."""
        self._sync_error: OSError | None = None

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """See `File.write`."""
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self.name)
        for start in range(0, len(buffers), BUFFERS_AT_ONCE):
            position = _write_all(self._descriptor, position, buffers[start : start + BUFFERS_AT_ONCE])

    async def sync(self) -> None:
        """See `File.sync`."""
        await self._syncs.run(self._sync)

    async def read(self, position: int, length: int) -> Buffer:
        """See `File.read`."""
        return await self._reads.run(lambda: self._read(position, length))

    async def read_all(self, places: Sequence[tuple[int, int]]) -> list[Buffer]:
        """See `File.read_all`."""
        return await self._reads.run(lambda: [self._read(position, length) for position, length in places])

    def close(self) -> None:
        """Closes at once, or when the last thread has left. A second time does nothing."""
        with self._changing:
            if self._is_closed:
                return
            self._is_closed = True
            if not self._users:
                os.close(self._descriptor)

    def _sync(self) -> None:
        with self._in_use() as descriptor:
            if self._sync_error is not None:
                raise OSError(self._sync_error.errno, f"an earlier sync failed: {self._sync_error.strerror}", self.name)
            try:
                os.fdatasync(descriptor)
            except OSError as error:
                self._sync_error = error
                raise

    def _read(self, position: int, length: int) -> Buffer:
        """Reads into uninitialised memory of Arrow's allocator: it is aligned for Arrow, and used
        again while it is warm. (Memory that is fresh from the system costs as much as reading into
        it.) The result is read-only, because others will hold views of it.
        """
        view = memoryview(pa.allocate_buffer(length)).cast("B")
        filled = 0
        with self._in_use() as descriptor:
            while filled < length:
                count = os.preadv(descriptor, [view[filled:]], position + filled)
                if not count:
                    break
                filled += count
        return view[:filled].toreadonly()

    @contextmanager
    def _in_use(self) -> Generator[int]:
        with self._changing:
            if self._is_closed:
                raise OSError(errno.EBADF, "the file is closed", self.name)
            self._users += 1
        try:
            yield self._descriptor
        finally:
            with self._changing:
                self._users -= 1
                if self._is_closed and not self._users:
                    os.close(self._descriptor)


def _write_all(descriptor: int, position: int, buffers: Sequence[Buffer]) -> int:
    """Writes the buffers, which must not be too many for one call, and returns the position behind
    them. The system may write less than it was given (a signal, 2 GiB at once, a disk that has just
    become full): then this writes the rest.
    """
    end = position + sum([buffer.nbytes if isinstance(buffer, memoryview) else len(buffer) for buffer in buffers])
    position += os.pwritev(descriptor, buffers, position)
    while position < end:
        buffers = _last_bytes(buffers, end - position)
        count = os.pwritev(descriptor, buffers, position)
        if not count:
            raise OSError(errno.EIO, "the disk takes no more bytes and does not say why")
        position += count
    return position


def _last_bytes(buffers: Sequence[Buffer], length: int) -> list[Buffer]:
    """The end of what the buffers hold."""
    rest: list[Buffer] = []
    for buffer in reversed(buffers):
        view = memoryview(buffer).cast("B")
        rest.append(view[max(0, len(view) - length) :])
        length -= len(rest[-1])
        if not length:
            break
    return rest[::-1]
