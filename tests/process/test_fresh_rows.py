"""Rows go to a reader that follows in the step of their commit, if its transport takes them without waiting; else its task sends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bowstring.messages import encoding
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import NOBODY, Channel, Inbound, Pieces, joined
from bowstring.server import Server
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import small_server
from tests.process import wire_calls as wire

server = small_server.server
channel = small_server.channel


class Follower(Inbound):
    """A reader in this process. It takes `room` messages without waiting, and then one a turn."""

    def __init__(self, *requests: pb.FetchRequest, room: int = 1000) -> None:
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        for request in requests:
            self.ask(request)
        self.room = room
        self.values: list[bytes] = []
        self.pieces: list[int] = []
        """Of how many pieces each answer was."""
        self.writers: list[asyncio.Task[Any] | None] = []
        """The task that sent each answer."""
        self._came = asyncio.Event()

    def ask(self, request: pb.FetchRequest) -> None:
        self._requests.put_nowait(request.SerializeToString())

    async def read(self) -> bytes:
        return await self._requests.get()

    def try_write(self, message: Buffer | Pieces) -> bool:
        if self.room <= 0:
            return False
        self.room -= 1
        self._take(message)
        return True

    async def write(self, message: Buffer | Pieces) -> None:
        await asyncio.sleep(0)
        self._take(message)

    def _take(self, message: Buffer | Pieces) -> None:
        header, batch = split(joined(message))
        if batch is not None:
            self.pieces.append(len(message) if isinstance(message, tuple) else 1)
            self.writers.append(asyncio.current_task())
            self.values += encoding.decode(pb.FetchAnswer.FromString(header).columns, batch).column("value").to_pylist()
            self._came.set()

    async def has(self, count: int) -> list[bytes]:
        async with asyncio.timeout(wire.SECONDS):
            while len(self.values) < count:
                self._came.clear()
                await self._came.wait()
        return self.values


def opening(*partitions: int, credit: int = 1 << 20, notices: bool = True) -> pb.FetchRequest:
    froms = [pb.FetchFrom(partition=number, offset=1) for number in partitions]
    return pb.FetchRequest(open=pb.FetchOpen(topic="orders", partitions=froms, notices=notices), credit=credit)


async def waiting(server: Server, partitions: int = 1) -> None:
    """Until a reader waits in every partition."""
    async with asyncio.timeout(wire.SECONDS):
        actors = server.broker._incarnation.topics.topic("orders").actors  # type: ignore[union-attr]
        while sum(len(actor.readers) for actor in actors) < partitions:  # noqa: ASYNC110 (no event tells it)
            await asyncio.sleep(0)


async def test_a_reader_that_follows_gets_rows_in_the_step_of_their_commit(server: Server, channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    follower = Follower(opening(0))
    session = asyncio.create_task(server._gateway.stream("Fetch", follower, NOBODY))
    await waiting(server)
    for number, value in enumerate((b"a", b"b", b"c"), 1):
        await wire.publish(stream, number, [value])
        assert await follower.has(number) == [b"a", b"b", b"c"][:number]
        await waiting(server)
    assert follower.pieces == [2, 2, 2], "a batch is not copied behind its header"
    names = {writer.get_coro().__qualname__ for writer in follower.writers if writer is not None}  # type: ignore[union-attr]
    assert names == {"Flusher._commit_flush"}, "a task had to wake up"
    session.cancel()


@pytest.mark.parametrize("room", [0, 1, 2])
async def test_rows_that_the_transport_does_not_take_come_later_once_and_in_order(server: Server, channel: Channel, room: int):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    follower = Follower(opening(0), room=room)
    session = asyncio.create_task(server._gateway.stream("Fetch", follower, NOBODY))
    await waiting(server)
    values = [b"%d" % number for number in range(1, 40)]
    for number, value in enumerate(values, 1):
        await stream.write(wire.request(number, encoding.encode_values([value])))
    assert await follower.has(len(values)) == values
    session.cancel()


async def test_without_credit_rows_wait_for_it(server: Server, channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    follower = Follower(opening(0, credit=1))
    session = asyncio.create_task(server._gateway.stream("Fetch", follower, NOBODY))
    await waiting(server)
    for number, value in enumerate((b"a", b"b"), 1):
        await wire.publish(stream, number, [value])
    assert await follower.has(1) == [b"a"], "one batch may overdraw the credit, no more"
    follower.ask(pb.FetchRequest(credit=1 << 20))
    assert await follower.has(2) == [b"a", b"b"]
    await waiting(server)
    await wire.publish(stream, 3, [b"c"])
    assert await follower.has(3) == [b"a", b"b", b"c"]
    session.cancel()


async def test_a_reader_of_several_partitions_misses_none(server: Server, channel: Channel):
    await wire.create(channel, "orders", partitions=3)
    stream = await wire.open_publish(channel, "orders")
    follower = Follower(opening(0, 1, 2), room=7)
    session = asyncio.create_task(server._gateway.stream("Fetch", follower, NOBODY))
    await waiting(server, 3)
    for number in range(1, 31):
        batch = encoding.encode_values([b"%d" % number])
        await stream.write(wire.request(number, batch, previous=max(0, number - 3), partition=number % 3))
    found = await follower.has(30)
    for partition in range(3):
        mine = [int(value) for value in found if int(value) % 3 == partition]
        assert mine == [number for number in range(1, 31) if number % 3 == partition]
    session.cancel()
