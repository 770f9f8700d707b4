"""Pages for whoever needs them: from the tail, from the cache, else from the store or the journal, verified."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.caches import Caches, TailKey
from bowstring.core.pages import PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.catalog import Catalog
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference, Store


class PageReader:
    """Reads committed pages."""

    def __init__(self, *, store: Store, catalog: Catalog, caches: Caches) -> None:
        self._store = store
        self._catalog = catalog
        self._caches = caches

    async def pages(self, partition: Partition, entries: Sequence[PageEntry]) -> list[Page]:
        """The pages of these entries, in their order. Raises Damaged, naming the offsets."""
        found = [self._cached(partition, entry) for entry in entries]
        missing = [at for at, page in enumerate(found) if page is None]
        if missing:
            for at, page in zip(missing, await self._read(partition, [entries[at] for at in missing]), strict=True):
                found[at] = page
        return [page for page in found if page is not None]

    def _cached(self, partition: Partition, entry: PageEntry) -> Page | None:
        tail = self._caches.tail.get(TailKey(partition.topic, partition.number, entry.first_offset))
        return tail if tail is not None else self._caches.pages.get(reference(entry))

    async def _read(self, partition: Partition, entries: list[PageEntry]) -> list[Page]:
        stored = [entry for entry in entries if entry.segment]
        inlined = [entry for entry in entries if not entry.segment]
        pages: dict[int, Page] = {}
        for port, wanted in ((self._store, stored), (self._catalog, inlined)):
            if wanted:
                try:
                    read = await port.read([reference(entry) for entry in wanted])
                except Damaged as error:
                    raise Damaged(f"offsets {wanted[0].first_offset} to {wanted[-1].end - 1}: {error}") from error
                pages.update({entry.first_offset: page for entry, page in zip(wanted, read, strict=True)})
        for entry in entries:
            self._check(partition, entry, pages[entry.first_offset])
            self._caches.pages.put(reference(entry), pages[entry.first_offset])
        return [pages[entry.first_offset] for entry in entries]

    def _check(self, partition: Partition, entry: PageEntry, page: Page) -> None:
        header = decode_header(page.header)
        if (header.topic, header.partition, header.rows) != (partition.topic, partition.number, entry.rows):
            raise Damaged(f"the page at offset {entry.first_offset} is another partition's: {header.topic}/{header.partition}")

    async def ids(self, partition: Partition, offsets: NDArray[np.int64]) -> list[str]:
        """The ids that are stored at these offsets, in their order; empty where the page has none."""
        ids = [""] * len(offsets)
        places: dict[int, list[int]] = {}
        for at, offset in enumerate(offsets.tolist()):
            places.setdefault(partition.pages.at(offset), []).append(at)
        entries = [partition.pages[place] for place in places]
        for entry, page, wanted in zip(entries, await self.pages(partition, entries), places.values(), strict=True):
            batch = encoding.decode(decode_header(page.header).columns, page.body)
            if "id" in batch.schema.names:
                rows = pa.array(offsets[wanted] - entry.first_offset)
                for at, text in zip(wanted, batch.column("id").take(rows).to_pylist(), strict=True):
                    ids[at] = text
        return ids


def reference(entry: PageEntry) -> Reference:
    return Reference(entry.segment, entry.position, entry.length, entry.sequence)
