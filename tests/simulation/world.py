"""The world of one seed: its loop, its machines, its network, and what happened to them.

`World(seed, options).run(main)` runs `main`, which stands outside of all machines: it makes nodes, starts processes on them, and lets the
nemesis loose. What is counted as a fault had an effect on somebody; `sometimes` marks rare states that were really reached. Errors of
the product that nobody handled fail the run, whatever else it proved.

The waiting remains of dead processes are kept until the interpreter ends, so that nothing of them ever runs. A process that runs many
seeds should therefore fork one child for each (`processes`).
"""

from __future__ import annotations

import gc
import random
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import IO, TypeVar

import apsw

from tests.simulation.digest import Digest
from tests.simulation.disk import Drive
from tests.simulation.loop import Life, SeededLoop
from tests.simulation.network import Network
from tests.simulation.node import Node
from tests.simulation.options import Options
from tests.simulation.vfs import seed_randomness
from tests.simulation.wire_watch import watched_wire

T = TypeVar("T")


class ProductBug(AssertionError):
    """Something was raised that nobody expected, or handled."""


class World:
    """Everything that a seed decides."""

    def __init__(
        self,
        seed: int,
        options: Options | None = None,
        *,
        seconds_max: float = 3_600.0,
        steps_max: int = 20_000_000,
        trace: IO[str] | None = None,
    ) -> None:
        self.seed = seed
        self.options = options if options is not None else Options()
        self.loop = SeededLoop(str(seed), priorities=self.options.priorities, seconds_max=seconds_max, steps_max=steps_max)
        self.digest = Digest(self.loop.time, trace=trace)
        self.faulty = True
        self.faults: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.bugs: list[str] = []
        self.nodes: list[Node] = []
        self.network = Network(self)
        self.digest.note(f"seed {seed} {self.options}")

    # ---- what it is made of ----------------------------------------------------------------------------------------

    def source(self, purpose: str) -> random.Random:
        """Randomness for one purpose, so that drawing more for one does not change what another draws."""
        return random.Random(f"{self.seed}/{purpose}")

    def drive(self, name: str) -> Drive:
        """A drive for nodes that share one: two processes on one data directory."""
        return Drive(self, name)

    def node(self, name: str, *, disk: bool = True, drive: Drive | None = None, may_raise: tuple[type[Exception], ...] = ()) -> Node:
        """A machine; a client's has no disk. `may_raise` are the errors with which its process ends by design."""
        if drive is None and disk:
            drive = self.drive(name)
        node = Node(self, name, drive=drive, may_raise=may_raise)
        self.nodes.append(node)
        return node

    # ---- what happens in it ----------------------------------------------------------------------------------------

    def fault(self, kind: str, where: str, *, felt: bool = True) -> None:
        """Notes a fault; it counts if somebody felt it."""
        self.digest.note(f"fault {kind} {where}{'' if felt else ' (not felt)'}")
        if felt:
            self.faults[kind] += 1

    def sometimes(self, name: str, times: int = 1) -> None:
        """Marks a rare state that was reached."""
        if times:
            self.reached[name] += times

    def bug(self, life: Life, what: str, error: BaseException | None) -> None:
        """An error that nobody expected: the run fails at its end. What a process does while it dies is none."""
        if not life.dead:
            self._tell(life, what, error)

    def _tell(self, life: Life, what: str, error: BaseException | None) -> None:
        told = "".join(traceback.format_exception(error)) if error is not None else ""
        self.bugs.append(f"{self.loop.time():.6f} s, {life.name}: {what}\n{told}")

    def heal(self) -> None:
        """No more faults from here on; clogged links, full and slow disks and rotten bits are mended. Dead processes stay dead."""
        self.faulty = False
        self.network.heal()
        self.digest.note("healed")
        for drive in dict.fromkeys(node.drive for node in self.nodes if node.drive is not None):
            drive.disarm()
            drive.relax()
            drive.hurry()
            drive.medium.heal()

    # ---- running ---------------------------------------------------------------------------------------------------

    def run(self, main: Callable[[World], Awaitable[T]]) -> T:
        """Runs `main` to its end, then ends everything. Raises `Stuck`, what `main` raises, and `ProductBug`."""

        async def outermost() -> T:
            return await main(self)

        collecting = gc.isenabled()
        gc.disable()
        seed_randomness(self.source("sqlite").randbytes(64))
        # A connection that is freed closes itself, and SQLite checkpoints when it closes: none is freed, for its process may be dead.
        keep: Callable[[apsw.Connection], None] = self.loop.graveyard.append
        apsw.connection_hooks.append(keep)
        try:
            with watched_wire(self):
                result = self.loop.run_until_complete(outermost())
            self.loop.unretrieved()
        finally:
            self.digest.note(f"end after {self.loop.steps} steps")
            for life, what, error in self.loop.failures:
                self._tell(life, what, error)
            self.loop.bury()
            apsw.connection_hooks.remove(keep)
            if collecting:
                gc.enable()
        if self.bugs:
            raise ProductBug(f"{len(self.bugs)} errors that nobody handled, the first:\n{self.bugs[0]}")
        return result
