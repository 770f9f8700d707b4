"""Rows that were sent ahead and wait in the kit: what is over, or was deleted, before the program asks for it is not handed out.

Two thousand messages are one page: when the program has the first ten, the others are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.client.freshness import Freshness
from bowstring.client.topic_stream import TopicStream
from tests.process import still_clock

ROWS = 2000
WAYS = ["for", "batches", "poll"]
COLUMNS = [None, ["offset", "value"], ["offset"]]


broker = still_clock.broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders", retention=timedelta(hours=1), deduplication=600)
        yield client


def send(client: bowstring.Client, rows: int = ROWS, **columns: Callable[[int], Any]) -> None:
    """One batch; further columns by row number."""
    types = {"expires": pa.timestamp("us", "UTC"), "due": pa.timestamp("us", "UTC"), "id": pa.utf8(), "key": pa.binary()}
    table = {"value": pa.array([b"%d" % row for row in range(rows)], pa.binary())}
    table |= {name: pa.array([value(row) for row in range(rows)], types[name]) for name, value in columns.items()}
    with client.producer("orders") as producer:
        producer.send_batch(pa.table(table)).result()


def taken(reader: Any, rows: int = 10) -> list[int]:
    """The first rows, by `for`; the next are in its hand."""
    messages = iter(reader)
    return [next(messages).offset for _ in range(rows)]


def rest(reader: Any, way: str) -> list[int]:
    """The offsets of what a bounded reader still hands out."""
    if way == "for":
        return [message.offset for message in reader]
    if way == "batches":
        return [offset for batch in reader.batches(max_rows=300) for offset in batch.column("offset").to_pylist()]
    found: list[int] = []
    while batch := reader.poll(timeout=5, max_rows=700):
        found += batch.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("columns", COLUMNS, ids=["all", "some", "offset"])
@pytest.mark.parametrize("way", WAYS)
def test_what_has_expired_meanwhile_is_not_handed_out(broker: bowstring.Broker, client: bowstring.Client, way: str, columns: Any):
    soon = broker.clock.now() + timedelta(seconds=30)
    send(client, expires=lambda row: None if row % 4 == 0 else soon if row % 4 == 1 else soon + timedelta(seconds=row))
    with client.reader("orders", end="latest", columns=columns) as reader:
        assert taken(reader) == list(range(1, 11))
        broker.clock.advance(29)
        assert taken(reader, 1) == [11]
        broker.clock.advance(1001)
        expected = [row + 1 for row in range(11, ROWS) if row % 4 == 0 or (row % 4 > 1 and row > 1000)]
        assert rest(reader, way) == expected
        assert reader.position == {0: ROWS + 1}
        assert reader.lag() == {0: 0}
        assert reader.statistics().messages == 11 + len(expected)
        assert reader.statistics().dropped == ROWS - 11 - len(expected)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_older_than_the_retention_is_not_handed_out(broker: bowstring.Broker, client: bowstring.Client, way: str):
    late = broker.clock.now() + timedelta(minutes=30)
    send(client, due=lambda row: late if row % 10 == 0 else None)
    with client.reader("orders", end="latest") as reader:
        assert taken(reader) == list(range(1, 11))
        broker.clock.advance(timedelta(hours=1))
        assert taken(reader, 1) == [11]
        broker.clock.advance(timedelta(minutes=1))
        assert rest(reader, way) == [row + 1 for row in range(11, ROWS) if row % 10 == 0]  # their age counts from when they were due
        assert reader.position == {0: ROWS + 1}


def test_a_page_is_looked_at_only_when_something_in_it_can_be_over(client: bowstring.Client, monkeypatch: pytest.MonkeyPatch):
    send(client)
    monkeypatch.setattr(Freshness, "sifted", lambda self, chunk: pytest.fail("nothing is over"))
    assert len(list(client.reader("orders", end="latest"))) == ROWS


def test_a_shorter_retention_counts_for_what_has_come(broker: bowstring.Broker, client: bowstring.Client):
    send(client)
    with client.reader("orders", end="latest") as reader:
        taken(reader)
        broker.clock.advance(120)
        client.alter_topic("orders", retention=60, deduplication=60)
        assert list(reader) == []
        assert reader.position == {0: ROWS + 1}


@pytest.mark.parametrize("way", WAYS)
def test_a_longer_retention_counts_for_what_has_come(broker: bowstring.Broker, client: bowstring.Client, way: str):
    send(client)
    with client.reader("orders", end="latest") as reader:
        assert taken(reader) == list(range(1, 11))
        broker.clock.advance(timedelta(minutes=59))
        client.alter_topic("orders", retention=timedelta(hours=2))
        broker.clock.advance(timedelta(minutes=60))
        assert rest(reader, way) == list(range(11, ROWS + 1))


@pytest.mark.parametrize("way", WAYS)
def test_what_was_deleted_by_the_same_client_is_not_handed_out(client: bowstring.Client, way: str):
    send(client, id=lambda row: f"id-{row}")
    with client.reader("orders", end="latest") as reader, client.producer("orders") as producer:
        assert taken(reader) == list(range(1, 11))
        assert producer.delete([f"id-{row}" for row in range(5, 1000, 2)]).ok.to_pylist() == [True] * 498
        assert rest(reader, way) == [row + 1 for row in range(10, ROWS) if row >= 1000 or row % 2 == 0]
        assert reader.position == {0: ROWS + 1}


@pytest.mark.parametrize("way", WAYS)
def test_the_very_next_message_is_not_handed_out_if_it_alone_was_deleted(client: bowstring.Client, way: str):
    send(client, 20, id=lambda row: f"id-{row}")
    with client.reader("orders", end="latest") as reader, client.producer("orders") as producer:
        assert taken(reader, 5) == [1, 2, 3, 4, 5]
        producer.delete(["id-5"])
        assert rest(reader, way) == list(range(7, 21))


def test_deleting_the_rest_of_a_page_ends_a_bounded_reader(client: bowstring.Client):
    send(client, 20, id=lambda row: f"id-{row}")
    with client.reader("orders", end="latest") as reader, client.producer("orders") as producer:
        taken(reader, 5)
        producer.delete([f"id-{row}" for row in range(5, 20)])
        assert list(reader) == []
        assert reader.position == {0: 21}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["latest", None])
def test_a_topic_deleted_by_the_same_client_ends_its_readers(client: bowstring.Client, way: str, end: str | None):
    send(client)
    with client.reader("orders", end=end) as reader:
        taken(reader)
        client.delete_topic("orders")
        client.create_topic("orders")
        send(client, 5)
        with pytest.raises(errors.TopicNotFound, match="'orders' was deleted"):
            rest(reader, way)
        with pytest.raises(errors.TopicNotFound):
            reader.poll()
    assert len(list(client.reader("orders", end="latest"))) == 5


def test_a_reader_of_several_topics_ends_with_the_first_that_is_deleted(client: bowstring.Client):
    send(client)
    client.create_topic("clicks")
    with client.reader(["orders", "clicks"]) as reader:
        taken(reader)
        client.delete_topic("clicks")
        with pytest.raises(errors.TopicNotFound, match="'clicks'"):
            rest(reader, "for")


# ---- what another client does


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a reader has been told of a deletion, or of another retention."""
    event, noticed = asyncio.Event(), TopicStream._noticed

    def watched(self: TopicStream, notice: Any) -> None:
        noticed(self, notice)
        event.set()

    monkeypatch.setattr(TopicStream, "_noticed", watched)
    return event


async def until(told: asyncio.Event, known: Callable[[], bool]) -> None:
    while not known():
        told.clear()
        await told.wait()


def freshness(reader: Any) -> Freshness:
    return reader._read_ahead._streams["orders"].freshness


async def async_rest(reader: Any, way: str) -> list[int]:
    if way == "for":
        return [message.offset async for message in reader]
    if way == "batches":
        return [offset async for batch in reader.batches(max_rows=300) for offset in batch.column("offset").to_pylist()]
    found: list[int] = []
    while batch := await reader.poll(timeout=5, max_rows=700):
        found += batch.column("offset").to_pylist()
    return found


async def async_taken(reader: Any, rows: int = 10) -> list[int]:
    return [(await anext(reader)).offset for _ in range(rows)]


async def async_send(client: bowstring.aio.Client, rows: int = ROWS) -> None:
    ids = pa.array([f"id-{row}" for row in range(rows)], pa.utf8())
    async with client.producer("orders") as producer:
        await producer.send_batch(pa.table({"value": pa.array([b"x"] * rows, pa.binary()), "id": ids}))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["latest", ROWS + 1])
async def test_what_another_client_has_deleted_is_not_handed_out(way: str, end: Any, told: asyncio.Event):
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        await async_send(client)
        async with client.reader("orders", end=end) as reader, other.producer("orders") as producer:
            assert await async_taken(reader) == list(range(1, 11))
            await producer.delete([f"id-{row}" for row in range(20, 1000)])
            await until(told, lambda: bool(freshness(reader)._deleted))
            assert await async_rest(reader, way) == [*range(11, 21), *range(1001, ROWS + 1)]


async def test_another_retention_that_another_client_has_set_counts(told: asyncio.Event):
    async with bowstring.aio.Broker.ephemeral(clock="manual") as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        await async_send(client)
        async with client.reader("orders", end="latest") as reader:
            await async_taken(reader)
            await broker.clock.advance(120)
            await other.alter_topic("orders", retention=60, deduplication=60)
            await until(told, lambda: freshness(reader).retention == 60_000_000)
            assert await async_rest(reader, "for") == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [None, "billing"])
@pytest.mark.parametrize("end", ["latest", None])
async def test_a_topic_that_another_client_has_deleted_ends_its_readers(way: str, name: str | None, end: str | None):
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        await async_send(client)
        async with client.reader("orders", name=name, end=end) as reader:
            await async_taken(reader)
            await other.delete_topic("orders")
            await other.create_topic("orders")
            while reader._read_ahead._streams["orders"].error is None:
                await reader._read_ahead._wait()
            with pytest.raises(errors.TopicNotFound, match="was deleted"):
                await async_rest(reader, way)


async def test_an_idle_reader_is_told_that_its_topic_was_deleted():
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        async with client.reader("orders") as reader:
            await reader._read_ahead.placed()
            waiting = asyncio.create_task(anext(reader))
            await other.delete_topic("orders")
            with pytest.raises(errors.TopicNotFound):
                await waiting


async def test_a_reader_that_has_used_its_credit_is_told_that_its_topic_was_deleted():
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        async with client.producer("orders") as producer:
            for _ in range(24):
                await producer.send(b"x" * 500_000)
        async with client.reader("orders") as reader:
            await async_taken(reader, 1)
            while reader.statistics().bytes_ahead < 7_000_000:
                await reader._read_ahead._wait()
            await other.delete_topic("orders")
            while reader._read_ahead._streams["orders"].error is None:
                await reader._read_ahead._wait()
            with pytest.raises(errors.TopicNotFound):
                await async_rest(reader, "for")


async def test_what_was_deleted_while_a_reader_was_cut_off_is_told_when_it_is_back(
    tmp_path: Path, told: asyncio.Event, monkeypatch: pytest.MonkeyPatch
):
    async with bowstring.aio.Broker(data=tmp_path) as broker, broker.connect() as client, broker.connect() as other:
        await client.create_topic("orders")
        await async_send(client)
        async with client.reader("orders", end="latest") as reader, other.producer("orders") as producer:
            await async_taken(reader)
            back, serve = asyncio.Event(), TopicStream._serve

            async def held_back(self: TopicStream) -> None:
                await back.wait()
                await serve(self)

            monkeypatch.setattr(TopicStream, "_serve", held_back)
            await broker.restart()
            await producer.delete([f"id-{row}" for row in range(20, 1000)])
            back.set()
            await until(told, lambda: bool(freshness(reader)._deleted))
            assert await async_rest(reader, "for") == [*range(11, 21), *range(1001, ROWS + 1)]
