"""Several processes on one data directory: the first serves, the others join it, and one of them serves on when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.host import sharing
from tests.process.serving import LIMIT_SECONDS, environment, put_down, serving

PROGRAM = """
import sys, bowstring
with bowstring.Broker(data=sys.argv[1]) as broker:
    print(broker.address, broker.serves, flush=True)
    for line in sys.stdin:
        with broker.connect() as client, client.producer("orders") as producer:
            producer.send(line.strip())
        print("sent", flush=True)
"""


class Program:
    """A program with an embedded broker, in another process."""

    def __init__(self, data: Path) -> None:
        line = [sys.executable, "-c", PROGRAM, str(data)]
        self.process = subprocess.Popen(line, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address, self.serves = self._read().split()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def send(self, value: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(value + "\n")
        self.process.stdin.flush()
        assert self._read() == "sent\n"

    def end(self, number: int | None = None) -> None:
        """By a signal, or well."""
        if number is not None:
            self.process.send_signal(number)
        self.process.communicate(timeout=LIMIT_SECONDS)


@contextmanager
def program(data: Path) -> Iterator[Program]:
    started = Program(data)
    try:
        yield started
    finally:
        put_down(started.process)


def values(client: bowstring.Client) -> list[bytes | None]:
    return [message.value for message in client.reader("orders", end="latest")]


def test_the_second_process_joins_the_first(tmp_path: Path):
    with program(tmp_path) as first, bowstring.Broker(data=tmp_path) as broker:
        assert first.serves == "True"
        assert not broker.serves
        assert broker.address == f"unix:{tmp_path}/bowstring.sock"
        first.send("from the first")
        with broker.connect() as client:
            with client.producer("orders") as producer:
                producer.send(b"from the second")
            assert values(client) == [b"from the first", b"from the second"]
        with pytest.raises(errors.Conflict, match=r"is served by 127.0.0.1:\d+ \(pid \d+\). Ask for statistics"):
            broker.statistics()
        with bowstring.connect(first.address) as client:
            assert len(values(client)) == 2


@pytest.mark.parametrize("number", [None, signal.SIGKILL], ids=["ends well", "is killed"])
def test_when_the_first_ends_a_guest_serves_on_and_clients_notice_a_pause(tmp_path: Path, number: int | None):
    with program(tmp_path) as first, bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        producer = client.producer("orders")
        producer.send(b"before").result(timeout=LIMIT_SECONDS)
        first.end(number)
        assert producer.send(b"after").result(timeout=LIMIT_SECONDS).offset == 2
        assert broker.serves
        assert broker.address == first.address
        assert values(client) == [b"before", b"after"]
        assert broker.statistics().messages == 2
        with program(tmp_path) as third:
            assert third.serves == "False"
            third.send("from a third")
        assert len(values(client)) == 3
        producer.close()


def test_of_several_guests_one_serves_and_the_others_follow(tmp_path: Path):
    with program(tmp_path) as first, program(tmp_path) as second, bowstring.Broker(data=tmp_path) as third, third.connect() as client:
        second.send("one")
        first.end(signal.SIGKILL)
        second.send("two")
        with client.producer("orders") as producer:
            producer.send(b"three")
        assert values(client) == [b"one", b"two", b"three"]


async def test_two_brokers_in_one_process(tmp_path: Path):
    first = bowstring.Broker(data=tmp_path)
    first.start()
    async with bowstring.aio.Broker(data=tmp_path) as second, second.connect() as client:
        assert not second.serves
        async with client.producer("orders") as producer:
            await producer.send(b"a")
            first.stop()
            await producer.send(b"b")
        assert second.serves
        first.start()
        assert not first.serves
        assert [message.value async for message in client.reader("orders", end="latest")] == [b"a", b"b"]
        first.stop()


def test_a_guest_leaves_the_directory_of_a_service_to_it(tmp_path: Path):
    with bowstring.Broker(data=tmp_path / "other", listen="127.0.0.1:0") as other:
        port = other.address
    listen = ("--listen", port.removeprefix("bowstring://"), "--topic-create", "on-publish")
    with serving("--data", str(tmp_path), *listen) as served, bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        with client.producer("orders") as producer:
            producer.send(b"a").result(timeout=LIMIT_SECONDS)
            served.end()
            receipt = producer.send(b"b")
            with serving("--data", str(tmp_path), *listen):
                assert receipt.result(timeout=LIMIT_SECONDS).offset == 2
        assert not broker.serves


def test_a_path_that_is_too_long_for_a_socket_is_shared_by_its_port(tmp_path: Path):
    data = tmp_path / ("long" * 25)
    with program(data) as first, bowstring.Broker(data=data) as broker:
        assert sharing.socket_address(str(data)) is None
        assert broker.address == first.address
        with broker.connect() as client:
            client.create_topic("orders")


def test_the_socket_is_for_its_user_alone_and_goes_with_the_broker(tmp_path: Path):
    path = tmp_path / "bowstring.sock"
    with bowstring.Broker(data=tmp_path), bowstring.connect(f"unix:{path}") as client:
        assert path.stat().st_mode & 0o777 == 0o600
        client.create_topic("orders")
    assert not path.exists()


def test_a_manual_clock_is_not_shared(tmp_path: Path):
    with bowstring.Broker(data=tmp_path), pytest.raises(errors.Conflict, match="is served by"):
        bowstring.Broker(data=tmp_path, clock="manual").start()


def test_a_forked_child_is_told_to_open_the_directory_itself(tmp_path: Path):
    script = f"""
import os, bowstring
from bowstring import errors
broker = bowstring.Broker(data={str(tmp_path)!r})
broker.start()
if os.fork() == 0:
    try:
        broker.stop()
    except errors.Conflict as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
broker.stop()
"""
    line = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0
    assert "from which this one was forked. Connect to its address, or open Broker(data=…)" in done.stdout
    assert os.listdir(tmp_path)
