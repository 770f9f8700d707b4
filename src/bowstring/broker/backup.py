"""A backup of everything, made while the broker serves.

    hold what would be given back ──► copy the catalog, in steps ──► pin the segments that the copy refers to ──► hold no more
      ──► copy and check those ──► manifest ──► unpin

The backup is of the moment at which the copy of the catalog was finished: the segments that it
refers to are durable, do not change, and are not reused while they are pinned. Flushes, seals,
cleaning and retention go on meanwhile; the space that they free comes a little later.

If the incarnation ends on the way, its pins are gone, and segments may be reused during the
copying: the backup is given up. It is also given up if another incarnation has taken over without
this one knowing: the catalog tells.
"""

from __future__ import annotations

from collections.abc import Callable

from bowstring import errors
from bowstring.broker.log.log import Log
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.archive import Archive, Filled
from bowstring.ports.catalog import Catalog
from bowstring.ports.failures import DiskFull, Fenced, StorageFailed


class Backup:
    """One backup under way."""

    def __init__(self, log: Log, catalog: Catalog, usage: Usage, archive: Archive, proof: str, ended: Callable[[], None]) -> None:
        self._log = log
        self._catalog = catalog
        self._usage = usage
        self._archive = archive
        self._proof = proof
        self._ended = ended

    @property
    def done(self) -> int:
        """Bytes copied so far."""
        return self._archive.done

    @property
    def total(self) -> int:
        """Bytes to copy in all; 0 while that is not known."""
        return self._archive.total

    async def run(self) -> Filled:
        """Makes the backup. If it raises, or is cancelled, there is none."""
        usage = self._usage
        pinned: frozenset[int] = frozenset()
        try:
            with usage.hold():
                path = await self._archive.begin(self._proof)
                await self._copy_catalog(path)
                pinned = await self._archive.needed()
                for segment in pinned:
                    usage.pin(segment)
            filled = await self._archive.fill()
            await self._check_pinned()
            await self._archive.finish()
            return filled
        finally:
            for segment in pinned:
                usage.unpin(segment)
            try:
                await self._archive.give_up()
            finally:
                self._ended()

    async def _copy_catalog(self, path: str) -> None:
        try:
            await self._catalog.back_up(path)
        except DiskFull as failure:
            raise errors.Full(f"{failure}; there is no backup.", hint="Free some space there, or name another directory.") from failure
        except StorageFailed as failure:
            raise errors.Unavailable(f"{failure}; there is no backup.") from failure

    async def _check_pinned(self) -> None:
        """Checks that the pins have held until now: no other incarnation can have given segments
        back.
        """
        try:
            await self._log.check_fence()
        except (Fenced, StorageFailed, DiskFull) as failure:
            raise _loaded_anew() from failure
        if self._log.ended is not None:
            raise _loaded_anew()


def _loaded_anew() -> errors.Unavailable:
    return errors.Unavailable("the broker was loaded anew while the backup was made; there is none.", hint="Repeat it.")
