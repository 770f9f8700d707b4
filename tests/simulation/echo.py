"""A server that answers with what it was sent, and a client that takes some steps: for tests of the network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bowstring import errors
from bowstring.ports.transport import Caller, Channel, Inbound
from tests.simulation.network import Connection
from tests.simulation.node import Incarnation, Node
from tests.simulation.options import Options
from tests.simulation.world import World

ADDRESS = "server:1"
ECHO, REFUSE, FAIL, SLOW = "Hello", "DescribeTopic", "ListTopics", "WatchTopics"
"""Calls with one answer, under names that the transport knows."""
ECHOES, DEAF, REFUSES = "Publish", "Fetch", "Backup"
"""Streams."""


class Echo:
    """Answers with what it was sent, and remembers what became of its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.callers: list[Caller] = []

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        self.callers.append(caller)
        self.told.append(f"{method} began")
        try:
            if method == REFUSE:
                raise errors.TopicNotFound("there is no such topic.", hint="Make it.", details={"topic": "t"})
            if method == FAIL:
                raise ZeroDivisionError("unforeseen")
            if method == SLOW:
                await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            self.told.append(f"{method} cancelled")
            raise
        self.told.append(f"{method} ended")
        return request + b"!"

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self.callers.append(caller)
        try:
            while (message := await inbound.read()) is not None:
                if method == DEAF:
                    await asyncio.Event().wait()
                if method == REFUSES:
                    raise errors.OutOfRange("beyond the end.")
                await inbound.write(message)
            self.told.append("stream ended")
        except asyncio.CancelledError:
            self.told.append("stream cancelled")
            raise
        except errors.Unavailable:
            self.told.append("stream broken")
            raise


Steps = Callable[[World, Incarnation, Channel], Awaitable[None]]


def run(steps: Steps, options: Options | None = None, seed: int = 1) -> tuple[World, Echo]:
    """A server with an echo, and a client's process that takes the steps."""
    world, echo = World(seed, options), Echo()

    async def serve(life: Incarnation) -> None:
        life.listen(ADDRESS, echo)
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        world.node("server").start(serve)
        await asyncio.sleep(0.01)
        life = world.node("client", disk=False).start(lambda life: steps(world, life, life.dialer.dial(ADDRESS)))
        await life.ended

    world.run(main)
    return world, echo


def server(world: World) -> Node:
    return world.nodes[0]


def only_connection(world: World) -> Connection:
    (connection,) = world.network.connections
    return connection
