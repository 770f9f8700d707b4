"""Servers that are no brokers: each takes connections on a port of its own and does with them what its name says."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import grpc
import grpc.aio

SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The first thing that an HTTP/2 server says."""


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def half_dead(connection: socket.socket) -> None:
    """Shakes hands as HTTP/2 wants it, and says no more."""
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


class OtherService(grpc.GenericRpcHandler):
    """A gRPC service of something else, or of something that calls itself a broker and answers this."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer

    def service(self, handler_call_details):
        if self._answer is None:
            return None

        async def answer(request: bytes, context: object) -> bytes | None:
            return self._answer

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def answering(answer: bytes | None) -> AsyncIterator[str]:
    """The address of a gRPC server that gives every call this answer, or knows none of them."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((OtherService(answer),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)
