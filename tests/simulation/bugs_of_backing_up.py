"""Planted bugs of backups: what they need goes, or they lack it, while everything else goes on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

import apsw

from bowstring.backup.archive import HostArchive
from bowstring.backup.making import Making
from bowstring.broker.backup import Backup
from bowstring.broker.upkeep.usage import Usage
from bowstring.catalog.sqlite.copy import CatalogCopying
from tests.simulation.planting import CALM, FULL, KEEPING, SLOW, bug

BACKUPS = KEEPING.only(backup_every=0.3, inline_bytes=0, retention_seconds=1.0, large=0.5, large_bytes=20 * 1024, seal_seconds=0.5)


@bug(CALM, BACKUPS)
def backup_pins_nothing() -> Generator[None]:
    """Retention and cleaner take the segments that it has yet to copy."""
    original = HostArchive.needed

    async def needed(self: HostArchive) -> frozenset[int]:
        await original(self)
        return frozenset()

    with patch.object(HostArchive, "needed", needed):
        yield


@bug(SLOW, BACKUPS.only(brief_topics=3, retention_seconds=0.5))
def segments_go_before_a_backup_knows_what_to_pin() -> Generator[None]:
    """Between the copy of the catalog and the pins everything goes on as usual."""

    @contextmanager
    def hold(_: Usage) -> Generator[None]:
        yield

    with patch.object(Usage, "hold", hold):
        yield


@bug(FULL.only(full_every=1.0, full_seconds=0.3), BACKUPS.only(brief_topics=3, retention_seconds=0.5))
def backup_goes_on_when_its_incarnation_has_ended() -> Generator[None]:
    """Its pins went with it, and the next one uses the segments again."""

    async def check(_: Backup) -> None:
        pass

    with patch.object(Backup, "_check_pinned", check):
        yield


@bug(CALM, BACKUPS)
def backup_lacks_what_is_not_sealed() -> Generator[None]:
    """Pages that only the journal refers to are not copied."""
    original = Making._collect

    def collect(self: Making) -> None:
        partitions, self._contents.partitions = self._contents.partitions, {}
        original(self)
        self._contents.partitions = partitions

    with patch.object(Making, "_collect", collect):
        yield


@bug(CALM, BACKUPS)
def backup_lacks_the_last_flushes() -> Generator[None]:
    """The copy of the catalog is one of a moment ago."""
    original = CatalogCopying.finish

    def finish(self: CatalogCopying) -> None:
        whole = self._backup is not None and self._backup.done
        original(self)
        if whole:
            copy = apsw.Connection(self._path)
            copy.execute("DELETE FROM journal WHERE position > (SELECT max(position) - 20 FROM journal)")
            copy.close()

    with patch.object(CatalogCopying, "finish", finish):
        yield
