"""Writes pages and sections for sealer and cleaner, in slices that no flush has to wait for long.

Written pages are pinned until the catalog refers to them, or the work is given up: their segment
must not be reused meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from bowstring.broker.upkeep.usage import Usage
from bowstring.core import sections
from bowstring.core.due_blocks import NO_DUES, Dues, blocks_of, encode_due_block, encode_due_directory
from bowstring.core.id_sections import BlockPlace, Built
from bowstring.core.known_ids import Group
from bowstring.core.pages import PageEntry, segments
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE, DUE_BLOCK, ID_BLOCK, IDS, INDEX, SectionHeader
from bowstring.ports.extents import Extent, Section
from bowstring.ports.store import Page, Reference, Store

SLICE_BYTES = 512 * 1024
"""So much is written and synced at a time: one or two milliseconds."""
PAUSE_SECONDS = 0.002
"""How long the loop is left to others after each step of one or two milliseconds: a flush that is
under way meanwhile loses half its time at most.
"""


class FuturePlace:
    """Where something will be, once it is written."""

    __slots__ = ("reference",)

    def __init__(self) -> None:
        self.reference: Reference | None = None

    @property
    def known(self) -> Reference:
        assert self.reference is not None, "not written yet"
        return self.reference


class Placing:
    """One piece of work that writes to the store."""

    def __init__(self, store: Store, usage: Usage, broker: int, sequence: int) -> None:
        self._store = store
        self._usage = usage
        self.broker = broker
        self.sequence = sequence
        """The last committed sequence of the broker's journal when the work began."""
        self._pending: list[tuple[FuturePlace, Page]] = []
        self._bytes = 0
        self._pinned: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for segment in self._pinned:
            self._usage.unpin(segment)

    async def add(self, page: Page) -> FuturePlace:
        """Writes it with the next slice."""
        place = FuturePlace()
        self._pending.append((place, page))
        self._bytes += len(page.header) + len(page.body)
        if self._bytes >= SLICE_BYTES:
            await self.flush()
        return place

    async def flush(self) -> None:
        """Everything that was added is durable when it returns."""
        pending, self._pending, self._bytes = self._pending, [], 0
        if not pending:
            return
        references = await self._store.append(self.sequence, [page for _, page in pending], copies=True)
        for (place, _), reference in zip(pending, references, strict=True):
            place.reference = reference
            self._usage.pin(reference.segment)
            self._pinned.append(reference.segment)
        await self._store.sync()


class Placed(NamedTuple):
    """A page of an extent: where it is, or is being written to."""

    entry: PageEntry
    place: FuturePlace | None = None
    dues: Dues = NO_DUES
    """The rows that have a due time."""
    is_guess: bool = False
    """The page could not be read, so these are a guess."""

    def settled(self) -> PageEntry:
        if self.place is None:
            return self.entry
        reference = self.place.known
        return self.entry._replace(
            segment=reference.segment, position=reference.position, length=reference.length, written=reference.sequence
        )


class ExtentDraft(NamedTuple):
    """An extent in the making: its written pages, its offsets, and the hashes of its messages."""

    partition: Partition
    pages: list[Placed]
    first_offset: int
    end_offset: int
    hashes: Built
    dues: Dues = NO_DUES
    """The rows that have a due time."""
    group: Group[Reference] | None = None
    """What is going to know these hashes in memory."""
    guesses: int = 0
    """The due times of so many pages are a guess."""


class Written(NamedTuple):
    """The catalog's row of an extent, and the places of its blocks of ids."""

    extent: Extent
    blocks: list[BlockPlace]


async def write_sections(placing: Placing, drafts: Sequence[ExtentDraft]) -> list[Written]:
    """Writes the sections of extents whose pages are written, those of all together."""
    made = [_Sections(draft) for draft in drafts]
    for one in made:
        await one.write_index_and_blocks(placing)
    await placing.flush()
    for one in made:
        await one.write_directories(placing)
    await placing.flush()
    return [Written(one.extent(placing.broker), one.block_places()) for one in made]


class _Sections:
    """The sections of one extent."""

    def __init__(self, draft: ExtentDraft) -> None:
        self._partition = draft.partition
        self._entries = [page.settled() for page in draft.pages]
        self._first, self._end = draft.first_offset, draft.end_offset
        self._built = draft.hashes
        self._dues = blocks_of(draft.dues)
        self._guesses = draft.guesses
        self._index = FuturePlace()
        self._blocks: list[FuturePlace] = []
        self._directory: FuturePlace | None = None
        self._due_blocks: list[FuturePlace] = []
        self._due: FuturePlace | None = None

    def _page(self, kind: str, count: int, body: bytes, detail: int = 0) -> Page:
        topic, number = self._partition.topic, self._partition.number
        header = SectionHeader(kind, sections.version_of(kind), topic, number, self._first, self._end, count, detail)
        return Page(sections.encode_header(header), body)

    async def write_index_and_blocks(self, placing: Placing) -> None:
        earliest = int(self._dues[0].moments[0]) if self._dues else 0
        self._index = await placing.add(self._page(INDEX, len(self._entries), sections.encode_index(self._entries), earliest))
        for keys, distances in self._built.blocks:
            self._blocks.append(await placing.add(self._page(ID_BLOCK, len(keys), sections.encode_block(keys, distances))))
        for block in self._dues:
            body = encode_due_block(block, self._first)
            self._due_blocks.append(await placing.add(self._page(DUE_BLOCK, len(block.moments), body)))

    async def write_directories(self, placing: Placing) -> None:
        if self._dues:
            count, body = sum(len(block.moments) for block in self._dues), encode_due_directory(self._dues, _places(self._due_blocks))
            self._due = await placing.add(self._page(DUE, count, body, self._guesses))
        if self._blocks:
            count = sum(len(keys) for keys, _ in self._built.blocks)
            body = sections.encode_directory(self._built, self.block_places())
            self._directory = await placing.add(self._page(IDS, count, body, self._built.bits))

    def block_places(self) -> list[BlockPlace]:
        return _places(self._blocks)

    def extent(self, broker: int) -> Extent:
        entries = self._entries
        uses = segments((entry.segment for entry in entries), (entry.length for entry in entries))
        directories = [place for place in (self._directory, self._due) if place is not None]
        places = [self._index, *self._blocks, *self._due_blocks, *directories]
        for segment, size in segments((place.known.segment for place in places), (place.known.length for place in places)).items():
            uses[segment] = uses.get(segment, 0) + size
        written = [Section(INDEX, self._index.known)]
        if self._directory is not None:
            written.append(Section(IDS, self._directory.known))
        if self._due is not None:
            written.append(Section(DUE, self._due.known))
        return Extent(
            topic=self._partition.topic,
            partition=self._partition.number,
            first_offset=self._first,
            end_offset=self._end,
            arrived_first=entries[0].arrived,
            arrived_last=entries[-1].arrived_last,
            expires=_expires(entries),
            pages=len(entries),
            bytes=sum(entry.length for entry in entries),
            broker=broker,
            sections=tuple(written),
            uses=tuple(sorted(uses.items())),
        )


def _places(blocks: Iterable[FuturePlace]) -> list[BlockPlace]:
    return [BlockPlace(place.known.segment, place.known.position, place.known.length) for place in blocks]


def _expires(entries: Iterable[PageEntry]) -> int:
    moments = [entry.expires for entry in entries]
    return max(moments) if all(moments) else 0
