"""The shared part of the catalog in SQLite: epochs, topics and partitions.

Rows that SQLite recovers after a process was killed may not be on the disk yet. `register` is a
commit to the same WAL, and its sync also covers everything before it. So nothing from the catalog
may leave the broker before `register` has returned.

Checksums guard the journal, the inlined pages, and what edits store (`extents`). The rest of the
file (topics, partitions, SQLite's own structure) has none, and a flipped bit there is outside the
fault model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw

from bowstring.catalog import journal_rows
from bowstring.catalog.sqlite import file
from bowstring.catalog.sqlite.copy import CatalogCopying
from bowstring.catalog.sqlite.database import WAL_BYTES_MAX, CatalogStatistics, Database
from bowstring.catalog.sqlite.journal import SqliteJournal
from bowstring.errors import Conflict, InvalidArgument, TopicExists, TopicNotFound
from bowstring.ports.catalog import Fence, PartitionRow, Registered, TopicRow
from bowstring.ports.worker import Worker


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
        self.database = Database(path, worker, vfs=vfs, sync_directory=sync_directory, wal_bytes_max=wal_bytes_max)

    # ---- the port ----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self.database.worker.run(self.database.open)

    async def cluster(self) -> bytes:
        return await self.database.look(lambda connection: self.database.ask(connection, "cluster"))

    async def register(self, broker: int) -> Registered:
        if not 1 <= broker <= journal_rows.BROKER_MAX:
            raise InvalidArgument(f"{broker} is not the number of a broker.", hint=f"They are 1 to {journal_rows.BROKER_MAX}.")
        return await self.database.worker.run(lambda: self._register(broker))

    def journal(self, fence: Fence) -> SqliteJournal:
        return SqliteJournal(self.database, fence)

    async def topics(self) -> list[TopicRow]:
        query = self.database.sql["topics"]
        return await self.database.look(lambda connection: [TopicRow(*row) for row in connection.execute(query)])

    async def partitions(self, broker: int | None = None) -> list[PartitionRow]:
        query = self.database.sql["partitions"]
        return await self.database.look(lambda connection: [PartitionRow(*row) for row in connection.execute(query, {"broker": broker})])

    async def create_topic(self, fence: Fence, topic: TopicRow, owners: Sequence[int] = (), *, dormant: bool = False) -> TopicRow:
        if owners and len(owners) != topic.partitions:
            raise Conflict(f"{len(owners)} owners were named for {topic.partitions} partitions of {topic.name!r}.")
        owned = () if dormant else owners or [fence.broker] * topic.partitions
        return await self.database.change(fence, lambda connection: self._create_topic(connection, topic, owned))

    async def awaken_topic(self, fence: Fence, topic_id: int) -> None:
        await self.database.change(fence, lambda connection: self._awaken_topic(connection, topic_id, fence.broker))

    async def delete_topic(self, fence: Fence, topic_id: int, deleted: int) -> None:
        await self.database.change(fence, lambda connection: self._delete_topic(connection, topic_id, deleted))

    async def alter_topic(self, fence: Fence, topic_id: int, settings: bytes) -> None:
        await self.database.change(fence, lambda connection: self._alter_topic(connection, topic_id, settings))

    async def back_up(self, path: str) -> None:
        worker = self.database.worker
        copying = await self.database.look(CatalogCopying, path)
        try:
            while not await worker.run(copying.step):
                pass
        finally:
            await worker.run(copying.finish)

    async def close(self) -> None:
        await self.database.close()

    # ---- beside the port ---------------------------------------------------------------------------------------------

    @property
    def wal_bytes(self) -> int:
        """How much a checkpoint would have to move now, for callers with an idle moment."""
        return self.database.wal_bytes

    async def checkpoint(self) -> None:
        """Moves the contents of the WAL into the file, and restarts the WAL. Raises nothing: the
        next write raises a failure.
        """
        await self.database.checkpoint()

    def statistics(self) -> CatalogStatistics:
        return self.database.statistics()

    # ---- on the worker -----------------------------------------------------------------------------------------------

    def _register(self, broker: int) -> Registered:
        with self.database.writing() as connection, file.transaction(connection):
            epoch = self.database.ask(connection, "next_epoch")
            self.database.ask(connection, "register", broker=broker, epoch=epoch)
            return self.registered(connection, Fence(broker, epoch))

    def registered(self, connection: apsw.Connection, fence: Fence) -> Registered:
        """What the incarnation with the fence starts from."""
        span = journal_rows.span(fence.broker)
        first = self.database.ask(connection, "first_position", **span)
        last = self.database.ask(connection, "last_position", **span)
        trimmed = 0 if first is None else journal_rows.split(first)[1] - 1
        return Registered(fence, journal_rows.split(last)[1], trimmed)

    def _create_topic(self, connection: apsw.Connection, topic: TopicRow, owners: Sequence[int]) -> TopicRow:
        ask, name = self.database.ask, topic.name
        if ask(connection, "live_topic", name=name) is not None:
            raise TopicExists(f"There is a topic {name!r} already.", details={"topic": name})
        made = ask(connection, "create_topic", name=name, partitions=topic.partitions, created=topic.created, settings=topic.settings)
        rows = [{"topic": made, "number": number, "broker": broker} for number, broker in enumerate(owners)]
        connection.executemany(self.database.sql["create_partition"], rows)
        return topic._replace(id=made, deleted=None)

    def _awaken_topic(self, connection: apsw.Connection, topic_id: int, broker: int) -> None:
        partitions = self.database.ask(connection, "partitions_of", id=topic_id)
        if partitions is None:
            raise _no_topic(topic_id)
        if self.database.ask(connection, "owner", topic=topic_id, partition=0) is None:
            rows = [{"topic": topic_id, "number": number, "broker": broker} for number in range(partitions)]
            connection.executemany(self.database.sql["create_partition"], rows)

    def _delete_topic(self, connection: apsw.Connection, topic_id: int, deleted: int) -> None:
        if self.database.ask(connection, "delete_topic", id=topic_id, deleted=deleted) is None:
            raise _no_topic(topic_id)
        self.database.ask(connection, "bury", id=topic_id)

    def _alter_topic(self, connection: apsw.Connection, topic_id: int, settings: bytes) -> None:
        if self.database.ask(connection, "alter_topic", id=topic_id, settings=settings) is None:
            raise _no_topic(topic_id)


def _no_topic(topic_id: int) -> TopicNotFound:
    return TopicNotFound(f"There is no topic with the id {topic_id}, or it was deleted already.")
