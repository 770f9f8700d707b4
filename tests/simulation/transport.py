"""The caller's side of `ports.transport` on the simulated network.

It behaves as gRPC's does where the port leaves it open: a channel connects when it is used, and again after a break; a call without an
answer in time is `Unavailable`, or `OutcomeUnknown` where repeating it might do something twice; cancelling a task that waits in a
stream's `read` or `write` cancels the whole call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.ports.calls import is_repeatable
from bowstring.ports.disk import Buffer
from tests.simulation.network import Connection, Exchange
from tests.simulation.pipe import Kind

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation


class SimulatedDialer:
    """`ports.transport.Dialer` of one incarnation."""

    def __init__(self, life: Incarnation) -> None:
        self._life = life

    def dial(self, address: str) -> SimulatedChannel:
        return SimulatedChannel(self._life, address)


class SimulatedChannel:
    """`ports.transport.Channel`."""

    def __init__(self, life: Incarnation, address: str) -> None:
        self.life = life
        self.address = address
        self._loop = life.world.loop
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._streams: list[SimulatedStream] = []
        self._closed = False

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                exchange = (await self.connected()).open(method, unary=True, seconds=seconds)
                exchange.up.send(Kind.MESSAGE, bytes(request))
                exchange.up.send(Kind.END)
                answer = await exchange.down.read()
        except TimeoutError:
            if exchange is not None:
                exchange.cancel()
            raise _no_answer(method, exchange is not None) from None
        except asyncio.CancelledError:
            if exchange is not None:
                exchange.cancel()
            raise
        if answer is None:
            raise AssertionError(f"{method} ended without an answer")
        return answer

    def stream(self, method: str) -> SimulatedStream:
        self._streams = [stream for stream in self._streams if not stream.done]
        stream = SimulatedStream(self, method)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        if self.life.dead:
            await self._loop.never()
        self._closed = True
        for stream in self._streams:
            stream.cancel()
        if self._connection is not None and not self._connection.client_knows:
            self._connection.sever(0.0, self.life.world.network.delay())

    async def connected(self) -> Connection:
        """A connection that is not known to be broken; callers that come while it is being made share it."""
        if self.life.dead:
            await self._loop.never()
        if self._closed:
            raise errors.Unavailable(f"The channel to {self.address} is closed.")
        if self._connection is not None and not self._connection.client_knows:
            return self._connection
        if self._connecting is None or self._connecting.done():
            self._connecting = self._loop.create_task(self._connect(), name=f"connect to {self.address}")
            self._connecting.add_done_callback(_looked_at)
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Connection:
        self._connection = await self.life.world.network.connect(self.life, self.address)
        return self._connection


class SimulatedStream:
    """`ports.transport.Stream`. It is opened at once, in the background."""

    def __init__(self, channel: SimulatedChannel, method: str) -> None:
        self._life = channel.life
        self._cancelled = False
        self._opening = channel.life.world.loop.create_task(self._open(channel, method), name=f"open {method}")
        self._opening.add_done_callback(_looked_at)

    @property
    def done(self) -> bool:
        """Whether nothing more happens here."""
        if self._cancelled:
            return True
        if not self._opening.done():
            return False
        return self._opening.exception() is not None or not self._opening.result().open

    async def write(self, message: Buffer) -> None:
        try:
            await (await self._exchange()).up.write(message)
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def read(self) -> bytes | None:
        try:
            return await (await self._exchange()).down.read()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def end(self) -> None:
        (await self._exchange()).up.send(Kind.END)

    def cancel(self) -> None:
        if self._cancelled or self._life.dead:
            return
        self._cancelled = True
        if self._opening.done() and self._opening.exception() is None:
            self._opening.result().cancel()

    async def _open(self, channel: SimulatedChannel, method: str) -> Exchange:
        connection = await channel.connected()
        if self._cancelled:
            raise errors.Unavailable("This stream was cancelled here.")
        return connection.open(method, unary=False)

    async def _exchange(self) -> Exchange:
        if self._cancelled:
            raise errors.Unavailable("This stream was cancelled here.")
        return self._opening.result() if self._opening.done() else await asyncio.shield(self._opening)


def _looked_at(task: asyncio.Task[object]) -> None:
    """Whoever waits for the task is told its error; that nobody may wait any more is no bug."""
    if not task.cancelled():
        task.exception()


def _no_answer(method: str, sent: bool) -> errors.Error:
    if sent and not is_repeatable(method):
        return errors.OutcomeUnknown("There was no answer in time, so it may or may not have been done.", hint="Look, then repeat.")
    return errors.Unavailable("There was no answer in time.", hint="Wait and repeat.")
