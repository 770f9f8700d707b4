"""The kit against a real broker over real sockets: the tour of the README, threads, restarts, and the sync face in every surrounding."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from tests.process import ephemeral
from tests.process.serving import environment

broker = ephemeral.broker
client = ephemeral.client


@pytest.fixture
def topic(client: bowstring.Client, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:200]
    client.create_topic(name, partitions=4)
    return name


def test_the_tour(client: bowstring.Client):
    before = datetime.now(UTC)
    client.create_topic("orders", partitions=4, retention=timedelta(days=30), exists_ok=True)
    with client.producer("orders", group="shop") as producer:
        receipt = producer.send(b'{"a": 1}', key="customer-42", attributes={"country": "CH"})
        stored = receipt.result(timeout=5)
        assert (stored.topic, stored.offset, stored.id, stored.duplicate) == ("orders", 1, receipt.id, False)
        producer.send(json={"order": 7}, id="order-7", delay=900)
        producer.send_batch([b"a", b"b"])
        producer.send_batch(pa.table({"value": ["c", "d"], "key": ["x", "y"]}))
    messages = list(client.reader("orders", end="latest"))
    assert sorted(message.text() for message in messages) == sorted(['{"a": 1}', '{"order":7}', "a", "b", "c", "d"])
    (first,) = [message for message in messages if message.id == receipt.id]
    assert (first.key, first.attributes, first.producer_group, first.json()) == (b"customer-42", {"country": "CH"}, "shop", {"a": 1})
    assert before - timedelta(seconds=1) <= first.created <= datetime.now(UTC)
    (later,) = [message for message in messages if message.id == "order-7"]
    assert later.due is not None
    assert timedelta(seconds=890) < later.due - before < timedelta(seconds=960)
    assert client.topic("orders").messages == 6
    assert "orders" in [topic.name for topic in client.topics()]


def test_polling_and_following(client: bowstring.Client, topic: str):
    reader = client.reader(topic)
    assert len(reader.poll()) == 0
    with client.producer(topic) as producer:
        producer.send(b"x").result(5)
        batch = reader.poll(timeout=10)
        assert [message.value for message in batch] == [b"x"]
        assert sum(reader.lag().values()) == 0
        producer.send(b"y")
    assert next(iter(reader)).value == b"y"
    assert sum(reader.position.values()) == 4 + 2
    reader.seek("beginning")
    assert len(next(reader.batches(max_rows=1))) == 1
    reader.close()


def test_as_arrow(client: bowstring.Client, topic: str):
    values = [b"%d" % number for number in range(20_000)]
    with client.producer(topic) as producer:
        answers = producer.send_batch(values).result()
        assert pc.all(answers.ok).as_py()
    total = rows = 0
    for batch in client.reader(topic, end="latest").batches():
        rows += len(batch)
        total += pc.sum(pc.binary_length(batch.column("value"))).as_py()
        assert pa.table(batch).num_rows == len(batch)
    assert (rows, total) == (len(values), sum(map(len, values)))


def test_several_threads_share_a_reader(client: bowstring.Client, topic: str):
    with client.producer(topic) as producer:
        for number in range(20):
            producer.send_batch([b"%d-%d-" % (number, row) + b"x" * (1000 if number % 2 else 10) for row in range(2000)])
    reader = client.reader(topic, end="latest")
    seen: list[bytes] = []

    def work(max_rows: int) -> None:
        for batch in reader.batches(max_rows):
            seen.extend(message.value or b"" for message in batch)

    running = [threading.Thread(target=work, args=(max_rows,)) for max_rows in (300, 700, 65536)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    assert len(seen) == len(set(seen)) == 40_000
    assert reader.statistics().bytes_ahead == 0


class _Slow(list[object]):
    """Rows that are counted only when the loop has had its turn."""

    wake: Callable[[], object]
    turn: threading.Event

    def __len__(self) -> int:
        self.wake()
        assert self.turn.wait(30)
        return super().__len__()


class _Telling:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self, wanted: threading.Event) -> None:
        self._lock, self._wanted = threading.Lock(), wanted

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._wanted.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_batch_that_is_being_sealed_is_not_written_before_its_rows_are_counted(client: bowstring.Client, topic: str):
    with client.producer(topic) as producer:
        sender, turn = producer._producer._sender, threading.Event()
        sender._lock = _Telling(turn)
        wake, sender._wake = sender._wake, lambda: None
        with sender._lock:
            batch = sender._append((b"first", 1, None, None, None, None, None), 60.0, 100)
            batch.items = _Slow(batch.items)
            batch.items.wake, batch.items.turn = wake, turn
            sender._seal(batch)
        sender._wake, sender._woken = wake, False
    assert [message.value for message in client.reader(topic, end="latest")] == [b"first"]


def test_several_threads_share_a_producer(client: bowstring.Client, topic: str):
    threads, each = 4, 3000
    with client.producer(topic, max_bytes=200_000) as producer:
        receipts: dict[bytes, object] = {}

        def work(number: int) -> None:
            for at in range(each):
                value = b"%d-%d" % (number, at)
                receipts[value] = producer.send(value, key=b"%d" % number)
                assert producer.statistics().bytes_under_way < 400_000

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        producer.flush()
        places = {value: receipt.result() for value, receipt in receipts.items()}
    messages = list(client.reader(topic, end="latest"))
    assert len(messages) == threads * each
    for message in messages:
        place = places[message.value]
        assert (message.partition, message.offset, message.id) == (place.partition, place.offset, place.id)
    for number in range(threads):
        mine = [int(message.value.split(b"-")[1]) for message in messages if message.key == b"%d" % number]
        assert mine == list(range(each))


def test_errors_come_as_themselves(client: bowstring.Client, topic: str):
    with pytest.raises(errors.TopicExists):
        client.create_topic(topic)
    with pytest.raises(errors.TopicNotFound):
        client.topic("nothing-here")
    with pytest.raises(errors.TopicNotFound):
        list(client.reader("nothing-here"))
    with pytest.raises(errors.OutOfRange):
        client.reader(topic, start=17).poll(timeout=5)
    with pytest.raises(errors.InvalidArgument, match="time zone"), client.producer(topic) as producer:
        producer.send(b"x", at=datetime(2026, 11, 15, 9, 0))
    with client.producer(topic) as producer:
        receipt = producer.send(b"x")
        receipt.result()
        with pytest.raises(TimeoutError):
            raise TimeoutError if receipt.done() else AssertionError
    with pytest.raises(errors.Unavailable, match=r"127\.0\.0\.1:1"):
        bowstring.connect("bowstring://127.0.0.1:1", timeout=0.5)


def test_the_sync_face_works_under_a_running_loop(client: bowstring.Client, topic: str):
    async def program() -> None:
        with client.producer(topic) as producer:
            producer.send(b"x").result(5)
        assert [message.value for message in client.reader(topic, end="latest")] == [b"x"]

    asyncio.run(program())


async def test_the_async_face(broker: bowstring.Broker):
    async with bowstring.aio.connect(broker.address, name="test") as client:
        await client.create_topic("asynchronous", partitions=2, exists_ok=True)
        async with client.producer("asynchronous") as producer:
            stored = await producer.send(b"one", key="k")
            assert (await producer.find(stored.id)) == stored
            producer.send(b"two", key="k")
        seen = [message.value async for message in client.reader("asynchronous", end="latest")]
        assert seen == [b"one", b"two"]
        async with client.reader("asynchronous") as reader:
            async for batch in reader.batches():
                assert len(batch) == 2
                break
    unopened = await bowstring.aio.connect(broker.address)
    await unopened.close()


def test_a_restart_is_survived_by_producers_and_readers(tmp_path: Path):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        client.create_topic("t", partitions=2)
        reader = client.reader("t")
        seen: list[tuple[int, int]] = []
        with client.producer("t") as producer:
            receipts = []
            for round_ in range(4):
                receipts += [producer.send(b"%d-%d" % (round_, number), key=b"%d" % (number % 5)) for number in range(200)]
                broker.restart()
                receipts += [producer.send(b"%d-%d" % (round_, number), key=b"%d" % (number % 5)) for number in range(200, 400)]
                while len(batch := reader.poll(timeout=2)):
                    seen += [(message.partition, message.offset) for message in batch]
            stored = [receipt.result(60) for receipt in receipts]
        assert len({(place.partition, place.offset) for place in stored}) == 1600
        while len(seen) < 1600:
            seen += [(message.partition, message.offset) for message in reader.poll(timeout=10)]
        assert len(seen) == len(set(seen)) == 1600
        for partition in (0, 1):
            mine = [offset for number, offset in seen if number == partition]
            assert mine == list(range(1, len(mine) + 1))


def test_a_program_that_closes_nothing_ends_all_the_same(broker: bowstring.Broker):
    code = f"""
import bowstring
client = bowstring.connect({broker.address!r})
producer = client.producer("left-open")
print(producer.send(b"x").result().offset)
reader = client.reader("left-open")
print(len(reader.poll(10)))
"""
    ended = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout.split(), ended.stderr) == (["1", "1"], "")
