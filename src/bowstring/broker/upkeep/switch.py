"""The moment at which extents begin to tell where pages are: after a seal, a rewrite or a removal has been committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bowstring.broker.counters import Counters
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading.extents import Extents
from bowstring.broker.upkeep.usage import Usage
from bowstring.broker.witness import Witness
from bowstring.ports.extents import Extent


class Switch:
    """Brings a partition, the usage of segments and the cached extents in line with the catalog."""

    def __init__(self, *, usage: Usage, extents: Extents, counters: Counters, witness: Witness) -> None:
        self._usage = usage
        self._extents = extents
        self._counters = counters
        self._witness = witness
        self.told: list[Callable[[PartitionActor], None]] = []
        """Called with a partition when it has one more extent."""

    def sealed(self, actor: PartitionActor, extent: Extent) -> None:
        """The catalog has an extent for pages that only the journal had."""
        self._usage.add_sealed(extent.uses)
        self._counters.sealed_pages += extent.pages
        self._counters.sealed_bytes += extent.bytes
        partition = actor.partition
        before = partition.pages.segments()
        actor.sealed(extent.end_offset, partition.sealed_bytes + extent.bytes)
        # `gone`, not `closed`: while a deletion is under way the topic is closed, and when it is
        # durable it gives up the pages that are in the index then. These have left it by then.
        if actor.gone is None:
            self._usage.left_the_index(before, partition.pages.segments())
        self._extents.forget(partition.topic, partition.number)
        for tell in self.told:
            tell(actor)

    def replaced(self, actor: PartitionActor, old: Sequence[Extent], new: Extent | None) -> None:
        """The catalog has one extent instead of these, or none because nothing in them lives."""
        for extent in old:
            self._usage.remove_sealed(extent.uses)
        if new is not None:
            self._usage.add_sealed(new.uses)
        partition = actor.partition
        actor.moved(partition.sealed_bytes - sum(extent.bytes for extent in old) + (new.bytes if new is not None else 0))
        self._extents.forget(partition.topic, partition.number)
        self._witness.replaced(old, new)
