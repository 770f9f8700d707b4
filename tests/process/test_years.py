"""A broker on real files that seals, forgets and cleans: what was stored is there after it, and what should go, goes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bowstring import errors
from bowstring.broker.log.requests import RaiseFloor
from bowstring.broker.upkeep.page_sealing import PageSealing
from bowstring.core.changes import Delete, Reason
from bowstring.host.clock import SystemClock
from bowstring.settings import KIB
from bowstring.store.segments import segment_name
from tests.process.house import HOUR, House, started_house

house = started_house


async def everything(house: House, topic: str) -> list[tuple]:
    """What a reader sees of a topic, message by message."""
    async with house.client() as client, client.reader(topic, end="latest") as reader:
        return [
            (m.partition, m.offset, m.id, m.key, m.value, dict(m.attributes), m.created, m.arrived, m.due, m.expires, m.producer_group)
            async for m in reader
        ]


async def publish(house: House, topic: str, count: int, *, large: int = 0, **options: object) -> None:
    """So many single messages, each in a batch of its own, and so many large batches."""
    async with house.client() as client, client.producer(topic, group="tests") as producer:
        for number in range(count):
            await producer.send(f"{topic}-{number}".encode(), key=b"k", attributes={"number": str(number)}, **options)
        for number in range(large):
            await producer.send_batch([f"{topic}-{number}-{row}".encode() * 20 for row in range(200)])


async def test_what_was_sealed_is_read_as_it_was(house: House):
    async with house.client() as client:
        await client.create_topic("orders", partitions=2)
    await publish(house, "orders", 40, large=2)
    before = await everything(house, "orders")
    assert len(before) == 440
    await house.seal()
    assert await everything(house, "orders") == before
    await publish(house, "orders", 5)
    await house.seal()
    await house.restart()
    after = await everything(house, "orders")
    assert [row for row in after if row in before] == before
    assert len(after) == 445


async def test_a_sealed_journal_is_short_and_small_pages_are_joined(house: House):
    async with house.client() as client:
        await client.create_topic("orders")
    await publish(house, "orders", 60)
    await house.seal()
    live = house.live
    assert live.upkeep.sealer.trimmed >= 59
    partition = live.topics.actors()[0].partition
    extents = await live.reading.extents.of(partition)
    assert [(extent.first_offset, extent.end_offset) for extent in extents] == [(1, 61)]
    assert extents[0].pages == 1
    await house.restart()
    assert house.live.topics.actors()[0].partition.committed_offset == 61
    assert len(await everything(house, "orders")) == 60


async def test_rows_are_sealed_when_those_that_are_taken_back_are_so_for_good(house: House, monkeypatch: pytest.MonkeyPatch):
    """A section leaves out what was taken back. If that got lost with a crash, the row would be
    there, and its id would be free.
    """
    async with house.client() as client:
        await client.create_topic("orders")
    await publish(house, "orders", 2)
    live, uncommitted = house.live, []
    seal = PageSealing.seal

    async def sealed(self: PageSealing, *arguments: Any, **more: Any) -> None:
        uncommitted.extend(live.log.flusher.uncommitted())
        await seal(self, *arguments, **more)

    monkeypatch.setattr(PageSealing, "seal", sealed)
    actor = live.topics.actors()[0]
    taken_back = actor.ask(RaiseFloor(lambda partition, _: (partition.delete(((2, 1),), Reason.DEADLINE),)))
    assert [type(change) for change in live.log.flusher.uncommitted()] == [Delete]
    await house.seal()
    assert taken_back.done()
    assert uncommitted == []
    assert actor.partition.sealed_end == 3


async def test_ids_are_recognised_after_seal_and_restart(house: House):
    async with house.client() as client:
        await client.create_topic("orders", deduplication=HOUR)
        async with client.producer("orders") as producer:
            first = await producer.send(b"one", id="order-1")
            generated = await producer.send(b"two")
    await house.seal()
    await house.restart()
    async with house.client() as client, client.producer("orders") as producer:
        again = await producer.send(b"one", id="order-1")
        back = await producer.send(b"two", id=generated.id)
        fresh = await producer.send(b"three", id="order-2")
        assert (again.offset, again.duplicate) == (first.offset, True)
        assert (back.offset, back.duplicate) == (generated.offset, True)
        assert (fresh.offset, fresh.duplicate) == (3, False)
        found = await producer.find("order-1")
        assert found is not None
        assert found.offset == 1
        assert (await producer.find(generated.id)).offset == 2
        assert await producer.find("order-9") is None


async def fill_short_and_long(house: House, rounds: int, *, short: int, long: int) -> None:
    """A topic that keeps messages for a minute, of large ones, and one that keeps them; both in every segment."""
    async with house.client() as client:
        await client.create_topic("short", retention=60, deduplication=60)
        await client.create_topic("long")
    for _ in range(rounds):
        await publish(house, "short", 0, large=short)
        await publish(house, "long", long)
        await house.seal()


async def test_what_is_too_old_is_not_delivered_and_then_gives_its_space_back(house: House):
    await fill_short_and_long(house, 4, short=3, long=3)
    kept = await everything(house, "long")
    house.clock.ahead += 61
    assert await everything(house, "short") == []
    await publish(house, "short", 1)
    assert [row[4] for row in await everything(house, "short")] == [b"short-0"]
    await house.upkeep()
    async with house.client() as client:
        topic = await client.topic("short")
        assert (topic.messages, topic.ranges[0].start) == (1, 2401)
        with pytest.raises(errors.OutOfRange):
            async with client.reader("short", start=5) as reader:
                await reader.poll(timeout=5)
    assert await everything(house, "long") == kept
    await house.restart()
    assert await everything(house, "long") == kept
    assert [row[4] for row in await everything(house, "short")] == [b"short-0"]


async def test_a_segment_that_is_mostly_dead_is_cleaned(house: House):
    await fill_short_and_long(house, 6, short=4, long=2)
    kept, files = await everything(house, "long"), len(house.segment_files())
    house.clock.ahead += 100
    await house.upkeep()
    assert len(house.segment_files()) < files
    size = sum(house.live.surroundings.store.segments().values())
    assert house.live.usage.segments()
    assert sum(house.live.usage.of(segment) for segment in house.live.surroundings.store.segments()) >= 0.2 * size or size <= 512 * KIB
    assert await everything(house, "long") == kept
    await house.restart()
    assert await everything(house, "long") == kept


async def test_a_message_goes_when_it_expires_and_stays_while_it_is_due_later(house: House):
    now = datetime.now(UTC)
    async with house.client() as client:
        await client.create_topic("orders", retention=60, deduplication=60)
        async with client.producer("orders") as producer:
            await producer.send(b"expires", expires=timedelta(seconds=30))
            await producer.send(b"due", at=now + timedelta(seconds=300))
            await producer.send(b"plain")
    values = lambda rows: [row[4] for row in rows]  # noqa: E731
    assert values(await everything(house, "orders")) == [b"expires", b"due", b"plain"]
    house.clock.ahead += 31
    assert values(await everything(house, "orders")) == [b"due", b"plain"]
    await house.seal()
    assert values(await everything(house, "orders")) == [b"due", b"plain"]
    house.clock.ahead += 100
    await house.upkeep()
    assert values(await everything(house, "orders")) == [b"due"]
    await house.restart()
    assert values(await everything(house, "orders")) == [b"due"]
    house.clock.ahead += 300
    assert values(await everything(house, "orders")) == []
    await house.upkeep()
    async with house.client() as client:
        assert (await client.topic("orders")).messages == 0


async def test_retention_asks_nothing_after_a_start_until_there_is_something_to_do(house: House):
    async with house.client() as client:
        await client.create_topic("short", retention=60, deduplication=60)
        await client.create_topic("expiring")
        await client.create_topic("sized", retention_bytes=1_000_000)
    for topic, options in ("short", {}), ("expiring", {"expires": datetime.now(UTC) + timedelta(seconds=60)}), ("sized", {}):
        await publish(house, topic, 3, **options)
        await house.seal()
    await house.restart()
    await house.live.upkeep.retention.turn()
    assert house.live.reading.extents.bytes == 0
    house.clock.ahead += 61
    await house.upkeep()
    sizes = {topic.row.name: topic.actors[0].partition.sealed_bytes > 0 for topic in house.live.topics.all()}
    assert sizes == {"expiring": False, "short": False, "sized": True}


async def test_retention_by_bytes_keeps_the_newest(house: House):
    async with house.client() as client:
        await client.create_topic("orders")
    await publish(house, "orders", 0, large=6)
    await house.seal()
    await publish(house, "orders", 0, large=2)
    async with house.client() as client:
        size = (await client.topic("orders")).bytes
        topic = await client.alter_topic("orders", retention_bytes=size // 2)
        assert topic.retention_bytes == size // 2
    await house.upkeep()
    async with house.client() as client:
        topic = await client.topic("orders")
        assert 0 < topic.bytes <= size // 2
        assert topic.ranges[0].stop == 1601
    assert len(await everything(house, "orders")) == topic.messages


async def test_settings_that_were_altered_outlive_a_restart(house: House):
    async with house.client() as client:
        await client.create_topic("orders", retention_bytes=10_000_000)
        await client.alter_topic("orders", retention=timedelta(days=1))
    await house.restart()
    async with house.client() as client:
        topic = await client.topic("orders")
        assert (topic.retention, topic.retention_bytes) == (timedelta(days=1), 10_000_000)
        with pytest.raises(errors.InvalidArgument):
            await client.alter_topic("orders", deduplication=timedelta(days=2))
        with pytest.raises(errors.TopicNotFound):
            await client.alter_topic("nowhere", retention=60)
        assert (await client.alter_topic("orders", retention_bytes=None)).retention_bytes is None


async def test_a_deleted_topic_leaves_nothing_behind(house: House):
    async with house.client() as client:
        await client.create_topic("gone")
        await client.create_topic("stays")
    for _ in range(3):
        await publish(house, "gone", 3, large=4)
        await house.seal()
    await publish(house, "stays", 3)
    async with house.client() as client:
        await client.delete_topic("gone")
    files = len(house.segment_files())
    await house.upkeep()
    await house.seal()
    await house.upkeep()
    assert len(house.segment_files()) < files
    assert len(await everything(house, "stays")) == 3
    await house.restart()
    assert len(await everything(house, "stays")) == 3


async def test_a_clock_that_jumps_deletes_nothing(house: House):
    async with house.client() as client:
        await client.create_topic("orders", retention=60, deduplication=60)
    await publish(house, "orders", 5)
    await house.seal()
    wall = SystemClock.now
    house.clock.now = lambda: wall(house.clock) + int(30 * 86400e6)  # type: ignore[method-assign]
    await house.upkeep()
    assert len(await everything(house, "orders")) == 5


async def test_a_reader_that_follows_is_not_disturbed_by_seals(house: House):
    async with house.client() as client:
        await client.create_topic("orders")
        async with client.reader("orders") as reader, client.producer("orders") as producer:

            async def read() -> list[bytes | None]:
                found: list[bytes | None] = []
                async for message in reader:
                    found.append(message.value)
                    if len(found) == 60:
                        break
                return found

            reading = asyncio.create_task(read())
            for number in range(60):
                await producer.send(b"%d" % number)
                if number % 7 == 0:
                    await house.seal()
            assert await reading == [b"%d" % number for number in range(60)]


async def test_a_small_page_that_cannot_be_read_stays_where_it_is_when_it_is_sealed(house: House, monkeypatch: pytest.MonkeyPatch):
    settings = replace(house.settings(), flush_inline_bytes=0, memory_tail_bytes=0, memory_pages_bytes=0)
    monkeypatch.setattr(house, "settings", lambda: settings)
    await house.restart()
    async with house.client() as client:
        await client.create_topic("orders")
        async with client.producer("orders") as producer:
            for _ in range(5):
                await producer.send_batch([b"x" * 100] * 20)
    (actor,) = house.live.topics.actors()
    damaged = actor.partition.pages.state()[2]
    with (house.data / segment_name(damaged.segment)).open("r+b") as file:
        file.seek(damaged.position + damaged.length // 2)
        file.write(b"?" * 8)
    await house.seal()
    async with house.client() as client:
        assert len([m async for m in client.reader("orders", end=damaged.first_offset)]) == damaged.first_offset - 1
        assert len([m async for m in client.reader("orders", start=damaged.end, end="latest")]) == 101 - damaged.end
        with pytest.raises(errors.Corrupt, match=f"{damaged.first_offset} to"):
            [m async for m in client.reader("orders", start=damaged.first_offset, end=damaged.end)]
    (entry,) = await house.live.reading.reader.entries(actor.partition, damaged.first_offset, damaged.end, 1, 1)
    assert (entry.segment, entry.position) == (damaged.segment, damaged.position)
