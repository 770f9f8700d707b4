"""A consumer's stream to its broker, and the streams that replace it.

A stream begins with what its host wants to say first (`opening`): who the consumer is, what it holds,
and everything that the broker has not answered. What comes later is written in the step in which it
was made, and an answer is taken in the step in which it arrives; no task wakes for either. Where the
transport would have to wait, the writing task waits, in order.

A broken stream is opened anew, for as long as the consumer lives. Any error but `Unavailable` ends
the consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Protocol

from bowstring import errors
from bowstring.client.connection import Connection, Pauses
from bowstring.client.stream_ends import why
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Stream
from bowstring.wire.generated import bowstring_pb2 as pb


class StreamHost(Protocol):
    """The consumer's side of it."""

    def opening(self) -> list[pb.ConsumeRequest]:
        """The first requests of a stream."""
        ...

    def answered(self, message: Buffer) -> None:
        """An answer has come."""
        ...

    def broken(self) -> None:
        """The stream is broken; it is opened anew."""
        ...

    def fail(self, error: errors.Error) -> None:
        """The consumer has ended."""
        ...


class ConsumeStream:
    """One consumer's way to its broker."""

    def __init__(self, connection: Connection, host: StreamHost, name: str) -> None:
        self._connection = connection
        self._host = host
        self.pauses = Pauses(connection.world)
        self.connections = 0
        """How many streams were opened."""
        self._stream: Stream | None = None
        self._unwritten: deque[bytes] = deque()
        """What waits for the writing task, in order."""
        self._writable = asyncio.Event()
        self._over = asyncio.Event()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name=f"bowstring consumer {name}")

    def send(self, request: pb.ConsumeRequest) -> None:
        """Writes a request, now or behind those that wait."""
        stream = self._stream
        if stream is None:
            return
        message = request.SerializeToString()
        if self._unwritten or not stream.try_write(message):
            self._unwritten.append(message)
            self._writable.set()

    async def finish(self, seconds: float, *, leaving: bool) -> None:
        """Ends this side well, behind everything that waits, and waits for the broker's end. A
        consumer that is `leaving` has settled all that it had: whatever is still on its way to it is
        given back.
        """
        if leaving:
            self.send(pb.ConsumeRequest(leaving=True))
        self._closing = True
        self._writable.set()
        if self._stream is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._over.wait()

    async def close(self) -> None:
        """Ends the stream and its connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    await self._serve()
                except errors.Unavailable as error:
                    self._host.broken()
                    if (ended := self._connection.given_up(error)) is not None:
                        raise ended from None
                    if not self._closing:
                        await self.pauses.wait()
        except errors.Error as error:
            self._host.fail(error)
        except Exception as error:
            self._host.fail(errors.Error(f"the consumer has failed in a way that nobody foresaw: {error!r}."))
            raise
        finally:
            self._over.set()

    async def _serve(self) -> None:
        """Opens a stream and uses it until it breaks."""
        await self._connection.hello()
        stream = self._connection.channel.stream("Consume")
        self.connections += 1
        self._unwritten = deque(request.SerializeToString() for request in self._host.opening())
        self._stream = stream
        reading = self._loop.create_task(self._read(stream))
        writing = self._loop.create_task(self._write(stream))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream = None
            stream.cancel()
            reading.cancel()
            writing.cancel()
            ends = await asyncio.gather(reading, writing, return_exceptions=True)
        raise why(ends)

    async def _read(self, stream: Stream) -> None:
        await stream.each(self._host.answered)
        raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")

    async def _write(self, stream: Stream) -> None:
        """Writes what `send` has left. A message keeps its place until it is written: nothing
        overtakes it.
        """
        while True:
            while self._unwritten:
                await stream.write(self._unwritten[0])
                self._unwritten.popleft()
            if self._closing:
                await stream.end()
            self._writable.clear()
            await self._writable.wait()
