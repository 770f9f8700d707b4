"""The port that all protocols share: each is led to where it is served, anything else is ended with a line in the log, and nothing stays
behind. That gRPC keeps the promises of a transport through it is in tests/contract/test_transport.py.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bowstring import errors
from bowstring.ports.transport import Channel
from bowstring.server import open_broker
from bowstring.settings import Settings
from bowstring.wire import doorway
from bowstring.wire.front_door import FrontDoor
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.native_client import NativeDialer
from bowstring.wire.native_frames import LAST, MESSAGE, PREFACE, opening
from bowstring.wire.stream_limits import StreamLimits
from tests.contract.wires import Echo
from tests.process.serving import environment
from tests.process.wire_calls import refused
from tests.unit.memory_transport import message
from tests.unit.native_scene import Lines

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50)
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS_FRAME = bytes(3) + b"\x04" + bytes(5)


class House:
    """A front door, what it notes, and an honest client."""

    def __init__(self, **settings: Any) -> None:
        self.lines = Lines()
        self.handler = Echo()
        limits = StreamLimits(streams_max=100, connection_streams_max=10, observer=self.lines)
        self.door = FrontDoor(self.handler, limits, listen="127.0.0.1:0", batch_bytes_max=1 << 20, **settings)
        self.door.bind()
        self.honest: Channel = NativeDialer().dial(self.door.address)

    @property
    def guests(self) -> int:
        return len(self.door._native.guests)

    async def until(self, true: Callable[[], bool]) -> None:
        """Until this is so, while the honest client is answered."""
        async with asyncio.timeout(60):
            while not true():
                assert await self.honest.call("Hello", b"", 20) == b"Hello "

    async def said(self, *sent: bytes) -> bytes:
        """What a connection gets that sends these bytes in so many parts, and then waits for the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.door.port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = b""
        with suppress(ConnectionError):
            for part in sent:
                writer.write(part)
                await writer.drain()
                await self.honest.call("Hello", b"", 20)  # so that the parts arrive one by one
            answer = await reader.read()
        writer.close()
        return answer


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    await made.door.start()
    yield made
    await made.honest.close()
    await made.door.stop(0)


def one_by_one(sent: bytes) -> list[bytes]:
    return [sent[at : at + 1] for at in range(len(sent))]


async def test_a_browser_gets_a_sentence_where_there_is_no_http(house: House):
    for request in ([b"GET / HTTP/1.1\r\n\r\n"], one_by_one(b"GET / HTTP/1.1\r\n\r\n"), [b"OPTIONS", b" * HTTP/1.1\r\n\r\n"]):
        answer = await house.said(*request)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b'It serves no HTTP (http = "off")' in answer
    await house.until(lambda: not house.guests)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (TLS_HELLO, "it speaks TLS; TLS is not spoken here"),
        (b"\x00\xffsomething else", "it speaks something else"),
        (b"*1\r\n$4\r\nPING\r\n", "it speaks something else"),
        (b"PRI * HTTP/3.0\r\n\r\n", "it speaks something else"),
        (PREFACE[:5] + b"?", "it speaks something else"),
    ],
)
async def test_what_is_not_spoken_here_is_ended_with_a_line_in_the_log(house: House, sent: bytes, problem: str):
    assert await house.said(sent) == b""
    assert await house.said(*one_by_one(sent)) == b""
    assert house.lines.problems() == [problem] * 2
    assert all(fields["client"].startswith("127.0.0.1:") for event, fields in house.lines.noted if event == "connection-refused")
    await house.until(lambda: not house.guests)


async def test_a_visitor_that_does_not_say_enough_is_ended(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doorway, "DECIDE_SECONDS", 0.05)
    assert await house.said(b"PRI * HTTP") == b""
    assert house.lines.problems() == ["it speaks nothing that could be told apart in time"]
    assert not house.guests


async def test_native_frames_that_come_byte_by_byte_are_served(house: House):
    sent = PREFACE + opening(1, "Hello", 0) + message(1, b"slow", last=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", house.door.port)
    for byte in one_by_one(sent):
        writer.write(byte)
        await writer.drain()
    assert await reader.readexactly(len(PREFACE) + 12 + 10) == PREFACE + struct.pack("<IIBBH", 10, 1, MESSAGE, LAST, 0) + b"Hello slow"
    writer.close()


async def test_grpc_is_told_the_address_of_its_client_and_its_connections_apart(house: House):
    channels = [GrpcDialer().dial(house.door.address) for _ in range(3)]
    for channel in channels:
        assert await channel.call("Hello", b"", 20) == b"Hello "
    addresses = {caller.address for caller in house.handler.callers if caller.transport == "grpc"}
    assert len(addresses) == 3 or sys.platform != "linux"
    assert all(address.startswith("127.0.0.1:") for address in addresses) or sys.platform != "linux"
    await asyncio.gather(*(channel.close() for channel in channels))


async def test_passages_leave_nothing_behind(house: House):
    """gRPC clients that close, peers that hang up at once, half-close, reset, or are silent until the server ends them."""
    await house.honest.call("Hello", b"", 20)
    warm = GrpcDialer().dial(house.door.address)
    await warm.call("Hello", b"", 20)
    await warm.close()
    await house.until(lambda: not house.guests)
    files = psutil.Process().num_fds()
    for _ in range(10):
        channel = GrpcDialer().dial(house.door.address)
        await channel.call("Hello", b"", 20)
        await channel.close()
        for linger in (False, True):
            with socket.create_connection(("127.0.0.1", house.door.port)) as rude:
                rude.sendall(HTTP_2 + SETTINGS_FRAME)
                if linger:  # closing resets the connection
                    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader, writer = await asyncio.open_connection("127.0.0.1", house.door.port)
        writer.write(HTTP_2 + SETTINGS_FRAME)
        writer.write_eof()
        assert (await reader.read()).startswith(b"\x00\x00")  # HTTP/2 frames, and then the end
        writer.close()
        await house.said(HTTP_2 + b"no HTTP/2 after all" * 10)
    await house.until(lambda: not house.guests and psutil.Process().num_fds() <= files)


async def test_a_stopping_door_ends_its_guests(house: House):
    reader, writer = await asyncio.open_connection("127.0.0.1", house.door.port)
    writer.write(HTTP_2 + SETTINGS_FRAME)
    assert await reader.read(9)
    _, undecided = await asyncio.open_connection("127.0.0.1", house.door.port)
    undecided.write(b"GE")
    await house.until(lambda: house.guests == 2)
    await house.door.stop(0)
    with suppress(ConnectionError):
        await reader.read()
    writer.close()
    undecided.close()
    await asyncio.wait_for(asyncio.gather(writer.wait_closed(), undecided.wait_closed(), return_exceptions=True), 20)
    assert not house.guests


async def test_guests_count_as_connections(monkeypatch: pytest.MonkeyPatch):
    house = House()
    house.door._native.connections_max = 3
    await house.door.start()
    await house.honest.call("Hello", b"", 20)
    undecided = [await asyncio.open_connection("127.0.0.1", house.door.port) for _ in range(2)]
    for _, writer in undecided:
        writer.write(b"GE")
    await house.until(lambda: house.guests == 2)
    assert await house.said(PREFACE) == b""
    assert house.lines.problems() == ["connections.max"]
    for _, writer in undecided:
        writer.close()
    await house.until(lambda: not house.guests)
    await house.honest.close()
    await house.door.stop(0)


NO_GRPC = "this client needs gRPC, which is not installed here. Install it: pip install 'bowstring[grpc]'."


async def test_without_grpcio_a_grpc_client_is_told_how_to_get_it(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "bowstring.wire.grpc_server", None)
    answer = await house.said(HTTP_2 + SETTINGS_FRAME)
    assert answer.endswith(NO_GRPC.encode())
    channel = GrpcDialer().dial(house.door.address)
    await refused(channel.call("Hello", b"", 20), errors.Unavailable)
    await channel.close()
    assert set(house.lines.problems()) == {NO_GRPC}
    await house.until(lambda: not house.guests)


def test_grpc_is_not_imported_before_a_client_speaks_it():
    script = """
import socket, sys, bowstring
with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
    client.create_topic("orders")
    with client.producer("orders") as producer:
        producer.send(b"a")
    assert len(list(client.reader("orders", end="latest"))) == 1
    print(sorted(name for name in sys.modules if name.split(".")[0] in ("grpc", "grpc_health")))
    host, port = broker.address.removeprefix("bowstring://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as speaks:
        speaks.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(3) + b"\\x04" + bytes(5))
        print(len(speaks.recv(9)), "grpc" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("[]\n9 True\n", "")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def test_http_is_led_to_the_http_server_and_grpc_has_an_address_of_its_own(tmp_path: Path):
    settings = Settings(data=str(tmp_path), listen="127.0.0.1:0", http="127.0.0.1:0", grpc_listen=f"127.0.0.1:{free_port()}")
    server = await open_broker(settings)
    host, port = server.address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b'"name":"bowstring"' in (await reader.read()).replace(b" ", b"")
    writer.close()
    for address in (settings.grpc_listen, server.address):
        channel = GrpcDialer().dial(address)
        assert await channel.call("ListTopics", b"", 20) == b""
        await channel.close()
    native = NativeDialer().dial(settings.grpc_listen)
    await refused(native.call("ListTopics", b"", 20), errors.Unavailable)
    await native.close()
    with pytest.raises(errors.Unavailable, match="is in use by another program"):
        await open_broker(Settings(data=str(tmp_path / "other"), listen="127.0.0.1:0", http="off", grpc_listen=settings.grpc_listen))
    await server.stop()
