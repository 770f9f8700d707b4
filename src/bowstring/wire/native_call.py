"""One end of one call over the native transport: the messages that came, and the credit of both
directions.

**Credit.** Each direction of a call has a window of bytes. A side sends while its credit is above
zero, so it overdraws it by one message at the most; a message costs its length and `MESSAGE_COST`.
The receiver returns credit for messages that its program has taken, in steps of half a window. So
the unread bytes of a call are bounded by its window and one message, and a slow receiver holds up
its own call only. A side that sends without credit breaks the rules, and its call ends.

**Two ways to receive.** `read` gives one message to a task that waits. `each` hands messages to a
function in the step in which they arrive; while something that the function has returned is under
way, messages wait as they do for `read`.

An error comes after the messages that arrived before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Duplex, Pieces, Take

if TYPE_CHECKING:
    from bowstring.wire.native_connection import NativeConnection

MESSAGE_COST: Final = 256
"""What a message costs beside its bytes, so that empty ones are not free."""
CREDIT_MAX: Final = 2**31 - 1
READS_IN_A_ROW: Final = 64
"""So many messages are read without letting other tasks run."""


class NativeCall(Duplex):
    """What both ends of a call do."""

    __slots__ = (
        "_credit",
        "_ended",
        "_error",
        "_finished",
        "_held",
        "_in_a_row",
        "_inbox",
        "_owed",
        "_reader",
        "_take",
        "_unread",
        "_window",
        "_writers",
        "connection",
        "loop",
        "number",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, *, window: int, credit: int) -> None:
        self.loop = loop
        self.connection: NativeConnection | None = None
        self.number = 0
        self._window = window
        """How many bytes the other side may send ahead."""
        self._unread = 0
        """Bytes that came and whose credit was not returned."""
        self._owed = 0
        """Of these, what the program has taken."""
        self._credit = credit
        self._inbox: deque[Buffer] = deque()
        self._ended = False
        """The other side sends nothing more."""
        self._finished = False
        """This side sends nothing more."""
        self._error: errors.Error | None = None
        self._in_a_row = 0
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        """Those who wait for room, in the order in which they send."""
        self._take: Take | None = None
        self._held: asyncio.Future[None] | None = None
        """What the function of `each` waits for."""

    # ---- what the connection reports

    def received(self, message: Buffer, last: bool) -> errors.Error | None:
        """A message came. Gives the error of one that should not have come."""
        if self._unread >= self._window:
            return errors.InvalidArgument("a message came without credit.", hint="Send while the credit of the call is above zero.")
        if self._ended:
            return errors.InvalidArgument("a message came after the end.", hint="Send nothing after END, or after the flag LAST.")
        self._unread += len(message) + MESSAGE_COST
        self._ended = last
        if self._take is not None and self._held is None and not self._inbox and not last:
            self._hand_over(self._take, message)
            return None
        self._inbox.append(message)
        self._wake_reader()
        return None

    def ended(self, error: errors.Error | None = None) -> None:
        """Nothing more comes."""
        self._ended = True
        if self._error is None:
            self._error = error
        self._wake_reader()
        self.wake_writers()

    def granted(self, credit: int) -> bool:
        """The other side has taken so many bytes. False for a credit that cannot be."""
        if not credit or self._credit + credit > CREDIT_MAX:
            return False
        self._credit += credit
        self.wake_writers()
        return True

    def wake_writers(self) -> None:
        """The first of those who wait for room looks again; the others wait behind it."""
        if self._writers and not self._writers[0].done():
            self._writers[0].set_result(None)

    def _wake_reader(self) -> None:
        if self._take is not None:
            self._drain()
        elif self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # ---- reading

    async def read(self) -> Buffer | None:
        inbox = self._inbox
        if inbox:
            self._in_a_row += 1
            if self._in_a_row > READS_IN_A_ROW:
                self._in_a_row = 0
                await asyncio.sleep(0)
        while not inbox:
            self._in_a_row = 0
            if self._error is not None:
                raise again(self._error)
            if self._ended:
                return None
            self._reader = self.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = inbox.popleft()
        self._taken(message)
        return message

    async def each(self, take: Take) -> None:
        reader: asyncio.Future[None] = self.loop.create_future()
        self._take, self._reader = take, reader
        self._drain()
        try:
            await reader
        finally:
            self._take = self._reader = None
            if self._held is not None:
                self._held.cancel()
                self._held = None

    def _drain(self) -> None:
        """Hands over what has arrived, then the end."""
        take, reader = self._take, self._reader
        if take is None or reader is None:
            return
        while self._inbox and self._held is None and self._take is not None:
            self._hand_over(take, self._inbox.popleft())
        if self._inbox or self._held is not None or reader.done():
            return
        if self._error is not None:
            reader.set_exception(again(self._error))
        elif self._ended:
            reader.set_result(None)

    def _hand_over(self, take: Take, message: Buffer) -> None:
        self._taken(message)
        try:
            waiting = take(message)
        except Exception as error:
            self._fail_reader(error)
            return
        if waiting is not None:
            self._held = asyncio.ensure_future(waiting, loop=self.loop)
            self._held.add_done_callback(self._released)

    def _released(self, held: asyncio.Future[None]) -> None:
        if self._held is not held:
            return
        self._held = None
        if held.cancelled():
            self._fail_reader(errors.Unavailable("what this call waited for was cancelled."))
        elif (error := held.exception()) is not None:
            self._fail_reader(error)
        self._drain()

    def _fail_reader(self, error: BaseException) -> None:
        self._take = None
        if self._reader is not None and not self._reader.done():
            self._reader.set_exception(error)

    def _taken(self, message: Buffer) -> None:
        """The program has this message: its credit goes back, in steps."""
        self._owed += len(message) + MESSAGE_COST
        if self._owed * 2 >= self._window and not self._ended and self.connection is not None:
            self._unread -= self._owed
            self.connection.send_credit(self.number, self._owed)
            self._owed = 0

    # ---- writing

    def try_write(self, message: Buffer | Pieces) -> bool:
        return not self._writers and self._try_write(message)

    async def write(self, message: Buffer | Pieces) -> None:
        if not self.try_write(message):
            await self._in_turn(lambda: self._try_write(message))

    def _try_write(self, message: Buffer | Pieces) -> bool:
        connection = self.connection
        if connection is None or self._credit <= 0 or not connection.writable or not self._may_write():
            return False
        self._credit -= connection.send_message(self.number, message) + MESSAGE_COST
        return True

    async def _in_turn(self, send: Callable[[], bool]) -> None:
        """Sends when there is room, behind those who wait already. A writer keeps its place until
        it has sent: nothing overtakes one that was woken and has not run yet.
        """
        writer: asyncio.Future[None] = self.loop.create_future()
        self._writers.append(writer)
        try:
            while self._writers[0] is not writer:
                await writer
            while not send():
                self._check_writable()
                writer = self._writers[0] = self.loop.create_future()
                if self.connection is not None and not self.connection.writable:
                    self.connection.blocked[self] = None
                await writer
        finally:
            self._writers.remove(writer)
            self.wake_writers()

    def _may_write(self) -> bool:
        """Whether this side may still send."""
        return self._error is None and not self._finished

    def _check_writable(self) -> None:
        """Raises why this side cannot send any more."""
        if self._error is not None:
            raise again(self._error)
        if self._finished:
            raise errors.Error("this stream was ended here, nothing more can be written to it.")


def again(error: errors.Error) -> errors.Error:
    """The same error as a new object: raising writes into it."""
    return type(error)(error.message, hint=error.hint, details=error.details)
