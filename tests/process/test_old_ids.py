"""An id is known until retention takes its message, however short the deduplication window: through the kit, on real files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.broker.upkeep.cleaner import CROWD
from bowstring.messages import encoding
from bowstring.ports.store import Reference
from bowstring.ports.transport import Channel
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.house import HOUR, House

WINDOW = 60.0
YEAR = int(365 * 24 * HOUR * 1e6)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path / "data")
    await house.start()
    async with house.client() as client:
        await client.create_topic("orders", partitions=2, retention=10 * HOUR, deduplication=WINDOW)
    yield house
    await house.stop()


async def send(house: House, *names: str, key: str = "k") -> list[bowstring.Stored]:
    """Messages whose ids are their values."""
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        return [await producer.send(name, id=name, key=key) for name in names]


async def generated(house: House, rows: int) -> list[str]:
    """The ids that the kit gave to the rows of a batch."""
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        receipt = producer.send_batch([f"row-{row}" for row in range(rows)])
        await receipt
        return list(receipt.ids)


async def scheduled(house: House, rows: int, late: Sequence[int], size: int) -> list[str]:
    """The ids that the kit gave to the rows of a batch, of which some are due in a year."""
    due = [house.clock.now() + YEAR if row in late else None for row in range(rows)]
    table = pa.table({"value": [bytes(size)] * rows, "due": pa.array(due, pa.timestamp("us", "UTC")), "key": [b"k"] * rows})
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        receipt = producer.send_batch(table)
        await receipt
        return list(receipt.ids)


@asynccontextmanager
async def channel_to(house: House) -> AsyncIterator[Channel]:
    """A connection over which a test speaks the protocol by hand."""
    assert house.server is not None
    channel = NativeDialer().dial(house.server.address)
    yield channel
    await channel.close()


async def leave_behind(house: House, topic: str, seconds: float) -> None:
    """Retention takes what is so old, and the cleaner, which joins small extents, leaves its pages behind."""
    house.clock.ahead += seconds
    await house.upkeep()
    async with house.client() as client, client.producer(topic) as producer:
        for _ in range(CROWD):
            await producer.send("young", key="k")
            await house.seal()
    await house.upkeep()


async def pages_below(house: House, topic: str, offset: int) -> list[tuple[int, int]]:
    """The first offset and the rows of each sealed page before that one, in the last partition: the key leads there."""
    extents, partition = house.live.reading.extents, house.live.topics.topic(topic).actors[-1].partition
    entries = [entry for extent in await extents.of(partition) for entry in (await extents.index(extent)).state()]
    return [(entry.first_offset, entry.rows) for entry in entries if entry.first_offset < offset]


async def find(house: House, name: str) -> tuple[int, int] | None:
    async with house.client() as client, client.producer("orders") as producer:
        found = await producer.find(name)
        return None if found is None else (found.partition, found.offset)


async def delete(house: House, *names: str, group: str = "shop") -> bowstring.Answers:
    async with house.client() as client, client.producer("orders", group=group) as producer:
        return await producer.delete(names)


async def values(house: House) -> list[str]:
    async with house.client() as client, client.reader("orders", end="latest") as reader:
        return sorted([message.text() async for message in reader])


async def grow_old(house: House, how: str) -> None:
    """The window passes, and later messages arrive."""
    if how == "sealed at once":
        await house.seal()
    if how == "loaded":
        await house.restart()
    house.clock.ahead += 10 * WINDOW
    await send(house, f"later, {how}")
    if how == "sealed late":
        await house.seal()
    if how == "loaded late":
        await house.restart()
        await house.seal()
        await house.restart()


HOW = ["never sealed", "sealed at once", "sealed late", "loaded", "loaded late"]


@pytest.mark.parametrize("how", HOW)
async def test_messages_are_found_after_the_window(house: House, how: str):
    stored = await send(house, "a", "b")
    ids = await generated(house, 3)
    await grow_old(house, how)
    assert await find(house, "b") == (stored[1].partition, stored[1].offset)
    places = [await find(house, one) for one in ids]
    assert [offset - places[0][1] for _, offset in places] == [0, 1, 2]
    assert await find(house, "nobody") is None
    assert await find(house, ids[0][:-1] + "7") is None


@pytest.mark.parametrize("how", HOW)
async def test_messages_are_deleted_by_their_owner_after_the_window(house: House, how: str):
    await send(house, "a", "b", "c")
    ids = await generated(house, 3)
    await grow_old(house, how)
    assert [type(error) for error in (await delete(house, "a", ids[1], group="thief")).refused.values()] == [errors.NotAuthorised] * 2
    answers = await delete(house, "c", ids[1], "nobody", "a")
    assert answers.ok.to_pylist() == [True, True, False, True]
    assert "until retention takes its message" in str(answers.refused[2])
    assert await values(house) == ["b", f"later, {how}", "row-0", "row-2"]
    again = await delete(house, "c", ids[1])
    assert again.offsets.to_pylist() == answers.offsets.to_pylist()[:2]
    assert await find(house, "c") is None
    assert await find(house, ids[1]) is None


@pytest.mark.parametrize("key", ["k", "other"])
async def test_of_two_messages_of_an_id_the_newer_is_found_and_deleted_first(house: House, key: str):
    older = (await send(house, "a"))[0]
    await grow_old(house, "sealed at once")
    newer = (await send(house, "a", key=key))[0]
    assert not newer.duplicate
    await grow_old(house, "sealed late")
    assert await find(house, "a") == (newer.partition, newer.offset)
    assert (await delete(house, "a")).ok.to_pylist() == [True]
    left = None if key == "other" else (older.partition, older.offset)  # in another partition it is deleted too
    assert await find(house, "a") == left
    await delete(house, "a")
    assert await find(house, "a") is None


async def test_a_message_that_retention_has_taken_is_not_found_though_its_section_is_there(house: House):
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        ids = ["old", (await producer.send(bytes(100_000), key="k")).id]
        await producer.send(bytes(100_000), id="old", key="k")
    house.clock.ahead += HOUR
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        await producer.send(bytes(100_000), id="young", key="k")
    await house.seal()
    assert None not in [await find(house, one) for one in (*ids, "young")]
    house.clock.ahead += 9.5 * HOUR
    await house.upkeep()
    partition = next(actor.partition for actor in house.live.topics.actors() if actor.partition.sealed_end > 1)
    extents = await house.live.reading.extents.of(partition)
    assert [(extent.first_offset, partition.retained.floor) for extent in extents] == [(1, 3)]
    assert [await find(house, one) for one in ids] == [None] * 2
    assert (await delete(house, *ids)).ok.to_pylist() == [False] * 2
    assert await find(house, "young") is not None


@pytest.mark.parametrize("size", [10, 1_000], ids=["whole page", "cut page"])
@pytest.mark.parametrize("retention", [10 * HOUR, 20.0], ids=["after the window", "within it"])
async def test_a_message_due_later_is_known_when_retention_has_taken_the_rows_before_it(house: House, retention: float, size: int):
    async with house.client() as client:
        await client.alter_topic("orders", retention=retention, deduplication=10.0)
    ids = await scheduled(house, rows=200, late=(100, 150), size=size)
    await house.seal()
    places = [await find(house, ids[row]) for row in (100, 150)]
    await leave_behind(house, "orders", 2 * retention)
    assert await pages_below(house, "orders", 201) == ([(1, 200)] if size < 100 else [(101, 1), (151, 1)])
    assert [await find(house, ids[row]) for row in (0, 99, 100, 101, 150)] == [None, None, places[0], None, places[1]]
    await house.restart()
    assert (await delete(house, ids[99], ids[150])).ok.to_pylist() == [False, True]
    assert [await find(house, ids[row]) for row in (100, 150)] == [places[0], None]


async def test_a_batch_whose_page_is_gone_is_never_said_not_to_be_stored(house: House):
    async with house.client() as client:
        await client.create_topic("bills", retention=20.0, deduplication=10.0)
    due = pa.array([house.clock.now() + YEAR], pa.timestamp("us", "UTC"))
    late = encoding.encode(pa.record_batch({"value": pa.array([b"late"]), "due": due}))
    async with channel_to(house) as channel:
        stream = await wire.open_publish(channel, "bills")
        await stream.write(wire.request(1, late))
        assert (await wire.answer(stream)).stored.first_offset == 1
        assert (await wire.publish(stream, 2, [bytes(100_000)])).stored.first_offset == 2
        await house.seal()
        await leave_behind(house, "bills", 40.0)
        assert await pages_below(house, "bills", 3) == [(1, 1)]
        assert (await wire.publish(stream, 2, [bytes(100_000)])).refused.kind == "outcome-unknown"


async def test_a_sealed_batch_is_recognised_as_long_as_its_producer_is_silent(house: House):
    """It is sent again after a long break, or the clock has jumped: the window goes by the producer's newest batch."""
    async with channel_to(house) as channel:
        stream = await wire.open_publish(channel, "orders")
        for number in (1, 2):
            await wire.publish(stream, number, [b"a"])
        await house.seal()
        house.clock.ahead += 10 * WINDOW
        again = await wire.publish(stream, 1, [b"a"])
        assert (again.stored.first_offset, again.stored.duplicate) == (1, True)


async def test_a_batch_that_may_be_in_a_section_too_old_to_be_searched_is_not_said_to_be_refused(house: House):
    async with channel_to(house) as channel:
        stream = await wire.open_publish(channel, "orders")
        await wire.publish(stream, 1, [b"a"])
        await house.seal()
        for number, previous in ((3, 1), (4, 3)):
            house.clock.ahead += 0.8 * WINDOW
            await wire.publish(stream, number, [b"a"], previous=previous, sent=house.clock.now())
            await house.seal()
        assert (await wire.publish(stream, 4, [b"a"], previous=3)).stored.duplicate
        assert (await wire.publish(stream, 2, [b"a"])).refused.kind == "outcome-unknown"


async def test_a_longer_window_knows_what_was_published_under_a_shorter_one(house: House):
    await send(house, "a")
    await grow_old(house, "never sealed")
    async with house.client() as client:
        await client.alter_topic("orders", deduplication=HOUR)
    await house.restart()
    assert (await send(house, "a"))[0].duplicate


class Reads:
    """What a broker reads from its segments."""

    def __init__(self, house: House) -> None:
        self.bytes = 0
        store = house.live.surroundings.store
        original = store.read

        async def read(references: Sequence[Reference]) -> object:
            self.bytes += sum(reference.length for reference in references)
            return await original(references)

        store.read = read  # type: ignore[method-assign, assignment]


async def test_an_id_that_nobody_has_is_looked_for_in_a_block_of_each_section(house: House):
    async with house.client() as client, client.producer("orders", group="shop") as producer:
        for part in range(3):
            await producer.send_batch(pa.table({"value": [b""] * 20_000, "id": [f"{part}-{row}" for row in range(20_000)]}))
            await house.seal()
    await grow_old(house, "sealed late")
    await house.restart()
    reads = Reads(house)
    assert await find(house, "nobody") is None
    first = reads.bytes
    assert first < 3 * 80_000  # the sections have 8 bytes an entry
    assert await find(house, "nobody") is None
    assert reads.bytes - first < 10_000  # the blocks are still in the cache
    assert await find(house, "1-777") is not None


async def test_a_recent_id_is_deleted_without_reading_old_sections(house: House):
    await send(house, "a")
    await generated(house, 50)
    await grow_old(house, "sealed at once")
    await house.restart()
    await send(house, "b")
    reads = Reads(house)
    assert (await delete(house, "b")).ok.to_pylist() == [True]
    assert not reads.bytes
