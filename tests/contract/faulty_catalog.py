"""A SQLite catalog on files that can be made to fail. A test file takes the fixtures by name: `make = faulty_catalog.make`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.ports.catalog import Fence
from tests.contract.catalog_contract import BROKER
from tests.contract.faulty_vfs import Faults, FaultyVFS
from tests.contract.test_catalog import InlineWorker

NUMBERS = itertools.count()


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def make(tmp_path: Path, faults: Faults) -> Iterator[Callable[..., SqliteCatalog]]:
    name = f"faulty-{next(NUMBERS)}"
    vfs = FaultyVFS(name, faults)
    yield lambda **options: SqliteCatalog(str(tmp_path / "catalog.db"), InlineWorker(), vfs=name, **options)
    vfs.unregister()


async def opened(catalog: SqliteCatalog) -> Fence:
    await catalog.open()
    return (await catalog.register(BROKER)).fence
