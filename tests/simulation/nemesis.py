"""Injects faults, as often as the options say, until `stop`.

Every kind of fault is a task of its own, so that they meet in every combination: a disk runs full
while the power goes, a clock jumps during a clog. A keeper starts every process again that has
ended, whatever ended it, and goes on doing so while the world heals. If a failed sync has ended it,
the power may go while it starts: what it reads then is not what the disk has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.disk import CRASH, POWER
from tests.simulation.options import after

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.world import World

STARTING_OPERATIONS = 60
"""A broker that starts changes about so many things on its disk."""
SQUEEZED_BYTES = (0, 1, 4096, 1 << 16, 1 << 20)


class Nemesis:
    """Faults for the nodes of a world, or for those that it is told to keep. Machines with a disk
    lose their power; all others crash.
    """

    def __init__(self, world: World, *, kept: list[Node] | None = None) -> None:
        self._world = world
        self._random = world.source("nemesis")
        self._relapses = world.source("relapses")
        self._nodes = world.nodes if kept is None else kept
        self._tasks: list[asyncio.Task[None]] = []
        self._keepers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins. Every node must have been started once."""
        options = self._world.options
        drives: list[object] = []
        for node in self._nodes:
            self._keepers.append(asyncio.create_task(self._keep(node), name=f"keeper of {node.name}"))
            if node.drive is not None and node.drive in drives:  # another process of a machine that is struck already
                self._every(options.crash_every, node.crash)
                continue
            drives.append(node.drive)
            self._every(options.jump_every, lambda node=node: self._jump(node))
            if node.drive is None:
                self._every(options.client_crash_every, node.crash)
            else:
                self._every(options.power_cut_every, lambda node=node: self._strike(node, POWER, options.power_cut_inside))
                self._every(options.crash_every, lambda node=node: self._strike(node, CRASH, options.crash_inside))
                if options.full_every:
                    self._begin(self._fill(node))
        self._every(options.cut_every, self._cut)
        if options.clog_every:
            self._begin(self._clog())

    async def run(self, seconds: float) -> None:
        """Makes trouble for that long, then lets the world heal; the keepers go on until `stop`."""
        self.start()
        await asyncio.sleep(seconds)
        self.heal()

    def heal(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._world.heal()

    def stop(self) -> None:
        """Stops restarting processes."""
        for task in [*self._tasks, *self._keepers]:
            task.cancel()

    # ---- what it does ----------------------------------------------------------------------------------------------

    def _begin(self, steps: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(steps, name="nemesis"))

    def _every(self, mean: float, act: Callable[[], None]) -> None:
        if mean > 0.0:
            self._begin(self._repeat(mean, act))

    async def _repeat(self, mean: float, act: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(after(self._random, mean))
            act()

    async def _keep(self, node: Node) -> None:
        while True:
            life = node.incarnation
            if life is None:
                return
            await asyncio.shield(life.ended)
            await asyncio.sleep(self._random.expovariate(1.0 / self._world.options.down_seconds))
            if not node.alive:
                relapses = self._relapse(node)
                node.restart()
                if relapses:
                    self._begin(self._watch_relapse(node))

    def _relapse(self, node: Node) -> bool:
        """After a failed sync the power may go at the next start, while something is written or
        synced.
        """
        drive, options = node.drive, self._world.options
        if drive is None or not drive.sync_failed or not self._world.faulty:
            return False
        drive.sync_failed = False
        if self._relapses.random() >= options.relapse:
            return False
        drive.arm(POWER, self._relapses.randint(1, STARTING_OPERATIONS), reads=False)
        return True

    async def _watch_relapse(self, node: Node) -> None:
        life, drive = node.incarnation, node.drive
        assert life is not None
        assert drive is not None
        how = await asyncio.shield(life.ended)
        self._world.sometimes("power cut at the start after a failed sync", how == POWER and not drive.armed)

    def _strike(self, node: Node, kind: str, inside: float) -> None:
        if not node.alive or node.drive is None:
            return
        if self._random.random() < inside:
            node.drive.arm(kind, self._random.randint(1, self._world.options.inside_operations))
        elif kind == POWER:
            node.power_cut()
        else:
            node.crash()

    def _jump(self, node: Node) -> None:
        node.wall.jump(self._random.uniform(-1.0, 1.0) * self._world.options.jump_seconds)

    async def _fill(self, node: Node) -> None:
        drive, options = node.drive, self._world.options
        if drive is None:
            return
        while True:
            await asyncio.sleep(after(self._random, options.full_every))
            drive.squeeze(self._random.choice(SQUEEZED_BYTES))
            await asyncio.sleep(self._random.expovariate(1.0 / options.full_seconds))
            drive.relax()

    def _cut(self) -> None:
        connections = self._world.network.connections
        if connections:
            self._random.choice(connections).break_anyhow()

    async def _clog(self) -> None:
        network, options = self._world.network, self._world.options
        while True:
            await asyncio.sleep(after(self._random, options.clog_every))
            links = list(network.links.values())
            if not links:
                continue
            link = self._random.choice(links)
            seconds = self._random.expovariate(1.0 / options.clog_seconds)
            link.clog(seconds)
            await asyncio.sleep(seconds * self._random.random())
            if self._random.random() < 0.3:
                for connection in [each for each in network.connections if each.link is link]:
                    connection.break_anyhow()
