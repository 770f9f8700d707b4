"""One SQLite file and the worker that owns its one connection.

Everything that touches the connection is a plain function that is handed to the worker, and runs in
the order in which it was asked for. There is nothing to race with inside a process, and the file is
locked against others.

SQLite's errors are translated in one place each for writing and reading. A full disk rolls back,
and the connection stays good; that nothing of such a commit comes back after a crash rests on
SQLite writing the frame that commits last (true for devices that it takes to be power-safe, its
default, where it does not pad). Every other failure of a write ends the catalog: after a failed
sync no process can know what is on the disk, so the catalog tries nothing again, and keeps SQLite
from its own checkpoint at closing as well.

The WAL is checkpointed by us and not by SQLite, which does it inside the commit that crosses the
line and delays its answer. Here the answer goes out first, and the checkpoint is handed to the
worker behind it. A commit that comes meanwhile waits; how long depends on the WAL's size, so it is
kept small. Measured (2 KiB pages, 16 KiB inlined, the worst case; one run each on a busy machine),
a checkpoint takes about 3 ms for 1 MiB of WAL, 5 for 2, 10 to 12 for 4, 20 for 8 and 40 for 16;
with tiny flushes 1 ms for 1 MiB. The work is the same all in all, but spread differently: at 1 MiB
the longest wait is shortest, and one commit in 50 has it, so that the 99th percentile of such
commits is 4 ms; from 4 MiB on it is below 1 ms, and the waits are rarer and longer. 1 MiB was
chosen for the longest wait. One that finds the disk full leaves the WAL as it is, which is no harm,
and is tried again when the WAL has grown by as much again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import apsw

from bowstring.catalog.sqlite import file
from bowstring.catalog.sqlite.queries import queries
from bowstring.errors import Error
from bowstring.ports.catalog import Fence
from bowstring.ports.failures import Damaged, DiskFull, Fenced, StorageFailed
from bowstring.ports.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

WAL_BYTES_MAX = 1 << 20
_FRAME_HEADER_BYTES = 24  # what SQLite puts before each page in the WAL


class CatalogStatistics(NamedTuple):
    """What the catalog did since it was opened. `wal_bytes` is what a checkpoint would have to move
    now.
    """

    commits: int
    checkpoints: int
    wal_bytes: int
    wal_bytes_written: int


class Database:
    """The file of one catalog. Comments below say what belongs to the worker."""

    def __init__(
        self, path: str, worker: Worker, *, vfs: str | None, sync_directory: Callable[[], None] | None, wal_bytes_max: int
    ) -> None:
        self.path = path
        self.worker = worker
        self._vfs = vfs
        self._sync_directory = sync_directory
        self._wal_bytes_max = wal_bytes_max
        self._wal_bytes_due = wal_bytes_max  # where the next checkpoint is due
        self.sql = queries()
        # Only the worker touches what follows; the loop reads the numbers, which may be a moment
        # old.
        self.connection: apsw.Connection | None = None
        self.failure = ""
        """The failure after which nothing is written any more."""
        self.commits = 0
        self._checkpoints = 0
        self.wal_bytes = 0
        self._wal_bytes_written = 0
        # The loop's: the checkpoint that was handed to the worker last.
        self._checkpoint: asyncio.Task[None] | None = None

    # ---- called on the loop ------------------------------------------------------------------------------------------

    async def look(self, read: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **options: P.kwargs) -> T:
        """Runs a function that reads from the connection."""

        def look() -> T:
            with self.reading() as connection:
                return read(connection, *args, **options)

        return await self.worker.run(look)

    async def change(self, fence: Fence, write: Callable[[apsw.Connection], T]) -> T:
        """One transaction, if the fence still holds."""

        def change() -> T:
            with self.writing() as connection, file.transaction(connection):
                self.check_epoch(connection, fence)
                return write(connection)

        found = await self.worker.run(change)
        self.checkpoint_if_due()
        return found

    async def close(self) -> None:
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        await self.worker.run(self._close)

    async def checkpoint(self) -> None:
        """Moves the contents of the WAL into the file, and restarts the WAL. Raises nothing: the
        next write raises a failure.
        """
        await self.worker.run(self._checkpoint_now)

    def checkpoint_if_due(self) -> None:
        if self.wal_bytes > self._wal_bytes_due and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint = asyncio.create_task(self.checkpoint())

    def statistics(self) -> CatalogStatistics:
        return CatalogStatistics(self.commits, self._checkpoints, self.wal_bytes, self._wal_bytes_written)

    # ---- called on the worker ----------------------------------------------------------------------------------------

    def open(self) -> None:
        connection = file.connect(self.path, vfs=self._vfs, sync_directory=self._sync_directory)
        page_bytes: int = connection.pragma("page_size") + _FRAME_HEADER_BYTES

        def count(_: apsw.Connection, __: str, pages: int) -> int:
            before, self.wal_bytes = self.wal_bytes, pages * page_bytes
            self._wal_bytes_written += self.wal_bytes - before
            return apsw.SQLITE_OK

        connection.set_wal_hook(count)
        self.connection = connection

    def ask(self, connection: apsw.Connection, query: str, **values: apsw.SQLiteValue) -> Any:
        """The one value that a query gives, or None. The query is run to its end: one that writes
        commits only there.
        """
        found = connection.execute(self.sql[query], values).fetchall()
        return found[0][0] if found else None

    def check_epoch(self, connection: apsw.Connection, fence: Fence) -> None:
        """Raises Fenced if it is another one now."""
        epoch = self.ask(connection, "epoch", broker=fence.broker)
        if epoch != fence.epoch:
            raise Fenced(f"broker {fence.broker} is at epoch {epoch}, not {fence.epoch}")

    def _checkpoint_now(self) -> None:
        if self.connection is None or self.failure or self.path == file.MEMORY:
            return
        try:
            in_wal, moved = self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError:
            in_wal, moved = 1, 0
        except Exception as error:
            self.failure = f"a checkpoint of {self.path} failed: {error}"
            return
        if in_wal == moved:
            self._checkpoints += 1
            self.wal_bytes = 0
        self._wal_bytes_due = self.wal_bytes + self._wal_bytes_max

    def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is None:
            return
        if self.failure:
            file.abandon(connection)
        else:
            file.close(connection)

    # ---- how it fails ------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Generator[apsw.Connection]:
        """The one place that translates errors of writing."""
        if self.failure or self.connection is None:
            raise StorageFailed(self.failure or f"the catalog {self.path} is not open")
        try:
            yield self.connection
        except (Error, Fenced, Damaged):
            raise
        except apsw.FullError as error:
            self._roll_back(self.connection)
            raise DiskFull(f"there is no room for a write to {self.path}") from error
        except Exception as error:
            raise self._failed(error) from error

    def _roll_back(self, connection: apsw.Connection) -> None:
        try:
            file.roll_back(connection)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageFailed:
        """From here on nothing is written any more."""
        self.failure = f"a write to {self.path} failed: {error}"
        return StorageFailed(self.failure)

    @contextmanager
    def reading(self) -> Generator[apsw.Connection]:
        """The one place that translates errors of reading: whatever the cause, these bytes cannot
        be read.
        """
        if self.connection is None:
            raise StorageFailed(f"the catalog {self.path} is not open")
        try:
            yield self.connection
        except apsw.Error as error:
            raise Damaged(f"reading {self.path} failed: {error}") from error
