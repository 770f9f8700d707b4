"""The server's side of the transport port over grpcio: raw bytes in and out, errors by
`wire.grpc_status`, bounded everywhere.

Handlers get bytes: no serialisers, because protobuf must not touch the batch (`wire.codec`). grpcio
reads a whole message before our code sees it, so the length of messages and the number of streams
are bounded here, and a stream's next message is asked for only when its handler asks. What a
handler raises as `bowstring.Error` ends the call as that error; anything else is a bug, which is
logged here and told the caller as `INTERNAL` without its insides.

The port is ours alone: gRPC's default would let a second broker share it and take every other
connection (`so_reuseport`). When it cannot be had, grpcio does not say why, so we ask the system
first and translate its answer (`sockets`).

The standard health service answers for the server as a whole ("") and for `bowstring.v1.Broker`.
The standard reflection service gives the schema, so that tools such as grpcurl need no file of
ours.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

from bowstring.wire import grpc_library  # before gRPC, which reads its variables when it is imported

# isort: split
import grpc
import grpc.aio as typed_aio
from grpc_health.v1 import health as typed_health
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection as typed_reflection

from bowstring import errors, listening
from bowstring.ports.calls import CALLS
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Handler, Inbound, Pieces, joined
from bowstring.wire import grpc_status, sockets
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.stream_limits import StreamLimits, message_bytes_max

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Broker"]
AHEAD_BYTES: Final = 1024 * 1024
"""How many bytes a stream may send ahead of the message that its handler asks for."""
_CALLS_BESIDE: Final = 1000
"""Unary calls that the server serves at the same time: topics, finds, health."""

_NAMED: Final = "unix-abstract:"
_CALLS_BESIDE_PER_CONNECTION: Final = 100
"""The same for one connection; gRPC lets further calls wait at their caller."""

aio: Any = typed_aio
health: Any = typed_health
reflection: Any = typed_reflection
"""grpcio-stubs have no types for raw bytes, nor for the health and reflection services on
asyncio."""

Context = Any
"""grpc.aio.ServicerContext, whose stubs have no types for raw bytes."""


class GrpcServer:
    """Serves a handler at one address. `listen` is host:port, port 0 for any free one, or
    unix:path.
    """

    def __init__(
        self,
        handler: Handler,
        limits: StreamLimits,
        *,
        listen: str,
        batch_bytes_max: int,
    ) -> None:
        grpc_library.prepare()
        self._handler = handler
        self._limits = limits
        self._listen = listen
        self._streams_of: Counter[str] = Counter()
        """By connection. Connections through a Unix socket that have no name are not told apart."""
        self._health = health.aio.HealthServicer()
        self._server = aio.server(
            options=_options(message_bytes_max(batch_bytes_max), limits.connection_streams_max + _CALLS_BESIDE_PER_CONNECTION),
            maximum_concurrent_rpcs=limits.streams_max + _CALLS_BESIDE,
        )
        self._server.add_generic_rpc_handlers((self._methods(),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self.port = 0

    @property
    def address(self) -> str:
        """Where the server listens, with the port that the system has chosen for port 0."""
        return listening.served_at(self._listen, self.port)

    def bind(self) -> int:
        """Takes the port and returns it; calls are answered from `start` on. Raises Unavailable if
        the port is in use.
        """
        sockets.probe(self._listen)
        try:
            self.port = self._server.add_insecure_port(self._listen)
        except RuntimeError:
            hint = "Does the folder exist, and may this user write there?" if self._listen.startswith("unix:") else "Try again."
            raise errors.Unavailable(f"the broker cannot listen on {self._listen}.", hint=hint) from None
        return self.port

    def bind_also(self, address: str) -> bool:
        """Listens at a second place, unix:path.
        Gives False where the file system has no sockets."""
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            return False
        return True

    async def start(self) -> None:
        """Answers calls."""
        await self._server.start()
        await self.serving(True)

    async def serving(self, well: bool) -> None:
        """Sets what the health service answers."""
        state = health_pb2.HealthCheckResponse.SERVING if well else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", SERVICE.full_name):
            await self._health.set(service, state)

    async def stop(self, grace: float) -> None:
        """Refuses new calls at once, gives those under way `grace` seconds, and cancels what is
        left.
        """
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    def _methods(self) -> Any:
        """The calls of the table, unary and streamed as it says, with raw bytes."""
        handlers = {name: _streamed(name, self._stream) if call.stream else _single(name, self._unary) for name, call in CALLS.items()}
        return grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)

    async def _unary(self, method: str, request: bytes, context: Context) -> bytes:
        caller = _caller(context)
        return await self._guarded(method, context, caller, lambda: self._handler.call(method, request, caller))

    async def _stream(self, method: str, context: Context) -> None:
        # Before anything is written: if the first write is cancelled, grpcio forgets that it has
        # sent the metadata, sends it again with the status, and fails. The caller would wait for
        # ever.
        await context.send_initial_metadata(())
        caller = _caller(context)
        await self._guarded(method, context, caller, lambda: self._counted(method, context.peer(), _GrpcInbound(context), caller))

    async def _counted(self, method: str, peer: str, inbound: Inbound, caller: Caller) -> None:
        self._limits.begin(method, caller, 0 if peer == "unix:" else self._streams_of[peer])
        self._streams_of[peer] += 1
        try:
            await self._handler.stream(method, inbound, caller)
        finally:
            self._limits.end(method, caller)
            self._streams_of[peer] -= 1
            if not self._streams_of[peer]:
                del self._streams_of[peer]

    async def _guarded(self, method: str, context: Context, caller: Caller, call: Callable[[], Awaitable[Any]]) -> Any:
        """Runs the handler, and turns what it raises into the status of the call."""
        try:
            return await call()
        except Exception as error:
            code, text, error_bytes = grpc_status.to_status(self._limits.failure(method, caller, error))
        return await context.abort(grpc.StatusCode[code], text, ((grpc_status.METADATA_KEY, error_bytes),))


class _GrpcInbound(Inbound):
    """Implements `ports.transport.Inbound`."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        message = await self._context.read()
        return None if message is aio.EOF else message

    async def write(self, message: Buffer | Pieces) -> None:
        await self._context.write(joined(message))


def _single(name: str, unary: Callable[[str, bytes, Context], Awaitable[bytes]]) -> Any:
    async def serve(request: bytes, context: Context) -> bytes:
        return await unary(name, request, context)

    return grpc.unary_unary_rpc_method_handler(serve)


def _streamed(name: str, stream: Callable[[str, Context], Awaitable[None]]) -> Any:
    async def serve(_requests: object, context: Context) -> None:
        await stream(name, context)

    return grpc.stream_stream_rpc_method_handler(serve)


def _caller(context: Context) -> Caller:
    """The caller of a call: gRPC knows where it comes from, and how long it waits."""
    seconds = context.time_remaining()
    deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
    return Caller(address=_shown(context.peer()), transport="grpc", deadline=deadline)


def _shown(peer: str) -> str:
    """`ipv4:127.0.0.1:51234` as people write it. A connection through the broker's port has a name
    whose end is the address of its client; of other Unix sockets gRPC says no more than that they
    are some.
    """
    if peer.startswith(_NAMED):
        return unquote(peer).rpartition("/")[2]
    return peer.removeprefix("ipv4:").removeprefix("ipv6:").replace("%5B", "[").replace("%5D", "]")


def _options(message_bytes_max: int, connection_calls_max: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_concurrent_streams", connection_calls_max),
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.max_send_message_length", -1),
        # gRPC would let callers send ahead of our reading by what it believes the connection
        # carries, without an end.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", AHEAD_BYTES),
        # A client that is gone without a word is noticed; clients that look whether we are there
        # are welcome to.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.http2.ping_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ]
