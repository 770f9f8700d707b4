"""Rare states of a broker's upkeep that were really reached: counted where something came of it, not where it was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading import fetcher
from bowstring.broker.reading.visibility import Seen
from bowstring.core.decisions import Found
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.ports.extents import Extent
from bowstring.ports.store import Page

if TYPE_CHECKING:
    from tests.simulation.world import World


class Sightings:
    """What one world has seen. It hangs itself into objects of one incarnation, and changes nothing."""

    def __init__(self, world: World) -> None:
        self._sometimes = world.sometimes
        self._sealing: Epoch | None = None
        self._moves: dict[int, int] = {}
        self._watch_what_is_hidden()

    def follow(self, epoch: Epoch) -> None:
        """From here on."""
        self._moves[epoch.fence.epoch] = 0
        self._watch_seals(epoch)
        self._watch_extents(epoch)
        self._watch_reading(epoch)
        self._watch_segments(epoch)

    def ended(self, epoch: Epoch) -> None:
        """An incarnation is over, whatever ended it."""
        if self._sealing is epoch:
            self._sometimes("crash inside a seal")
        self._sealing = None

    def has_moved(self, epoch: Epoch) -> bool:
        """Whether something has changed its place since the last time."""
        moved, self._moves[epoch.fence.epoch] = self._moves[epoch.fence.epoch], 0
        return moved > 0

    def _moved(self, epoch: Epoch) -> None:
        self._moves[epoch.fence.epoch] += 1

    def _watch_seals(self, epoch: Epoch) -> None:
        seal = epoch.upkeep.sealer.seal

        async def sealed() -> None:
            flushes, self._sealing = epoch.log.flusher.flushes, epoch
            self._moved(epoch)
            try:
                await seal()
            except Exception:
                self._sealing = None
                raise
            self._sealing = None
            self._sometimes("seal")
            self._sometimes("seal under load", epoch.log.flusher.flushes > flushes)

        epoch.upkeep.sealer.seal = sealed  # type: ignore[method-assign]

    def _watch_extents(self, epoch: Epoch) -> None:
        switch = epoch.upkeep.switch
        replaced, reset = switch.replaced, epoch.usage.reset_sealed

        def watched(actor: PartitionActor, old: list[Extent], new: Extent | None) -> None:
            self._moved(epoch)
            replaced(actor, old, new)
            if new is None:
                self._sometimes("extent dropped", len(old))
            else:
                self._sometimes("extents joined" if len(old) > 1 else "cleaner copied a page")

        def cleared(sealed: Any) -> None:
            self._sometimes("topic's rows cleared away", dict(sealed) != dict(epoch.usage._sealed))
            reset(sealed)

        switch.replaced = watched  # type: ignore[method-assign]
        epoch.usage.reset_sealed = cleared  # type: ignore[method-assign]

    def _watch_reading(self, epoch: Epoch) -> None:
        reader, lookups = epoch.reading.reader, epoch.log.lookups
        pages, look_up = reader.pages, lookups.look_up

        async def read(partition: Partition, entries: Sequence[PageEntry], *, keep: bool = True) -> list[Page]:
            moves = partition.moves
            try:
                found = await pages(partition, entries, keep=keep)
            finally:
                self._sometimes("pages moved while they were read", moves != partition.moves)
            self._sometimes("coalesced page read", any(entry.arrived != entry.arrived_last for entry in entries))
            self._sometimes("cut page read", any(origin.rest for page in found for origin in decode_header(page.header).origins))
            return found

        async def looked_up(partition: Partition, *arguments: Any) -> Found:
            found = await look_up(partition, *arguments)
            offsets = found.ids.offsets
            self._sometimes("id found in a section", len(offsets) > 0 and int(offsets.min()) < partition.sealed_end)
            self._sometimes("batch found in a section", len(found.batches) > 0)
            return found

        reader.pages = read  # type: ignore[method-assign]
        lookups.look_up = looked_up  # type: ignore[method-assign]

    def _watch_segments(self, epoch: Epoch) -> None:
        give_back = epoch.upkeep._give_back

        async def given_back() -> None:
            if epoch.usage.unused(epoch.surroundings.store.segments()):
                self._moved(epoch)
            await give_back()

        epoch.upkeep._give_back = given_back  # type: ignore[method-assign]

    def _watch_what_is_hidden(self) -> None:
        original = getattr(fetcher.visible, "watched", fetcher.visible)

        def visible(partition: Partition, entry: PageEntry, header: Any, batch: Any, moments: Any, first: int, end: int) -> Seen:
            seen = original(partition, entry, header, batch, moments, first, end)
            hidden = len(partition.live(first, end)) - len(seen.offsets)
            self._sometimes("expired row hidden", hidden > 0)
            return seen

        visible.watched = original  # type: ignore[attr-defined]
        fetcher.visible = visible
