"""The broker's port: native frames, and whatever else a newcomer tries there.

The native transport is served by this process directly. gRPC and HTTP/1.1 connections pass through
to their servers (`doorway`). The gRPC server starts when the first gRPC client comes: grpcio takes a
tenth of a second to import, which most brokers never need. It listens on a Unix socket in a
directory that only this user can read, and at an address of its own if the setting `grpc.listen`
names one: there its clients are spared the passage.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bowstring import errors, listening
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Handler
from bowstring.wire import doorway, grpc_extra, sockets
from bowstring.wire.doorway import Spoken, Visitor
from bowstring.wire.native_server import NativeServer
from bowstring.wire.stream_limits import StreamLimits

if TYPE_CHECKING:
    from bowstring.wire.grpc_server import GrpcServer

CONNECTIONS_BESIDE: Final = 1000
"""Connections that a broker accepts in addition to those that its streams may need."""
LINGER_SECONDS: Final = 2.0
"""So long a peer may take to read the last words."""
_SETTINGS: Final = bytes(3) + b"\x04" + bytes(5)
_HTTP_1_REQUIRED: Final = 0xD


class FrontDoor:
    """Serves a handler at one address, in every protocol that there is. `listen` is host:port, port
    0 for any free one, or unix:path.
    """

    def __init__(
        self,
        handler: Handler,
        limits: StreamLimits,
        *,
        listen: str,
        batch_bytes_max: int,
        grpc_listen: str = "",
        http: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._listen = listen
        self._grpc_listen = grpc_listen
        self._batch_bytes_max = batch_bytes_max
        self._http = http
        """Gives the broker's HTTP address as host:port, if there is one."""
        self._native = NativeServer(
            handler,
            limits,
            batch_bytes_max=batch_bytes_max,
            connections_max=limits.streams_max + CONNECTIONS_BESIDE,
            foreign=self._meet,
        )
        self._bound: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._grpc: asyncio.Task[GrpcServer] | None = None
        self._grpc_folder = ""
        self._is_well = True
        self._leading: dict[asyncio.Task[None], None] = {}
        self._passages = 0
        """How many there have been."""
        self._buffer = bytearray(doorway.PASSAGE_BYTES)
        self.port = 0

    @property
    def address(self) -> str:
        """Where it listens, with the port that the system has chosen for port 0."""
        return listening.served_at(self._listen, self.port)

    def bind(self) -> int:
        """Takes the port and returns it; calls are answered from `start` on. Raises Unavailable if
        the port is in use.
        """
        bound = sockets.bind(self._listen)
        self._bound.append(bound)
        self.port = sockets.port(bound)
        return self.port

    def bind_also(self, address: str) -> bool:
        """Listens at a second place, unix:path. Gives False where the file system has no sockets."""
        try:
            self._bound.append(sockets.bind(address))
        except errors.Unavailable:
            return False
        return True

    async def start(self) -> None:
        """Answers calls."""
        for bound in self._bound:
            self._servers.append(await sockets.serve(bound, self._native.connection))
        if self._grpc_listen:
            await self._started_grpc()

    async def serving(self, well: bool) -> None:
        """Sets what gRPC's health service answers."""
        self._is_well = well
        if self._grpc is not None and self._grpc.done() and self._grpc.exception() is None:
            await self._grpc.result().serving(well)

    async def stop(self, grace: float) -> None:
        """Refuses new calls at once, gives those under way `grace` seconds, and cancels what is
        left.
        """
        for server in self._servers:
            server.close()
        for bound in self._bound if not self._servers else ():
            bound.close()
        leading = tuple(self._leading)
        for task in leading:
            task.cancel()
        await asyncio.gather(*leading, return_exceptions=True)
        await asyncio.gather(self._native.stop(grace), self._stop_grpc(grace))
        for transport in tuple(self._native.guests):
            transport.abort()

    async def _stop_grpc(self, grace: float) -> None:
        if self._grpc is None:
            return
        started = (await asyncio.gather(self._grpc, return_exceptions=True))[0]
        if not isinstance(started, BaseException):
            await started.stop(grace)
        if self._grpc_folder:
            import shutil

            shutil.rmtree(self._grpc_folder, ignore_errors=True)

    # ---- connections that do not begin with the preface

    def _meet(self, transport: Any, first: bytes) -> None:
        self._native.guests[transport] = None
        Visitor(first, self._receive, self._gone).begin(transport)

    def _gone(self, transport: Any) -> None:
        self._native.guests.pop(transport, None)

    def _receive(self, answer: Spoken, first: bytes, transport: Any) -> None:
        """It is known what a connection speaks."""
        if answer is Spoken.HTTP_2:
            self._lead(self._to_grpc(transport, first))
        elif answer is Spoken.HTTP_1:
            self._lead(self._to_http(transport, first))
        else:
            hint = "; TLS is not spoken here" if answer is Spoken.TLS else ""
            self._note(f"it speaks {answer.value}{hint}", transport)
            transport.abort()

    def _lead(self, leading: Any) -> None:
        task = asyncio.get_running_loop().create_task(leading)
        self._leading[task] = None
        task.add_done_callback(lambda done: self._leading.pop(done, None))

    async def _to_grpc(self, transport: Any, first: bytes) -> None:
        transport.pause_reading()
        try:
            await self._started_grpc()
        except errors.Error as error:
            self._note(str(error), transport)
            _last_words(transport, _goaway(str(error)))
            return
        self._passages += 1
        name = f"{os.path.basename(self._grpc_folder)}/{self._passages}/{sockets.shown(transport.get_extra_info('peername'))}"
        await self._pass(transport, first, lambda end: sockets.connect_as(end, self._grpc_socket, name))

    async def _to_http(self, transport: Any, first: bytes) -> None:
        address = self._http()
        if address is None:
            _last_words(transport, _page('This is a Bowstring broker, for bowstring.connect(). It serves no HTTP (http = "off").\n'))
            return
        await self._pass(transport, first, lambda end: sockets.connect(end, address))

    async def _pass(self, transport: Any, first: bytes, connect: doorway.Connect) -> None:
        if transport.is_closing():
            return
        try:
            await doorway.lead(transport, first, connect, self._buffer, self._gone)
        except OSError as error:
            self._note(f"the way to where it is served is closed: {sockets.reason(error)}", transport)

    def _note(self, problem: str, transport: Any) -> None:
        client = sockets.shown(transport.get_extra_info("peername"))
        self._limits.observer.note("connection-refused", problem=problem, client=client)

    # ---- gRPC

    @property
    def _grpc_socket(self) -> str:
        return os.path.join(self._grpc_folder, "grpc.sock")

    async def _started_grpc(self) -> GrpcServer:
        if self._grpc is None:
            self._grpc = asyncio.get_running_loop().create_task(self._start_grpc(), name="bowstring starts gRPC")
        return await asyncio.shield(self._grpc)

    async def _start_grpc(self) -> GrpcServer:
        asked = f'grpc.listen = "{self._grpc_listen}"' if self._grpc_listen else "this client"
        module = await asyncio.to_thread(grpc_extra.load, "grpc_server", asked)
        import tempfile

        self._grpc_folder = tempfile.mkdtemp(prefix="bowstring-")
        own = self._grpc_listen or f"unix:{self._grpc_socket}"
        server: GrpcServer = module.GrpcServer(self._handler, self._limits, listen=own, batch_bytes_max=self._batch_bytes_max)
        server.bind()
        if self._grpc_listen:
            server.bind_also(f"unix:{self._grpc_socket}")
        await server.start()
        await server.serving(self._is_well)
        return server


def _last_words(transport: Any, words: Buffer) -> None:
    """Says this and ends the connection, when its peer has read it: what the peer still sends is
    passed over, because closing at once would reset the connection.
    """
    transport.write(words)
    transport.write_eof()
    transport.resume_reading()
    asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.abort)


def _goaway(reason: str) -> bytes:
    """HTTP/2 for: this connection is over, because."""
    payload = bytes(4) + _HTTP_1_REQUIRED.to_bytes(4, "big") + reason.encode()
    return _SETTINGS + len(payload).to_bytes(3, "big") + b"\x07" + bytes(5) + payload


def _page(text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
