"""The broker as processes of the simulated world, watched from outside.

`bowstring.assembly` puts the product's own code together, as it does for `bowstring.server`, here on simulated ports. A witness and a
handler around the gateway look on, and tell the `watch`.

In most worlds one process is the broker, and has the catalog open. In worlds with takeovers two nodes serve the broker's number in turn.
The catalog has a process of its own (`catalog_host`), and all three share a drive. When a node's turn is over it dies, pauses, or goes on
without knowing. The other raises the epoch, loads the journal and goes on in it; the address moves to it. A node that finds out that it
has lost its fence ends, and is started again to wait for its next turn.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.assembly import Assembled, assemble
from bowstring.broker.queue import due_ahead
from bowstring.catalog.sqlite import copy
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import due_rows, offset_set
from bowstring.ports.catalog import Catalog
from bowstring.ports.failures import Damaged, DiskFull, Fenced, StorageFailed
from tests.simulation.backing_up import PAGES_A_STEP, RealFiles, SimulatedArchive
from tests.simulation.catalog_host import CatalogHost, RemoteCatalog
from tests.simulation.load import Load
from tests.simulation.overhearing import WatchedHandler
from tests.simulation.watch import SimulationWitness, Watch

if TYPE_CHECKING:
    from tests.simulation.network import Listener
    from tests.simulation.node import Incarnation, Node
    from tests.simulation.world import World

ADDRESS = "broker:27769"
MAY_RAISE = (StorageFailed, Damaged, DiskFull, errors.Error)
"""How the process ends by design: it could not start, or its storage failed."""
PAUSE_SECONDS = 1.0
"""The mean time for which a node pauses when its turn is over."""
GRACE_SECONDS = 1.0
"""So long calls under way may take when the broker is stopped."""
FAREWELL_SECONDS = 0.3
"""So long at most clients of a node whose turn is over keep their connections to it."""


class Server:
    """The nodes that are the broker, one or two, and with two of them the catalog's process."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.node: Node = world.node("broker", may_raise=MAY_RAISE)
        assert self.node.drive is not None
        self.watch = Watch(world, self.node.drive)
        self.address = ADDRESS
        self.files = RealFiles()
        self._alone: SqliteCatalog | None = None
        """The catalog of the one process that is the broker."""
        self._host: CatalogHost | None = None
        self.nodes = [self.node]
        self._brokers = [self.node]
        if load.usurp_every:
            self._host = CatalogHost(self._catalog)
            for name in ("broker-2", "catalog"):
                node = world.node(name, drive=self.node.drive, may_raise=MAY_RAISE)
                node.wall = self.node.wall  # processes of one machine
                self.nodes.append(node)
            self._brokers = self.nodes[:2]
        self._turn = 0
        """Which of the brokers serves, or is to serve."""
        self._turns = asyncio.Event()
        self._serving: list[Incarnation | None] = [None, None]
        self._stopping: asyncio.Event | None = None
        self._random = world.source("turns")
        offset_set.CHUNK_BITS = load.chunk_bits
        due_rows.ORDERED_ROWS_MAX = load.ordered_rows
        due_ahead.SPAN_LEAST, due_ahead.SPAN_MOST = 10_000, 400_000  # rows are due within seconds there
        copy.PAGES_A_STEP = PAGES_A_STEP

    @property
    def catalog(self) -> SqliteCatalog | None:
        """That of the process that runs."""
        return self._alone if self._host is None else self._host.catalog

    @property
    def alive(self) -> bool:
        return all(node.alive for node in self.nodes)

    def start(self) -> None:
        """Starts every process that does not run."""
        if self._host is not None and not self.nodes[2].alive:
            self.nodes[2].start(self._host.main)
        for number, node in enumerate(self._brokers):
            if not node.alive:
                node.start(partial(self._main, number))

    def stop(self) -> None:
        """In good order, as by SIGTERM."""
        if self._brokers[self._turn].alive and self._stopping is not None:
            self._stopping.set()
            self.world.fault("stop", self._brokers[self._turn].name)

    def usurp(self) -> None:
        """The other node takes over. The one whose turn is over dies, pauses, or goes on."""
        before, after = self._turn, 1 - self._turn
        old = self._brokers[before]
        epoch, life = self.watch.last, old.incarnation
        if life is None or life is not self._serving[before]:
            return  # it has not begun yet
        busy = epoch is not None and not epoch.log.flusher.idle
        kind = self._random.choice(("dies", "pauses", "pauses", "goes on"))
        if kind == "dies":
            old.crash()
        elif kind == "pauses":
            self.world.loop.pause(life, self._random.expovariate(1.0 / PAUSE_SECONDS))
        if self._serving[after] is not None:  # it has not found out yet that its last turn is over
            self._brokers[after].crash()
        isolated = self._random.random() < self.load.isolated
        for connection in [each for each in self.world.network.connections if each.server is life]:
            seconds = 0.0 if isolated else self._random.uniform(0.0, FAREWELL_SECONDS)
            self.world.loop.outside_later(seconds, connection.break_anyhow)
        self._turn = after
        self._turns.set()
        self.world.fault("usurper", f"{old.name} {kind}", felt=busy)

    async def _main(self, number: int, life: Incarnation) -> None:
        self._serving[number] = None
        while self._host is not None and self._turn != number:
            self._turns.clear()
            await self._turns.wait()
        catalog: Catalog
        if self._host is None:
            life.disk.lock(ADDRESS)
            catalog = self._alone = self._catalog(life)
        else:
            catalog = RemoteCatalog(self._host)  # type: ignore[assignment]
            await catalog.open()
        self._count_recycled(life)
        assembled = self._assemble(life, catalog)
        self._serving[number] = life
        await assembled.broker.start()
        self.world.sometimes("node took over", self._host is not None)
        await self._serve(number, life, assembled)

    async def _serve(self, number: int, life: Incarnation, assembled: Assembled) -> None:
        broker, gateway = assembled
        if self._turn != number:
            return
        listener = self._listen(number, life, assembled)
        stopping = self._stopping = asyncio.Event()
        wait = asyncio.ensure_future(stopping.wait())
        await asyncio.wait([broker.failed, wait], return_when=asyncio.FIRST_COMPLETED)
        wait.cancel()
        if broker.failed.done():
            failure = broker.failed.result()
            if isinstance(failure, Fenced):
                self.world.sometimes("node found out that another has taken over")
                return
            raise StorageFailed(str(failure)) if isinstance(failure, MAY_RAISE) else failure
        gateway.close(errors.Unavailable("the broker is stopping."))
        await listener.stop(GRACE_SECONDS)
        await broker.stop()

    def _listen(self, number: int, life: Incarnation, assembled: Assembled) -> Listener:
        """Takes the address, also from a node that still lives and has lost its turn. Clients that came
        to that node since then have to come here."""
        if self.world.network.listeners.pop(ADDRESS, None) is not None:
            for connection in [each for each in self.world.network.connections if each.server is not life]:
                self.world.loop.outside_later(self._random.uniform(0.0, FAREWELL_SECONDS), connection.break_anyhow)
        return life.listen(ADDRESS, WatchedHandler(assembled.gateway, self.watch, lambda: self._turn == number))

    def _catalog(self, life: Incarnation) -> SqliteCatalog:
        return SqliteCatalog(
            "catalog.sqlite",
            life.worker(),
            vfs=life.disk.vfs,
            sync_directory=life.disk.sync_directory_now,
            wal_bytes_max=self.load.wal_bytes,
        )

    def _assemble(self, life: Incarnation, catalog: Catalog) -> Assembled:
        real = self.catalog
        assert real is not None
        return assemble(
            self.load.settings(),
            clock=life.clock,
            catalog=catalog,
            disk=life.disk,
            archives=partial(SimulatedArchive, life, self.files),
            witness=SimulationWitness(self.watch, real),
            tuning=self.load.tuning(),
            reclaims=self._host is None,
        )

    def _count_recycled(self, life: Incarnation) -> None:
        rename = life.disk.rename

        def counted(old: str, new: str) -> None:
            rename(old, new)
            if old.startswith("free-"):
                self.world.sometimes("segment recycled")
            if new.startswith("orphan-"):
                self.world.sometimes("segment put aside")

        life.disk.rename = counted  # type: ignore[method-assign]
