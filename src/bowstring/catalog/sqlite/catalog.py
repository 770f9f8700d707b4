"""The catalog of the embedded broker: SQLite in one thread.

One worker owns the one connection; everything that touches it is a plain function that is handed to that worker, and runs in the order
in which it was asked for. A commit is one statement that stores the journal row if the epoch is still the fence's and the row before
is the last one. There is nothing to race with inside a process, and the file is locked against others; the check is there because
the incarnation that asks may be one that this process has dropped already.

A commit that stores nothing is looked into afterwards. If the very same row is there, it landed before, and that is the answer; this
is how somebody whose answer was lost asks. Everything else is `Fenced`.

SQLite's errors are translated in one place each for writing and reading. A full disk rolls back, and the connection stays good; that
nothing of such a commit comes back after a crash rests on SQLite writing the frame that commits last (true for devices that it takes
to be power-safe, its default, where it does not pad). Every other failure of a write ends the catalog: after a failed sync nobody can
say what is on the disk, so nothing is tried again, and SQLite is kept from its own checkpoint at closing as well.

The WAL is checkpointed by us and not by SQLite, which does it inside the commit that crosses the line and delays its answer. Here the
answer goes out first, and the checkpoint is handed to the worker behind it. A commit that comes meanwhile waits; how long depends on
the WAL's size, so it is kept small. Measured (2 KiB pages, 16 KiB inlined, the worst case; one run each on a busy machine), a checkpoint
takes about 3 ms for 1 MiB of WAL, 5 for 2, 10 to 12 for 4, 20 for 8 and 40 for 16; with tiny flushes 1 ms for 1 MiB. The work is the same
all in all, but spread differently: at 1 MiB the longest wait is shortest, and one commit in 50 has it, so that the 99th percentile of
such commits is 4 ms; from 4 MiB on it is below 1 ms, and the waits are rarer and longer. 1 MiB was chosen for the longest wait. One that
finds the disk full leaves the WAL as it is, which is no harm, and is tried again when the WAL has grown by as much again.

What SQLite recovers after a process was killed may not be on the disk yet: `register` is a commit to the same WAL, and its sync takes
all that is before it along. So nothing may be told from the catalog before `register` has returned.

Checksums guard the journal, the inlined pages, and what edits store (`sqlite_extents`). The rest of the file (topics, SQLite's own
structure) has none, and a flipped bit there is outside the fault model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import apsw

from bowstring.catalog import journal_rows
from bowstring.catalog.sqlite import extents, file
from bowstring.catalog.sqlite.copy import CatalogCopying
from bowstring.catalog.sqlite.queries import queries
from bowstring.errors import Conflict, Error, TopicExists, TopicNotFound
from bowstring.ports.catalog import Chunk, Edit, Extent, ExtentKey, Fence, Registered, Row, Sealed, Snapshot, TopicRow
from bowstring.ports.failures import Damaged, DiskFull, Fenced, StorageFailed
from bowstring.ports.store import Page, Reference
from bowstring.ports.worker import Worker
from bowstring.store import frames

P = ParamSpec("P")
T = TypeVar("T")

WAL_BYTES_MAX = 1 << 20
_FRAME_HEADER_BYTES = 24  # what SQLite puts before each page in the WAL

_NewRow = dict[str, int | bytes | None]  # a journal row by the names of its columns


class CatalogStatistics(NamedTuple):
    """What the catalog did since it was opened. `wal_bytes` is what a checkpoint would have to move now."""

    commits: int
    checkpoints: int
    wal_bytes: int
    wal_bytes_written: int


class SqliteCatalog:
    """`ports.catalog.Catalog` on a SQLite file, or on ':memory:' for a broker that keeps nothing."""

    def __init__(
        self,
        path: str,
        worker: Worker,
        *,
        vfs: str | None = None,
        sync_directory: Callable[[], None] | None = None,
        wal_bytes_max: int = WAL_BYTES_MAX,
    ) -> None:
        self._path = path
        self._worker = worker
        self._vfs = vfs
        self._sync_directory = sync_directory
        self._wal_bytes_max = wal_bytes_max
        self._wal_bytes_due = wal_bytes_max  # where the next checkpoint is due
        self._sql = queries()
        # Only the worker touches what follows; the loop reads the numbers, which may be a moment old.
        self._connection: apsw.Connection | None = None
        self._failure = ""  # why nothing is written any more, once that is so
        self._commits = 0
        self._checkpoints = 0
        self._wal_bytes = 0
        self._wal_bytes_written = 0
        # The loop's: the checkpoint that was handed to the worker last.
        self._checkpoint: asyncio.Task[None] | None = None

    # ---- the port ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._worker.run(self._open)

    async def cluster(self) -> bytes:
        return await self._worker.run(self._cluster)

    async def register(self, broker: int) -> Registered:
        return await self._worker.run(lambda: self._register(broker))

    async def topics(self) -> list[TopicRow]:
        return await self._worker.run(self._topics)

    async def create_topic(self, fence: Fence, topic: TopicRow) -> TopicRow:
        return await self._worker.run(lambda: self._create_topic(fence, topic))

    async def delete_topic(self, fence: Fence, topic_id: int, deleted: int) -> None:
        await self._worker.run(lambda: self._delete_topic(fence, topic_id, deleted))

    async def alter_topic(self, fence: Fence, topic_id: int, settings: bytes) -> None:
        await self._worker.run(lambda: self._alter_topic(fence, topic_id, settings))

    async def forget_topic(self, fence: Fence, topic_id: int, rows_max: int) -> bool:
        left = await self._worker.run(lambda: self._forget_topic(fence, topic_id, rows_max))
        self._checkpoint_if_due()
        return left

    async def edit(self, fence: Fence, edit: Edit) -> None:
        prepared = extents.prepare(edit)
        await self._worker.run(lambda: self._edit(fence, prepared))
        self._checkpoint_if_due()

    async def snapshots(self) -> list[Snapshot]:
        return await self._worker.run(lambda: self._look(extents.snapshots))

    async def chunks(self) -> list[Chunk]:
        return await self._worker.run(lambda: self._look(extents.chunks))

    async def sealed(self) -> list[Sealed]:
        return await self._worker.run(lambda: self._look(extents.sealed))

    async def usage(self) -> dict[int, int]:
        return await self._worker.run(lambda: self._look(extents.usage))

    async def extents(self, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
        return await self._worker.run(lambda: self._look(extents.extents, topic, partition, offset, rows_max))

    async def extents_in(self, segment: int, after: ExtentKey | None, rows_max: int) -> list[Extent]:
        behind = after or ExtentKey(0, 0, 0)  # ids of topics begin at 1
        return await self._worker.run(lambda: self._look(extents.extents_in, segment, behind, rows_max))

    async def journal(self, broker: int, after: int, rows_max: int) -> list[Row]:
        return await self._worker.run(lambda: self._journal(after, rows_max))

    async def commit(self, fence: Fence, sequence: int, changes: bytes, pages: Sequence[Page]) -> None:
        inlined = journal_rows.inline(pages, fence.epoch, sequence)
        crc = journal_rows.checksum(sequence, fence.epoch, changes, len(inlined or b""))
        row: _NewRow = {"sequence": sequence, "epoch": fence.epoch, "crc": crc, "changes": changes, "pages": inlined}
        await self._worker.run(lambda: self._commit(fence, row))
        self._checkpoint_if_due()

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        return await self._worker.run(lambda: self._read(references))

    async def back_up(self, path: str) -> None:
        copying = await self._worker.run(lambda: self._look(CatalogCopying, path))
        try:
            while not await self._worker.run(copying.step):
                pass
        finally:
            await self._worker.run(copying.finish)

    async def close(self) -> None:
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        await self._worker.run(self._close)

    # ---- beside the port ---------------------------------------------------------------------------------------------

    @property
    def wal_bytes(self) -> int:
        """How much a checkpoint would have to move now: for whoever has an idle moment to use."""
        return self._wal_bytes

    async def checkpoint(self) -> None:
        """Moves what is in the WAL into the file, and lets the WAL begin anew. Raises nothing: a failure is told to the next write."""
        await self._worker.run(self._checkpoint_now)

    def statistics(self) -> CatalogStatistics:
        return CatalogStatistics(self._commits, self._checkpoints, self._wal_bytes, self._wal_bytes_written)

    def _checkpoint_if_due(self) -> None:
        if self._wal_bytes > self._wal_bytes_due and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint = asyncio.create_task(self.checkpoint())

    # ---- on the worker -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        connection = file.connect(self._path, vfs=self._vfs, sync_directory=self._sync_directory)
        page_bytes: int = connection.pragma("page_size") + _FRAME_HEADER_BYTES

        def count(_: apsw.Connection, __: str, pages: int) -> int:
            before, self._wal_bytes = self._wal_bytes, pages * page_bytes
            self._wal_bytes_written += self._wal_bytes - before
            return apsw.SQLITE_OK

        connection.set_wal_hook(count)
        self._connection = connection

    def _cluster(self) -> bytes:
        with self._reading() as connection:
            return self._ask(connection, "cluster")

    def _register(self, broker: int) -> Registered:
        with self._writing() as connection, file.transaction(connection):
            other = self._ask(connection, "other_broker", broker=broker)
            if other is not None:
                raise Conflict(f"{self._path} belongs to broker {other}, not to broker {broker}.")
            epoch = self._ask(connection, "register", broker=broker)
            sequence, trimmed = self._ask(connection, "last_sequence"), self._ask(connection, "trimmed")
        return Registered(epoch, sequence, trimmed)

    def _topics(self) -> list[TopicRow]:
        with self._reading() as connection:
            return [TopicRow(*row) for row in connection.execute(self._sql["topics"])]

    def _create_topic(self, fence: Fence, topic: TopicRow) -> TopicRow:
        name, partitions, created, settings = topic.name, topic.partitions, topic.created, topic.settings
        with self._writing() as connection, file.transaction(connection):
            self._check_epoch(connection, fence)
            if self._ask(connection, "live_topic", name=name) is not None:
                raise TopicExists(f"There is a topic {name!r} already.", details={"topic": name})
            topic_id = self._ask(connection, "create_topic", name=name, partitions=partitions, created=created, settings=settings)
        return topic._replace(id=topic_id, deleted=None)

    def _delete_topic(self, fence: Fence, topic_id: int, deleted: int) -> None:
        with self._writing() as connection, file.transaction(connection):
            self._check_epoch(connection, fence)
            if self._ask(connection, "delete_topic", id=topic_id, deleted=deleted) is None:
                raise TopicNotFound(f"There is no topic with the id {topic_id}, or it was deleted already.")

    def _alter_topic(self, fence: Fence, topic_id: int, settings: bytes) -> None:
        with self._writing() as connection, file.transaction(connection):
            self._check_epoch(connection, fence)
            if self._ask(connection, "alter_topic", id=topic_id, settings=settings) is None:
                raise TopicNotFound(f"There is no topic with the id {topic_id}, or it was deleted already.")

    def _forget_topic(self, fence: Fence, topic_id: int, rows_max: int) -> bool:
        with self._writing() as connection, file.transaction(connection):
            self._check_epoch(connection, fence)
            if self._ask(connection, "is_live", id=topic_id) is not None:
                raise Conflict(f"The topic with the id {topic_id} is not deleted.")
            return extents.forget(connection, topic_id, rows_max)

    def _edit(self, fence: Fence, edit: extents.Prepared) -> None:
        with self._writing() as connection, file.transaction(connection):
            self._check_epoch(connection, fence)
            extents.apply(connection, edit)

    def _look(self, read: Callable[Concatenate[apsw.Connection, P], T], *args: P.args, **options: P.kwargs) -> T:
        with self._reading() as connection:
            return read(connection, *args, **options)

    def _journal(self, after: int, rows_max: int) -> list[Row]:
        with self._reading() as connection:
            return journal_rows.verified(after, connection.execute(self._sql["journal"], {"after": after, "rows_max": rows_max}))

    def _commit(self, fence: Fence, row: _NewRow) -> None:
        with self._writing() as connection:
            connection.execute(self._sql["commit"], {"broker": fence.broker, **row})
            if connection.changes() == 0:
                self._explain(connection, fence, row)
            self._commits += 1

    def _explain(self, connection: apsw.Connection, fence: Fence, row: _NewRow) -> None:
        """Why a commit stored nothing. Returns if the very same row is there already."""
        self._check_epoch(connection, fence)
        if self._ask(connection, "landed", **row) is None:
            last = self._ask(connection, "last_sequence")
            raise Fenced(f"the journal ends at {last}, so row {row['sequence']} is not the next one")

    def _check_epoch(self, connection: apsw.Connection, fence: Fence) -> None:
        epoch = self._ask(connection, "epoch", broker=fence.broker)
        if epoch != fence.epoch:
            raise Fenced(f"broker {fence.broker} is at epoch {epoch}, not {fence.epoch}")

    def _ask(self, connection: apsw.Connection, query: str, **values: apsw.SQLiteValue) -> Any:
        """The one value that a query gives, or None. The query is run to its end: one that writes commits only there."""
        found = connection.execute(self._sql[query], values).fetchall()
        return found[0][0] if found else None

    def _read(self, references: Sequence[Reference]) -> list[Page]:
        if not references:
            return []
        pages: list[Page] = []
        row = references[0].sequence
        with self._reading() as connection:
            blob = connection.blob_open("main", "journal", "pages", row, False)
            try:
                for reference in references:
                    if reference.sequence != row:
                        row = reference.sequence
                        blob.reopen(row)
                    pages.append(frames.verify(self._part(blob, reference), reference))
            finally:
                blob.close(True)
        return pages

    def _part(self, blob: apsw.Blob, reference: Reference) -> bytes:
        """What a reference names, no more: SQLite reads only the pages of the file that these bytes are on."""
        start, length = reference.position, reference.length
        if start < 0 or length < 0 or start + length > blob.length():
            raise Damaged(f"journal row {reference.sequence} has {blob.length()} bytes of pages, and not {length} from {start} on")
        blob.seek(start)
        return blob.read(length)

    def _checkpoint_now(self) -> None:
        if self._connection is None or self._failure or self._path == file.MEMORY:
            return
        try:
            in_wal, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError:
            in_wal, moved = 1, 0
        except Exception as error:
            self._failure = f"a checkpoint of {self._path} failed: {error}"
            return
        if in_wal == moved:
            self._checkpoints += 1
            self._wal_bytes = 0
        self._wal_bytes_due = self._wal_bytes + self._wal_bytes_max

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._failure:
            file.abandon(connection)
        else:
            file.close(connection)

    # ---- how it fails ------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Generator[apsw.Connection]:
        """The one place where errors of writing are understood."""
        if self._failure or self._connection is None:
            raise StorageFailed(self._failure or f"the catalog {self._path} is not open")
        try:
            yield self._connection
        except (Error, Fenced, Damaged):
            raise
        except apsw.FullError as error:
            self._roll_back(self._connection)
            raise DiskFull(f"there is no room for a write to {self._path}") from error
        except Exception as error:
            raise self._failed(error) from error

    def _roll_back(self, connection: apsw.Connection) -> None:
        try:
            file.roll_back(connection)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageFailed:
        """From here on nothing is written any more."""
        self._failure = f"a write to {self._path} failed: {error}"
        return StorageFailed(self._failure)

    @contextmanager
    def _reading(self) -> Generator[apsw.Connection]:
        """The one place where errors of reading are understood: whatever it was, these bytes cannot be had."""
        if self._connection is None:
            raise StorageFailed(f"the catalog {self._path} is not open")
        try:
            yield self._connection
        except apsw.Error as error:
            raise Damaged(f"reading {self._path} failed: {error}") from error
