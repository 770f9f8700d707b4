"""A copy of a SQLite catalog, made while it is written to.

SQLite copies page by page. It knows when the connection that it copies from changes a page which it
has copied already, and copies that again by itself; so the copy is of the moment of its last step,
and consistent, whatever was committed between the steps. Each step is short, because commits wait
behind it. The copy is not synced; the caller does that if it has to last.
"""

from __future__ import annotations

import os

import apsw

from bowstring.ports.failures import DiskFull, StorageFailed

PAGES_A_STEP = 256
"""Half a megabyte: a millisecond or less."""


class CatalogCopying:
    """One copy under way. Everything is called on the thread of the connection that is copied."""

    def __init__(self, source: apsw.Connection, path: str) -> None:
        self._path = path
        self._target: apsw.Connection | None = None
        self._backup: apsw.Backup | None = None
        try:
            self._target = apsw.Connection(path)
            self._target.pragma("synchronous", "OFF")
            self._target.pragma("journal_mode", "OFF")
            self._backup = self._target.backup("main", source, "main")
        except apsw.Error as error:
            self.finish()
            raise self._failed(error) from error

    def step(self) -> bool:
        """Copies some pages. Returns whether that was all. Raises DiskFull or StorageFailed: about
        the copy, not about the catalog.
        """
        assert self._backup is not None
        try:
            return self._backup.step(PAGES_A_STEP)
        except apsw.Error as error:
            raise self._failed(error) from error

    def finish(self) -> None:
        """Ends the copy, whole or not."""
        backup, target = self._backup, self._target
        self._backup = self._target = None
        if backup is not None:
            backup.close(True)
        if target is not None:
            target.close(True)

    def _failed(self, error: apsw.Error) -> DiskFull | StorageFailed:
        kind = DiskFull if isinstance(error, apsw.FullError) else StorageFailed
        return kind(f"copying the catalog to {os.fspath(self._path)} failed: {error}")
