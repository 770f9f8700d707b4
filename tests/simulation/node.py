"""Machines, and the processes that run on them one after the other.

A node is a machine with a wall clock and perhaps a drive; an incarnation is one process on it, with everything that the product asks of
the outside. A process ends by itself, is killed (`crash`: what it wrote stays in the page cache), or dies because the power went
(`power_cut`: only what was synced is left, and what the lottery keeps). Whatever way, it never speaks again: its tasks are not run, its
disk and its connections ignore it. The next incarnation starts from what is on the medium, and from nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from bowstring.ports.transport import Handler
from tests.simulation.clock import SimulatedClock, SimulatedRandomness, SimulatedWorker, WallClock
from tests.simulation.disk import CRASH, POWER, Drive, SimulatedDisk
from tests.simulation.ledger import LedgerDialer
from tests.simulation.loop import LIFE, Life, PowerCut
from tests.simulation.network import Listener

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")
Main = Callable[["Incarnation"], Awaitable[object]]

EXIT = "exit"


class Incarnation(Life):
    """A process. `under_way` counts what it waits for from disk, worker and callers: a crash then hits something."""

    def __init__(self, node: Node, number: int) -> None:
        super().__init__(f"{node.name}.{number}")
        self.node = node
        self.world = node.world
        self.number = number
        self.under_way = 0
        self.context = copy_context()
        self.context.run(LIFE.set, self)
        self.clock = SimulatedClock(node.wall, node.world, node.world.loop.time() - node.random.uniform(0.0, 1e5))
        self.randomness = SimulatedRandomness(node.world.source(f"{self.name}/randomness"), self.clock)
        self.dialer = LedgerDialer(self)
        self.failure: BaseException | None = None
        self.ended: asyncio.Future[str] = node.world.loop.create_future()
        self._disk = SimulatedDisk(node.drive, self) if node.drive is not None else None

    @property
    def disk(self) -> SimulatedDisk:
        if self._disk is None:
            raise LookupError(f"{self.node.name} has no disk")
        return self._disk

    @property
    def is_dark(self) -> bool:
        """Whether its machine has lost its power and has not started again."""
        return self.dead and self.ended.result() == POWER and not self.node.alive

    def worker(self) -> SimulatedWorker:
        """A new thread, in the simulation's sense."""
        return SimulatedWorker(self)

    def listen(self, address: str, handler: Handler) -> Listener:
        """Serves the handler at host:port until the listener is closed or the process ends."""
        return self.world.network.listen(self, address, handler)

    def spawn(self, steps: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """A task of this process, whoever asks for it."""
        return self.world.loop.create_task(steps, name=name, context=self.context.copy())

    def seconds(self, share: float) -> float:
        """How long something takes that costs a share of a sync."""
        return self._disk.drive.seconds(share) if self._disk is not None else self.world.options.delay_seconds * share

    def later(self, seconds: float, end: Callable[[], None]) -> None:
        """Ends something that takes so long because of the disk, if there is one."""
        if self._disk is not None:
            self._disk.drive.later(seconds, end, self.context)
        else:
            self.world.loop.call_later(seconds, end, context=self.context)

    def take_debt(self) -> float:
        """The time that blocking calls on the disk have cost since the last time."""
        if self._disk is None:
            return 0.0
        debt, self._disk.debt = self._disk.debt, 0.0
        return debt

    async def run(self, main: Main) -> None:
        """Runs the process until its main function returns; that is its end, also for the tasks it has left behind."""
        try:
            await main(self)
        except (Exception, asyncio.CancelledError) as error:
            self.failure = error
            if not isinstance(error, self.node.may_raise):
                self.world.bug(self, "the process ended", error)
        self.kill(EXIT)

    def kill(self, how: str) -> None:
        """Ends the process, now. May be called from its own code, in the middle of whatever it does."""
        if self.dead:
            return
        drive = self.node.drive if how == POWER else None
        lives = [life for life in drive.tenants if not life.dead] if drive is not None else [self]
        broken = sum([life.under_way + life.die(how) for life in lives])
        harmed = drive is not None and drive.go_dark()
        if how != EXIT:
            self.world.fault(how, self.name, felt=harmed or broken > 0)

    def die(self, how: str) -> int:
        """The end of one process, without what it means to the machine. Returns how many calls that has broken."""
        self.dead = True
        self.world.loop.graveyard.append(self)
        self.world.digest.note(f"{self.name} died: {how}")
        self.ended.set_result(how)
        return self.world.network.lost(self, at_once=how != POWER)


class Node:
    """A machine. `may_raise` are the errors with which its process may end by design; any other end is a bug."""

    def __init__(self, world: World, name: str, *, drive: Drive | None, may_raise: tuple[type[Exception], ...] = ()) -> None:
        self.world = world
        self.name = name
        self.drive = drive
        self.may_raise = may_raise
        self.random = world.source(f"{name}/node")
        self.wall = WallClock(world, name)
        self.incarnation: Incarnation | None = None
        self.incarnations = 0
        self._main: Main | None = None

    @property
    def alive(self) -> bool:
        return self.incarnation is not None and not self.incarnation.dead

    def start(self, main: Main) -> Incarnation:
        """Starts a process that runs `main`. There must be none."""
        if self.alive:
            raise RuntimeError(f"{self.name} runs already")
        self._main = main
        self.incarnations += 1
        life = self.incarnation = Incarnation(self, self.incarnations)
        self.world.loop.lives.append(life)
        self.world.digest.note(f"{life.name} started")
        life.spawn(life.run(main), f"{life.name} main")
        return life

    def restart(self) -> Incarnation:
        """Starts the same again, from what is on the disk."""
        if self._main is None:
            raise RuntimeError(f"{self.name} was never started")
        return self.start(self._main)

    def crash(self) -> None:
        """SIGKILL: the process is gone, the page cache is not."""
        if self.incarnation is not None:
            self.incarnation.kill(CRASH)

    def power_cut(self) -> None:
        """The machine goes dark, with every process that has its drive."""
        lives = [life for life in (*(self.drive.tenants if self.drive else ()), self.incarnation) if life is not None and not life.dead]
        if lives:
            lives[0].kill(POWER)
        elif self.drive is not None:
            self.world.fault(POWER, self.name, felt=self.drive.go_dark())


__all__ = ["CRASH", "EXIT", "POWER", "Incarnation", "Main", "Node", "PowerCut"]
