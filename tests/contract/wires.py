"""The ways between a caller and a handler that keep the promises of the transport port: native frames over TCP and over a Unix socket,
gRPC on a port of its own, gRPC through the port that all share. The handler is a few lines, so only the transport is on trial."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from bowstring import errors
from bowstring.ports.transport import Buffer, Caller, Channel, Inbound
from bowstring.wire.front_door import FrontDoor
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.grpc_server import GrpcServer
from bowstring.wire.native_client import NativeDialer
from bowstring.wire.stream_limits import StreamLimits

BATCH_BYTES_MAX = 1 << 20
STREAMS_MAX = 8
"""Of one connection."""
FLOOD = b"f" * (1 << 16)


class Echo:
    """Sends back what it gets; some words do something else. `Fetch` takes messages by `each`, other streams by `read`."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.cancelled = asyncio.Event()
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.flooded = 0
        """Bytes that a flood has sent."""

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        self.callers.append(caller)
        try:
            await self._obey(request)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return method.encode() + b" " + request

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self.callers.append(caller)
        try:
            if method == "Fetch":
                await inbound.each(lambda message: None if inbound.try_write(message) else inbound.write(message))
            else:
                await self._echo(inbound)
            await inbound.write(b"bye")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def _echo(self, inbound: Inbound) -> None:
        while (message := await inbound.read()) is not None:
            await self._obey(message, inbound)
            if message == b"end":
                return
            await inbound.write(memoryview(message))

    async def _obey(self, word: Buffer, inbound: Inbound | None = None) -> None:
        if word == b"refuse":
            raise errors.TopicNotFound("there is none.", hint="Make one.", details={"topic": "orders"})
        if word == b"bug":
            raise ZeroDivisionError("secret insides")
        if word == b"wait":
            await asyncio.Event().wait()
        if word == b"hold":
            self.held.set()
            await self.release.wait()
        if inbound is not None:
            await self._obey_in_stream(bytes(word) if len(word) < 100 else b"", inbound)

    async def _obey_in_stream(self, word: bytes, inbound: Inbound) -> None:
        if word == b"fail beside a write":
            write = asyncio.create_task(inbound.write(b"a notice"))
            await asyncio.sleep(0)
            write.cancel()
            await asyncio.gather(write, return_exceptions=True)
            raise errors.Corrupt("this is damaged.")
        if word.startswith(b"count and fail "):
            for number in range(int(word.split()[-1])):
                await inbound.write(b"%d" % number)
            raise errors.OutOfRange("beyond the end.")
        if word.startswith(b"flood "):
            for _ in range(int(word.split()[-1])):
                await inbound.write(FLOOD)
                self.flooded += len(FLOOD)


class Served(Protocol):
    """What serves a handler."""

    @property
    def address(self) -> str: ...

    async def stop(self, grace: float) -> None: ...


class Wire:
    """One way between a caller and a handler."""

    transport = "native"
    host = "127.0.0.1:"
    """How the address of a caller begins."""
    ahead_bytes = (1 << 20) + (1 << 16)
    """What a caller can send that its handler does not read; gRPC adds what the sockets hold."""
    back_bytes = (16 << 20) + (1 << 16)
    """The same for a handler whose caller does not read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limits = StreamLimits(streams_max=100, connection_streams_max=STREAMS_MAX)

    async def serve(self, handler: Echo, listen: str = "127.0.0.1:0") -> Served:
        door = FrontDoor(handler, self.limits, listen=listen, batch_bytes_max=BATCH_BYTES_MAX)
        door.bind()
        await door.start()
        return door

    def dial(self, address: str) -> Channel:
        return NativeDialer().dial(address)


class UnixWire(Wire):
    """Native frames over a Unix socket."""

    host = "unix:"

    async def serve(self, handler: Echo, listen: str = "") -> Served:
        return await super().serve(handler, listen or f"unix:{self.folder}/socket")


class SharedGrpcWire(Wire):
    """gRPC through the port that all share."""

    transport = "grpc"
    ahead_bytes = back_bytes = 32 << 20

    def dial(self, address: str) -> Channel:
        return GrpcDialer().dial(address)


class GrpcWire(SharedGrpcWire):
    """gRPC on a port of its own."""

    async def serve(self, handler: Echo, listen: str = "127.0.0.1:0") -> Served:
        server = GrpcServer(handler, self.limits, listen=listen, batch_bytes_max=BATCH_BYTES_MAX)
        server.bind()
        await server.start()
        return server
