"""Planted bugs of two nodes that serve one broker number in turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.catalog.sqlite.database import Database
from bowstring.ports.catalog import Registered
from bowstring.ports.journal import Fence
from bowstring.store.supply import Supply
from tests.simulation.load import KIB
from tests.simulation.planting import CALM, JOURNAL, SEALING, SEGMENTS, SLOW, bug

TURNS = JOURNAL.only(seconds=10.0, usurp_every=0.7, pause_seconds=0.02)
SEALED_TURNS = SEALING.only(usurp_every=0.7, seal_seconds=0.3, upkeep_seconds=0.1, isolated=0.3, inline_bytes=0, pause_seconds=0.03)
SHARED = SEGMENTS.only(seconds=10.0, usurp_every=0.7, segment_bytes=8 * KIB, large=0.5, large_bytes=5 * KIB, pause_seconds=0.02)


@bug(SLOW, TURNS)
def takeover_does_not_raise_the_epoch() -> Generator[None]:
    """Both nodes have the same fence, and the old one commits after the new one has loaded."""
    original = SqliteCatalog._register

    def register(self: SqliteCatalog, broker: int) -> Registered:
        connection = self.database.connection
        assert connection is not None
        held: list[tuple[Any, ...]] = connection.execute("SELECT epoch FROM broker WHERE number = ?", (broker,)).fetchall()
        return self.registered(connection, Fence(broker, held[0][0])) if held else original(self, broker)

    with patch.object(SqliteCatalog, "_register", register):
        yield


@bug(CALM.only(sync_seconds=0.02), TURNS)
def takeover_looks_at_the_journal_before_it_raises_the_epoch() -> Generator[None]:
    """The old node commits between the two, and the new one knows nothing of it."""
    original = SqliteCatalog.register

    async def register(self: SqliteCatalog, broker: int) -> Registered:
        connection = self.database.connection
        assert connection is not None
        before = await self.database.worker.run(lambda: self.registered(connection, Fence(broker, 0)))
        after = await original(self, broker)
        return after._replace(sequence=before.sequence)

    with patch.object(SqliteCatalog, "register", register):
        yield


@bug(CALM.only(sync_seconds=0.01), SEALED_TURNS)
def edits_of_an_old_node_are_accepted() -> Generator[None]:
    """A commit is fenced, but the old node goes on to seal, and both move the same pages."""
    with patch.object(Database, "check_epoch", lambda *_: None):
        yield


@bug(CALM.only(sync_seconds=0.01), SHARED)
def files_are_used_again_while_an_old_node_writes_to_them() -> Generator[None]:
    """The new node takes a segment of the old one that nothing refers to, and the old one wakes up and writes to it."""
    original = Supply.__init__

    def made(self: Supply, *arguments: Any) -> None:
        original(self, *arguments[:-1], False)

    with patch.object(Supply, "__init__", made):
        yield
