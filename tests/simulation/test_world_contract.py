"""The simulated disk keeps the promises that the real one keeps, by the same contract suite, where nothing is made to fail."""

from __future__ import annotations

import asyncio
import contextvars
import random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.disk import Drive, SimulatedDisk
from tests.simulation.options import Options

pytest.register_assert_rewrite("tests.contract.disk_contract")
from tests.contract.disk_contract import DiskContract, Medium  # noqa: E402


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


class TestSimulatedDisk(DiskContract):
    @pytest.fixture(params=range(3))
    def medium(self, request: pytest.FixtureRequest) -> Medium:
        surroundings = Surroundings(request.param)
        return Medium(disk=surroundings.mounted, cut=surroundings.cut)
