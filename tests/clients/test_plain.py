"""The client in plain Python (plain_client.py) against a real broker: that docs/protocol.md is enough for native frames, without gRPC and
without generated code. Its batches are the worked example of the page."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from tests.clients.plain_client import PING, PONG, PREFACE, TO_CLIENT, PlainClient, Refused, field, fields, fixed
from tests.process.serving import serving

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serving("--data", str(tmp_path / "data")) as served:
        yield served.address


@pytest.fixture
def client(address: str) -> Iterator[PlainClient]:
    host, port = address.rsplit(":", 1)
    connected = PlainClient(host, int(port))
    yield connected
    connected.close()


def worked_example() -> bytes:
    (block,) = re.findall(r"```hex\n(.*?)```", PAGE, flags=re.DOTALL)
    return b"".join(bytes.fromhex(line[6:54]) for line in block.splitlines())


def published(client: PlainClient, topic: bytes, batches: int) -> list[int]:
    """Publishes the worked example so many times; gives the first offset of each."""
    call = client.open("Publish")
    client.send(call, field(1, field(1, topic) + field(2, os.urandom(16)) + field(3, 1) + field(4, b"plain")))
    batch = worked_example()
    now = time.time_ns() // 1000
    for number in range(1, batches + 1):
        head = field(3, number) + field(4, number - 1) + fixed(5, now) + field(6, 60_000_000) + field(7, 1) + field(8, 3) + field(9, 2)
        client.send(call, head + field(15, batch))
    client.end(call)
    offsets: dict[int, int] = {}
    while (answer := client.read(call)) is not None:
        given = dict(fields(answer))
        stored = given[4]
        assert isinstance(stored, bytes)
        number, offset = given[2], dict(fields(stored))[1]
        assert isinstance(number, int)
        assert isinstance(offset, int)
        offsets[number] = offset
    return [offsets[number] for number in sorted(offsets)]


def test_the_first_bytes_are_those_of_the_page():
    (block,) = re.findall(r"```text\n(00 42 4f.*?)```", PAGE, flags=re.DOTALL)
    given = bytes.fromhex("".join(line[:52] for line in block.splitlines()))
    hello = field(2, 1) + field(3, 1)
    opened = struct.pack("<IIBBHI", 9, 1, 1, 0, 0, 5000) + b"Hello"
    assert given == PREFACE + opened + struct.pack("<IIBBH", len(hello), 1, 2, 1, 0) + hello


def test_hello_and_a_topic_and_the_error_when_it_is_there(client: PlainClient):
    hello = dict(fields(client.unary("Hello", field(1, b"plain/1") + field(2, 1) + field(3, 1))))
    assert hello[2] == 1
    assert dict(fields(client.unary("CreateTopic", field(1, b"orders"))))[1] == b"orders"
    with pytest.raises(Refused) as refused:
        client.unary("CreateTopic", field(1, b"orders"))
    assert refused.value.args[0] == "topic-exists"
    with pytest.raises(Refused, match="not-supported"):
        client.unary("Dance", b"")
    assert client.unary("ListTopics", b"")


def test_what_is_published_by_hand_is_read_by_hand_and_by_the_kit(client: PlainClient, address: str):
    client.unary("CreateTopic", field(1, b"orders"))
    assert published(client, b"orders", 3) == [1, 3, 5]
    call = client.open("Fetch")
    client.send(call, field(1, field(1, b"orders") + field(2, field(2, 1) + field(3, 7))) + field(2, 1 << 30))
    batches = []
    while (answer := client.read(call)) is not None:
        batches += [value for number, value in fields(answer) if number == 15]
    assert b"".join(batches).count(b"one coffeetea") == 3
    with bowstring.connect(address) as kit:
        assert [message.value for message in kit.reader("orders", end="latest")] == [b"one coffee", b"tea"] * 3


def test_more_than_a_window_goes_to_the_broker(client: PlainClient):
    client.unary("CreateTopic", field(1, b"orders"))
    assert len(published(client, b"orders", 4000)) == 4000  # of more than 550 bytes, as they are counted


def test_more_than_a_window_comes_from_the_broker(client: PlainClient, address: str):
    with bowstring.connect(address) as kit:
        kit.create_topic("films")
        with kit.producer("films") as producer:
            for _ in range(20):
                producer.send(os.urandom(1 << 20))
    call = client.open("Fetch")
    client.send(call, field(1, field(1, b"films") + field(2, field(2, 1) + field(3, 21))) + field(2, 1 << 40))
    read = 0
    while (answer := client.read(call)) is not None:
        read += len(answer)
    assert read > 20 << 20 > TO_CLIENT


def test_pings_are_answered(client: PlainClient):
    client.frame(PING, 0, b"8 bytes.")
    header = client._exactly(20)
    assert header == struct.pack("<IIBBH", 8, 0, PONG, 0, 0) + b"8 bytes."
