"""The broker as a process of the simulated world, watched from outside.

`bowstring.assembly` puts the product's own code together, as it does for `bowstring.server`, here on simulated ports. A witness and a
handler around the gateway look on, and tell the `watch`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.assembly import assemble
from bowstring.broker.broker import Broker
from bowstring.catalog.sqlite import copy
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import offset_set
from bowstring.gateway.gateway import Gateway
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.ports.transport import Caller, Handler, Inbound
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.simulation.backing_up import PAGES_A_STEP, RealFiles, SimulatedArchive
from tests.simulation.load import Load
from tests.simulation.watch import SimulationWitness, Watch

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation, Node
    from tests.simulation.world import World

Key = tuple[bytes, int, int]
"""A batch: producer, partition, number."""

ADDRESS = "broker:27769"
MAY_RAISE = (StorageFailed, Damaged, DiskFull, errors.Error)
"""How the process ends by design: it could not start, or its storage failed."""


class WatchedHandler:
    """`ports.transport.Handler` that looks at what goes in and out."""

    def __init__(self, handler: Handler, watch: Watch) -> None:
        self._handler = handler
        self._watch = watch

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        return await self._handler.call(method, request, caller)

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        if method == "Publish" and self._watch.turns_away():
            raise errors.LoginRequired("the login has run out.", hint="Log in again.")
        watched = {"Fetch": Overheard, "Publish": Publishes}.get(method)
        await self._handler.stream(method, inbound if watched is None else watched(inbound, self._watch), caller)


class Overheard:
    """`ports.transport.Inbound` of a reader."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch

    async def read(self) -> bytes | None:
        return await self._inbound.read()

    async def write(self, message: Buffer) -> None:
        self._watch.answered(message)
        await self._inbound.write(message)


class Publishes:
    """`ports.transport.Inbound` of a producer."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch
        self._producer = b""

    async def read(self) -> bytes | None:
        message = await self._inbound.read()
        if message is not None:
            request = pb.PublishRequest.FromString(split(message)[0])
            if request.HasField("open"):
                self._producer = request.open.producer
            else:
                self._watch.published(self._producer, request)
        return message

    async def write(self, message: Buffer) -> None:
        self._watch.acknowledged(self._producer, pb.PublishAnswer.FromString(bytes(message)))
        await self._inbound.write(message)


class Fencible:
    """The catalog as one broker object has it. Once another has taken over, this one cannot register again: the old broker is to find out
    that it is fenced, and not to take over in its turn."""

    def __init__(self, catalog: SqliteCatalog) -> None:
        self._catalog = catalog
        self.usurped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    async def register(self, broker: int) -> object:
        if self.usurped:
            await asyncio.get_running_loop().create_future()
        return await self._catalog.register(broker)


class Server:
    """The broker's machine, and the process on it."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.node: Node = world.node("broker", may_raise=MAY_RAISE)
        assert self.node.drive is not None
        self.watch = Watch(world, self.node.drive)
        self.address = ADDRESS
        self.files = RealFiles()
        self.catalog: SqliteCatalog | None = None
        """That of the process that runs."""
        self._stopping: asyncio.Event | None = None
        self._usurping: asyncio.Event | None = None
        self._isolating = world.source("isolating")
        offset_set.CHUNK_BITS = load.chunk_bits
        copy.PAGES_A_STEP = PAGES_A_STEP

    def start(self) -> None:
        self.node.start(self._main)

    def stop(self) -> None:
        """In good order, as by SIGTERM."""
        if self.node.alive and self._stopping is not None:
            self._stopping.set()
            self.world.fault("stop", self.node.name)

    def usurp(self) -> None:
        """Another incarnation takes over."""
        if self.node.alive and self._usurping is not None:
            self._usurping.set()

    async def _main(self, life: Incarnation) -> None:
        stopping, self._usurping = asyncio.Event(), None
        life.disk.lock(ADDRESS)
        catalog = SqliteCatalog(
            "catalog.sqlite",
            life.worker(),
            vfs=life.disk.vfs,
            sync_directory=life.disk.sync_directory_now,
            wal_bytes_max=self.load.wal_bytes,
        )
        self.catalog = catalog
        self._count_recycled(life)
        broker, gateway, fencible = await self._broker(life, catalog)
        listener = life.listen(ADDRESS, WatchedHandler(gateway, self.watch))
        self._stopping, self._usurping = stopping, asyncio.Event()
        while True:
            waits = [asyncio.ensure_future(event.wait()) for event in (stopping, self._usurping)]
            await asyncio.wait([broker.failed, *waits], return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if broker.failed.done():
                failure = broker.failed.result()
                raise StorageFailed(str(failure)) if isinstance(failure, MAY_RAISE) else failure
            if stopping.is_set():
                gateway.close(errors.Unavailable("the broker is stopping."))
                listener.close()
                return await broker.stop()
            self._usurping.clear()
            fencible.usurped = True
            if self._isolating.random() < self.load.isolated:
                for connection in list(self.world.network.connections):
                    connection.break_anyhow()
            busy = broker.live is not None and not broker.live.log.flusher.idle
            broker, gateway, fencible = await self._broker(life, catalog, opened=True)
            listener.handler = WatchedHandler(gateway, self.watch)
            self.world.fault("usurper", life.name, felt=busy)

    async def _broker(self, life: Incarnation, catalog: SqliteCatalog, *, opened: bool = False) -> tuple[Broker, Gateway, Fencible]:
        fencible = Fencible(catalog)
        if opened:
            fencible.open = _nothing  # type: ignore[attr-defined]
        broker, gateway = assemble(
            self.load.settings(),
            clock=life.clock,
            catalog=fencible,  # type: ignore[arg-type]
            disk=life.disk,
            archives=partial(SimulatedArchive, life, self.files),
            witness=SimulationWitness(self.watch, catalog),
            tuning=self.load.tuning(),
        )
        await broker.start()
        return broker, gateway, fencible

    def _count_recycled(self, life: Incarnation) -> None:
        rename = life.disk.rename

        def counted(old: str, new: str) -> None:
            rename(old, new)
            if old.startswith("free-"):
                self.world.sometimes("segment recycled")
            if new.startswith("orphan-"):
                self.world.sometimes("segment put aside")

        life.disk.rename = counted  # type: ignore[method-assign]


async def _nothing() -> None:
    """The catalog is open already."""
