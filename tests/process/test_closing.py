"""Closing wakes every call that waits: readers, clients and embedded brokers are closed while
threads and tasks read, send and commit.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from tests.process.serving import LIMIT_SECONDS, environment, serving
from tests.process.test_kit_restarts import free_port


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as running:
        with running.connect() as client:
            client.create_topic("orders")
        yield running


class Work:
    """Something in a thread, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def ends(self) -> Work:
        self._thread.join(LIMIT_SECONDS)
        assert not self._thread.is_alive(), "it hangs"
        return self


def until(condition: Callable[[], object]) -> None:
    waiting = threading.Event()
    while not condition():
        waiting.wait(0.001)


def waits(reader: Any) -> bool:
    """Whether a call waits for messages of this reader."""
    ahead = getattr(reader, "_reader", reader)._read_ahead
    return bool(ahead._changed._waiters or ahead.bells)


READING: dict[str, Callable[[bowstring.Reader], int]] = {
    "for": lambda reader: sum(1 for _ in reader),
    "batches": lambda reader: sum(len(batch) for batch in reader.batches()),
    "poll": lambda reader: len(reader.poll(10 * LIMIT_SECONDS)),
}
CLOSING: dict[str, Callable[[bowstring.Reader, bowstring.Client, bowstring.Broker], object]] = {
    "reader.close": lambda reader, client, broker: reader.close(),
    "client.close": lambda reader, client, broker: client.close(),
    "leaving the client's block": lambda reader, client, broker: client.__exit__(None, None, None),
    "broker.stop": lambda reader, client, broker: broker.stop(),
}


@pytest.mark.parametrize("closing", CLOSING)
@pytest.mark.parametrize("reading", READING)
def test_closing_ends_a_thread_that_waits_for_messages(broker: bowstring.Broker, reading: str, closing: str):
    client = broker.connect()
    reader = client.reader("orders")
    work = Work(lambda: READING[reading](reader))
    until(lambda: waits(reader))
    CLOSING[closing](reader, client, broker)
    work.ends()
    assert (work.result, work.error) == (0, None)
    reader.close()
    client.close()


def test_a_loop_that_begins_after_the_closing_ends_at_once(broker: bowstring.Broker):
    with broker.connect() as client:
        reader = client.reader("orders")
        reader.close()
        reader.close()
        assert list(reader) == []
        assert list(reader.batches()) == []
        with pytest.raises(errors.Conflict, match="this reader is closed"):
            reader.poll()


def test_a_loop_ends_with_its_message_and_what_was_handed_out_is_committed(broker: bowstring.Broker):
    with broker.connect() as client:
        with client.producer("orders") as producer:
            producer.send_batch([b"%d" % number for number in range(1000)])
        seen = []
        with client.reader("orders", name="service") as reader:
            for message in reader:
                seen.append(message.value)
                if len(seen) == 10:
                    Work(reader.close).ends()
            assert reader.position == {0: 11}
            assert reader.statistics().messages == 10
            reader.commit()
        assert seen == [b"%d" % number for number in range(10)]
        assert next(iter(client.reader("orders", name="service"))).value == b"10"


def test_a_loop_that_is_left_goes_on_later_and_does_not_hinder_the_closing(broker: bowstring.Broker):
    with broker.connect() as client:
        with client.producer("orders") as producer:
            producer.send_batch([b"%d" % number for number in range(10)])
        reader = client.reader("orders")
        for message in reader:
            assert message.value == b"0"
            break
        left = iter(reader)
        assert next(left).value == b"1"
        batches = reader.batches(max_rows=2)
        assert [message.value for message in next(batches)] == [b"2", b"3"]
        reader.close()
        assert (list(left), list(batches), reader.position) == ([], [], {0: 5})


def test_a_reader_that_looks_for_its_broker_can_be_closed(broker: bowstring.Broker, caplog: pytest.LogCaptureFixture):
    client = broker.connect()
    reader = client.reader("orders")
    work = Work(lambda: list(reader))
    until(lambda: waits(reader))
    broker.kill()
    until(lambda: "the broker is away" in caplog.text)
    reader.close()
    assert (work.ends().result, work.error) == ([], None)
    client.close()


def test_a_stopped_broker_ends_its_own_clients_readers_and_others_wait(caplog: pytest.LogCaptureFixture):
    with bowstring.Broker.ephemeral(listen=f"127.0.0.1:{free_port()}") as broker:
        own, other = broker.connect(), bowstring.connect(broker.address)
        own.create_topic("orders")
        readers = own.reader("orders"), other.reader("orders")
        first, second = (Work(lambda reader=reader: next(iter(reader), None)) for reader in readers)
        until(lambda: all(map(waits, readers)))
        broker.stop()
        assert (first.ends().result, first.error) == (None, None)
        until(lambda: "the broker is away" in caplog.text)
        assert waits(readers[1])
        other.close()
        assert (second.ends().result, second.error) == (None, None)
        own.close()


def test_whoever_waits_for_a_broker_that_hangs_is_told_when_the_client_is_closed(tmp_path: Path):
    with serving("--data", str(tmp_path), "--topic-create", "on-publish") as served:
        client = bowstring.connect(served.address, timeout=2)
        producer = client.producer("orders", timeout=1)
        producer.send(b"a").result(LIMIT_SECONDS)
        reader = client.reader("orders", name="me")
        assert len(reader.poll(LIMIT_SECONDS)) == 1
        served.process.send_signal(signal.SIGSTOP)
        receipt = producer.send(b"b")
        calls = [receipt.result, reader.commit, reader.lag, lambda: client.topic("orders")]
        flushing, *works = [Work(call) for call in (producer.flush, *calls)]
        with suppress(errors.OutcomeUnknown):  # unless it was seen by those who wait for it
            client.close()
        for work in works:
            assert isinstance(work.ends().error, errors.Error), work.error
        assert isinstance(flushing.ends().error, errors.OutcomeUnknown | None)


def test_a_producer_that_is_closed_lets_those_go_on_who_wait_for_room(broker: bowstring.Broker):
    with broker.connect() as client:
        producer = client.producer("orders", timeout=LIMIT_SECONDS, max_bytes=100_000)
        broker.kill()

        def fill() -> None:
            while True:
                producer.send(b"x" * 10_000)

        work = Work(fill)
        until(lambda: producer.statistics().bytes_under_way > 40_000)
        producer._thread.run(producer._producer._end(flush=False))
        assert isinstance(work.ends().error, errors.Conflict)


def test_a_closed_client_makes_nothing_more(broker: bowstring.Broker):
    client = broker.connect()
    client.close()
    client.close()
    for make in (client.reader, client.producer, client.topic):
        with pytest.raises(errors.Conflict, match="closed"):
            make("orders")


# ---- asyncio


@pytest.mark.parametrize("closing", ["reader", "client", "broker"])
@pytest.mark.parametrize("reading", READING)
async def test_closing_ends_a_task_that_waits_for_messages(reading: str, closing: str):
    async with bowstring.aio.Broker.ephemeral() as broker:
        client = await broker.connect()
        await client.create_topic("orders")
        reader = client.reader("orders")

        async def read() -> int:
            if reading == "for":
                return len([message async for message in reader])
            if reading == "batches":
                return len([batch async for batch in reader.batches()])
            return len(await reader.poll(10 * LIMIT_SECONDS))

        work = asyncio.create_task(read())
        await asyncio.to_thread(until, lambda: waits(reader))
        await {"reader": reader.close, "client": client.close, "broker": broker.stop}[closing]()
        assert await asyncio.wait_for(work, LIMIT_SECONDS) == 0
        await client.close()


async def test_a_task_that_closes_while_another_works_ends_its_loop(broker: bowstring.Broker):
    async with bowstring.aio.connect(broker.address) as client:
        async with client.producer("orders") as producer:
            await producer.send_batch([b"%d" % number for number in range(100)])
        seen = []
        async with client.reader("orders", name="me") as reader:
            async for message in reader:
                seen.append(message.value)
                if len(seen) == 3:
                    await asyncio.create_task(reader.close())
            assert (seen, reader.position) == ([b"0", b"1", b"2"], {0: 4})
            await reader.commit()
        assert (await client.position("me", "orders")).offsets == {0: 4}


# ---- signals

SIGNALS = """
import os, signal, sys, threading
import bowstring

rounds, closer, reading = int(sys.argv[1]), sys.argv[2], sys.argv[3]
with bowstring.Broker.ephemeral() as broker, broker.connect() as other:
    other.create_topic("orders")
    feeder = other.producer("orders")
    stopping = threading.Event()

    def feed():
        while not stopping.wait(0.0002):
            feeder.send(b"x" * 100)

    threading.Thread(target=feed, daemon=True).start()
    for turn in range(rounds):
        client = broker.connect()
        producer = client.producer("orders")
        reader = client.reader("orders", start="latest")
        closed = []

        def handle(number, frame):
            (reader if closer == "reader" else client).close()
            closed.append(True)

        signal.signal(signal.SIGUSR1, handle)
        timer = threading.Timer(0.001 * (turn % 17), os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        try:
            if reading == "for":
                for message in reader:
                    pass
            elif reading == "batches":
                for batch in reader.batches(max_rows=3):
                    pass
            else:
                while not closed:
                    producer.send(b"y").result()
        except bowstring.Conflict:
            assert reading == "send"
        timer.join()
        while not closed:
            pass
        client.close()
    stopping.set()
print("ended")
"""


@pytest.mark.parametrize("closer", ["reader", "client"])
@pytest.mark.parametrize("reading", ["for", "batches", "send"])
def test_a_signal_handler_may_close_whatever_its_thread_is_doing(closer: str, reading: str):
    line = [sys.executable, "-c", SIGNALS, "40", closer, reading]
    ended = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=2 * LIMIT_SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr
