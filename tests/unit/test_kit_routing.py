"""Several brokers: each partition is served by one of them, and moves. Order is kept, nothing is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from bowstring import errors
from tests.unit.fake_cluster import FakeCluster
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


def streams(cluster: FakeCluster, address: str) -> set[int]:
    """The numbers of the streams on which batches came to a broker."""
    return {stream for stream, *_ in cluster.brokers[address].requests}


@on_virtual_time
async def test_each_broker_gets_the_batches_of_its_partitions_over_one_stream():
    cluster = FakeCluster(4)
    async with cluster.connected() as client, client.producer("t") as producer:
        for number in range(20):
            for partition in range(4):
                producer.send_batch([b"%d" % number], partition=partition)
        await producer.flush()
        assert producer.statistics().messages == 80
    for partition in range(4):
        assert cluster.topic.values(partition) == [b"%d" % number for number in range(20)]
    assert len(streams(cluster, "a:1")) == len(streams(cluster, "b:1")) == 1
    assert {partition for _, partition, *_ in cluster.brokers["b:1"].requests} == {1, 3}


@on_virtual_time
async def test_a_partition_that_moves_takes_its_batches_along_in_order():
    cluster = FakeCluster(2)
    async with cluster.connected() as client, client.producer("t") as producer:
        receipts = []
        for number in range(60):
            receipts += [producer.send_batch([b"%d" % number], partition=partition) for partition in (0, 1)]
            if number in (20, 40):
                await asyncio.sleep(0.005)
                assert not receipts[-1].done(), "batches are under way"
                cluster.homes[0] = "b:1" if number == 20 else "a:1"
        answers = [await receipt for receipt in receipts]
        assert [answer.offsets.to_pylist() for answer in answers] == [[1 + at // 2] for at in range(120)]
    assert cluster.topic.values(0) == cluster.topic.values(1) == [b"%d" % number for number in range(60)]
    assert len(streams(cluster, "a:1")) == 1, "'not here' is the outcome of one batch, and ends no stream"


@pytest.mark.parametrize("seed", range(8))
@on_virtual_time
async def test_whatever_moves_and_breaks_each_batch_is_stored_once_and_in_order(seed):
    chance = random.Random(seed)
    cluster = FakeCluster(3)
    for broker in cluster.brokers.values():
        broker.answering = lambda request: chance.choice(["lose", "cut"]) if chance.random() < 0.02 else None

    async def move() -> None:
        while True:
            await asyncio.sleep(chance.random() * 0.1)
            cluster.homes[chance.randrange(3)] = chance.choice(["a:1", "b:1"])
            if chance.random() < 0.2:
                cluster.brokers[chance.choice(["a:1", "b:1"])].cut()

    moving = asyncio.create_task(move())
    async with cluster.connected("a:1", "b:1") as client, client.producer("t") as producer:
        receipts = []
        for number in range(200):
            receipts.append(producer.send_batch([b"%d" % number], partition=number % 3))
            await asyncio.sleep(chance.random() * 0.01)
        answers = [await receipt for receipt in receipts]
        assert all(answer.ok.to_pylist() == [True] for answer in answers)
    moving.cancel()
    for partition in range(3):
        assert cluster.topic.values(partition) == [b"%d" % number for number in range(partition, 200, 3)]


@on_virtual_time
async def test_a_broker_that_was_named_and_is_gone_is_forgotten():
    cluster = FakeCluster(2)
    async with cluster.connected() as client, client.producer("t") as producer:
        await producer.send_batch([b"0"], partition=1)
        cluster.brokers["b:1"].down = True
        cluster.brokers["b:1"].cut()
        waiting = [producer.send_batch([b"1"], partition=1), producer.send_batch([b"2"], partition=1)]
        assert (await producer.send_batch([b"x"], partition=0)).ok.to_pylist() == [True], "the other broker's partitions go on"
        await asyncio.sleep(5)
        assert not any(receipt.done() for receipt in waiting)
        cluster.homes[1] = "a:1"
        assert [(await receipt).offsets.to_pylist() for receipt in waiting] == [[2], [3]]
    assert cluster.topic.values(1) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("named", ["", "a:1", "b:1"])
@on_virtual_time
async def test_a_partition_that_nobody_serves_is_asked_for_now_and_then(named):
    cluster = FakeCluster(1)
    for broker in cluster.brokers.values():
        broker.elsewhere = lambda partition: named
    async with cluster.connected() as client, client.producer("t") as producer:
        receipt = producer.send_batch([b"x"])
        await asyncio.sleep(10)
        assert not receipt.done()
        assert sum(len(broker.requests) for broker in cluster.brokers.values()) < 40, "it pauses in between"
        cluster.brokers[named or "a:1"].elsewhere = lambda partition: None
        assert (await receipt).offsets.to_pylist() == [1]


@on_virtual_time
async def test_what_is_told_to_be_elsewhere_for_too_long_is_not_certain_to_be_lost():
    cluster = FakeCluster(1)
    cluster.brokers["a:1"].elsewhere = lambda partition: ""
    async with cluster.connected() as client:
        producer = client.producer("t", timeout=2)
        receipt = producer.send(b"x")
        with pytest.raises((errors.OutcomeUnknown, errors.DeadlinePassed)):
            await receipt
        await producer.close()
    assert cluster.topic.values() == []


@on_virtual_time
async def test_there_is_one_stream_to_a_broker_even_if_a_seed_turns_out_to_be_it():
    cluster = FakeCluster(2)
    async with cluster.connected("a:1", "b:1") as client, client.producer("t") as producer:
        await producer.send_batch([b"0"], partition=0)
        await producer.send_batch([b"0"], partition=1)
        cluster.homes[0] = "b:1"
        cluster.brokers["a:1"].down = True
        cluster.brokers["a:1"].cut()
        receipts = [producer.send_batch([b"1"], partition=partition) for partition in (0, 1)]
        assert [(await receipt).offsets.to_pylist() for receipt in receipts] == [[2], [2]]
        opened = len(streams(cluster, "b:1"))
        await asyncio.sleep(30)
        await producer.send_batch([b"2"], partition=0)
        assert len(streams(cluster, "b:1")) == opened, "two streams would fence each other for ever"


@on_virtual_time
async def test_a_reader_follows_its_partitions_to_their_brokers():
    cluster = FakeCluster(4)
    async with cluster.connected() as client, client.producer("t") as producer, client.reader("t") as reader:
        seen: dict[int, list[bytes | None]] = {number: [] for number in range(4)}
        for number in range(40):
            await producer.send_batch([b"%d" % number], partition=number % 4)
            if number in (10, 20, 30):
                cluster.move(number // 10, ("b:1", "a:1")[number // 10 % 2])
            message = await anext(reader)
            seen[message.partition].append(message.value)
            assert message.offset == len(seen[message.partition]), "nothing is left out, nothing comes twice"
        assert seen == {partition: [b"%d" % number for number in range(partition, 40, 4)] for partition in range(4)}
        assert reader.statistics().connections > 2


@pytest.mark.parametrize("named", [{}, {2: "b:1"}])
@on_virtual_time
async def test_a_reader_with_an_end_reads_from_several_brokers_up_to_it(named):
    cluster = FakeCluster(4)
    async with cluster.connected() as client, client.producer("t") as producer:
        for number in range(80):
            producer.send_batch([bytes(50_000)], partition=number % 4)
        await producer.flush()
        cluster.homes |= named
        reader = client.reader("t", end="latest")
        rows = [(message.partition, message.offset) async for message in reader]
        assert sorted(rows) == [(partition, offset) for partition in range(4) for offset in range(1, 21)]
        assert reader.statistics().bytes_ahead == 0
