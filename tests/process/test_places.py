"""Places in a log on real files: by time, from the end, over seals and restarts; and named positions, which are durable."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import bowstring.aio
from bowstring import errors, times
from tests.process.house import House, started_house

house = started_house


async def publish(client: bowstring.aio.Client, topic: str, values: range, **options: object) -> None:
    """One message a batch, each in a flush of its own."""
    async with client.producer(topic) as producer:
        for number in values:
            await producer.send(b"%d" % number, **options)  # type: ignore[arg-type]


async def values(client: bowstring.aio.Client, topic: str, **places: object) -> list[int]:
    """What a reader gets, in the order of publication."""
    async with client.reader(topic, **places) as reader:  # type: ignore[arg-type]
        return sorted([int(message.value or b"") async for message in reader])


def now(house: House) -> datetime:
    return times.to_datetime(house.clock.now())


async def test_a_moment_is_found_in_every_form_that_messages_lie_in(house: House):
    """In the journal, in an extent where small pages were coalesced, and after a restart."""
    async with house.client() as client:
        await client.create_topic("t")
    moments: list[datetime] = []
    for tens in range(6):
        house.clock.ahead += 100
        moments.append(now(house))
        async with house.client() as client:
            await publish(client, "t", range(10 * tens, 10 * tens + 10))
        if tens in (1, 3):
            await house.seal()

    async def check() -> None:
        async with house.client() as client:
            for tens, moment in enumerate(moments):
                assert await client.offsets("t", moment) == {0: 10 * tens + 1}
                assert await client.offsets("t", moment - timedelta(seconds=50)) == {0: 10 * tens + 1}
                assert await values(client, "t", start=moment, end="latest") == list(range(10 * tens, 60))
                assert await values(client, "t", end=moment) == list(range(10 * tens))
            assert await values(client, "t", start=moments[1], end=moments[3]) == list(range(10, 30))
            assert await client.offsets("t", datetime(2000, 1, 1, tzinfo=UTC)) == {0: 1}
            assert await client.offsets("t", now(house)) == {0: 61}

    await check()
    await house.restart()
    await check()
    await house.seal()
    await check()


async def test_a_moment_is_found_without_reading_messages(house: House):
    async with house.client() as client:
        await client.create_topic("t")
        async with client.producer("t") as producer:
            for number in range(40):
                house.clock.ahead += 1
                await producer.send_batch([bytes(3000)] * 8 + [b"%d" % number])
        await house.seal()
        read: list[int] = []
        pages = house.live.reading.reader.pages

        async def counted(partition, entries):
            read.extend(entry.first_offset for entry in entries)
            return await pages(partition, entries)

        house.live.reading.reader.pages = counted  # type: ignore[method-assign]
        assert (await client.offsets("t", now(house) - timedelta(seconds=10)))[0] in range(9 * 29, 9 * 32)
        assert not read


async def test_the_newest_are_those_of_the_topic_and_not_of_each_partition(house: House):
    async with house.client() as client:
        await client.create_topic("t", partitions=3)
        keys = {}
        for number in range(60):
            keys.setdefault(bowstring_partition(f"k{number}", 3), f"k{number}")
        for number in range(30):
            house.clock.ahead += 1
            await publish(client, "t", range(number, number + 1), key=keys[0 if number < 20 else number % 3])
            if number == 17:
                await house.seal()
        for count in (1, 4, 7, 10, 15, 30, 1000):
            assert await values(client, "t", start=-count, end="latest") == list(range(max(0, 30 - count), 30))
        assert await values(client, "t", end=-10) == list(range(20))
        assert await values(client, "t", start=-3, end="latest", partitions=[0]) == [21, 24, 27]


def bowstring_partition(key: str, partitions: int) -> int:
    from bowstring.messages.hashing import partition_of

    return partition_of(key.encode(), partitions)


async def test_an_end_that_is_still_to_come_is_waited_for(house: House):
    async with house.client() as client:
        await client.create_topic("t")
        by_offset = asyncio.create_task(values(client, "t", end=3))
        by_time = asyncio.create_task(values(client, "t", end=timedelta(seconds=1)))
        await publish(client, "t", range(4))
        assert await by_offset == [0, 1]
        assert await by_time == [0, 1, 2, 3]
        await publish(client, "t", range(4, 5))
        assert await values(client, "t", end="latest") == [0, 1, 2, 3, 4]


async def test_positions_survive_a_kill_a_seal_and_both(house: House):
    async with house.client() as client:
        await client.create_topic("t", partitions=2)
        await publish(client, "t", range(20))
        reader = client.reader("t", name="me", end="latest")
        first = [int(message.value or b"") for message in await reader.poll(1, max_rows=7)]
        while len(first) < 7:
            first += [int(message.value or b"") for message in await reader.poll(1, max_rows=7 - len(first))]
        await reader.commit()
        kept = await client.position("me", "t")
        assert kept.offsets == reader.position
        assert sum(kept.lag.values()) == 13
    for act in (house.restart, house.seal, house.restart):
        await act()
        async with house.client() as client:
            assert (await client.position("me", "t")).offsets == kept.offsets
            assert sorted(first + await values(client, "t", name="me", start="latest", end="latest")) == list(range(20))
    async with house.client() as client:
        await client.delete_position("me", "t")
    await house.restart()
    async with house.client() as client:
        with pytest.raises(errors.NotFound, match="no position 'me'"):
            await client.position("me", "t")


async def test_positions_are_listed_page_by_page_set_and_deleted(house: House, monkeypatch: pytest.MonkeyPatch):
    from bowstring.client import positions

    monkeypatch.setattr(positions, "PAGE_POSITIONS", 2)
    async with house.client() as client:
        for topic in ("a", "b"):
            await client.create_topic(topic, partitions=2)
            await publish(client, topic, range(10))
            for name in ("x", "y", "z"):
                await client.set_position(name, topic, "latest")
        assert [(each.topic, each.name) async for each in client.positions()] == [(t, n) for t in "ab" for n in "xyz"]
        assert [each.name async for each in client.positions("b")] == ["x", "y", "z"]
        before = await client.position("x", "a")
        tried = await client.set_position("x", "a", "beginning", dry_run=True)
        assert (tried.offsets, sum(tried.lag.values())) == ({0: 1, 1: 1}, 10)
        assert await client.position("x", "a") == before
        assert (await client.set_position("x", "a", {0: 1})).offsets == {0: 1, 1: before.offsets[1]}
        assert sum((await client.set_position("x", "a", -4)).lag.values()) == 4
        assert sum((await client.set_position("x", "a", timedelta(hours=-1))).lag.values()) == 10
        await client.delete_position("x", "a")
        await client.delete_position("x", "a", missing_ok=True)
        for call in (
            client.delete_position("x", "a"),
            client.position("x", "a"),
            client.set_position("x", "a", 1000),
            client.set_position("x", "a", {7: 1}),
            client.set_position("x", "nope", 1),
            client.set_position("", "a", 1),
        ):
            with pytest.raises(errors.Rejected):
                await call
        await client.delete_topic("b")
        assert [(each.topic, each.name) async for each in client.positions()] == [("a", "y"), ("a", "z")]


async def test_a_commit_goes_only_forward_and_all_partitions_of_it_or_none(house: House):
    async with house.client() as client:
        await client.create_topic("t", partitions=2)
        await publish(client, "t", range(20))
        reader = client.reader("t", name="me")
        await reader.commit({0: 5, 1: 2})
        with pytest.raises(errors.Conflict, match=r"t/1: position 'me' is at offset 2, committing 1 would move it back"):
            await reader.commit({0: 6, 1: 1})
        with pytest.raises(errors.OutOfRange, match="ends before offset"):
            await reader.commit({0: 6, 1: 1000})
        assert (await client.position("me", "t")).offsets == {0: 5, 1: 2}
        await reader.commit({0: 5})
        await reader.commit({0: 6})
        assert (await client.position("me", "t")).offsets == {0: 6, 1: 2}
        for wrong in ({7: 1}, {0: 0}, {}, {"t": {0: 7}}, 5):
            with pytest.raises(errors.InvalidArgument):
                await reader.commit(wrong)  # type: ignore[arg-type]
        with pytest.raises(errors.Conflict, match="no name"):
            await client.reader("t").commit()


async def test_a_topic_made_anew_has_no_positions_and_takes_no_commit_of_an_old_reader(house: House):
    async with house.client() as client:
        await client.create_topic("t")
        await publish(client, "t", range(3))
        reader = client.reader("t", name="me", end="latest")
        assert len([message async for message in reader]) == 3
        await client.delete_topic("t")
        await client.create_topic("t")
        with pytest.raises(errors.Conflict, match="made again"):
            await reader.commit()
        assert [each async for each in client.positions("t")] == []


async def test_a_position_that_retention_has_overtaken_is_told_so(house: House):
    async with house.client() as client:
        await client.create_topic("t", retention=100, deduplication=1)
        await publish(client, "t", range(5))
        await client.set_position("me", "t", 2)
        house.clock.ahead += 1000
        await publish(client, "t", range(5, 6))
        await house.upkeep()
        with pytest.raises(errors.OutOfRange):
            await values(client, "t", name="me", end="latest")
