"""The producer against a fake broker on virtual time: batching, partitions, ids, frames, room, errors."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.client.client import Client
from bowstring.messages import hashing
from tests.unit.fake_broker import FakeBroker, FakeDialer, FakeRandomness, connected, with_topic
from tests.unit.virtual_time import FakeClock, on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


@on_virtual_time
async def test_the_first_message_goes_at_once_and_the_next_are_gathered_meanwhile():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client, client.producer("t") as producer:
        producer.send(b"0")
        await asyncio.sleep(0.0005)
        assert len(broker.requests) == 1
        for number in range(1, 10):
            producer.send(b"%d" % number)
        await producer.flush()
    assert [rows for *_, rows in broker.requests] == [1, 9]
    assert topic.values() == [b"%d" % number for number in range(10)]


@on_virtual_time
async def test_a_receipt_has_its_id_at_once_and_turns_into_where_the_message_is():
    async with with_topic() as (_, client), client.producer("t") as producer:
        receipts = [producer.send(b"%d" % number) for number in range(3)]
        named = [receipt.id for receipt in receipts]
        assert not receipts[0].done()
        stored = [await receipt for receipt in receipts]
        assert [place.offset for place in stored] == [1, 2, 3]
        assert [place.id for place in stored] == named == [receipt.ids[0] for receipt in receipts]
        assert len(set(named)) == 3
        assert (await producer.find(named[1])) == stored[1]._replace(duplicate=False)
        assert (await producer.find("nobody")) is None
        assert receipts[0].result() == stored[0]


@on_virtual_time
async def test_keys_choose_the_partition_and_keyless_batches_take_turns():
    broker = FakeBroker()
    topic = broker.topic("t", 4)
    async with connected(broker) as client, client.producer("t") as producer:
        for number in range(40):
            producer.send(b"%d" % number, key=b"%d" % (number % 7))
        await producer.flush()
        for key in range(7):
            home = hashing.partition_of(b"%d" % key, 4)
            mine = [row[4]["value"] for row in topic.partitions[home].log if row[4]["key"] == b"%d" % key]
            assert mine == [b"%d" % number for number in range(40) if number % 7 == key]
        places = [(await producer.send(b"x")).partition for _ in range(8)]
        assert sorted(places) == [0, 0, 1, 1, 2, 2, 3, 3]


@on_virtual_time
async def test_a_natural_id_is_stored_once_and_answered_with_the_first_offset():
    async with with_topic(3) as (_, client), client.producer("t") as producer:
        first = await producer.send(b"a", id="order-7")
        again = await producer.send(b"a", id="order-7")
        assert (first.offset, first.duplicate) == (again.offset, False)
        assert again.duplicate
        mixed = [producer.send(b"1"), producer.send(b"2", id="order-7"), producer.send(b"3"), producer.send(b"4", id="new")]
        stored = [await receipt for receipt in mixed]
        assert [place.duplicate for place in stored] == [False, True, False, False]
        given_back = await producer.send(b"1", id=stored[0].id)
        assert given_back.partition == stored[0].partition


@on_virtual_time
async def test_rows_of_every_kind_keep_their_order():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client, client.producer("t") as producer:
        for number in range(0, 60, 6):
            producer.send(b"%d" % number)
            producer.send(b"%d" % (number + 1), key="k")
            producer.send(b"%d" % (number + 2), id=f"id-{number}")
            producer.send(b"%d" % (number + 3), attributes={"a": "ü"}, expires=60)
            producer.send_batch([b"%d" % (number + 4)])
            producer.send(b"%d" % (number + 5), timeout=5)
    assert topic.values() == [b"%d" % number for number in range(60)]


@on_virtual_time
async def test_failures_that_nobody_looked_at_are_raised_by_flush_and_by_leaving_the_block():
    broker = FakeBroker()
    broker.topic("t")
    broker.answering = lambda request: errors.InvalidArgument("no.")
    async with connected(broker) as client:
        producer = client.producer("t")
        producer.send(b"x")
        with pytest.raises(errors.InvalidArgument):
            await producer.flush()
        await producer.flush()
        for _ in range(3):
            producer.send(b"x")
        with pytest.raises(errors.PartlyRefused) as raised:
            await producer.flush()
        assert len(raised.value.answers.refused) == 3
        with pytest.raises(errors.InvalidArgument):
            await producer.send(b"x")
        await producer.close()
        with pytest.raises(errors.InvalidArgument):
            async with client.producer("t") as leaving:
                leaving.send(b"x")
        with pytest.raises(ZeroDivisionError):
            async with client.producer("t") as leaving:
                leaving.send(b"%d" % (1 // 0))


@on_virtual_time
async def test_max_bytes_bounds_what_is_under_way():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client, client.producer("t", max_bytes=100_000) as producer:
        sent = full = 0
        while sent < 3000:
            try:
                producer.send(bytes(100))
                sent += 1
            except errors.Full:
                full += 1
                await producer.ready()
            assert producer.statistics().bytes_under_way <= 100_000
        assert full > 1
        await producer.flush()
        assert producer.statistics().bytes_under_way == 0
        assert producer.statistics().messages == 3000
    assert len(topic.values()) == 3000


@on_virtual_time
async def test_large_values_travel_alone_and_too_large_ones_are_refused():
    broker = FakeBroker()
    broker.batch_bytes_max = 2**20
    broker.topic("t")
    async with connected(broker) as client, client.producer("t") as producer:
        receipts = [producer.send(bytes(size)) for size in (10, 1_000_000, 10)]
        for receipt in receipts:
            await receipt
        assert [rows for *_, rows in broker.requests] == [1, 1, 1]
        with pytest.raises(
            errors.TooLarge, match=r"^the value has 41.2 MiB, a batch may have 1 MiB here \(batch.bytes-max\). Split it, or"
        ):
            producer.send(bytes(int(41.2 * 2**20)))
        with pytest.raises(errors.TooLarge, match="row 1"):
            producer.send_batch([b"", bytes(2**21)])
        with pytest.raises(errors.TooLarge, match="row 1"):
            producer.send_batch(pa.table({"value": [b"", bytes(2**21)]}))


@on_virtual_time
async def test_a_frame_is_divided_by_partition_and_size_and_answered_in_its_own_order():
    broker = FakeBroker()
    broker.batch_bytes_max = 2**16
    topic = broker.topic("t", 3)
    rows = 5000
    keys = [None if row % 10 == 0 else f"k{row % 17}" for row in range(rows)]
    attributes = pa.array([{"row": str(row)} for row in range(rows)], pa.map_(pa.utf8(), pa.utf8()))
    values = pa.array([f"{row}" * 10 for row in range(rows)], pa.large_string())
    table = pa.table({"value": values, "key": keys, "attributes": attributes})
    async with connected(broker) as client, client.producer("t") as producer:
        receipt = producer.send_batch(table)
        answers = await receipt
        assert answers.ok.to_pylist() == [True] * rows
        for row in (0, 1, 17, rows - 1):
            place = answers.partitions[row].as_py(), answers.offsets[row].as_py()
            stored = topic.partitions[place[0]].log[place[1] - 1]
            assert stored[4]["value"] == (f"{row}" * 10).encode()
            assert dict(stored[4]["attributes"]) == {"row": str(row)}
            found = await producer.find(receipt.ids[row])
            assert found is not None
            assert (found.partition, found.offset) == place
        assert len(broker.requests) > 6
        by_partition = [pair for pair in zip(keys, answers.partitions.to_pylist(), strict=True) if pair[0] is not None]
        assert all(partition == hashing.partition_of(key.encode(), 3) for key, partition in by_partition)


@on_virtual_time
async def test_a_list_is_a_list_of_values():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client, client.producer("t") as producer:
        answers = await producer.send_batch([b"a", "ü", None, bytearray(b"c")])
        assert answers.offsets.to_pylist() == [1, 2, 3, 4]
        assert topic.values() == [b"a", "ü".encode(), None, b"c"]
        assert (await producer.send_batch(pa.array(["x"]))).offsets.to_pylist() == [5]
        assert (await producer.send_batch(pa.record_batch({"value": ["x"], "id": ["n"]}))).offsets.to_pylist() == [6]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "empty"),
        ([b"a", 7], r"data\[1\]=7 is of type int"),
        (7, "cannot be made of int"),
        (pa.table({"value": pa.array([], pa.binary())}), "empty"),
        (pa.table({"wrong": ["a"]}), "no column 'wrong'"),
        (pa.table({"value": [1]}), "value is int64"),
        (pa.table({"value": ["a", "b"], "id": ["x", None]}), "1 of the ids are null"),
        (pa.table({"value": ["a"], "id": [""]}), "id in row 0 is empty"),
        (pa.table({"value": ["a"], "due": pa.array([2**62], pa.timestamp("us", "UTC"))}), "out of range"),
    ],
)
@on_virtual_time
async def test_wrong_batches_are_refused_in_words(data, words):
    async with with_topic() as (broker, client), client.producer("t") as producer:
        with pytest.raises(errors.InvalidArgument, match=words):
            producer.send_batch(data)
    assert not broker.requests


@on_virtual_time
async def test_the_timeout_counts_by_the_brokers_clock_and_not_by_a_wrong_one_here():
    broker = FakeBroker()
    broker.topic("t")
    drifts = []
    client = Client(["a:1"], dialer=FakeDialer({"a:1": broker}), clock=FakeClock(3600), randomness=FakeRandomness(), on_drift=drifts.append)
    async with await client.open(), client.producer("t", timeout=10) as producer:
        stored = await producer.send(b"x", delay=60)
        assert stored.offset == 1
        assert client.info.drift == pytest.approx(3600, abs=0.01)
        await asyncio.sleep(0)
        assert drifts[0] == pytest.approx(3600, abs=0.01)
    (header,) = broker.headers
    assert abs(header.sent - broker.clock.now()) < 1_000_000
    row = broker.topics["t"].partitions[0].log[0][4]
    assert abs(row["due"].timestamp() * 1e6 - header.sent - 60e6) < 10_000
    assert row["created"].timestamp() * 1e6 - header.sent > 3599e6, "created is this machine's own time"


@on_virtual_time
async def test_a_closed_producer_says_so():
    async with with_topic() as (_, client):
        producer = client.producer("t")
        await producer.close()
        await producer.close()
        with pytest.raises(errors.Conflict, match="closed"):
            producer.send(b"x")
        with pytest.raises(errors.Conflict, match="closed"):
            producer.send_batch([b"x"])
