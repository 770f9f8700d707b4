"""What a producer does when something goes wrong: broken streams, refusals, lost answers, deadlines, topics that come and go."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.client.client import Client
from bowstring.client.producer import Producer
from bowstring.messages import hashing
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit.fake_broker import FakeBroker, connected, with_topic
from tests.unit.virtual_time import on_virtual_time

pytestmark = pytest.mark.usefixtures("transport")


@on_virtual_time
async def test_a_broken_stream_is_replaced_and_nothing_is_lost_or_stored_twice():
    broker = FakeBroker()
    topic = broker.topic("t")
    fates = {3: "lose", 5: "cut", 6: "lose"}
    broker.answering = lambda request: fates.pop(request.number, None)
    async with connected(broker) as client, client.producer("t") as producer:
        receipts = [producer.send_batch([b"%d" % number]) for number in range(10)]
        answers = [await receipt for receipt in receipts]
        assert [answer.offsets.to_pylist() for answer in answers] == [[offset] for offset in range(1, 11)]
    assert topic.values() == [b"%d" % number for number in range(10)]
    assert len({stream for stream, *_ in broker.requests}) == 4
    sent = {}
    for header in broker.headers:
        assert sent.setdefault(header.number, header.sent) == header.sent


@on_virtual_time
async def test_a_refusal_in_the_middle_of_a_pipeline_only_concerns_its_own_batch():
    broker = FakeBroker()
    topic = broker.topic("t")
    broker.answering = lambda request: errors.InvalidArgument("no.") if request.number in (2, 5) else None
    async with connected(broker) as client, client.producer("t") as producer:
        receipts = [producer.send_batch([b"%d" % number]) for number in range(8)]
        answers = [await receipt for receipt in receipts]
        assert [answer.ok.to_pylist() for answer in answers] == [[number not in (1, 4)] for number in range(8)]
        assert isinstance(answers[1].refused[0], errors.InvalidArgument)
        with pytest.raises(errors.PartlyRefused, match="no") as raised:
            answers[4].raise_for_refused()
        assert raised.value.answers is answers[4]
    assert topic.values() == [b"%d" % number for number in range(8) if number not in (1, 4)]
    assert len(broker.requests) < 30, "rewinding must not multiply"


@on_virtual_time
async def test_a_broker_that_is_away_is_waited_for():
    broker = FakeBroker()
    topic = broker.topic("t", 2)
    async with connected(broker) as client, client.producer("t") as producer:
        await producer.send(b"first", key="k")
        broker.down = True
        broker.cut()
        receipts = [producer.send(b"%d" % number, key="k") for number in range(5)]
        await asyncio.sleep(5)
        assert not any(receipt.done() for receipt in receipts)
        broker.down = False
        assert [(await receipt).offset for receipt in receipts] == [2, 3, 4, 5, 6]
    assert topic.values(hashing.partition_of(b"k", 2)) == [b"first", b"0", b"1", b"2", b"3", b"4"]


async def cut_off(broker: FakeBroker, client: Client, timeout: float) -> Producer:
    """A producer that has stored a message, and whose broker is away since."""
    producer = client.producer("t", timeout=timeout)
    await producer.send(b"x")
    broker.down = True
    broker.cut()
    await asyncio.sleep(0.1)
    return producer


@on_virtual_time
async def test_what_was_never_written_certainly_missed_its_deadline():
    async with with_topic() as (broker, client):
        producer = await cut_off(broker, client, timeout=2)
        began = asyncio.get_running_loop().time()
        receipt = producer.send(b"y")
        with pytest.raises(errors.DeadlinePassed, match="not stored"):
            await receipt
        assert asyncio.get_running_loop().time() - began == pytest.approx(2, abs=0.2)
        await producer.close()


@on_virtual_time
async def test_what_is_gathered_when_the_broker_comes_back_does_not_wait_behind_what_was_given_up():
    async with with_topic() as (broker, client):
        producer = await cut_off(broker, client, timeout=100)
        given_up = producer.send(b"y")
        await asyncio.sleep(99)
        young = producer.send(b"z")
        with pytest.raises(errors.DeadlinePassed):
            await given_up
        began = asyncio.get_running_loop().time()
        broker.down = False
        assert (await young).offset == 2
        assert asyncio.get_running_loop().time() - began < 1.5, "the pause between two attempts, and not the age of a batch"
        await producer.close()


@on_virtual_time
async def test_a_broker_that_has_ended_for_good_is_not_waited_for():
    broker = FakeBroker()
    topic = broker.topic("t")
    ended = errors.Unavailable("the broker has ended: its storage has failed.", details={"ended": "for good"})
    async with connected(broker) as client:
        producer = client.producer("t", timeout=100)
        await producer.send(b"x")
        began = asyncio.get_running_loop().time()
        broker.answering = lambda request: ended
        broker.call_errors = [ended, ended]
        with pytest.raises(errors.OutcomeUnknown, match="storage has failed"):
            await producer.send(b"under way")
        with pytest.raises(errors.Unavailable, match="storage has failed"):
            await producer.send(b"never sent")
        with pytest.raises(errors.Unavailable, match="storage has failed"):
            await client.topic("t")
        broker.down = True
        with pytest.raises(errors.Unavailable, match="storage has failed"):
            await client.create_topic("u")
        assert asyncio.get_running_loop().time() - began < 5
        broker.answering, broker.down = lambda request: None, False
        assert (await producer.send(b"y")).offset == 2
        await producer.close()
    assert topic.values() == [b"x", b"y"]


@on_virtual_time
async def test_a_lost_answer_is_asked_for_even_after_the_deadline():
    broker = FakeBroker()
    broker.topic("t")
    fates = {1: "ignore", 2: "drop"}
    broker.answering = lambda request: fates.pop(request.number, None)
    async with connected(broker) as client, client.producer("t", timeout=2) as producer:
        stored, late = producer.send_batch([b"stored"]), producer.send_batch([b"late"])
        assert (await stored).offsets.to_pylist() == [1], "the silent stream was replaced, and the broker knew it"
        assert isinstance((await late).refused[0], errors.DeadlinePassed), "the broker refuses what comes too late"


@on_virtual_time
async def test_a_full_disk_is_waited_for_and_is_what_is_told_when_the_time_is_over():
    broker = FakeBroker()
    broker.topic("t")
    full = [True]

    def answering(request):
        in_time = broker.clock.now() <= request.sent + request.timeout
        return errors.Full("the disk is full; nothing of this was stored.") if full[0] and in_time else None

    broker.answering = answering
    async with connected(broker) as client, client.producer("t", timeout=2) as producer:
        patient = producer.send_batch([b"patient"])
        await asyncio.sleep(1)
        full[0] = False
        assert (await patient).offsets.to_pylist() == [1], "there is room again"
        full[0] = True
        late = (await producer.send_batch([b"late"])).refused[0]
        assert isinstance(late, errors.Full)
        assert "the disk is full" in str(late)
        assert "timeout of 2 s" in str(late)


@on_virtual_time
async def test_without_any_answer_the_outcome_is_unknown():
    broker = FakeBroker()
    broker.topic("t")
    broker.answering = lambda request: "ignore"
    async with connected(broker) as client:
        producer = client.producer("t", timeout=2)
        receipt = producer.send(b"x")
        await asyncio.sleep(0.5)
        broker.down = True
        with pytest.raises(errors.OutcomeUnknown, match="may or may not"):
            await receipt
        assert asyncio.get_running_loop().time() < 1020
        await producer.close()


@on_virtual_time
async def test_a_later_batch_goes_on_after_one_that_was_given_up():
    broker = FakeBroker()
    topic = broker.topic("t")
    broker.answering = lambda request: "ignore" if request.number == 1 else None
    async with connected(broker) as client:
        producer = client.producer("t", timeout=1)
        lost = producer.send_batch([b"lost"])
        with pytest.raises(errors.PartlyRefused):
            (await lost).raise_for_refused()
        broker.answering = lambda request: None
        assert (await producer.send(b"next")).offset == 2
        await producer.close()
    assert topic.values() == [b"lost", b"next"]


@on_virtual_time
async def test_an_unknown_topic_is_refused_and_one_that_is_made_meanwhile_is_taken():
    broker = FakeBroker()
    async with connected(broker) as client:
        async with client.producer("t") as producer:
            with pytest.raises(errors.TopicNotFound):
                await producer.send(b"x", key="k")
            broker.topic("t", 3)
            assert (await producer.send(b"x", key="k")).partition == hashing.partition_of(b"k", 3)
        broker.create_on_publish = True
        async with client.producer("made") as producer:
            assert (await producer.send(b"x", key="k")).offset == 1


@on_virtual_time
async def test_messages_with_keys_wait_until_the_partitions_are_known():
    broker = FakeBroker()
    topic = broker.topic("t", 4)
    async with connected(broker) as client:
        producer = client.producer("t")
        receipts = [producer.send(b"%d" % number, key=b"%d" % (number % 3)) for number in range(9)]
        batch = producer.send_batch(pa.table({"value": ["a", "b"], "key": ["0", "1"]}))
        with pytest.raises(errors.Conflict):
            _ = batch.ids
        wrong = producer.send_batch(pa.table({"value": ["a"], "id": [""]}))
        named = [receipt.id for receipt in receipts]
        stored = [await receipt for receipt in receipts]
        assert [place.id for place in stored] == named
        assert all(place.partition == hashing.partition_of(b"%d" % (number % 3), 4) for number, place in enumerate(stored))
        assert (await batch).ok.to_pylist() == [True, True]
        assert len(batch.ids) == 2
        assert isinstance((await wrong).refused[0], errors.InvalidArgument)
        await producer.close()
    home = topic.partitions[hashing.partition_of(b"0", 4)]
    assert [row[4]["value"] for row in home.log if row[4]["key"] == b"0"] == [b"0", b"3", b"6", b"a"]


@on_virtual_time
async def test_nothing_is_sent_past_what_waits_for_partitions():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client:
        producer = client.producer("t")
        for number in range(0, 40, 4):
            producer.send(b"%d" % number)
            producer.send(b"%d" % (number + 1))
            producer.send(b"%d" % (number + 2), key="k")
            producer.send_batch([b"%d" % (number + 3)])
        await producer.close()
    assert topic.values() == [b"%d" % number for number in range(40)]


@on_virtual_time
async def test_what_waits_for_partitions_has_its_deadline_too():
    async with with_topic(4) as (broker, client):
        broker.down = True
        producer = client.producer("t", timeout=2)
        receipt = producer.send(b"x", key="k")
        with pytest.raises(errors.DeadlinePassed):
            await receipt
        producer.send(b"x", key="k")
        with pytest.raises(errors.DeadlinePassed):
            await producer.flush()
        await producer.close()


@pytest.mark.parametrize(
    ("happens", "size", "expected"),
    [
        (None, 1000, errors.DeadlinePassed),
        (errors.LoginRequired("no."), 1000, errors.LoginRequired),
        ("back", 90_000, errors.TooLarge),
    ],
)
@on_virtual_time
async def test_what_fails_while_it_waits_for_partitions_makes_room(happens, size, expected):
    broker = FakeBroker()
    broker.topic("t", 4)
    broker.batch_bytes_max = 80_000
    async with connected(broker) as client:
        broker.down = True
        producer = client.producer("t", timeout=2, max_bytes=100_000)
        receipt = producer.send_batch(pa.table({"value": [bytes(size)] * (90_000 // size), "key": ["k"] * (90_000 // size)}))
        with pytest.raises(errors.Full):
            producer.send_batch([b"x"])
        ready = asyncio.create_task(producer.ready())
        await asyncio.sleep(0.5)
        assert not ready.done()
        if happens is not None:
            broker.down = False
            broker.call_errors += [happens] if isinstance(happens, errors.Error) else []
        async with asyncio.timeout(10):
            await ready
        answers = await receipt
        assert all(isinstance(answers.refused[row], expected) for row in range(90_000 // size))
        assert producer.statistics().refused == 90_000 // size
        assert producer.statistics().bytes_under_way == 0
        with pytest.raises(errors.PartlyRefused):
            answers.raise_for_refused()
        await producer.close()


@on_virtual_time
async def test_a_producer_finds_the_topic_that_took_the_place_of_a_deleted_one():
    async with with_topic() as (broker, client), client.producer("t") as producer:
        await producer.send(b"x")
        broker.answering = lambda request: errors.TopicNotFound("gone.")
        with pytest.raises(errors.TopicNotFound):
            await producer.send(b"y")
        broker.answering = lambda request: None
        topic = broker.topic("t")
        assert (await producer.send(b"z")).offset == 1
        assert topic.values() == [b"z"]


@on_virtual_time
async def test_a_topic_made_again_with_other_partitions_fails_what_was_under_way():
    broker = FakeBroker()
    broker.topic("t", 2)
    broker.answering = lambda request: "drop"
    async with connected(broker) as client, client.producer("t") as producer:
        receipt = producer.send(b"x", key="k")
        await asyncio.sleep(0.1)
        broker.answering = lambda request: None
        broker.topic("t", 3)
        broker.cut()
        with pytest.raises(errors.OutcomeUnknown):
            await receipt
        assert (await producer.send(b"y", key="k")).partition == hashing.partition_of(b"k", 3)


@on_virtual_time
async def test_an_answer_for_an_unknown_number_is_ignored():
    broker = FakeBroker()
    topic = broker.topic("t")
    async with connected(broker) as client, client.producer("t") as producer:
        await producer.send(b"x")
        broker.streams[-1].answer(pb.PublishAnswer(partition=0, number=999).SerializeToString())
        assert (await producer.send(b"y")).offset == 2
    assert topic.values() == [b"x", b"y"]


@on_virtual_time
async def test_an_idle_partition_is_not_starved_by_a_busy_one():
    broker = FakeBroker()
    broker.topic("t", 2)
    busy, quiet = (next(key for key in map(str, range(99)) if hashing.partition_of(key.encode(), 2) == home) for home in (0, 1))
    async with connected(broker) as client, client.producer("t") as producer:
        producer.send(b"x", key=busy)
        await asyncio.sleep(0.0005)
        receipt = producer.send(b"q", key=quiet)
        for _ in range(400):
            producer.send(bytes(100_000), key=busy)
            if receipt.done():
                break
            await asyncio.sleep(0.0005)
        assert receipt.done()
