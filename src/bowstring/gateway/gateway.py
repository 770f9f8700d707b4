"""The way in: finds the handler or the session of a call, and keeps the sessions so that all can be
ended when the broker stops.

A call is a name of the table and bytes (`ports.transport.Handler`). The codec makes values of the
bytes and refuses what is not a message of its form; the broker decides whether values make sense. A
handler answers a unary call with a value; a session takes values and gives values until one side
ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.gateway import dead_letters, handshake, messages, positions, subscriptions, topics
from bowstring.gateway.backup_session import BackupSession
from bowstring.gateway.consume_session import ConsumeSession
from bowstring.gateway.fetch_session import FetchSession
from bowstring.gateway.protobuf import PROTOBUF
from bowstring.gateway.publish_session import PublishSession
from bowstring.gateway.requests import HelloRequest, Welcome
from bowstring.gateway.value_stream import ValueStream
from bowstring.ports.calls import CALLS
from bowstring.ports.clock import Clock
from bowstring.ports.codec import Codec
from bowstring.ports.events import UNOBSERVED, Observer
from bowstring.ports.failures import StorageFailed
from bowstring.ports.transport import Caller, Inbound
from bowstring.settings import Settings

HANDLERS: Final[dict[str, Callable[[Broker, Any, Caller], Awaitable[Any]]]] = {
    "CreateTopic": topics.create,
    "DescribeTopic": topics.describe,
    "ListTopics": topics.list_page,
    "WatchTopics": topics.watch,
    "AlterTopic": topics.alter,
    "DeleteTopic": topics.delete,
    "Offsets": positions.offsets,
    "CommitPosition": positions.commit,
    "SetPosition": positions.put,
    "DescribePosition": positions.describe,
    "ListPositions": positions.list_page,
    "DeletePosition": positions.delete,
    "Find": messages.find,
    "DeleteMessages": messages.delete,
    "CancelMessages": messages.cancel,
    "MoveMessages": messages.move,
    "CreateSubscription": subscriptions.create,
    "AlterSubscription": subscriptions.alter,
    "DescribeSubscription": subscriptions.describe,
    "ListSubscriptions": subscriptions.list_page,
    "DeleteSubscription": subscriptions.delete,
    "SeekSubscription": subscriptions.seek,
    "Peek": subscriptions.peek,
    "ListDeadLetters": dead_letters.list_page,
    "Redrive": dead_letters.redrive,
    "PurgeDeadLetters": dead_letters.purge,
    "ListLeases": subscriptions.list_leases,
    "ReleaseLeases": subscriptions.release_leases,
    "ExplainKey": subscriptions.explain_key,
}
"""The unary calls that need nothing but the broker; `Hello` is the other one."""


class _Session(Protocol):
    async def run(self) -> None: ...

    def end(self, error: errors.Error) -> None: ...


class Gateway:
    """Implements `ports.transport.Handler` for one broker and one form of messages."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        clock: Clock,
        software: str = "bowstring",
        observer: Observer = UNOBSERVED,
        codec: Codec = PROTOBUF,
    ) -> None:
        self._broker = broker
        self._observer = observer
        self._software = software
        self._settings = settings
        self._clock = clock
        self._codec = codec
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._sessions: dict[_Session, None] = {}  # a set has no order that a run could repeat
        self._closed: errors.Error | None = None

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        self._check_open()
        if method not in CALLS or CALLS[method].stream:
            raise _unknown(method)
        form = self._codec[method]
        value = form.decode(request)
        try:
            if method == "Hello":
                return form.encode(self._hello(value, caller))
            answering = HANDLERS[method](self._broker, value, caller)
            return form.encode(await (self._wait(answering, caller) if CALLS[method].waits else answering))
        except StorageFailed as failure:  # the store was closed under a call that reads in it
            raise errors.Unavailable(f"the broker has ended: {failure}") from failure

    def _hello(self, request: HelloRequest, caller: Caller) -> Welcome:
        welcome = handshake.hello(self._broker, self._software, self._clock.now(), request)
        told = {"name": request.name, "software": request.software, "transport": caller.transport}
        self._observer.note("client-connected", client=caller.address, **told)
        return welcome

    async def _wait(self, answering: Awaitable[Any], caller: Caller) -> Any:
        """Waits for an answer that may take long on purpose. Gives up when the broker stops, or
        when the caller does not wait any more.
        """
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
        session = self._session(method, inbound, caller)
        self._sessions[session] = None
        try:
            await session.run()
        except StorageFailed as failure:  # the catalog or the store has failed under a session that reads in it
            raise errors.Unavailable(f"the broker has ended: {failure}") from failure
        finally:
            self._sessions.pop(session, None)

    def _session(self, method: str, inbound: Inbound, caller: Caller) -> _Session:
        match method:
            case "Publish":
                publishing = ValueStream(inbound, self._codec[method])
                return PublishSession(self._broker, publishing, caller, self._clock, self._settings.publish_window)
            case "Fetch":
                return FetchSession(self._broker, ValueStream(inbound, self._codec[method]))
            case "Consume":
                return ConsumeSession(self._broker, ValueStream(inbound, self._codec[method]), caller)
            case "Backup":
                return BackupSession(self._broker, ValueStream(inbound, self._codec[method]), self._clock)
            case _:
                raise _unknown(method)

    def close(self, error: errors.Error) -> None:
        """Refuses every call from now on with this error. Sessions accept nothing more, answer
        requests under way, and end with it.
        """
        self._closed = error
        for task in tuple(self._waiting):
            task.cancel()
        for session in tuple(self._sessions):
            session.end(error)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed.with_traceback(None)


def _unknown(method: str) -> errors.NotSupported:
    return errors.NotSupported(f"this broker does not know the call '{method}'.", hint="Is the client of a later version?")
