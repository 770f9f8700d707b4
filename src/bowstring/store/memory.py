"""A store in memory: it keeps pages as they came, and loses them with the process.

For tests and for brokers without a data directory (`Broker.ephemeral`, `--store memory`). It gives
the same references as the store on a disk would, so that nothing else can tell the two apart. It
neither frames nor checks pages, because no program survives memory that changes by itself. A
reference is the key to its page, and a reference that differs in anything finds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bowstring.frames import framed_length, padded
from bowstring.ports.failures import Damaged, StorageFailed
from bowstring.ports.store import Page, Reference
from bowstring.store.segments import MIB, epoch_of, segment_id

# More than any caller asks for: only the system knows how much memory there is, and it reports that
# too late.
_ROOM = 1 << 62


class MemoryStore:
    """A `Store` in memory. Segments exist only so that they can be released."""

    def __init__(self, *, segment_bytes: int = 16 * MIB) -> None:
        self._segment_bytes = segment_bytes
        self._segments: dict[int, dict[Reference, Page]] = {}
        self._sizes: dict[int, int] = {}
        self._epoch = 0
        self._number = 0
        self._end = 0
        self._is_open = False

    async def open(self, epoch: int, live: Collection[int], committed: int | None = None) -> None:
        """See `Store.open`. Forgets pages that are not live."""
        kept = frozenset(live)
        self._segments = {id: pages for id, pages in self._segments.items() if id in kept or epoch_of(id) > epoch}
        self._sizes = {id: self._sizes[id] for id in self._segments}
        if epoch != self._epoch:
            self._epoch, self._number = epoch, 0
        self._is_open = True
        self._begin_segment()

    async def append(self, sequence: int, pages: Sequence[Page], *, copies: bool = False) -> list[Reference]:
        """See `Store.append`."""
        self._require_open()
        lengths = [framed_length(page) for page in pages]
        if self._end and self._end + sum(map(padded, lengths)) > self._segment_bytes:
            self._begin_segment()
        segment = segment_id(self._epoch, self._number)
        references: list[Reference] = []
        for page, length in zip(pages, lengths, strict=True):
            reference = Reference(segment, self._end, length, sequence)
            self._segments.setdefault(segment, {})[reference] = page
            references.append(reference)
            self._end += padded(length)
        if references:
            self._sizes[segment] = max(self._end, self._segment_bytes)
        return references

    @property
    def room(self) -> int:
        """See `Store.room`."""
        return _ROOM if self._is_open else 0

    @property
    def is_short(self) -> bool:
        return False

    async def make_room(self) -> None:
        """See `Store.make_room`."""
        self._require_open()

    def give_space_back(self) -> None:
        """See `Store.give_space_back`."""

    def segments(self) -> dict[int, int]:
        """See `Store.segments`."""
        current = segment_id(self._epoch, self._number) if self._is_open else 0
        return {id: size for id, size in self._sizes.items() if id != current and epoch_of(id) <= self._epoch}

    def orphans(self) -> dict[str, int]:
        """See `Store.orphans`. There are none: forgotten pages are not put aside."""
        return {}

    async def sync(self) -> None:
        """See `Store.sync`. Does nothing: pages in memory are never durable."""
        self._require_open()

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        """See `Store.read`."""
        return [self._page(reference) for reference in references]

    async def release(self, segments: Collection[int]) -> None:
        """See `Store.release`. The segment that is being written is left alone."""
        self._require_open()
        for segment in segments:
            if segment != segment_id(self._epoch, self._number):
                self._segments.pop(segment, None)
                self._sizes.pop(segment, None)

    async def close(self) -> None:
        self._is_open = False
        self._segments.clear()
        self._sizes.clear()

    def _begin_segment(self) -> None:
        self._number += 1
        self._end = 0

    def _page(self, reference: Reference) -> Page:
        page = self._segments.get(reference.segment, {}).get(reference)
        if page is None:
            raise Damaged(f"there is no page at {reference.position} of segment {reference.segment:#x} (flush {reference.sequence})")
        return page

    def _require_open(self) -> None:
        if not self._is_open:
            raise StorageFailed("the store is not open")
