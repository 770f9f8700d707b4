"""The server's side of the transport port over native frames.

A unary call gets a task when its request is there, a stream when it is opened. Both count against
the limits until their task has ended, not until their caller has cancelled them: a caller that
opens and cancels in a loop is refused like one that opens too many.

**Abuse.** Whatever a peer sends, it costs bounded memory and only its own connection: frames are
bounded by their reader, messages by the window of their call, requests by their bytes, calls by
number. `Patience` says how long a peer may take to say what it speaks, to send the request of a call
that it has opened, and to finish a frame.

**Other protocols.** A connection whose first bytes are not the preface is handed to the server's
`foreign`, with these bytes: see `doorway`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from bowstring import errors
from bowstring.ports.calls import CALLS
from bowstring.ports.transport import Caller, Handler
from bowstring.wire import error_messages, sockets
from bowstring.wire import native_frames as frames
from bowstring.wire.native_call import NativeCall
from bowstring.wire.native_connection import CLOSING_SECONDS, NativeConnection, Pulse
from bowstring.wire.native_frames import Scratch
from bowstring.wire.served_call import RequestRoom, ServedCall, ServedRequest
from bowstring.wire.stream_limits import StreamLimits, message_bytes_max

CALLS_BESIDE: Final = 100
"""Unary calls that a connection may have under way."""
REFUSALS_MAX: Final = 1000
"""Calls of a connection that may be refused in one second."""
LEAVING_SECONDS: Final = 1.0
"""So long a peer may take to leave after the broker's goodbye, when its calls have ended."""


class Patience(NamedTuple):
    """How long a server waits for its peers, in seconds."""

    preface: float = 10.0
    """For the preface."""
    request: float = 30.0
    """For the request of a unary call that was opened."""
    frame: float = 300.0
    """For the rest of a frame."""
    silent: float = 30.0
    """A peer that is silent for so long is asked whether it is there."""
    patient: float = 20.0
    """So long it may take to answer that."""


PATIENCE: Final = Patience()

Foreign = Callable[[Any, bytes], None]
"""Takes over a transport whose first bytes are these."""


class NativeServer:
    """Serves a handler. Each connection that is accepted gets `connection()` as its protocol."""

    def __init__(
        self,
        handler: Handler,
        limits: StreamLimits,
        *,
        batch_bytes_max: int,
        connections_max: int,
        foreign: Foreign | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self.patience = patience
        self.handler = handler
        self.limits = limits
        self.message_bytes_max = message_bytes_max(batch_bytes_max)
        self.connections_max = connections_max
        self.foreign = foreign
        self.is_stopping = False
        self.connections: dict[ServedConnection, None] = {}
        self.guests: dict[Any, None] = {}
        """Transports that were handed to `foreign` and are open. They count as connections."""
        self.tasks: dict[asyncio.Task[None], None] = {}
        """The calls under way."""
        self._scratch = Scratch()

    def connection(self) -> ServedConnection:
        """The protocol of a new connection."""
        return ServedConnection(asyncio.get_running_loop(), self, self._scratch)

    async def stop(self, grace: float) -> None:
        """Refuses new calls at once, gives those under way `grace` seconds, and cancels what is
        left.
        """
        self.is_stopping = True
        for connection in self.connections:
            connection.say_goodbye()
        if self.tasks:
            _, late = await asyncio.wait(tuple(self.tasks), timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._gone(min(grace, LEAVING_SECONDS))
        for connection in tuple(self.connections):
            connection.close()
        await self._gone(min(grace, CLOSING_SECONDS))
        for connection in tuple(self.connections):
            connection.abort()

    async def _gone(self, seconds: float) -> None:
        """Gives peers time to leave. Calls that were on their way are refused meanwhile: if the
        connection were closed over them, their callers would not learn why.
        """
        if self.connections:
            await asyncio.wait([connection.gone for connection in self.connections], timeout=seconds)


class ServedConnection(NativeConnection):
    """A client's connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: NativeServer, scratch: Scratch) -> None:
        super().__init__(loop, scratch, message_bytes_max=server.message_bytes_max)
        self._server = server
        self._newest = 0
        """The newest call's number."""
        self._requested: dict[int, ServedRequest] = {}
        """Unary calls whose request has not arrived."""
        self._room = RequestRoom(server.message_bytes_max)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The calls that are served."""
        self._streams = 0
        self._refusals = 0
        self._refusals_since = 0.0
        """Calls that were refused since then, which is at most a second ago."""
        self._address = ""
        self._waiting = loop.call_later(server.patience.preface, self._silent)
        self._pulse: Pulse | None = None
        """There is one when the preface has come."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._address = sockets.shown(transport.get_extra_info("peername"))
        if len(self._server.connections) + len(self._server.guests) >= self._server.connections_max:
            self._server.limits.observer.note("client-refused", limit="connections.max", client=self._address)
            self.abort()
        elif self._server.is_stopping:
            self.abort()
        self._server.connections[self] = None

    def lost(self, calls: list[NativeCall]) -> None:
        self._leave()
        for call in calls:
            call.ended(errors.Unavailable("the caller is gone."))
        for task in self._tasks.values():
            task.cancel()

    def _leave(self) -> None:
        """The server has no more to do with this connection."""
        self._server.connections.pop(self, None)
        self._waiting.cancel()
        if self._pulse is not None:
            self._pulse.stop()
        if not self.gone.done():
            self.gone.set_result(None)

    # ---- the beginning

    def _silent(self) -> None:
        self._end(f"it did not say within {self._server.patience.preface:g} s what it speaks")

    def _greet(self, version: int) -> None:
        self._waiting.cancel()
        self._write(frames.PREFACE)
        if version < frames.VERSION:
            error = errors.NotSupported(
                f"this client speaks version {version} of the frames, this broker speaks {frames.VERSION}.", hint="Use a newer client."
            )
            self.send(frames.ERROR, 0, error_messages.to_bytes(error))
            self._end(f"it speaks version {version} of the frames")
            return
        self._pulse = Pulse(self, self._server.patience.silent, self._server.patience.patient, self._look)
        if self._server.is_stopping:
            self.say_goodbye()

    def say_goodbye(self) -> None:
        """Takes no new calls. A peer that has not sent its preface learns of it when it has."""
        if self._pulse is not None:
            self.send(frames.GOODBYE, 0)

    def _foreign(self, first: bytes) -> None:
        if self._server.foreign is None:
            self._end("it speaks another protocol")
            return
        transport, self.transport = self.transport, None
        self.is_over = True
        self._leave()
        self._server.foreign(transport, first)

    def _look(self) -> None:
        """Ends what takes too long."""
        now, patience = self.loop.time(), self._server.patience
        if self.within_since is not None and now - self.within_since > patience.frame:
            self.give_up(f"a frame was not complete after {patience.frame:g} s")
        for call in [call for call in self._requested.values() if now - call.opened > patience.request]:
            self.refuse(call, errors.InvalidArgument(f"the request of this call did not come within {patience.request:g} s."))

    # ---- frames

    def control(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        if kind == frames.OPEN:
            self._open(number, payload)
        elif kind == frames.CANCEL:
            self._cancel(number)
        elif kind == frames.GREETED:
            self._greet(payload[0])
        elif kind == frames.FOREIGN:
            self._foreign(payload)
        elif (call := self.calls.get(number)) is None:
            return
        elif kind == frames.TOO_LARGE:
            length = frames.NUMBER.unpack(payload)[0]
            most = self._message_bytes_max
            self.refuse(call, errors.TooLarge(f"the message has {length} bytes, at most {most} are taken here.", hint="Split the batch."))
        else:
            unknown = flags if kind == frames.UNKNOWN else kind
            self.refuse(
                call, errors.NotSupported(f"this broker takes no frames of kind {unknown}.", hint="Is the client of a later version?")
            )

    def stray(self, number: int) -> None:
        if number > self._newest:
            self.give_up("it sends a message for a call that it has not opened", f"call {number}")

    def side_ended(self, call: NativeCall) -> None:
        request = self._requested.pop(call.number, None)
        if request is None:
            return
        if self._server.is_stopping:
            self._fail(request, errors.Unavailable("the broker is stopping."))
            request.release()
        else:
            self._serve(request, self._answer(request))

    def _open(self, number: int, payload: bytes) -> None:
        if number <= self._newest:
            self.give_up("the numbers of its calls do not rise", f"call {number} after call {self._newest}")
            return
        self._newest = number
        milliseconds = frames.NUMBER.unpack_from(payload)[0]
        deadline = self.loop.time() + milliseconds / 1000 if milliseconds else None
        method = payload[4:].decode("ascii", "replace")
        caller = Caller(address=self._address, transport="native", deadline=deadline)
        try:
            self._admit(number, method, caller)
        except errors.Error as error:
            self._tell(number, self._server.limits.failure(method, caller, error))
            self._count_refusal()

    def _count_refusal(self) -> None:
        if self.heard - self._refusals_since >= 1.0:
            self._refusals, self._refusals_since = 0, self.heard
        self._refusals += 1
        if self._refusals > REFUSALS_MAX:
            self.give_up(f"it opens more than {REFUSALS_MAX} calls a second that are refused")

    def _admit(self, number: int, method: str, caller: Caller) -> None:
        known = CALLS.get(method)
        if self._server.is_stopping:
            raise errors.Unavailable("the broker is stopping.")
        if known is None:
            raise errors.NotSupported(f"this broker does not know the call {method!r}.", hint="Is the client of a later version?")
        if known.stream:
            self._server.limits.begin(method, caller, self._streams)
            self._streams += 1
            stream = self.calls[number] = ServedCall(self, number, method, caller)
            self._serve(stream, self._run(stream))
        elif len(self._tasks) + len(self._requested) - self._streams >= CALLS_BESIDE:
            raise errors.Unavailable(
                f"this connection has {CALLS_BESIDE} calls under way already, which is the limit.", hint="Wait for some."
            )
        else:
            self.calls[number] = self._requested[number] = ServedRequest(self, number, method, caller, self._room)

    def _serve(self, call: ServedCall, serving: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(serving)
        self._tasks[call.number] = task
        self._server.tasks[task] = None
        deadline = call.caller.deadline
        timer = None if deadline is None else self.loop.call_at(deadline, task.cancel)
        task.add_done_callback(partial(self._served, call, timer))

    def _served(self, call: ServedCall, timer: asyncio.TimerHandle | None, task: asyncio.Task[None]) -> None:
        """A call is over. This is a callback and no `finally`: of a task that is cancelled before
        its first step, not even that runs.
        """
        if timer is not None:
            timer.cancel()
        if task.cancelled():
            self._fail(call, call.cancelled())
        if isinstance(call, ServedRequest):
            call.release()
        else:
            self._server.limits.end(call.method, call.caller)
            self._streams -= 1
        del self._tasks[call.number]
        del self._server.tasks[task]

    def _cancel(self, number: int) -> None:
        self.calls.pop(number, None)
        if (request := self._requested.pop(number, None)) is not None:
            request.release()
        if (task := self._tasks.get(number)) is not None:
            task.cancel()

    # ---- serving

    async def _answer(self, call: ServedRequest) -> None:
        """Serves a unary call."""
        try:
            answer = await self._server.handler.call(call.method, call.request(), call.caller)
            if self._finish(call):
                self.send_message(call.number, answer, frames.LAST)
        except asyncio.CancelledError:
            self._fail(call, call.cancelled())
            raise
        except Exception as error:
            self._fail(call, error)

    async def _run(self, call: ServedCall) -> None:
        """Serves a stream."""
        try:
            await self._server.handler.stream(call.method, call, call.caller)
            if self._finish(call):
                self.send(frames.END, call.number)
        except asyncio.CancelledError:
            self._fail(call, call.cancelled())
            raise
        except Exception as error:
            self._fail(call, error)

    def _finish(self, call: NativeCall) -> bool:
        """Nothing more goes out in this call. False if its caller has gone."""
        return self.calls.pop(call.number, None) is not None and not self.is_over

    def _fail(self, call: ServedCall, error: Exception) -> None:
        """Ends a call with an error. A bug is logged even if its caller has gone."""
        waits = self._finish(call)
        if waits or not isinstance(error, errors.Error):
            shown = self._server.limits.failure(call.method, call.caller, error)
            if waits:
                self._tell(call.number, shown)

    def _tell(self, number: int, error: errors.Error) -> None:
        self.send(frames.ERROR, number, error_messages.to_bytes(error))

    def refuse(self, call: NativeCall, error: errors.Error) -> None:
        assert isinstance(call, ServedCall)
        self._fail(call, error)
        self._cancel(call.number)

    def give_up(self, why: str, more: str = "") -> None:
        said = f"this connection breaks the protocol: {why} ({more})." if more else f"this connection breaks the protocol: {why}."
        self._tell(0, errors.InvalidArgument(said, hint="docs/protocol.md has the rules."))
        self._end(why)

    def _end(self, why: str) -> None:
        self._server.limits.observer.note("connection-refused", problem=why, client=self._address)
        self.close()
