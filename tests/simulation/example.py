"""The smallest world with everything in it, to read and to copy: a server that keeps what it is
told in SQLite and in a file, a client that repeats every call until it is answered, and a nemesis.
At the end everything that was acknowledged must be there.

    python -m tests.simulation.example 42 10

runs ten seeds from 42 on, and prints the digest of each and what happened to it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import apsw

from bowstring import errors
from bowstring.ports.disk import File
from bowstring.ports.failures import StorageFailed
from bowstring.ports.transport import Caller, Inbound
from tests.simulation.disk import SimulatedDisk
from tests.simulation.nemesis import Nemesis
from tests.simulation.node import Incarnation
from tests.simulation.options import Options, drawn
from tests.simulation.processes import each
from tests.simulation.world import World

ADDRESS = "server:1"
SECONDS = 30.0
BLOCK = 512


def opened(disk: SimulatedDisk, *, synchronous: str = "FULL") -> apsw.Connection:
    """A database whose commits are durable, unless `synchronous` says otherwise."""
    connection = apsw.Connection("catalog.db", vfs=disk.vfs)
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("synchronous", "EXTRA" if synchronous == "FULL" else synchronous)
    connection.pragma("journal_mode", "WAL")
    connection.pragma("schema_version")
    disk.sync_directory_now()
    connection.pragma("synchronous", synchronous)
    connection.execute("create table if not exists told (number integer primary key, filler blob)")
    connection.wal_checkpoint()
    return connection


def stored(connection: apsw.Connection) -> set[int]:
    return {number for (number,) in connection.execute("select number from told")}


class Server:
    """The handler. A number is written to the file, synced, committed to SQLite, and only then
    acknowledged.
    """

    def __init__(self, life: Incarnation, connection: apsw.Connection, file: File) -> None:
        self._worker = life.worker()
        self._connection = connection
        self._file = file
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        number = int(request)
        try:
            self._file.write(number * BLOCK, [request.ljust(BLOCK)])
            await self._file.sync()
            await self._worker.run(lambda: self._insert(number))
        except (OSError, apsw.Error) as error:
            if not self.failed.done():
                self.failed.set_result(error)
            raise errors.Unavailable("storage failed") from None
        return request

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        while (message := await inbound.read()) is not None:
            await inbound.write(await self.call(method, message, caller))

    def _insert(self, number: int) -> None:
        self._connection.execute("insert or ignore into told values (?, zeroblob(?))", (number, number % 3000))


async def serve(life: Incarnation) -> None:
    """The server's process. Any failure of its disk ends it."""
    worker = life.worker()
    try:
        connection = await worker.run(lambda: opened(life.disk))
        made = "numbers" in life.disk.names()
        file = await (life.disk.open("numbers") if made else life.disk.create("numbers", 4 << 20))
        await life.disk.sync_directory()
    except (OSError, apsw.Error) as error:
        raise StorageFailed(str(error)) from error
    server = Server(life, connection, file)
    life.listen(ADDRESS, server)
    raise StorageFailed(str(await server.failed))


async def tell(life: Incarnation, numbers: Iterator[int], acknowledged: list[int]) -> None:
    """The client's process: by single calls, and now and then by a stream."""
    channel = life.dialer.dial(ADDRESS)
    for number in numbers:
        done = False
        while not done:
            try:
                if number % 2:
                    done = int(await channel.call("CommitPosition", b"%d" % number, 5.0)) == number
                else:
                    stream = channel.stream("Publish")
                    await stream.write(b"%d" % number)
                    async with asyncio.timeout(5.0):
                        done = int(await stream.read() or 0) == number
                    await stream.end()
            except (errors.Unavailable, TimeoutError):
                await life.clock.sleep(0.05 + 0.1 * life.randomness.unit())
        acknowledged.append(number)
        life.world.digest.note(f"history {life.name} acknowledged {number}")
        await life.clock.sleep(0.1 * life.randomness.unit())


async def everything(world: World) -> list[int]:
    """Faults, healing, and the check."""
    server = world.node("server", may_raise=(StorageFailed,))
    client = world.node("client", disk=False)
    acknowledged: list[int] = []
    numbers = iter(range(1, 5_000))
    server.start(serve)
    client.start(lambda life: tell(life, numbers, acknowledged))
    nemesis = Nemesis(world)
    await nemesis.run(SECONDS)
    await asyncio.sleep(SECONDS)
    nemesis.stop()
    told = list(acknowledged)
    server.power_cut()
    found: list[set[int]] = []
    last = server.start(lambda life: _look(life, found))
    await last.ended
    assert found, f"what is left cannot be read: {last.failure!r}"
    missing = sorted(set(told) - found[0])
    assert not missing, f"acknowledged, and lost: {missing}"
    return told


async def _look(life: Incarnation, found: list[set[int]]) -> None:
    numbers = stored(await life.worker().run(lambda: opened(life.disk)))
    file = await life.disk.open("numbers")
    for number in sorted(numbers):
        assert await file.read(number * BLOCK, BLOCK) == (b"%d" % number).ljust(BLOCK), f"the bytes of {number} are lost"
    found.append(numbers)


def run(seed: int, options: Options | None = None) -> World:
    world = World(seed, drawn(seed) if options is None else options)
    told = world.run(everything)
    world.reached["acknowledged"] = len(told)
    return world


def main(first: int, seeds: int) -> None:
    for outcome in each(range(first, first + seeds), _summary, jobs=2):
        print(json.dumps({"seed": outcome.seed, "error": outcome.error, **(outcome.value or {})}))


def _summary(seed: int) -> dict[str, object]:
    world = run(seed)
    return {"digest": world.digest.value(), "faults": world.faults, "reached": world.reached, "options": str(world.options)}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
