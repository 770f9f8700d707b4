"""Caches that are bounded in bytes, two of them for pages.

The tail holds the pages that were committed last, by partition and offset, so that readers that
follow never touch the disk. Only a commit fills it: no reader reads ahead of the commit. The other
holds verified pages from the store; the least recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from bowstring.broker.reading.gathered_rows import Gathered
from bowstring.broker.reading.sifted_pages import SiftedPages
from bowstring.ports.store import Page, Reference

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_OVERHEAD = 500
"""Bytes of an entry in addition to its buffers."""


class TailKey(NamedTuple):
    topic: int
    partition: int
    first_offset: int
    rows: int


class ByteCache(Generic[Key, Value]):
    """Values up to a number of bytes in all. `touch` makes it least recently used, else the oldest
    go first.
    """

    def __init__(self, bytes_max: int, *, touch: bool) -> None:
        self._bytes_max = bytes_max
        self._touch = touch
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.bytes = 0

    def keep(self, key: Key, value: Value, size: int) -> None:
        if key in self._values:
            return
        self._values[key] = value, size
        self.bytes += size
        while self.bytes > self._bytes_max:
            self.bytes -= self._values.popitem(last=False)[1][1]

    def get(self, key: Key) -> Value | None:
        found = self._values.get(key)
        if found is None:
            return None
        if self._touch:
            self._values.move_to_end(key)
        return found[0]

    def drop(self, key: Key) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self.bytes -= found[1]


class PageCache(ByteCache[Key, Page]):
    """Pages."""

    def put(self, key: Key, page: Page) -> None:
        self.keep(key, page, _size(page))


def _size(page: Page) -> int:
    return len(page.header) + len(page.body) + _OVERHEAD


class Caches(NamedTuple):
    """The pages that an incarnation keeps in memory."""

    tail: PageCache[TailKey]
    pages: PageCache[Reference]
    sifted: SiftedPages
    gathered: Gathered


def caches_of(tail_bytes: int, pages_bytes: int) -> Caches:
    """Caches of these sizes. Sifted pages are there only for subscriptions with a filter, and gathered rows
    only where messages are due later; then they take up to a quarter of what pages take.
    """
    tail, pages = PageCache[TailKey](tail_bytes, touch=False), PageCache[Reference](pages_bytes, touch=True)
    return Caches(tail, pages, SiftedPages(pages_bytes // 4), Gathered(pages_bytes // 4))
