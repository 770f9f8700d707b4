"""Two caches of pages, each bounded in bytes.

The tail holds what was committed last, by partition and offset, so that readers who follow never touch the disk. It is filled only when
a flush is committed: nobody reads ahead of the commit. The other holds pages that were read from the store and verified, the least
recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from bowstring.ports.store import Page, Reference

Key = TypeVar("Key", bound=Hashable)

_OVERHEAD = 500
"""Bytes of an entry beside its buffers."""


class TailKey(NamedTuple):
    topic: int
    partition: int
    first_offset: int


class PageCache(Generic[Key]):
    """Pages up to a number of bytes. `touch` makes it least recently used, else the oldest go first."""

    def __init__(self, bytes_max: int, *, touch: bool) -> None:
        self._bytes_max = bytes_max
        self._touch = touch
        self._pages: OrderedDict[Key, Page] = OrderedDict()
        self.bytes = 0

    def put(self, key: Key, page: Page) -> None:
        if key in self._pages:
            return
        self._pages[key] = page
        self.bytes += _size(page)
        while self.bytes > self._bytes_max:
            self.bytes -= _size(self._pages.popitem(last=False)[1])

    def get(self, key: Key) -> Page | None:
        page = self._pages.get(key)
        if page is not None and self._touch:
            self._pages.move_to_end(key)
        return page


def _size(page: Page) -> int:
    return len(page.header) + len(page.body) + _OVERHEAD


class Caches(NamedTuple):
    """What an incarnation keeps in memory of its pages."""

    tail: PageCache[TailKey]
    pages: PageCache[Reference]
