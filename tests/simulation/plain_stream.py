"""A stream as the plain kit uses it: by the plain way of the port or by the fast one, at random."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import TYPE_CHECKING

from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Stream

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation


async def write(stream: Stream, message: bytes) -> None:
    """At once if that needs no waiting."""
    if not stream.try_write(message):
        await stream.write(message)


async def messages(stream: Stream, life: Incarnation) -> AsyncGenerator[Buffer]:
    """The messages of a stream, by one or the other way of reading it."""
    if life.randomness.unit() < 0.5:
        while (message := await stream.read()) is not None:
            yield message
        return
    came: asyncio.Queue[Buffer | None] = asyncio.Queue()

    def take(message: Buffer) -> Awaitable[None] | None:
        """After every other message the stream waits until all were looked at."""
        came.put_nowait(message)
        return came.join() if life.randomness.unit() < 0.5 else None

    reading = asyncio.create_task(stream.each(take))
    reading.add_done_callback(lambda _: came.put_nowait(None))
    try:
        while (message := await came.get()) is not None:
            yield message
            came.task_done()
        await reading
    finally:
        reading.cancel()
        reading.add_done_callback(_looked_at)


def _looked_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
