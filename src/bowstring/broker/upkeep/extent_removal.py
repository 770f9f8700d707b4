"""Extents in which nothing lives any more leave the catalog, once nothing can bring their pages back."""

from __future__ import annotations

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading.extents import Extents
from bowstring.broker.upkeep.sealer import Sealer
from bowstring.broker.upkeep.switch import Switch
from bowstring.core.partition import Partition
from bowstring.ports.extents import Extent
from bowstring.ports.journal import Edit, Journal

EXTENTS_AN_EDIT = 50


class ExtentRemoval:
    """Removes extents that retention has passed."""

    def __init__(self, *, journal: Journal, extents: Extents, sealer: Sealer, switch: Switch) -> None:
        self._journal = journal
        self._extents = extents
        self._sealer = sealer
        self._switch = switch

    async def drop(self, actor: PartitionActor, now: int) -> None:
        """Removes those of one partition."""
        partition = actor.partition
        at_load = partition.sealed_above_floor
        if partition.sealed_end <= 1 or not partition.sealed_bytes or (at_load is not None and not 0 < at_load.expires < now):
            return
        extents = await self._extents.of(partition)
        gone = [extent for extent in extents if extent.end_offset <= partition.retained.first]
        # While the journal still has the pages, only a floor keeps them from coming back at load.
        rest = [extent for extent in extents[len(gone) :] if self._sealer.has_trimmed(extent)]
        gone += [extent for extent in rest if 0 < extent.expires < now or _is_below(partition, extent)]
        if any(extent.end_offset > partition.snapshot_end for extent in gone):  # else nothing tells how far the log was sealed
            await self._sealer.snapshot([actor])
        for start in range(0, len(gone), EXTENTS_AN_EDIT):
            step = gone[start : start + EXTENTS_AN_EDIT]
            await self._journal.edit(Edit(drop=[extent.key for extent in step]))
            self._switch.replaced(actor, step, None)


def _is_below(partition: Partition, extent: Extent) -> bool:
    """Is nothing in the extent retained?"""
    return not partition.retained.any(extent.first_offset, extent.end_offset)
