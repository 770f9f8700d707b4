"""The two kits as the workload sees them: one face over the product's own and over the plain one, in the words of a history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from bowstring import errors
from bowstring.client.batch import Batch
from bowstring.client.client import Client
from bowstring.client.producer import Producer
from bowstring.client.receipts import BatchReceipt
from bowstring.times import to_datetime
from tests.history.events import Row, Settings
from tests.simulation.plain_kit import Place, PlainKit
from tests.simulation.plain_reader import read_row
from tests.simulation.server import ADDRESS

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation


class Reading(Protocol):
    """A reader: rows as they come, until the end if there is one."""

    def batches(self) -> AsyncIterator[list[Row]]: ...

    async def close(self) -> None: ...


class Sender(Protocol):
    """A producer of one topic."""

    @property
    def group(self) -> str: ...

    def send(self, rows: list[Row], values: list[bytes], timeout: float | None) -> Any:
        """One row or many. Raises `Full`; then `ready` says when to try again."""
        ...

    async def outcome(self, sent: Any, rows: list[Row]) -> list[Row]:
        """The rows with what became of each."""
        ...

    async def find(self, message_id: str) -> Place | None: ...

    async def delete(self, rows: list[Row]) -> list[Row]:
        """The rows, of which only the ids count, with what became of each."""
        ...

    async def cancel(self, rows: list[Row]) -> list[Row]: ...

    async def move(self, rows: list[Row]) -> list[Row]:
        """To the due time of the first row."""
        ...

    async def ready(self) -> None: ...

    async def flush(self) -> str:
        """The kind of what it raises: of messages that failed and that nobody looked at."""
        ...

    async def close(self) -> str: ...


class Kit(Protocol):
    """What a client of the workload holds."""

    async def create_topic(self, name: str, settings: Settings) -> None: ...

    async def alter_topic(self, name: str, settings: Settings) -> None: ...

    async def delete_topic(self, name: str) -> None: ...

    def producer(self, topic: str, partitions: int, *, timeout: float, compression: str | None) -> Sender: ...

    def reader(self, topic: str, starts: dict[int, int], *, latest: bool = False) -> Reading:
        """From these offsets on; 0 is the beginning, in all partitions or in none."""
        ...

    async def close(self) -> None: ...


async def connected(life: Incarnation, *, plain: bool) -> Kit:
    """A kit with a connection. Raises Unavailable."""
    if plain:
        kit = PlainKit(life, ADDRESS)
        await kit.hello()
        return kit
    return RealKit(await _client(life).open())


async def open_client(life: Incarnation, pause: Callable[[], Awaitable[None]]) -> Client:
    """The product's own client, connected at last."""
    while True:
        with suppress(errors.Unavailable):
            return await _client(life).open()
        await pause()


def _client(life: Incarnation) -> Client:
    return Client([ADDRESS], dialer=life.dialer, clock=life.clock, randomness=life.randomness, name=life.name)


class RealKit:
    """The product's own kit."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_topic(self, name: str, settings: Settings) -> None:
        await self._client.create_topic(
            name,
            partitions=settings.partitions,
            retention=settings.retention,
            retention_bytes=settings.retention_bytes or None,
            deduplication=settings.deduplication,
        )

    async def alter_topic(self, name: str, settings: Settings) -> None:
        await self._client.alter_topic(
            name, retention=settings.retention, retention_bytes=settings.retention_bytes or None, deduplication=settings.deduplication
        )

    async def delete_topic(self, name: str) -> None:
        await self._client.delete_topic(name)

    def producer(self, topic: str, partitions: int, *, timeout: float, compression: str | None) -> Sender:
        return RealSender(self._client.producer(topic, timeout=timeout, compression=compression, max_bytes=256 * 1024))

    def reader(self, topic: str, starts: dict[int, int], *, latest: bool = False) -> Reading:
        start = starts if all(starts.values()) else None
        return RealReading(self._client.reader(topic, start=start, partitions=sorted(starts), end="latest" if latest else None))

    async def close(self) -> None:
        await self._client.close()


class RealSender:
    """`bowstring.aio.Producer`."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.group = producer.group
        self.find, self.ready = producer.find, producer.ready

    def send(self, rows: list[Row], values: list[bytes], timeout: float | None) -> Any:
        if len(rows) == 1:
            row = rows[0]
            return self._producer.send(
                values[0],
                key=row.key or None,
                attributes={"a": row.attributes} if row.attributes else None,
                id=row.id if row.natural else None,
                at=to_datetime(row.due) if row.due else None,
                expires=to_datetime(row.expires) if row.expires else None,
                timeout=timeout,
            )
        columns: dict[str, pa.Array] = {"value": pa.array(values, pa.binary())}
        if any(row.key for row in rows):
            columns["key"] = pa.array([row.key.encode() or None for row in rows], pa.binary())
        if rows[0].natural:
            columns["id"] = pa.array([row.id for row in rows], pa.utf8())
        for name in ("due", "expires"):
            moments = [getattr(row, name) or None for row in rows]
            if any(moments):
                columns[name] = pa.array(moments, pa.int64()).cast(pa.timestamp("us", "UTC"))
        if any(row.attributes for row in rows):
            given = [[("a", row.attributes)] if row.attributes else None for row in rows]
            columns["attributes"] = pa.array(given, pa.map_(pa.utf8(), pa.utf8()))
        return self._producer.send_batch(pa.table(columns), timeout=timeout)

    async def outcome(self, sent: Any, rows: list[Row]) -> list[Row]:
        if isinstance(sent, BatchReceipt):
            return await self._answers(sent, rows)
        try:
            stored = await sent
        except errors.Error as error:
            return [rows[0]._replace(id=sent.id, error=error.kind)]
        return [rows[0]._replace(id=stored.id, partition=stored.partition, offset=stored.offset, duplicate=stored.duplicate)]

    async def _answers(self, sent: BatchReceipt, rows: list[Row]) -> list[Row]:
        """Row by row."""
        answers = await sent
        with suppress(errors.Conflict):
            rows = [row._replace(id=message_id) for row, message_id in zip(rows, sent.ids, strict=True)]
        columns = (answers.partitions, answers.offsets, answers.duplicates)
        places = zip(rows, *(column.to_pylist() for column in columns), strict=True)
        return [
            row._replace(error=answers.refused[at].kind)
            if at in answers.refused
            else row._replace(partition=partition, offset=offset, duplicate=duplicate)
            for at, (row, partition, offset, duplicate) in enumerate(places)
        ]

    async def delete(self, rows: list[Row]) -> list[Row]:
        return self._told(rows, await self._producer.delete([row.id for row in rows]))

    async def cancel(self, rows: list[Row]) -> list[Row]:
        return self._told(rows, await self._producer.cancel([row.id for row in rows]))

    async def move(self, rows: list[Row]) -> list[Row]:
        return self._told(rows, await self._producer.move([row.id for row in rows], at=to_datetime(rows[0].due)))

    def _told(self, rows: list[Row], answers: Any) -> list[Row]:
        places = zip(rows, answers.partitions.to_pylist(), answers.offsets.to_pylist(), strict=True)
        return [
            row._replace(error=answers.refused[at].kind) if at in answers.refused else row._replace(partition=partition, offset=offset)
            for at, (row, partition, offset) in enumerate(places)
        ]

    async def flush(self) -> str:
        return await _raised(self._producer.flush())

    async def close(self) -> str:
        return await _raised(self._producer.close())


async def _raised(ending: Coroutine[Any, Any, None]) -> str:
    try:
        await ending
    except errors.Error as error:
        return error.kind
    return ""


class RealReading:
    """`bowstring.aio.Reader`."""

    def __init__(self, reader: Any) -> None:
        self._reader = self.reader = reader

    async def batches(self) -> AsyncIterator[list[Row]]:
        async for batch in self._reader.batches(max_wait=0.001):
            yield rows_of(batch)

    async def close(self) -> None:
        await self._reader.close()


def rows_of(batch: Batch) -> list[Row]:
    """The rows of a batch in the words of a history."""
    columns = [batch.column(name).to_pylist() for name in ("value", "key", "id", "partition", "offset", "attributes")]
    moments = [batch.column(name).cast(pa.int64()).to_pylist() for name in ("arrived", "due", "expires")]
    groups = batch.column("producer_group").to_pylist()
    return [read_row(*fields) for fields in zip(*columns, *moments, groups, strict=True)]
