"""A broker inside a program: both faces, real sockets, and a disk that fails without taking the program along."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.embedded import AsyncBroker, Broker
from bowstring.messages import encoding
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.serving import environment


def dial(broker: Broker | AsyncBroker) -> Channel:
    return NativeDialer().dial(broker.address.removeprefix("bowstring://"))


def broker_threads() -> list[str]:
    """Those of brokers; the one that all clients of a process share stays, whichever test has made it."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("bowstring") and name != "bowstring-client"]


async def publish_one(broker: Broker | AsyncBroker, value: bytes, stream: int = 1) -> None:
    channel = dial(broker)
    publishing = await wire.open_publish(channel, "orders", stream=stream)
    assert (await wire.publish(publishing, stream, [value])).stored.rows == 1
    await channel.close()


async def values(broker: Broker | AsyncBroker) -> list[bytes]:
    channel = dial(broker)
    described = await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic)
    found = await wire.read_all(channel, "orders", described.ranges[0].next)
    await channel.close()
    return found


async def test_a_broker_for_the_length_of_a_block(tmp_path: Path):
    with Broker(data=tmp_path) as broker:
        assert broker.address.startswith("bowstring://127.0.0.1:")
        await publish_one(broker, b"a")  # the topic is made on publish here
        assert broker.statistics().messages == 1
        assert broker.failure is None
    assert broker_threads() == []
    async with AsyncBroker(data=tmp_path) as again:
        assert await values(again) == [b"a"]
        assert again.statistics().messages == 1
    assert broker_threads() == []


async def test_an_ephemeral_broker_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Broker.ephemeral() as broker:
        await publish_one(broker, b"a")
        assert await values(broker) == [b"a"]
    async with AsyncBroker.ephemeral() as other:
        assert other.statistics().topics == 0
    assert os.listdir(tmp_path) == []


def test_a_client_of_the_broker(tmp_path: Path):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect(name="test") as client:
        with client.producer("orders") as producer:
            receipts = [producer.send(b"%d" % number) for number in range(10)]
        assert [receipt.result().offset for receipt in receipts] == list(range(1, 11))
        assert [message.value for message in client.reader("orders", end="latest")] == [b"%d" % number for number in range(10)]


async def test_an_async_client_of_the_broker():
    async with bowstring.aio.Broker.ephemeral() as broker, broker.connect() as client:
        async with client.producer("orders") as producer:
            assert (await producer.send(b"a")).offset == 1
        assert [message.value async for message in client.reader("orders", end="latest")] == [b"a"]


async def test_start_and_stop_can_be_called_again(tmp_path: Path):
    broker = Broker(data=tmp_path)
    broker.stop()
    broker.start()
    broker.start()
    await publish_one(broker, b"a")
    broker.stop()
    broker.stop()
    broker.start()
    assert await values(broker) == [b"a"]
    broker.stop()


async def test_a_killed_broker_comes_back_at_the_same_address(tmp_path: Path):
    with Broker(data=tmp_path) as broker:
        address = broker.address
        await publish_one(broker, b"a")
        broker.kill()
        with pytest.raises(errors.Unavailable, match="not running"):
            _ = broker.address
        broker.restart()
        assert broker.address == address
        await publish_one(broker, b"b", stream=2)
        broker.restart()
        assert broker.address == address
        assert await values(broker) == [b"a", b"b"]
    async with AsyncBroker(data=tmp_path) as other:
        address = other.address
        await other.restart()
        assert other.address == address
        assert await values(other) == [b"a", b"b"]


async def test_a_producer_goes_on_over_a_restart(tmp_path: Path):
    with Broker(data=tmp_path) as broker:
        channel = dial(broker)
        publishing = await wire.open_publish(channel, "orders")
        await wire.publish(publishing, 1, [b"a"])
        broker.restart()
        await wire.refused(publishing.read(), errors.Unavailable)
        publishing = await wire.open_publish(channel, "orders", stream=2)
        again = await wire.publish(publishing, 1, [b"a"])
        assert again.stored.duplicate
        assert (await wire.publish(publishing, 2, [b"b"])).stored.first_offset == 2
        await channel.close()


def test_settings_are_keywords(tmp_path: Path):
    with pytest.raises(errors.InvalidArgument, match=r"no setting retention"):
        Broker(data=tmp_path, retention=5)
    with pytest.raises(errors.InvalidArgument, match='batch_bytes_max = "x" is not a size'):
        Broker(data=tmp_path, batch_bytes_max="x")
    with Broker(data=tmp_path, topic_retention=timedelta(days=1), batch_bytes_max="1MiB", topic_create="on-request") as broker:
        asyncio.run(check_settings(broker))


async def check_settings(broker: Broker) -> None:
    channel = dial(broker)
    hello = await wire.call(channel, "Hello", pb.HelloRequest(protocol=1), pb.HelloAnswer)
    assert hello.batch_bytes_max == 1 << 20
    assert (await wire.create(channel, "made")).retention == 86_400_000_000
    stream = await wire.open_publish(channel, "unmade")
    await wire.refused(stream.read(), errors.TopicNotFound)
    await channel.close()


def test_a_port_in_use(tmp_path: Path):
    with Broker(data=tmp_path) as broker, pytest.raises(errors.Unavailable, match="is in use by another program"):
        Broker.ephemeral(listen=broker.address.removeprefix("bowstring://")).start()


async def test_a_failed_sync_ends_the_broker_and_not_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broker = Broker(data=tmp_path)
    broker.start()
    channel = dial(broker)
    publishing = await wire.open_publish(channel, "orders")
    await wire.publish(publishing, 1, [b"before"])

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    await publishing.write(wire.request(2, encoding.encode_values([b"x" * 100_000])))
    await wire.refused(publishing.read(), errors.Unavailable, "the broker has ended")
    monkeypatch.undo()
    publishing = await wire.open_publish(channel, "orders", stream=2)
    await wire.refused(publishing.read(), errors.Unavailable, "the broker has ended")
    assert broker.failure is not None
    for use in (broker.start, broker.statistics, broker.connect):
        with pytest.raises(errors.Unavailable, match="the broker has ended") as caught:
            use()
        assert caught.value.__cause__ is broker.failure
    await channel.close()
    broker.stop()
    with pytest.raises(errors.Unavailable, match="the broker has ended"):
        broker.start()
    with Broker(data=tmp_path) as fresh:
        assert await values(fresh) == [b"before"]


def test_a_program_that_forgets_to_stop_ends_all_the_same(tmp_path: Path):
    script = f"from bowstring.embedded import Broker; broker = Broker(data={str(tmp_path)!r}); broker.start(); print(broker.address)"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("bowstring://127.0.0.1:")
    assert done.stderr == ""


def test_importing_loads_no_broker():
    script = "import sys, bowstring.embedded; print(sorted({'pyarrow', 'grpc', 'numpy', 'apsw'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_broker_starts_without_what_it_needs_later():
    script = """
import sys, bowstring
with bowstring.Broker.ephemeral():
    print(sorted({"pandas", "pyarrow.compute", "pyarrow.dataset", "importlib.metadata", "typer", "rich"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
