"""A local store whose segments are small, so that a test soon has several; and the pages to fill them with."""

from __future__ import annotations

import asyncio

import pytest

from bowstring.ports.store import Page
from bowstring.store.local import LocalStore
from tests.contract.scripted_disk import ScriptedDisk

FIRST = 64 << 10


def page(size: int = 100, letter: bytes = b"x") -> Page:
    return Page(b"header", letter * size)


def store_on(disk: ScriptedDisk, **options: int) -> LocalStore:
    return LocalStore(disk, **{"segment_bytes_first": FIRST, "segment_bytes_max": 4 * FIRST} | options)


async def background() -> None:
    """Lets everything that needs no outside event run to its end."""
    for _ in range(50):
        await asyncio.sleep(0)


# Fixtures: a test file says `disk = scripted_disk` and `store = small_store`.


@pytest.fixture
def scripted_disk() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.fixture
async def small_store(disk: ScriptedDisk):
    store = store_on(disk)
    await store.open(1, ())
    yield store
    await store.close()
    assert disk.open_files == 0
