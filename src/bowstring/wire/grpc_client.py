"""The caller's side of the transport port over grpcio: raw bytes in and out, errors by
`wire.grpc_status`.

A channel connects by itself and again after a break, quickly: the kit repeats calls itself and
knows better than gRPC which may be repeated, so gRPC's own retries and its waits of up to two
minutes are off. A call while there is no connection fails at once as `Unavailable`. Pings detect a
server that hangs or whose cable is out, also while no call is under way.

Two things to know. Cancelling a task that waits in `Stream.read` or `Stream.write` cancels the
whole call: grpcio does so, and a read that was given up could otherwise lose a message. And a
stream's error is raised by `read`; a `write` that hits a dead stream raises the same one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NoReturn

from bowstring.wire import grpc_library  # before gRPC, which reads its variables when it is imported

# isort: split
import grpc
import grpc.aio as typed_aio

from bowstring import errors
from bowstring.ports.calls import is_repeatable
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Channel, Pieces, Stream, joined
from bowstring.wire import grpc_status
from bowstring.wire.generated import bowstring_pb2 as pb

aio: Any = typed_aio
"""grpcio-stubs have no types for raw bytes, nor for reading and writing a stream."""

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Broker"].full_name

_SECONDS_MIN: Final = 0.001
"""To grpcio a timeout of 0 would mean none at all."""

_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # the time limit of one attempt to connect
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # without it gRPC waits a minute for a ping, whatever the line above says
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


class GrpcDialer:
    """Makes channels over gRPC. `address` is host:port, or unix:path."""

    def dial(self, address: str) -> Channel:
        return GrpcChannel(address)


class GrpcChannel:
    """A channel to one address. Make it on the loop that uses it."""

    def __init__(self, address: str) -> None:
        grpc_library.prepare()
        self.address = address
        self._channel = aio.insecure_channel(address, options=_OPTIONS)
        self._unary: dict[str, Any] = {}

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        grpc_library.check_not_forked()
        call = self._unary.get(method)
        if call is None:
            call = self._unary[method] = self._channel.unary_unary(f"/{SERVICE}/{method}")
        try:
            return await call(request, timeout=max(_SECONDS_MIN, seconds))
        except aio.AioRpcError as error:
            raise _translated(error.code(), error.details(), error.trailing_metadata(), is_repeatable(method)) from None
        except aio.UsageError:
            raise _closed(self.address) from None
        except asyncio.CancelledError:
            if _is_cancelled_task():
                raise
            raise _closed(self.address) from None

    def stream(self, method: str) -> Stream:
        grpc_library.check_not_forked()
        try:
            return _GrpcStream(self._channel.stream_stream(f"/{SERVICE}/{method}")())
        except aio.UsageError:
            raise _closed(self.address) from None

    async def close(self) -> None:
        await self._channel.close()


class _GrpcStream(Stream):
    """Implements `ports.transport.Stream`.

    It does not use grpcio's own `write`. When the broker has ended the stream, that one replaces
    the arriving status by INTERNAL, and the caller would never learn that there is no such topic.
    """

    __slots__ = ("_call", "_connected", "_ended_here")

    def __init__(self, call: Any) -> None:
        self._call = call
        self._connected = False
        self._ended_here = False

    async def write(self, message: Buffer | Pieces) -> None:
        if self._ended_here:
            raise errors.Error("this stream was ended here, nothing more can be written to it.")
        try:
            if not self._connected:
                await self._call.wait_for_connection()
                self._connected = True
            await self._call._cython_call.send_serialized_message(joined(message))
        except aio.AioRpcError as error:
            raise _translated(error.code(), error.details(), error.trailing_metadata()) from None
        except aio.BaseError:
            await self._raise_end()
        except asyncio.CancelledError:
            self._call.cancel()
            if _is_cancelled_task():
                raise
            raise _cancelled() from None

    async def read(self) -> bytes | None:
        try:
            message = await self._call.read()
        except aio.AioRpcError as error:
            raise _translated(error.code(), error.details(), error.trailing_metadata()) from None
        except asyncio.CancelledError:
            if _is_cancelled_task():
                raise
            raise _cancelled() from None
        return None if message is aio.EOF else message

    async def end(self) -> None:
        self._ended_here = True
        try:
            await self._call.done_writing()
        except aio.BaseError:
            await self._raise_end()

    def cancel(self) -> None:
        self._call.cancel()

    async def _raise_end(self) -> NoReturn:
        """Raises the error that ended the stream, when the caller writes to it afterwards."""
        code = await self._call.code()
        if code is grpc.StatusCode.OK:
            raise errors.Unavailable("the broker has ended this stream.", hint="Open another.") from None
        raise _translated(code, await self._call.details(), await self._call.trailing_metadata()) from None


def _is_cancelled_task() -> bool:
    """Tells a cancelled task from a cancelled call: grpcio raises CancelledError for both, and only
    a cancelled task may see it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _translated(code: grpc.StatusCode, text: str | None, metadata: Any, repeatable: bool = True) -> errors.Error:
    error_bytes = next((value for key, value in metadata or () if key == grpc_status.METADATA_KEY), None)
    return grpc_status.from_status(code.name, text or "", error_bytes, repeatable=repeatable)


def _closed(address: str) -> errors.Unavailable:
    return errors.Unavailable(f"the channel to {address} is closed.")


def _cancelled() -> errors.Unavailable:
    return errors.Unavailable("this stream was cancelled here.")
