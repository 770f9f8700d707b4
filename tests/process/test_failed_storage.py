"""The errors that callers of an embedded broker get when its storage fails: at once, and no more
than is known.

Every timeout here is ten minutes, and every wait half a minute: a call that waits for its timeout
fails the test.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import bowstring
import bowstring.aio
from bowstring import errors, server
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from tests.contract.faulty_vfs import BROKEN, Faults, FaultyVFS

TIMEOUT = 600.0
WAIT = 30.0
LARGE = b"x" * 100_000
"""Goes to a segment: a flush of small messages has its pages in the catalog."""
NUMBERS = itertools.count()


@pytest.fixture
def fail_segments(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on no sync of a segment succeeds."""

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    return lambda: monkeypatch.setattr(os, "fdatasync", fail)


@pytest.fixture
def catalog_faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """How the catalog's files fail, for every broker that is started meanwhile."""
    faults = Faults()
    name = f"failing-{next(NUMBERS)}"
    vfs = FaultyVFS(name, faults)
    monkeypatch.setattr(server, "SqliteCatalog", partial(SqliteCatalog, vfs=name))
    yield faults
    vfs.unregister()


def read_in_background(client: bowstring.Client, topic: str) -> Callable[[], BaseException | None]:
    """Follows a topic in a thread. The answer waits for its end and says what it raised."""
    raised: list[BaseException] = []
    reading = threading.Event()

    def read() -> None:
        try:
            for _ in client.reader(topic):
                reading.set()
        except errors.Error as error:
            raised.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert reading.wait(WAIT)

    def ended() -> BaseException | None:
        thread.join(WAIT)
        assert not thread.is_alive()
        return raised[0] if raised else None

    return ended


def test_whoever_waits_for_a_broker_whose_sync_fails_is_told_at_once(tmp_path: Path, fail_segments):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect(timeout=TIMEOUT) as client:
        producer = client.producer("orders", timeout=TIMEOUT)
        producer.send(b"before").result(WAIT)
        reader = read_in_background(client, "orders")
        fail_segments()
        with pytest.raises(errors.OutcomeUnknown, match="storage has failed: syncing a segment failed"):
            producer.send(LARGE).result(WAIT)
        told = reader()
        assert isinstance(told, errors.Unavailable)
        assert "storage has failed" in str(told)
        assert "start the broker again" in str(told)


def failed(broker: bowstring.Broker, fail_segments: Callable[[], object]) -> tuple[bowstring.Client, bowstring.Producer]:
    """A client and a producer that have stored a message, and then met storage that fails."""
    client = broker.connect(timeout=TIMEOUT)
    producer = client.producer("orders", timeout=TIMEOUT)
    producer.send(b"before").result(WAIT)
    fail_segments()
    with pytest.raises(errors.OutcomeUnknown):
        producer.send(LARGE).result(WAIT)
    return client, producer


def test_later_calls_are_told_at_once_also_when_the_broker_was_stopped(tmp_path: Path, fail_segments):
    broker = bowstring.Broker(data=tmp_path)
    broker.start()
    client, producer = failed(broker, fail_segments)

    def check() -> None:
        calls: list[Callable[[], object]] = [
            lambda: producer.send(b"after").result(WAIT),  # never sent, so it is certainly not stored
            lambda: client.producer("orders", timeout=TIMEOUT).send(b"after").result(WAIT),
            lambda: client.topic("orders"),
            lambda: list(client.topics()),
            lambda: client.create_topic("others"),
            lambda: client.delete_topic("orders"),
            lambda: producer.find("an id"),
            lambda: next(iter(client.reader("orders"))),
            lambda: client.set_position("billing", "orders", "beginning"),
        ]
        for call in calls:
            with pytest.raises(errors.Unavailable, match="storage has failed") as caught:
                call()
            assert not isinstance(caught.value, errors.DeadlinePassed)

    check()
    broker.stop()
    check()
    client.close()


async def test_async_callers_are_told_at_once(tmp_path: Path, fail_segments):
    async with asyncio.timeout(WAIT), bowstring.aio.Broker(data=tmp_path) as broker:
        client = await broker.connect(timeout=TIMEOUT)
        producer = client.producer("orders", timeout=TIMEOUT)
        await producer.send(b"before")
        reader = client.reader("orders")
        assert (await anext(reader)).value == b"before"
        waiting = asyncio.ensure_future(anext(reader))
        fail_segments()
        with pytest.raises(errors.OutcomeUnknown, match="storage has failed"):
            await producer.send(LARGE)
        with pytest.raises(errors.Unavailable, match="storage has failed"):
            await waiting
        for call in (client.topic("orders"), client.create_topic("others"), producer.send(b"after")):
            with pytest.raises(errors.Unavailable, match="storage has failed"):
                await call
        await client.close()


def test_a_publish_whose_commit_could_not_be_synced_is_unknown_and_may_be_there(tmp_path: Path, catalog_faults: Faults):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect(timeout=TIMEOUT) as client:
        producer = client.producer("orders", timeout=TIMEOUT)
        producer.send(b"before").result(WAIT)
        catalog_faults.plan("sync", 1, BROKEN, on=True)
        with pytest.raises(errors.OutcomeUnknown, match="storage has failed: a write to"):
            producer.send(b"small, and in the journal").result(WAIT)
    catalog_faults.heal()
    with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        found = [message.value for message in client.reader("orders", end="latest")]
        assert found[0] == b"before"
        assert set(found[1:]) <= {b"small, and in the journal"}


def test_a_topic_whose_making_could_not_be_synced_is_unknown(tmp_path: Path, catalog_faults: Faults):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect(timeout=TIMEOUT) as client:
        client.create_topic("orders")
        catalog_faults.plan("sync", 1, BROKEN, on=True)
        with pytest.raises(errors.OutcomeUnknown, match="storage failed while this was done"):
            client.create_topic("others")
        with pytest.raises(errors.Unavailable, match="storage has failed"):
            client.topic("others")


def test_a_client_goes_on_with_the_broker_that_is_started_in_its_place(tmp_path: Path, fail_segments, monkeypatch: pytest.MonkeyPatch):
    with bowstring.Broker(data=tmp_path) as broker:
        address = broker.address.removeprefix("bowstring://")
        client, producer = failed(broker, fail_segments)
    monkeypatch.undo()
    with bowstring.Broker(data=tmp_path, listen=address):
        assert producer.send(b"after").result(WAIT).offset >= 2
        assert client.topic("orders").name == "orders"
        client.close()
