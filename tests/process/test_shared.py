"""One reader, one producer, one client, and several threads or tasks that use it at the same time:
nothing is lost, nothing comes twice.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import bowstring
import bowstring.aio
from tests.process.serving import LIMIT_SECONDS

THREADS = 8
BATCHES = 320
ROWS = 100
TOTAL = BATCHES * ROWS


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def client(quick_switches: None) -> Iterator[bowstring.Client]:
    with bowstring.Broker.ephemeral() as broker, broker.connect() as connected:
        connected.create_topic("orders", partitions=2)
        yield connected


def fill(client: bowstring.Client) -> None:
    with client.producer("orders") as producer:
        for first in range(0, TOTAL, ROWS):
            producer.send_batch([b"%d" % number for number in range(first, first + ROWS)]).result(LIMIT_SECONDS)


def in_threads(works: list[Callable[[], None]]) -> None:
    """Does all of it at the same time."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def by_message(reader: bowstring.Reader, seen: list[bytes | None]) -> None:
    for message in reader:
        seen.append(message.value)


def by_batch(reader: bowstring.Reader, seen: list[bytes | None]) -> None:
    for batch in reader.batches(max_rows=37, max_wait=0):
        seen += [message.value for message in batch]


def by_polling(reader: bowstring.Reader, seen: list[bytes | None]) -> None:
    while sum(reader.position.values()) < TOTAL + 2:
        seen += [message.value for message in reader.poll(0.001, max_rows=41)]


READING = {"for": [by_message], "batches": [by_batch], "poll": [by_polling], "all of them": [by_message, by_batch, by_polling]}


@pytest.mark.parametrize("reading", READING)
def test_threads_that_share_a_reader_get_each_message_once(client: bowstring.Client, reading: str):
    fill(client)
    with client.reader("orders", end="latest") as reader:
        seen: list[list[bytes | None]] = [[] for _ in range(THREADS)]
        works = [lambda number=number: READING[reading][number % len(READING[reading])](reader, seen[number]) for number in range(THREADS)]
        in_threads(works)
        counted = Counter(value for some in seen for value in some)
        assert (len(counted), counted.total()) == (TOTAL, TOTAL)
        assert sum(reader.position.values()) == TOTAL + 2
        assert reader.statistics().messages == TOTAL


def test_a_position_is_never_ahead_of_what_was_handed_out(client: bowstring.Client):
    """A thread that gets a message knows that the position is behind it, whichever threads read."""
    fill(client)
    with client.reader("orders", end="latest") as reader:

        def read() -> None:
            for at, message in enumerate(reader):
                if at % 50 == 0:
                    assert reader.position[message.partition] > message.offset

        in_threads([read] * THREADS)


def test_threads_that_share_a_reader_end_when_it_is_closed(client: bowstring.Client):
    fill(client)
    reader = client.reader("orders")
    seen: list[bytes | None] = []
    stop = threading.Event()

    def read() -> None:
        for message in reader:
            seen.append(message.value)
            if len(seen) > TOTAL // 2:
                stop.set()

    def close() -> None:
        assert stop.wait(LIMIT_SECONDS)
        reader.close()

    in_threads([*[read] * THREADS, close])
    assert len(seen) == len(set(seen)) == sum(reader.position.values()) - 2
    assert reader.statistics().messages == len(seen)


def test_a_thread_that_seeks_takes_the_others_along(client: bowstring.Client):
    fill(client)
    with client.reader("orders", start="latest", partitions=[0]) as reader:
        found: list[int] = []
        in_threads([lambda: found.append(next(iter(reader)).offset), lambda: reader.seek({0: 7})])
        assert found == [7]


def test_threads_share_a_producer_and_a_client(client: bowstring.Client):
    per_thread = 2000
    with client.producer("orders") as producer:
        stored: list[list[tuple[int, int]]] = [[] for _ in range(THREADS)]

        def send(thread: int) -> None:
            receipts = []
            for number in range(per_thread):
                value = b"%d-%d" % (thread, number)
                key = f"{thread}" if number % 3 else None
                receipts.append(producer.send(value, key=key, attributes={"a": "b"} if number % 5 == 0 else None))
                if number % 500 == 0:
                    producer.flush()
                    assert client.topic("orders").partitions == 2
                    client.create_topic("orders", partitions=2, exists_ok=True)
            stored[thread] = [(receipt.result(LIMIT_SECONDS).partition, receipt.result().offset) for receipt in receipts]

        in_threads([lambda thread=thread: send(thread) for thread in range(THREADS)])
    places = {place for some in stored for place in some}
    assert len(places) == THREADS * per_thread
    read = {(message.partition, message.offset): message.value for message in client.reader("orders", end="latest")}
    for thread, some in enumerate(stored):
        assert [read[place] for place in some] == [b"%d-%d" % (thread, number) for number in range(per_thread)]


@pytest.mark.parametrize("reading", ["for", "batches", "both"])
async def test_tasks_that_share_a_reader_get_each_message_once(client: bowstring.Client, reading: str):
    await asyncio.to_thread(fill, client)
    async with bowstring.aio.connect(client._client._connection.seeds[0]) as other, other.reader("orders", end="latest") as reader:
        seen: list[bytes | None] = []

        async def by_message() -> None:
            async for message in reader:
                seen.append(message.value)
                if len(seen) % 10 == 0:
                    await asyncio.sleep(0)

        async def by_batch() -> None:
            async for batch in reader.batches(max_rows=37, max_wait=0):
                seen.extend(message.value for message in batch)
                await asyncio.sleep(0)

        works = {"for": [by_message] * 4, "batches": [by_batch] * 4, "both": [by_message, by_batch] * 2}[reading]
        await asyncio.wait_for(asyncio.gather(*(work() for work in works)), LIMIT_SECONDS)
        assert (len(set(seen)), len(seen)) == (TOTAL, TOTAL)
        assert sum(reader.position.values()) == TOTAL + 2
