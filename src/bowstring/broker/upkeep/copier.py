"""Copies the pages of an extent that live on out of a segment, and leaves the dead ones behind."""

from __future__ import annotations

from bowstring.broker.counters import Counters
from bowstring.broker.upkeep.placement import Placed, Placing
from bowstring.core.pages import PageEntry
from bowstring.core.partition import MINUTE, Partition
from bowstring.frames import reference_of
from bowstring.ports.store import Store

READ_BYTES = 1024 * 1024


class Copier:
    """The copying of one incarnation's cleaner, and how much of it is left for this turn."""

    def __init__(self, store: Store, counters: Counters) -> None:
        self._store = store
        self._counters = counters
        self.budget = 0
        """Bytes that may still be copied; below 0 when the last page was more than that."""

    async def copied(self, placing: Placing, partition: Partition, entries: list[PageEntry], segment: int) -> list[Placed]:
        """The pages that live on: those in the segment are copied."""
        live = [entry for entry in entries if _is_needed(partition, entry)]
        found: list[Placed] = []
        chunk: list[PageEntry] = []
        for entry in (*live, None):
            if chunk and (entry is None or entry.segment != segment or sum(page.length for page in chunk) >= READ_BYTES):
                pages = await self._store.read([reference_of(page) for page in chunk])
                found += [Placed(e, await placing.add(page)) for e, page in zip(chunk, pages, strict=True)]
                size = sum(page.length for page in chunk)
                self.budget -= size
                self._counters.cleaned_bytes += size
                chunk = []
            if entry is not None and entry.segment == segment:
                chunk.append(entry)
            elif entry is not None:
                found.append(Placed(entry))
        return found


def _is_needed(partition: Partition, entry: PageEntry) -> bool:
    """Whether a row may be delivered, or its owner has deleted it and its id is still taken:
    recognising the id needs the page.
    """
    first, end = entry.first_offset, entry.end
    if partition.is_whole(first, end) or len(partition.live(first, end)):
        return True
    if entry.arrived_last < partition.arrived - max(partition.window, MINUTE):
        return False
    deleted = partition.retained.of(partition.deletions.between(first, end))
    return len(deleted) > len(partition.deletions.freed(first, end))
