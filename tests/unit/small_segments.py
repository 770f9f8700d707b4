"""A local store whose segments are small, so that a test soon has several; and the pages to fill them with."""

from __future__ import annotations

import asyncio

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
