"""A stream of values, as a session sees a call, with a codec between it and the transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from bowstring.ports.codec import CallForm
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Inbound, Pieces

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class ValueStream(Generic[Request, Reply]):
    """Reads requests and writes replies. Like the transport below, it reads nothing ahead."""

    __slots__ = ("_decode", "_each", "_encode", "_read", "request_bytes", "send", "try_send")

    def __init__(self, inbound: Inbound, form: CallForm) -> None:
        self._read = inbound.read
        self._each = inbound.each
        self._decode = form.decode
        self._encode = form.encode
        self.try_send: Callable[[Buffer | Pieces], bool] = inbound.try_write
        """Sends the message of a reply if that needs no waiting."""
        self.send: Callable[[Buffer | Pieces], Awaitable[None]] = inbound.write
        """Sends the message of a reply; waits while the caller is slow."""
        self.request_bytes = 0
        """The size of the message that was read last."""

    async def read(self) -> Request | None:
        """Gives the next request, or None when the caller has ended its side. Raises
        InvalidArgument for anything but a request.
        """
        message = await self._read()
        if message is None:
            return None
        self.request_bytes = len(message)
        return self._decode(message)

    async def each(self, take: Callable[[Request], Awaitable[None] | None]) -> None:
        """Hands every request to `take` until the caller has ended its side. If `take` returns
        something to wait for, the next request comes after that.
        """
        decode = self._decode

        def decoded(message: Buffer) -> Awaitable[None] | None:
            self.request_bytes = len(message)
            return take(decode(message))

        await self._each(decoded)

    def encoded(self, reply: Reply) -> Buffer | Pieces:
        """The message of a reply, for `try_send` and `send`."""
        return self._encode(reply)

    def try_write(self, reply: Reply) -> bool:
        """Sends one reply if that needs no waiting."""
        return self.try_send(self._encode(reply))

    async def write(self, reply: Reply) -> None:
        """Sends one reply; waits while the caller is slow."""
        message = self._encode(reply)
        if not self.try_send(message):
            await self.send(message)
