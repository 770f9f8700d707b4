"""The way in: finds what a call means, and keeps the streams so that all can be ended when the broker stops.

A call is a method's name and bytes (`ports.transport.Handler`). What is not protobuf, or not of the schema, is refused here; whether
its values make sense the broker decides. Requests that are no streams carry no batch and are therefore small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import DecodeError, Message

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.gateway import handshake, messages, positions, topics
from bowstring.gateway.backup_stream import BackupStream
from bowstring.gateway.fetch_stream import FetchStream
from bowstring.gateway.publish_stream import PublishStream
from bowstring.ports.calls import CALLS
from bowstring.ports.clock import Clock
from bowstring.ports.events import UNOBSERVED, Observer
from bowstring.ports.failures import StorageFailed
from bowstring.ports.transport import Caller, Inbound
from bowstring.settings import Settings
from bowstring.wire.codec import HEADER_BYTES_MAX
from bowstring.wire.generated import bowstring_pb2 as pb


class _Method(NamedTuple):
    request: type[Message]
    serve: Callable[[Broker, Any, Caller], Awaitable[Message]]


METHODS: Final = {
    "CreateTopic": _Method(pb.CreateTopicRequest, topics.create),
    "DescribeTopic": _Method(pb.DescribeTopicRequest, topics.describe),
    "ListTopics": _Method(pb.ListTopicsRequest, topics.list_page),
    "WatchTopics": _Method(pb.WatchTopicsRequest, topics.watch),
    "AlterTopic": _Method(pb.AlterTopicRequest, topics.alter),
    "DeleteTopic": _Method(pb.DeleteTopicRequest, topics.delete),
    "Find": _Method(pb.FindRequest, messages.find),
    "DeleteMessages": _Method(pb.DeleteMessagesRequest, messages.delete),
    "Offsets": _Method(pb.OffsetsRequest, positions.offsets),
    "CommitPosition": _Method(pb.CommitPositionRequest, positions.commit),
    "SetPosition": _Method(pb.SetPositionRequest, positions.put),
    "DescribePosition": _Method(pb.DescribePositionRequest, positions.describe),
    "ListPositions": _Method(pb.ListPositionsRequest, positions.list_page),
    "DeletePosition": _Method(pb.DeletePositionRequest, positions.delete),
}


class _Stream(Protocol):
    async def run(self) -> None: ...

    def end(self, error: errors.Error) -> None: ...


class Gateway:
    """What is behind the transport: implements `ports.transport.Handler` for one broker."""

    def __init__(
        self, broker: Broker, settings: Settings, clock: Clock, software: str = "bowstring", observer: Observer = UNOBSERVED
    ) -> None:
        self._broker = broker
        self._observer = observer
        self._software = software
        self._settings = settings
        self._clock = clock
        self._waiting: dict[asyncio.Future[Message], None] = {}
        self._streams: dict[_Stream, None] = {}  # a set has no order that a run could repeat
        self._closed: errors.Error | None = None

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        if len(request) > HEADER_BYTES_MAX:
            raise errors.InvalidArgument(f"a {method} request has {len(request)} bytes.", hint=f"The maximum is {HEADER_BYTES_MAX}.")
        self._check_open()
        try:
            if method == "Hello":
                hello = pb.HelloRequest.FromString(request)
                greeting = handshake.hello(self._broker, self._software, self._clock.now(), hello)
                self._observer.note("client-connected", client=caller.address, name=hello.name, software=hello.software)
                return greeting.SerializeToString()
            if method not in METHODS:
                raise _unknown(method)
            message = METHODS[method].request.FromString(request)
        except DecodeError:
            raise errors.InvalidArgument(f"this is not a {method} request.", hint="The schema is in proto/bowstring/v1.") from None
        try:
            answering = METHODS[method].serve(self._broker, message, caller)
            return (await (self._wait(answering, caller) if CALLS[method].waits else answering)).SerializeToString()
        except StorageFailed as failure:  # the store was closed under a call that reads in it
            raise errors.Unavailable(f"the broker has ended: {failure}") from failure

    async def _wait(self, answering: Awaitable[Message], caller: Caller) -> Message:
        """Waits for an answer that may take long on purpose. Gives up when the broker stops, or when the caller does not wait any more."""
        task = asyncio.ensure_future(answering)
        self._waiting[task] = None
        try:
            async with asyncio.timeout_at(caller.deadline):
                return await task
        except TimeoutError:
            raise errors.Unavailable("the caller does not wait any more.") from None
        except asyncio.CancelledError:
            self._check_open()
            raise
        finally:
            del self._waiting[task]

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self._check_open()
        if method == "Publish":
            stream: _Stream = PublishStream(self._broker, inbound, caller, self._clock, self._settings.publish_window)
        elif method == "Fetch":
            stream = FetchStream(self._broker, inbound)
        elif method == "Backup":
            stream = BackupStream(self._broker, inbound, self._clock)
        else:
            raise _unknown(method)
        self._streams[stream] = None
        try:
            await stream.run()
        finally:
            self._streams.pop(stream, None)

    def close(self, error: errors.Error) -> None:
        """Every call from now on is refused with this error. Streams take nothing more, answer what is under way, and end with it."""
        self._closed = error
        for task in tuple(self._waiting):
            task.cancel()
        for stream in tuple(self._streams):
            stream.end(error)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed.with_traceback(None)


def _unknown(method: str) -> errors.NotSupported:
    return errors.NotSupported(f"this broker does not know the call '{method}'.", hint="Is the client of a later version?")
