"""The reader against a fake broker on virtual time: places, batches, position, breaks, ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bowstring import errors
from bowstring.client.client import Client
from tests.unit.fake_broker import FakeBroker, connected, with_topic
from tests.unit.virtual_time import on_virtual_time


async def filled(client: Client, topic: str, rows: int, per_batch: int = 3, first: int = 0) -> None:
    async with client.producer(topic) as producer:
        for start in range(first, first + rows, per_batch):
            await producer.send_batch([b"%d" % number for number in range(start, min(first + rows, start + per_batch))])


@on_virtual_time
async def test_a_reader_reads_from_the_beginning_to_where_the_topic_ended_when_it_began():
    async with with_topic() as (_, client):
        await filled(client, "t", 10)
        reader = client.reader("t", end="latest")
        seen = [message async for message in reader]
        assert [message.value for message in seen] == [b"%d" % number for number in range(10)]
        assert [message.offset for message in seen] == list(range(1, 11))
        assert reader.position == {0: 11}
        assert await reader.lag() == {0: 0}
        await filled(client, "t", 1)
        assert [message async for message in reader] == []
        assert await reader.lag() == {0: 1}


@on_virtual_time
async def test_a_reader_follows_without_polling():
    async with with_topic() as (broker, client):
        reader = client.reader("t")
        waiting = asyncio.create_task(anext(reader))
        await asyncio.sleep(30)
        calls = len(broker.calls)
        await asyncio.sleep(30)
        assert len(broker.calls) == calls
        await filled(client, "t", 1)
        assert (await waiting).value == b"0"
        assert len(broker.streams) >= 1


@on_virtual_time
async def test_a_break_leaves_no_gap_and_repeats_nothing():
    async with with_topic(3) as (broker, client):
        async with client.producer("t") as producer:
            for number in range(60):
                await producer.send(b"%d" % number)
        reader = client.reader("t")
        seen = []
        for cut_after in range(60):
            if cut_after % 7 == 3:
                broker.fetch_cut_after = 2
                broker.cut()
            seen.append((await anext(reader)).value)
        assert sorted(seen, key=int) == [b"%d" % number for number in range(60)]
        assert reader.statistics().connections > 3
        assert reader.statistics().messages == 60


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, 4, [0, 1, 2]),
        ("beginning", 1, []),
        (5, 8, [4, 5, 6]),
        (5, "latest", [4, 5, 6, 7, 8, 9]),
        ("latest", "latest", []),
        (-3, "latest", [7, 8, 9]),
        (-100, "latest", list(range(10))),
        ({0: 9}, "latest", [8, 9]),
        (2, {0: 4}, [1, 2]),
        (None, -8, [0, 1]),
    ],
)
@on_virtual_time
async def test_starts_and_ends(start, end, expected):
    async with with_topic() as (_, client):
        await filled(client, "t", 10, per_batch=4)
        reader = client.reader("t", start=start, end=end)
        assert [int(message.value) async for message in reader] == expected


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"start": 0}, errors.InvalidArgument, "Offsets count from 1"),
        ({"start": True}, errors.InvalidArgument, "not a place"),
        ({"start": "now"}, errors.InvalidArgument, "'latest'"),
        ({"end": 1.5}, errors.InvalidArgument, "end=1.5"),
        ({"start": {0: 0}}, errors.InvalidArgument, "offsets from 1"),
        ({"start": {}}, errors.InvalidArgument, "names no partition"),
        ({"start": {"0": 1}}, errors.InvalidArgument, "Partitions count from 0"),
        ({"start": 2**70}, errors.InvalidArgument, "not a place"),
        ({"start": "earliest"}, errors.InvalidArgument, "Use start='beginning'"),
        ({"end": "2026-11-15T09:00Z"}, errors.InvalidArgument, "for commands but not for Python"),
        ({"start": 9, "end": 5}, errors.InvalidArgument, "start=9 is behind end=5"),
        ({"start": -5, "end": -9}, errors.InvalidArgument, "start=-5 is behind end=-9"),
        ({"start": datetime(2026, 1, 1)}, errors.InvalidArgument, "has no time zone"),
        ({"start": date(2026, 1, 1)}, errors.InvalidArgument, "not a place"),
        ({"start": datetime(2199, 1, 1, tzinfo=UTC)}, errors.InvalidArgument, "in the future"),
        ({"start": timedelta(hours=1)}, errors.InvalidArgument, r"timedelta\(hours=-1\)"),
        ({"end": datetime(2200, 1, 1, tzinfo=UTC)}, errors.InvalidArgument, "after 2200"),
        ({"start": timedelta(minutes=-1), "end": timedelta(minutes=-2)}, errors.InvalidArgument, "is behind end="),
        ({"columns": ["nothing"]}, errors.InvalidArgument, "producer_group"),
        ({"partitions": []}, errors.InvalidArgument, "partitions"),
        ({"partitions": "0"}, errors.InvalidArgument, "in a list"),
        ({"partitions": 0}, errors.InvalidArgument, "in a list"),
        ({"name": ""}, errors.InvalidArgument, "not a name"),
        ({"name": "a\nb"}, errors.InvalidArgument, "not a name"),
        ({"name": "x" * 250}, errors.InvalidArgument, "249 bytes"),
        ({"where": "x"}, errors.InvalidArgument, "at character 1"),
        ({"where": 5}, errors.InvalidArgument, "Use text"),
        ({"window": 5}, errors.InvalidArgument, "needs a name"),
        ({"window": 0, "name": "n"}, errors.InvalidArgument, "above 0"),
        ({"window": 5, "name": "n", "window_share": 0}, errors.InvalidArgument, "not a share"),
        ({"window": 5, "name": "n", "window_share": 1.5}, errors.InvalidArgument, "not a share"),
        ({"uncommitted": True}, errors.NotSupported, "uncommitted"),
    ],
)
@on_virtual_time
async def test_what_makes_no_sense_is_refused_at_once(arguments, kind, words):
    broker = FakeBroker()
    async with connected(broker) as client:
        with pytest.raises(kind, match=words):
            client.reader("t", **arguments)


@on_virtual_time
async def test_what_only_the_broker_can_refuse_is_raised_when_reading():
    async with with_topic() as (_, client):
        with pytest.raises(errors.TopicNotFound):
            await anext(client.reader("nope"))
        with pytest.raises(errors.OutOfRange):
            await anext(client.reader("t", start=100))
        reader = client.reader("t", start=100)
        for _ in range(2):
            with pytest.raises(errors.OutOfRange):
                await reader.poll(timeout=1)
        with pytest.raises(errors.InvalidArgument, match="no partition 5"):
            await anext(client.reader("t", partitions=[5]))
        await filled(client, "t", 1)
        await reader.seek("beginning")
        assert (await anext(reader)).value == b"0"


@on_virtual_time
async def test_batches_gather_up_to_their_size_and_wait_for_more():
    async with with_topic() as (_, client):
        await filled(client, "t", 25, per_batch=4)
        reader = client.reader("t", end="latest")
        assert [len(batch) async for batch in reader.batches(max_rows=10)] == [10, 10, 5]
        follower = client.reader("t", start=25)
        batches = follower.batches(max_wait=0.5)
        adding = asyncio.create_task(filled(client, "t", 3, per_batch=1, first=25))
        assert len(await anext(batches)) == 4
        await adding
        await batches.aclose()


@on_virtual_time
async def test_a_large_page_is_a_batch_of_its_own_and_is_not_copied():
    async with with_topic() as (_, client):
        async with client.producer("t") as producer:
            for rows, size in ((3, 10), (2, 10), (3000, 500), (2500, 500), (4, 10)):
                producer.send_batch([b"v" * size] * rows)
                await producer.flush()
        reader = client.reader("t", end="latest")
        batches = [batch async for batch in reader.batches()]
        assert [len(batch) for batch in batches] == [5, 3000, 2500, 4]
        large = batches[1]
        assert large.column("value").buffers()[2].address == large._chunks[0].page.column("value").buffers()[2].address


@on_virtual_time
async def test_poll_gives_what_is_there():
    async with with_topic() as (_, client):
        reader = client.reader("t")
        began = asyncio.get_running_loop().time()
        assert len(await reader.poll()) == 0
        assert len(await reader.poll(timeout=2)) == 0
        assert asyncio.get_running_loop().time() - began == pytest.approx(2)
        await filled(client, "t", 7)
        assert len(await reader.poll(timeout=1, max_rows=2)) == 2
        assert reader.position == {0: 3}
        await asyncio.sleep(1)
        assert [message.value for message in await reader.poll()] == [b"2", b"3", b"4", b"5", b"6"]
        empty = await reader.poll()
        assert pa.table(empty).num_rows == 0
        assert empty.column("producer_group").type == pa.dictionary(pa.int32(), pa.utf8())


@on_virtual_time
async def test_messages_and_batches_can_be_mixed_and_the_position_is_exact():
    async with with_topic() as (_, client):
        await filled(client, "t", 12, per_batch=6)
        reader = client.reader("t", end="latest")
        assert (await anext(reader)).value == b"0"
        assert reader.position == {0: 2}
        assert [message.value for message in await reader.poll(max_rows=2)] == [b"1", b"2"]
        assert reader.position == {0: 4}
        assert (await anext(reader)).value == b"3"
        assert [message.value async for message in reader] == [b"%d" % number for number in range(4, 12)]
        assert reader.position == {0: 13}


@on_virtual_time
async def test_seek_goes_elsewhere():
    async with with_topic() as (_, client):
        await filled(client, "t", 10)
        reader = client.reader("t")
        await anext(reader)
        await reader.seek(8)
        assert reader.position == {0: 8}
        assert (await anext(reader)).offset == 8
        await reader.seek("beginning")
        assert (await anext(reader)).offset == 1


@on_virtual_time
async def test_the_columns_of_a_batch():
    async with with_topic() as (_, client):
        async with client.producer("t", group="shop") as producer:
            moment = datetime(2100, 1, 1, tzinfo=UTC)
            first = await producer.send(b"a", key="k", attributes={"country": "CH"}, at=moment, expires=moment)
            await producer.send("ü", id="natural")
            plain = await producer.send(json={"x": 1})
        batch = await anext(client.reader("t", end="latest").batches())
        rows = batch.to_arrow().to_pylist()
        names = "topic partition offset id key value attributes created arrived due expires producer_group"
        assert batch.schema.names == names.split()
        assert batch.to_arrow().schema == batch.schema
        assert [row["value"] for row in rows] == [b"a", "ü".encode(), b'{"x":1}']
        assert [row["id"] for row in rows] == [first.id, "natural", plain.id]
        assert [row["key"] for row in rows] == [b"k", None, None]
        assert [row["due"] for row in rows] == [moment, None, None]
        assert rows[0]["attributes"] == [("country", "CH")]
        assert {row["producer_group"] for row in rows} == {"shop"}
        assert pc.sum(pc.binary_length(batch.column("value"))).as_py() == 1 + 2 + 7
        for message, row in zip(batch, rows, strict=True):
            for name in batch.schema.names:
                expected = dict(row[name] or ()) if name == "attributes" else row[name]
                assert getattr(message, name) == expected
        assert batch[1].text() == "ü"
        assert batch[-1].json() == {"x": 1}
        assert [message.value for message in batch[:2]] == [b"a", "ü".encode()]
        assert batch[0].fetch() == b"a"
        with pytest.raises(IndexError):
            _ = batch[3]
        with pytest.raises(errors.InvalidArgument, match="no column"):
            batch.column("retry_count")
        html = batch._repr_html_()
        assert "producer_group" in html
        assert "natural" in html
        narrow = await client.reader("t", columns=["value", "offset"], end="latest").poll(timeout=1)
        assert narrow.to_arrow().schema.names == ["offset", "value"]


@on_virtual_time
async def test_credit_bounds_what_is_read_ahead():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client:
        async with client.producer("t") as producer:
            for _ in range(30):
                await producer.send(bytes(1_000_000))
        reader = client.reader("t", end="latest")
        await asyncio.sleep(10)
        assert 7_000_000 < reader.statistics().bytes_ahead < 10_000_000
        assert len([message async for message in reader]) == len(topic.values())


@on_virtual_time
async def test_a_topic_made_again_is_another_one():
    async with with_topic() as (broker, client):
        await filled(client, "t", 2)
        reader = client.reader("t")
        await anext(reader)
        broker.topics["other"] = broker.topics["t"]
        broker.topic("t")
        broker.cut()
        assert (await anext(reader)).value == b"1"
        with pytest.raises(errors.TopicNotFound, match="made again"):
            await anext(reader)


@on_virtual_time
async def test_a_closed_reader_says_so():
    async with with_topic() as (_, client):
        async with client.reader("t") as reader:
            pass
        await reader.close()
        with pytest.raises(errors.Conflict, match="closed"):
            await reader.poll()
        with pytest.raises(errors.Conflict, match="closed"):
            await anext(reader)
