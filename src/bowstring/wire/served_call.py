"""A call as the broker sees it that serves it over native frames: a stream, or one request.

The bytes of requests that are not answered are bounded for each connection (`RequestRoom`): unary
calls have no window that would do so.
"""

from __future__ import annotations

from bowstring import errors
from bowstring.ports.calls import is_repeatable
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Inbound
from bowstring.wire.native_call import NativeCall
from bowstring.wire.native_connection import TO_BROKER_BYTES, TO_CALLER_BYTES, NativeConnection


class RequestRoom:
    """The bytes of a connection's requests that are not answered."""

    __slots__ = ("bytes_max", "held")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0


class ServedCall(NativeCall, Inbound):
    """A stream as its handler sees it."""

    __slots__ = ("caller", "method", "opened")

    def __init__(self, connection: NativeConnection, number: int, method: str, caller: Caller) -> None:
        super().__init__(connection.loop, window=TO_BROKER_BYTES, credit=TO_CALLER_BYTES)
        self.connection = connection
        self.number = number
        self.method = method
        self.caller = caller
        self.opened = connection.loop.time()

    def cancelled(self) -> errors.Error:
        """The error of a call that the broker cancels: its time is over, or the broker stops."""
        return errors.Unavailable("the broker has cancelled this stream.", hint="Wait and repeat.")


class ServedRequest(ServedCall):
    """A unary call."""

    __slots__ = ("_requests", "_size")

    def __init__(self, connection: NativeConnection, number: int, method: str, caller: Caller, room: RequestRoom) -> None:
        super().__init__(connection, number, method, caller)
        self._requests = room
        self._size = 0

    def received(self, message: Buffer, last: bool) -> errors.Error | None:
        if self._inbox or self._ended:
            return errors.InvalidArgument(f"{self.method} takes one request, more came.", hint="Open a call for each.")
        room, size = self._requests, len(message)
        if room.held and room.held + size > room.bytes_max:
            return errors.Unavailable(
                f"the requests of this connection that are not answered have {room.held} bytes already.", hint="Wait for some."
            )
        room.held += size
        self._size = size
        return super().received(message, last)

    def request(self) -> bytes:
        """The request, when the caller has sent everything."""
        if not self._inbox:
            raise errors.InvalidArgument(f"{self.method} takes one request, none came.")
        return bytes(self._inbox.popleft())

    def release(self) -> None:
        """The request is answered, or given up."""
        self._requests.held -= self._size
        self._size = 0

    def cancelled(self) -> errors.Error:
        if is_repeatable(self.method):
            return errors.Unavailable("the broker has cancelled this call.", hint="Wait and repeat.")
        return errors.OutcomeUnknown("the broker has ended before it could answer.", hint="Look, then repeat.")
