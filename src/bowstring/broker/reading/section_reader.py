"""Reads the sections of extents from the store: each names its extent, so another extent's is never taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bowstring.core import sections
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference, Store

T = TypeVar("T")


class SectionReader:
    """The sections in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, extent: Extent, reference: Reference, kind: str) -> tuple[sections.SectionHeader, memoryview]:
        """Header and body. Raises Damaged, naming the offsets of the extent."""
        try:
            page: Page = (await self._store.read([reference]))[0]
            header = sections.decode_header(page.header, kind)
        except (Damaged, sections.UnreadableSection) as error:
            raise _damaged(extent, error) from error
        if (header.topic, header.partition, header.first_offset) != (extent.topic, extent.partition, extent.first_offset):
            raise _damaged(extent, Exception("the section is another extent's"))
        return header, memoryview(page.body)


def understood(extent: Extent, decode: Callable[[], T]) -> T:
    """What a section says. Raises Damaged, naming the offsets of the extent."""
    try:
        return decode()
    except sections.UnreadableSection as error:
        raise _damaged(extent, error) from error


def _damaged(extent: Extent, error: Exception) -> Damaged:
    return Damaged(f"offsets {extent.first_offset} to {extent.end_offset - 1}: {error}")
