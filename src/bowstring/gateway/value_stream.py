"""A stream of values, as a session sees a call, with a codec between it and the transport."""

from __future__ import annotations

from typing import Generic, TypeVar

from bowstring.ports.codec import CallForm
from bowstring.ports.transport import Inbound

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class ValueStream(Generic[Request, Reply]):
    """Reads requests and writes replies. Like the transport below, it reads nothing ahead."""

    __slots__ = ("_decode", "_encode", "_read", "_write", "request_bytes")

    def __init__(self, inbound: Inbound, form: CallForm) -> None:
        self._read = inbound.read
        self._write = inbound.write
        self._decode = form.decode
        self._encode = form.encode
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

    async def write(self, reply: Reply) -> None:
        """Sends one reply; waits while the caller is slow."""
        await self._write(self._encode(reply))
