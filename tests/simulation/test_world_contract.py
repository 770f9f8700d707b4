"""The simulated disk keeps the promises that the real one keeps, by the same contract suite, where nothing is made to fail."""

from __future__ import annotations

import asyncio
import contextvars
import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from bowstring.ports.store import Reference
from bowstring.store.local import LocalStore
from bowstring.store.segments import segment_name
from tests.simulation.disk import Drive, SimulatedDisk
from tests.simulation.loop import PowerCut
from tests.simulation.options import Options

pytest.register_assert_rewrite("tests.contract.disk_contract")
pytest.register_assert_rewrite("tests.contract.store_contract")
pytest.register_assert_rewrite("tests.contract.store_room_contract")
from tests.contract.disk_contract import DiskContract, Medium  # noqa: E402
from tests.contract.store_contract import SEGMENT_BYTES, Ground, StoreContract, swap_frames  # noqa: E402
from tests.contract.store_room_contract import StoreRoomContract  # noqa: E402


class Surroundings:
    """As much of a world as a drive asks for, on whatever loop runs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.options = Options(sync_seconds=1e-5)
        self.faulty = False
        self.digest = SimpleNamespace(note=lambda event: None)
        self.drive = Drive(self, "disk")  # type: ignore[arg-type]
        self.lives: list[Any] = []

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def source(self, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}/{purpose}")

    def sometimes(self, name: str, times: int = 1) -> None:
        """Nothing is counted here."""

    def mounted(self) -> SimulatedDisk:
        self.lives.append(SimpleNamespace(name="process", dead=False, under_way=0, context=contextvars.copy_context()))
        return SimulatedDisk(self.drive, self.lives[-1])

    def cut(self) -> None:
        for life in self.lives:
            life.dead = True
        self.drive.go_dark()

    def fault(self, kind: str, where: str) -> None:
        """Nor here."""


class TestLocalStoreOnASimulatedDisk(StoreContract, StoreRoomContract):
    @pytest.fixture
    async def store(self, ground: Ground):
        store = ground.store()
        await store.open(1, ())
        yield store
        with suppress(PowerCut):
            await store.close()

    @pytest.fixture(params=range(3))
    def ground(self, request: pytest.FixtureRequest) -> Ground:
        surroundings = Surroundings(request.param)
        medium = surroundings.drive.medium

        def image(reference: Reference) -> bytearray:
            return medium.names[segment_name(reference.segment)].data

        def flip(reference: Reference, at: int) -> None:
            image(reference)[reference.position + at] ^= 16

        return Ground(
            store=lambda: LocalStore(surroundings.mounted(), segment_bytes_first=SEGMENT_BYTES, segment_bytes_max=4 * SEGMENT_BYTES),
            outlasts=True,
            cut=surroundings.cut,
            flip=flip,
            swap=lambda one, other: swap_frames(image(one), one, other),
            fill=lambda: surroundings.drive.squeeze(0),
            relieve=surroundings.drive.relax,
        )


class TestSimulatedDisk(DiskContract):
    @pytest.fixture(params=range(3))
    def medium(self, request: pytest.FixtureRequest) -> Medium:
        surroundings = Surroundings(request.param)
        return Medium(disk=surroundings.mounted, cut=surroundings.cut)
