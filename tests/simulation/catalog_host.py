"""One catalog for two broker nodes: a process that has it open, and the way to it from other processes.

SQLite has one connection, so several nodes cannot open the file. As PostgreSQL will, a process of its own serves the catalog here. A call
runs in that process: it goes on if the caller dies or pauses, and its caller is told `StorageFailed` if that process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.ports.failures import StorageFailed
from bowstring.ports.journal import Fence

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation

Outcome = tuple[Any, BaseException | None]


class CatalogHost:
    """The process. `catalog` is that of the process that runs."""

    def __init__(self, make: Callable[[Incarnation], SqliteCatalog]) -> None:
        self._make = make
        self.catalog: SqliteCatalog | None = None
        self.life: Incarnation | None = None
        self._opened = asyncio.Event()
        self._failed = asyncio.Event()

    async def main(self, life: Incarnation) -> None:
        """Serves until the catalog fails: then nothing can be done with it but to open it anew."""
        self._opened.clear()
        self._failed = asyncio.Event()
        catalog = self._make(life)
        await catalog.open()
        self.catalog, self.life = catalog, life
        self._opened.set()
        await self._failed.wait()
        raise StorageFailed("the catalog has failed")

    async def opened(self) -> tuple[SqliteCatalog, Incarnation]:
        """The catalog, once it can be used."""
        while self.life is None or self.life.dead:
            self._opened.clear()
            await self._opened.wait()
        assert self.catalog is not None
        return self.catalog, self.life

    async def run(self, host: Incarnation, call: Callable[[], Awaitable[Any]]) -> Any:
        """Runs a call in the catalog's process, for another."""
        if host.dead:
            raise StorageFailed("the catalog's process is dead")
        answer = host.spawn(_outcome(call))
        await asyncio.wait([answer, host.ended], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise StorageFailed("the catalog's process has died")
        result, error = answer.result()
        if error is None:
            return result
        if isinstance(error, StorageFailed):
            self._failed.set()
        raise error


async def _outcome(call: Callable[[], Awaitable[Any]]) -> Outcome:
    """Nobody may be left to hear of an error."""
    try:
        return await call(), None
    except Exception as error:
        return None, error


class RemoteCatalog:
    """`ports.catalog.Catalog` for one process."""

    def __init__(self, host: CatalogHost) -> None:
        self._host = host
        self._target: SqliteCatalog | None = None
        self._life: Incarnation | None = None

    async def open(self) -> None:
        self._target, self._life = await self._host.opened()

    async def close(self) -> None:
        """The other process keeps it open."""

    def journal(self, fence: Fence) -> RemoteJournal:
        assert self._target is not None
        return RemoteJournal(fence, self._target.journal(fence), self._run)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        return partial(self._forward, name)

    async def _forward(self, name: str, *arguments: Any, **named: Any) -> Any:
        return await self._run(partial(getattr(self._target, name), *arguments, **named))

    async def _run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        assert self._life is not None, "the catalog is not open"
        return await self._host.run(self._life, call)


class RemoteJournal:
    """`ports.journal.Journal` for one process."""

    def __init__(self, fence: Fence, target: object, run: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> None:
        self.fence = fence
        self._target = target
        self._run = run

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._target, name)
        return lambda *arguments, **named: self._run(partial(call, *arguments, **named))
