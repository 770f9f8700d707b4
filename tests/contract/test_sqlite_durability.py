"""Power cuts on the SQLite catalog: what was said to be committed is there, whatever operation of the disk the power went in.

The real SQLite runs on the simulation's disk, whose every unsynced write, name and unlinking may be lost, torn or kept, in any order. A
seed is one machine that dies again and again, mostly inside an operation: of opening, migrating, registering, committing, an edit that
also trims, or a checkpoint. Each life first looks whether everything is there that an earlier one was told, or has loaded after it
had registered: both must never go again. Beyond that only the one row may have come that was under way, or the one edit, whole.

Two disks are tried. On the usual one SQLite's VFS syncs the directory when it first syncs a new WAL, as on Unix. The strict one does
not, so that nothing but the order of R11 keeps the switch to WAL; there the controls show that other settings lose rows, by the same
harness. How many cuts there were and what they did is counted: a test without harm would prove nothing.

A third disk fails syncs, as Linux does: what could not be written stays readable, and no later sync writes it. The catalog ends there, and
the next life begins on a cache that shows more than the disk has, often to lose its power while it opens.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import apsw
import pytest

from bowstring.catalog.sqlite import file, wal
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.ports.catalog import Fence, Registered
from bowstring.ports.failures import StorageFailed
from bowstring.ports.journal import Edit, Row
from bowstring.ports.store import Page
from tests.contract.catalog_contract import BROKER, commit, make_topics, reading, references_of, same_pages, topic
from tests.contract.edit_model import Kept, read
from tests.contract.test_catalog import InlineWorker
from tests.simulation.disk import CRASH, POWER, Drive, SimulatedDisk
from tests.simulation.loop import PowerCut
from tests.simulation.options import Options
from tests.simulation.vfs import SimulatedSqliteFile, SimulatedVFS

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LIVES = 12
SEEDS = 180
SYNC_ERROR_RATE = 0.1


class Lost(Exception):
    """Something that was durable is not there."""


class StrictVFS(SimulatedVFS):
    """SQLite syncs no names by itself, but where it deletes a file and asks for it."""

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> SimulatedSqliteFile:
        file = super().xOpen(name, flags)
        file._sync_name = False
        return file


class Process:
    """As much of an incarnation as the simulated disk asks for."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.name = f"life {number}"
        self.dead = False
        self.clock = SimpleNamespace(now=lambda: 0)
        self._machine = machine

    def kill(self, how: str) -> None:
        if not self.dead:
            self.dead = True
            self._machine.deaths[how] += 1
            if how == POWER:
                self._machine.harm.update(self._machine.drive.medium.cut())


class Machine:
    """As much of a world as the simulated disk asks for, and what its lives were told."""

    def __init__(self, seed: int, *, strict: bool, failing: bool) -> None:
        self.seed = seed
        self.strict = strict
        self.faulty = failing
        self.options = Options(sync_error_rate=SYNC_ERROR_RATE if failing else 0.0)
        self.digest = SimpleNamespace(note=lambda event: None)
        self.deaths: Counter[str] = Counter()
        self.harm: Counter[str] = Counter()
        self.lives = 0
        self.sync_failed = False
        """In the life before: then the next one is to die early."""
        self.drive = Drive(self, "machine")
        self.random = self.source("workload")
        # What must be there: rows with their pages, what edits keep, names of topics, a lower epoch than the next one. `under_way` may
        # be there, and `kept` may be `kept_next`.
        self.rows: list[Row] = []
        self.pages: dict[int, list[Page]] = {}
        self.topics: set[str] = set()
        self.epoch = 0
        self.under_way: tuple[Row, list[Page]] | None = None
        self.kept = Kept()
        self.kept_next = Kept()

    def source(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def sometimes(self, what: str, times: int = 1) -> None:
        self.harm[what] += times

    def fault(self, what: str, where: str) -> None:
        assert self.faulty, f"no fault was asked for: {what} at {where}"
        self.sync_failed = True
        self.harm[what] += 1

    async def live(self) -> None:
        """One life, until the power goes or the process is killed. Whatever is raised while it lives is a bug."""
        self.lives += 1
        process = Process(self, self.lives)
        disk = SimulatedDisk(self.drive, process)
        vfs = StrictVFS(disk) if self.strict else SimulatedVFS(disk)
        latest = 60 if self.lives <= 2 or self.sync_failed else self.random.choice((60, 200, 500))
        self.sync_failed = False
        self.drive.arm(POWER if self.random.random() < 0.8 else CRASH, self.random.randint(1, latest))
        catalog = SqliteCatalog("catalog.db", InlineWorker(), vfs=vfs.name, sync_directory=disk.sync_directory_now, wal_bytes_max=20_000)
        try:
            await self._work(catalog, process)
        except Lost:
            raise
        except (Exception, PowerCut) as error:
            if not process.dead and not (self.faulty and isinstance(error, StorageFailed)):
                raise
        finally:
            process.kill(CRASH)
            self.drive.disarm()
            self.harm["died in an edit"] += self.kept_next is not self.kept
            self.harm["checkpoint"] += catalog.statistics().checkpoints
            await catalog.close()

    async def _work(self, catalog: SqliteCatalog, process: Process) -> None:
        await catalog.open()
        registered = await catalog.register(BROKER)
        fence = registered.fence
        if fence.epoch <= self.epoch:
            raise Lost(f"epoch {fence.epoch} was given again")
        self.epoch = fence.epoch
        await self._look(catalog, registered)
        await make_topics(catalog, fence, last=3)
        while not process.dead:
            sequence = len(self.rows) + 1
            pages = [Page(b"h", self.random.randbytes(self.random.choice((10, 700, 9_000)))) for _ in range(self.random.randrange(3))]
            row = Row(sequence, fence.epoch, self.random.randbytes(self.random.choice((0, 120, 5_000))))
            self.under_way = (row, pages)
            await commit(catalog, fence, sequence, row.changes, pages)
            self._is_durable(row, pages)
            if self.random.random() < 0.5:
                await self._edit(catalog, fence)
            if self.random.random() < 0.1:
                name = f"topic {sequence}"
                await catalog.create_topic(fence, topic(name))
                self.topics.add(name)
            await asyncio.sleep(0)  # a checkpoint that is due runs here

    def _is_durable(self, row: Row, pages: list[Page]) -> None:
        self.rows.append(row)
        self.pages[row.sequence] = pages
        self.under_way = None

    async def _edit(self, catalog: SqliteCatalog, fence: Fence) -> None:
        edit = self.kept.draw_edit(self.random, len(self.rows))
        if self.random.random() < 0.5:
            edit = Edit(states=edit.states[:1], trim=edit.trim)  # a few writes, which may all survive
        self.kept_next = self.kept.edited(edit, len(self.rows))
        await catalog.journal(fence).edit(edit)
        self._is_kept()

    def _is_kept(self) -> None:
        self.kept = self.kept_next
        self.pages = {sequence: pages for sequence, pages in self.pages.items() if sequence > self.kept.trimmed}

    async def _look(self, catalog: SqliteCatalog, registered: Registered) -> None:
        """Is everything there? What was under way and is there, too, has been told from now on."""
        kept = await read(reading(catalog), registered.trimmed)
        if kept == self.kept_next != self.kept:
            self.harm["an edit that nobody was told of is there"] += 1
            self._is_kept()
        self.kept_next = self.kept
        if kept != self.kept:
            raise Lost(f"seed {self.seed}, life {self.lives}: what was edited is not there, or not whole: {kept}, not {self.kept}")
        found = self.rows[: kept.trimmed] + await reading(catalog).rows(kept.trimmed, 1_000_000)
        if len(found) == len(self.rows) + 1 and self.under_way is not None and found[-1] == self.under_way[0]:
            self.harm["a commit that nobody was told of is there"] += 1
            self._is_durable(*self.under_way)
        self.under_way = None
        if found != self.rows or registered.sequence != len(found):
            raise Lost(f"seed {self.seed}, life {self.lives}: {len(self.rows)} rows were durable, {len(found)} are there")
        for number, pages in self.pages.items():
            if not same_pages(await reading(catalog).read(references_of(number, pages)), pages):
                raise Lost(f"pages of row {number}")
        if not self.topics <= {row.name for row in await catalog.topics()}:
            raise Lost("topics")


def run(*, strict: bool, seeds: int, failing: bool = False) -> tuple[int, Counter[str], Counter[str]]:
    """Runs the machines; returns how many of them lost something, and what happened to all of them."""
    losers, deaths, harm = 0, Counter[str](), Counter[str]()
    for seed in range(seeds):
        machine = Machine(seed, strict=strict, failing=failing)

        async def lives(machine: Machine = machine) -> None:
            for _ in range(LIVES):
                await machine.live()

        try:
            asyncio.run(lives())
        except Exception as error:
            losers += 1
            machine.harm[f"{type(error).__name__}: {error}"] += 1
        deaths += machine.deaths
        harm += machine.harm
    return losers, deaths, harm


@pytest.mark.parametrize("strict", [False, True], ids=["usual disk", "strict disk"])
def test_what_was_committed_survives_every_power_cut(strict: bool):
    losers, deaths, harm = run(strict=strict, seeds=SEEDS)
    assert losers == 0, harm
    assert deaths[POWER] >= 1200
    assert deaths[CRASH] >= 120
    assert harm["died in an edit"] >= 150
    came = ("a commit that nobody was told of is there", "an edit that nobody was told of is there")
    for effect in ("write lost", "write torn", "create undone", "checkpoint", *came):
        assert harm[effect] > 0, (effect, harm)


def test_what_was_committed_survives_failed_syncs_and_the_power_cuts_after_them():
    losers, deaths, harm = run(strict=False, seeds=SEEDS, failing=True)
    assert losers == 0, harm
    assert deaths[POWER] >= 500
    for effect in ("sync-error", "write lost by a failed sync", "write torn", "a commit that nobody was told of is there"):
        assert harm[effect] > 0, (effect, harm)


def test_a_wal_that_is_trusted_after_a_failed_sync_ruins_the_catalog(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wal, "write_anew", lambda *_: False)
    losers, _, harm = run(strict=False, seeds=SEEDS, failing=True)
    assert losers > 0
    assert any(name.startswith(("Corrupt", "Damaged")) for name in harm), harm


def settled(*settings: tuple[str, str]) -> Callable[[apsw.Connection, str, object], None]:
    """Settings in another order than R11's, with no look at the directory."""

    def settle(connection: apsw.Connection, path: str, sync_directory: object) -> None:
        for name, value in settings:
            connection.pragma(name, value)
        connection.wal_autocheckpoint(0)

    return settle


def without_a_sync_at_commit(connection: apsw.Connection, path: str, sync_directory: Callable[[], None] | None) -> None:
    sqlite_file_settle(connection, path, sync_directory)
    connection.pragma("synchronous", "NORMAL")


sqlite_file_settle = file._settle
EXCLUSIVE = ("locking_mode", "EXCLUSIVE")


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(without_a_sync_at_commit, id="all as it should be, then NORMAL"),
        pytest.param(settled(EXCLUSIVE, ("journal_mode", "WAL"), ("synchronous", "FULL")), id="WAL and FULL without EXTRA and directory"),
    ],
)
def test_other_settings_lose_what_was_committed(monkeypatch: pytest.MonkeyPatch, settle: Callable[..., None]):
    monkeypatch.setattr(file, "_settle", settle)
    losers, deaths, harm = run(strict=True, seeds=SEEDS)
    assert losers > 0
    assert any(name.startswith(("Lost", "Corrupt")) for name in harm), harm
    assert deaths[POWER] > losers
