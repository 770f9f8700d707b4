"""Backups of the broker while it serves, made by the product's own code, and looked at as if they
were needed.

The broker's half runs in the simulated world: its stream, its steps between commits, its pins, its
end with the incarnation. The half that copies files has real ones. What the medium holds of a
segment at the moment at which it is read is put into a directory, one segment after the other with
time between them: one that was used again too early is there as it is by then.

The test verifies every finished backup as `bowstring inspect --verify` does, and checks that it has
everything that was committed when the backup began.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Final

from bowstring import errors
from bowstring.backup import making
from bowstring.backup.archive import HostArchive
from bowstring.client.backup import back_up
from bowstring.inspection.contents import Contents, Key
from bowstring.inspection.directory import CATALOG, DataDirectory
from bowstring.inspection.verification import Verifier
from bowstring.ports.archive import Filled
from bowstring.store.segments import segment_name
from tests.history.violations import Violation
from tests.simulation.options import after

if TYPE_CHECKING:
    from bowstring.broker.incarnation import Incarnation as Epoch
    from tests.simulation.node import Incarnation
    from tests.simulation.server import Server
    from tests.simulation.workload import Workload

PROMISE: Final = "a_backup_holds_what_was_committed"
PAGES_A_STEP: Final = 3
"""So few that commits come between the steps of the smallest catalog."""
FILL_SECONDS: Final = 20.0
"""About how long the segments of a backup take at most, however many they are."""
_DESCRIPTOR: Final = 900
_FOLDER: Final = f"/proc/self/fd/{_DESCRIPTOR}"
"""The same name in every process, for names are in errors, and errors are in the digest."""


class RealFiles:
    """A directory of the machine that this runs on, until the run is over."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="bowstring-simulation-")
        opened = os.open(self._directory.name, os.O_RDONLY | os.O_DIRECTORY)
        os.dup2(opened, _DESCRIPTOR)
        os.close(opened)
        self.data = os.path.join(_FOLDER, "data")

    def target(self, number: int, proof: str) -> str:
        """An empty directory, but for the proof that whoever asks may write there."""
        path = os.path.join(_FOLDER, f"backup-{number}")
        os.mkdir(path)
        making.write_durably(os.path.join(path, making.INCOMPLETE), json.dumps({"proof": proof}).encode())
        return path

    def close(self) -> None:
        os.close(_DESCRIPTOR)
        self._directory.cleanup()


class SimulatedArchive(HostArchive):
    """`ports.archive.Archive` of a simulated drive."""

    def __init__(self, life: Incarnation, files: RealFiles, target: str) -> None:
        super().__init__(files.data, target, worker=life.worker(), clock=life.clock, software="simulated")
        self._life = life
        self._source = life.world.source(f"{life.name}/{target}")
        shutil.rmtree(files.data, ignore_errors=True)
        os.mkdir(files.data)
        with open(os.path.join(files.data, CATALOG), "wb"):
            pass

    async def needed(self) -> frozenset[int]:
        await asyncio.sleep(after(self._source, 0.3))
        for name in self._life.disk.medium.names:
            if name.startswith("segment-"):
                self._put(name)
        return await super().needed()

    async def fill(self) -> Filled:
        assert self._making is not None
        needed = sorted(self._making.needed)
        for segment in needed:
            await asyncio.sleep(after(self._source, min(0.3, FILL_SECONDS / len(needed))))
            self._put(segment_name(segment))
        return await super().fill()

    def _put(self, name: str) -> None:
        """The file as it is now. One that is gone is empty, for it may be open."""
        inode = self._life.disk.medium.names.get(name)
        with open(os.path.join(self._data, name), "wb") as file:
            file.write(inode.data if inode is not None else b"")


class Backups:
    """The client that asks for backups."""

    def __init__(self, server: Server, workload: Workload) -> None:
        self._server = server
        self._workload = workload
        self._world = server.world
        self._number = 0

    async def run(self, life: Incarnation) -> None:
        """One after the other, as long as there is work."""
        source = self._world.source(f"{life.name}/backups")
        while not self._workload.over:
            await asyncio.sleep(after(source, self._server.load.backup_every))
            self._number += 1
            proof = life.randomness.unique().hex()
            await self._back_up(life, self._server.files.target(self._number, proof), proof)

    async def _back_up(self, life: Incarnation, target: str, proof: str) -> None:
        before = _committed(self._server.watch.last)
        try:
            answer = await back_up(self._server.address, target, proof, lambda *_: None, life.dialer)
        except errors.Error as error:
            self._world.sometimes(f"backup answered {error.kind}")
            return
        self._world.sometimes("backup made")
        self._world.sometimes("segment in a backup", answer.segments)
        rotten = self._world.options.bit_rot_rate > 0
        cases = [] if rotten else [f"it is damaged: {text}" for text in answer.damaged]
        with DataDirectory(target) as directory:
            contents = Contents(directory.catalog)
            findings = [] if rotten else Verifier(directory, contents, lambda *_: None).run().findings
        cases += [f"it is damaged: {finding}" for finding in findings if finding.damaged]
        cases += _lacking(contents, before, _committed(self._server.watch.last))
        self._server.watch.violations += [Violation(PROMISE, f"{os.path.basename(target)}: {case}") for case in cases]
        shutil.rmtree(target)


def _committed(epoch: Epoch | None) -> dict[Key, int]:
    return {} if epoch is None else {key: actor.partition.committed_offset for key, actor in epoch.topics._actors.items()}


def _lacking(contents: Contents, before: dict[Key, int], now: dict[Key, int]) -> list[str]:
    """Partitions of topics that were not deleted meanwhile, as they are in the backup and should
    be.
    """
    cases = []
    for key in before.keys() & now.keys():
        found = contents.partitions[key].committed_offset if key in contents.partitions else 0
        if not before[key] <= found <= now[key]:
            cases.append(f"{contents.name(key[0])}/{key[1]} ends at {found}, and ended between {before[key]} and {now[key]} meanwhile")
    return sorted(cases)
