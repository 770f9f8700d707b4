"""Servers that are no brokers: each takes connections on a port of its own and does with them what its name says."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from bowstring import errors
from bowstring.ports.transport import Caller, Inbound
from bowstring.wire import sockets
from bowstring.wire.native_frames import PREFACE
from bowstring.wire.native_server import NativeServer
from bowstring.wire.stream_limits import StreamLimits

SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The first thing that an HTTP/2 server says."""


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def half_dead(connection: socket.socket) -> None:
    """Greets as a broker does, and says no more."""
    connection.sendall(PREFACE)
    silent(connection)


def http_2(connection: socket.socket) -> None:
    """Shakes hands as gRPC does."""
    connection.sendall(SETTINGS_FRAME)
    silent(connection)


def garbage(connection: socket.socket) -> None:
    connection.sendall(b"\x00\xffwelcome to something else\r\n" * 20)
    silent(connection)


def web(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def hangs_up(connection: socket.socket) -> None:
    """Nothing, and leaving closes."""


@contextmanager
def listening(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of such a server, for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                behave(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connections.append(server.accept()[0])
                    threads.append(threading.Thread(target=serve, args=(connections[-1],)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


class OneAnswer:
    """Something that speaks the frames and gives every call this answer, or knows none of them."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        if self._answer is None:
            raise errors.NotSupported(f"there is no {method}.", hint="Is it a Bowstring broker, of this version?")
        return self._answer

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        raise errors.NotSupported(f"there is no {method}.")


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[str]:
    """The address of a server that speaks the frames, and gives every call this answer."""
    limits = StreamLimits(streams_max=10, connection_streams_max=10)
    native = NativeServer(OneAnswer(answer), limits, batch_bytes_max=1 << 20, connections_max=10)
    bound = sockets.bind("127.0.0.1:0")
    server = await sockets.serve(bound, native.connection)
    try:
        yield f"127.0.0.1:{sockets.port(bound)}"
    finally:
        server.close()
        await native.stop(0)
