"""One seed, from the first event to the last checker.

    clients work, faults happen ──► all faults end, no new calls ──► every call has an answer, every process runs
      ──► a fresh reader reads everything ──► the power goes once more ──► another one reads everything again ──► the checkers

The `Report` of a run has the broken promises, the calls that did not finish in time, unexpected
errors, and how often each fault and each rare state was reached.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import IO

from tests.history import checkers, promises_of_deleting, promises_of_delivery, promises_of_reading
from tests.history.checkers import Violation
from tests.history.events import NOTE, PUBLISH, READ, Event
from tests.history.letter_checkers import check_letters
from tests.history.queue_checkers import check_queues
from tests.simulation import unforeseen
from tests.simulation.backing_up import Backups
from tests.simulation.broker_time import clocks_of, late_seconds, lease_clocks_of, notice_seconds
from tests.simulation.key_journal import check_keys, keys_of, readable
from tests.simulation.leftovers import leftovers
from tests.simulation.load import KIB, Load, drawn_load
from tests.simulation.loop import Stuck
from tests.simulation.nemesis import Nemesis
from tests.simulation.node import Incarnation, Node
from tests.simulation.options import Options, after, drawn, drawn_wire
from tests.simulation.planting import THEMES
from tests.simulation.queue_load import drawn_queue
from tests.simulation.server import Server
from tests.simulation.workload import Workload
from tests.simulation.world import ProductBug, World

HEALING_SECONDS = 120.0
"""Within this many virtual seconds after the last fault every call must have its answer."""
READING_SECONDS = 60.0
DRAINING_SECONDS = 900.0
JUMP_SECONDS_HARMLESS = 50.0
"""After a broker's clock was ahead by more than the window and went back, it refuses to publish
until its clock is there again.
"""


@dataclass
class Report:
    """The result of one seed."""

    seed: int
    options: str
    load: str
    digest: str = ""
    violations: list[Violation] = field(default_factory=list)
    stuck: str = ""
    """The calls that did not finish in bounded time after healing."""
    bug: str = ""
    """An unhandled error of the product."""
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    virtual_seconds: float = 0.0
    messages: int = 0

    @property
    def good(self) -> bool:
        return not (self.violations or self.stuck or self.bug)

    def __str__(self) -> str:
        parts = [f"seed {self.seed} failed; make sim SEED={self.seed} repeats it", f"  options: {self.options}", f"  load: {self.load}"]
        parts += [f"  violation: {violation}" for violation in self.violations[:12]]
        parts += [f"  … and {len(self.violations) - 12} more"] if len(self.violations) > 12 else []
        parts += [f"  stuck: {self.stuck}"] if self.stuck else []
        parts += [f"  bug: {self.bug}"] if self.bug else []
        return "\n".join(parts)


Planted = Callable[[], AbstractContextManager[None]]


def run(
    seed: int,
    *,
    options: Options | None = None,
    load: Load | None = None,
    planted: Planted = nullcontext,
    trace: IO[str] | None = None,
    history: list[Event] | None = None,
) -> Report:
    """Runs one seed. To be called once in a process (`processes.each`). `planted` switches a bug on
    while the world runs.
    """
    logging.getLogger("bowstring.client").setLevel(logging.ERROR)  # leases are lost all the time here
    faults, work = world_of(seed)
    world = World(seed, faults if options is None else options, trace=trace)
    load = work if load is None else load
    report = Report(seed, str(world.options), str(load))
    runs: list[Run] = []

    async def main(world: World) -> None:
        runs.append(Run(world, load))
        await runs[0].run()

    with planted(), unforeseen.reported(world.bugs.append):
        try:
            world.run(main)
        except Stuck as error:
            report.stuck = str(error)
        except Unfinished as error:
            report.stuck = str(error)
        except ProductBug:
            pass
    report.bug = world.bugs[0] if world.bugs else ""
    report.digest = world.digest.value()
    report.faults, report.reached = world.faults, world.reached
    report.steps, report.virtual_seconds = world.loop.steps, world.loop.time()
    if runs:
        runs[0].server.files.close()
        runs[0].judge(report)
        if history is not None:
            history += runs[0].workload.history.events
    return report


def world_of(seed: int) -> tuple[Options, Load]:
    """The faults and the work of a seed; in half of them there are queues, too."""
    options, load = _world_without_queues(seed)
    load = load.only(**drawn_queue(seed))
    if options.disk_bytes:  # only retention makes room there, and dead letters that nothing takes away would fill it for ever
        load = load.only(unsettled=0, poison=0.0, deliveries=0)
    return options, load


def _world_without_queues(seed: int) -> tuple[Options, Load]:
    """The faults and the work of a seed: drawn one by one, or (for three seeds in ten) such as
    belong together, because some bugs show only where a slow disk, hurried producers and crashes
    meet. Clients that take half a minute to find out that a broker is dark do nothing meanwhile,
    and the next fault then meets an idle world: they find out sooner here.
    """
    source = random.Random(f"{seed}/theme")
    if source.random() < 0.3:
        options, load = source.choice(THEMES)
        return options.only(**{**drawn_wire(seed), "silent": 0.0}), load
    options, load = drawn(seed), drawn_load(seed)
    if source.random() < 0.1:  # a disk that only retention makes room on
        load = load.only(topics=0, mortal_topics=0, brief_topics=1, sized_topics=1, retention_bytes=200 * KIB, delayed=0.0)
        options = options.only(disk_bytes=source.choice((2400, 4800)) * KIB)
    if options.disk_bytes:  # the WAL, and as much in reserve, are to be a small part of it
        load = load.only(wal_bytes=min(load.wal_bytes, 64 * KIB))
    if not load.plain and random.Random(f"{seed}/door").random() < 0.2:  # the plain kit knows nothing of logins
        options = options.only(turn_away_rate=0.05)
    return options.only(half_open_seconds=options.half_open_seconds / 8), load


class Unfinished(Exception):
    """Something did not end in time, although nothing stood in its way any more."""


class Run:
    """The course of one seed."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.server = Server(world, load)
        self.workload = Workload(world, load)
        self.read_to_the_end = False

    async def run(self) -> None:
        world, workload = self.world, self.workload
        self.server.start()
        administrator = world.node("admin", disk=False)
        producers = [world.node(f"p{number}", disk=False) for number in range(self.load.producers)]
        readers = [world.node(f"r{number}", disk=False) for number in range(self.load.readers)]
        slow = [world.node(f"s{number}", disk=False) for number in range(self.load.slow)]
        named = [world.node(f"n{number}", disk=False) for number in range(self.load.named)]
        administrator.start(workload.administrate)
        for node in producers:
            node.start(workload.produce)
        for node in readers:
            node.start(workload.read)
        for node in named:
            node.start(workload.read_by_name)
        observers = [world.node(f"o{number}", disk=False) for number in range(self.load.observers)]
        for node in observers:
            node.start(workload.observe)
        for node in slow:
            node.start(workload.read_slowly)
        readers += [*named, *observers, *slow]
        operators = [world.node("operator", disk=False)] if self.load.consumers else []
        for node in operators:
            node.start(workload.operate)
        consumers = [world.node(f"q{number}", disk=False) for number in range(self.load.consumers)]
        for node in consumers:
            node.start(workload.consume)
        readers += consumers
        redrivers = [world.node("redriver", disk=False)] if self.load.consumers and self.load.redrive_every else []
        for node in redrivers:
            node.start(workload.redrive)
        readers += redrivers
        keepers = [world.node("backups", disk=False)] if self.load.backup_every else []
        for node in keepers:
            node.start(Backups(self.server, workload).run)
        nemesis = Nemesis(world, kept=[*self.server.nodes, *producers, *readers])
        troubles = [asyncio.create_task(self._every(self.load.stop_every, self.server.stop))]
        troubles.append(asyncio.create_task(self._every(self.load.usurp_every, self.server.usurp)))
        await nemesis.run(self.load.seconds)
        for task in troubles:
            task.cancel()
        workload.over = True
        workload.history.note("world", "healed")
        await self._finish([administrator, *operators, *keepers, *producers, *readers])
        nemesis.stop()
        await self._read_twice()

    async def _every(self, mean: float, act: Callable[[], None]) -> None:
        source = self.world.source(f"trouble {act.__name__}")
        while mean:
            await asyncio.sleep(after(source, mean))
            act()

    async def _finish(self, clients: list[Node]) -> None:
        """Every client comes to its end: all calls are answered. One that has died finishes after
        its keeper has started it again.
        """
        deadline = self.world.loop.time() + HEALING_SECONDS
        for node in clients:
            while node.incarnation is not None and not _finished(node.incarnation):
                await self._before(deadline, node.incarnation.ended, node.name)
                await asyncio.sleep(0.0 if node.alive else 0.001)
                if not node.alive and node.incarnation.failure is None and node.incarnation.ended.result() == "exit":
                    break

    async def _before(self, deadline: float, ended: asyncio.Future[str], what: str) -> None:
        done, _ = await asyncio.wait([ended], timeout=max(0.0, deadline - self.world.loop.time()))
        if not done:
            raise Unfinished(f"{what} was not finished {HEALING_SECONDS:g} virtual seconds after the world had healed{self._tasks(what)}")

    def _tasks(self, what: str) -> str:
        from tests.simulation.loop import waiting

        node = next(node for node in self.world.nodes if node.name == what)
        return "".join(f"\n  {line}" for line in (waiting(node.incarnation) if node.incarnation else [])[:20])

    async def _read_twice(self) -> None:
        """Once as it is, and once more after a power cut: what anybody was told must be on the
        disk.
        """
        await self._read("check", lambda life: self.workload.read_all(life, "check"))
        await self._drain("drain-1")
        self.workload.violations += await leftovers(self.server)
        self.server.node.power_cut()
        self.server.start()
        await self._read("probe", self.workload.probe)
        await self._drain("drain-2")
        await self._read("judge", self.workload.read_finally)
        self.read_to_the_end = True

    async def _drain(self, name: str) -> None:
        """Everything that is left of subscriptions is taken, if there are any."""
        if self.load.consumers:
            await self._read(name, self.workload.drain, seconds=DRAINING_SECONDS)

    async def _read(self, name: str, main: Callable[[Incarnation], object], seconds: float = READING_SECONDS) -> None:
        self.server.start()
        node = self.world.node(name, disk=False)
        life = node.start(main)  # type: ignore[arg-type]
        await self._before(self.world.loop.time() + seconds, life.ended, name)

    # ---- the verdict -----------------------------------------------------------------------------------------------

    def judge(self, report: Report) -> None:
        events, watch = self.workload.history.events, self.server.watch
        report.messages = sum(len(event.rows) for event in events if event.operation == PUBLISH and event.kind == "invoke")
        report.reached["rows read"] = sum(len(event.rows) for event in events if event.operation == READ)
        report.reached["live state compared with loaded state"] = watch.compared
        report.reached["the disk was inspected"] = watch.inspection.times
        report.reached["notes"] = sum(event.operation == NOTE for event in events)
        report.violations += watch.violations + self.workload.violations + self.world.network.violations
        if not self.world.options.jump_every or self.world.options.jump_seconds < JUMP_SECONDS_HARMLESS:
            rotten = "corrupt" if self.world.options.bit_rot_rate else None  # ids that cannot be read do not heal
            cases = [case for case, error in self.workload.failed_probes if error != rotten]
            report.violations += [Violation("everything_works_after_healing", case) for case in cases]
        options = self.world.options
        if not (options.bit_flip_rate or options.bit_rot_rate or options.read_error_rate):
            told = [state for state in ("reader was told of damaged bytes", "message answered corrupt") if report.reached[state]]
            report.violations += [Violation("nothing_is_damaged_on_a_good_disk", state) for state in told]
        report.violations += checkers.refused_bytes_never_travel(watch.sent, events)
        report.violations += promises_of_reading.filtered_bytes_never_travel(watch.filtered, events)
        clocks = clocks_of(self.server.node.wall, watch.begins, self.world.options.drift, self.world.loop.time())
        clocks = clocks._replace(late=late_seconds(options), notice=notice_seconds(options, self.load))
        report.violations += promises_of_delivery.a_deleted_topic_ends_its_readers(events, clocks)
        report.violations += checkers.expired_is_not_delivered(watch.fetched, events, clocks)
        report.violations += promises_of_deleting.deleted_bytes_are_not_taken(watch.fetched, events)
        if self.read_to_the_end:
            steady = not (self.world.options.jump_every or self.load.usurp_every)
            foreseen = frozenset({"login-required"}) if options.turn_away_rate else frozenset()
            report.violations += checkers.check(events, steady_clocks=steady, clocks=clocks, foreseen=foreseen)
        if self.load.consumers:
            leases = lease_clocks_of(self.server.node.wall, watch.begins, options)
            leases = leases._replace(damaged=frozenset(watch.inspection.naive.damaged), buried=frozenset(watch.inspection.naive.buried))
            report.violations += check_queues(events, leases, clocks, drained=self.read_to_the_end)
            report.violations += check_letters(events, leases, clocks, rotten=bool(options.bit_rot_rate))
            report.violations += watch.inspection.naive.nonsense()
            grants = watch.inspection.naive.keyed()
            grants = readable(grants, events) if options.bit_rot_rate else grants
            report.violations += check_keys(grants, keys_of(events), self.world.sometimes)
            report.reached["ledger compared with the journal"] = watch.inspection.naive.compared


def _finished(life: Incarnation) -> bool:
    return life.ended.done() and life.ended.result() == "exit"
