"""Rare states of a broker's upkeep that were really reached: counted where something came of it, not where it was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.core.decisions import Found
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.ports.extents import Extent

if TYPE_CHECKING:
    from tests.simulation.world import World


class Sightings:
    """What one world has seen. A `Witness` tells it."""

    def __init__(self, world: World) -> None:
        self._sometimes = world.sometimes
        self._sealing: tuple[Epoch, int] | None = None
        """Who seals, and how many flushes there had been."""
        self._moves: Counter[int] = Counter()

    def ended(self, epoch: Epoch) -> None:
        """An incarnation is over, whatever ended it."""
        if self._sealing is not None and self._sealing[0] is epoch:
            self._sometimes("crash inside a seal")
        self._sealing = None

    def has_moved(self, epoch: Epoch) -> bool:
        """Whether something has changed its place since the last time."""
        return self._moves.pop(epoch.fence.epoch, 0) > 0

    def moved(self, epoch: Epoch) -> None:
        self._moves[epoch.fence.epoch] += 1

    def seal_began(self, epoch: Epoch) -> None:
        self.moved(epoch)
        self._sealing = epoch, epoch.log.flusher.flushes

    def seal_ended(self, epoch: Epoch, *, whole: bool) -> None:
        began, self._sealing = self._sealing, None
        if whole and began is not None:
            self._sometimes("seal")
            self._sometimes("seal under load", epoch.log.flusher.flushes > began[1])

    def replaced(self, epoch: Epoch, old: Sequence[Extent], new: Extent | None) -> None:
        self.moved(epoch)
        if new is None:
            self._sometimes("extent dropped", len(old))
        else:
            self._sometimes("extents joined" if len(old) > 1 else "cleaner copied a page")

    def cleared(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        self._sometimes("topic's rows cleared away", dict(before) != dict(after))

    def read(self, partition: Partition, entries: Sequence[PageEntry], moves: int) -> None:
        self._sometimes("pages moved while they were read", moves != partition.moves)
        self._sometimes("coalesced page read", any(entry.arrived != entry.arrived_last for entry in entries))

    def looked_up(self, partition: Partition, found: Found) -> None:
        offsets = found.ids.offsets
        self._sometimes("id found in a section", len(offsets) > 0 and int(offsets.min()) < partition.sealed_end)
        self._sometimes("batch found in a section", len(found.batches) > 0)

    def cut(self, partition: Partition, first: int, end: int, visible: int) -> None:
        self._sometimes("expired row hidden", len(partition.live(first, end)) > visible)
