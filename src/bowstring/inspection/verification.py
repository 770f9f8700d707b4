"""Reads and checks everything in a directory, and names damage by topic, partition and offsets.

    catalog    SQLite's own structure; every row of journal, extents, snapshots, deletions (as `contents` loads them)
    extents    the index section of each, then its pages in the order of the disk, then the sections of its ids and due times
    journal    the pages that are not sealed yet, in its rows or in segments
    structure  whether all this fits together (`structure`)

Nothing is served from here, so a damaged page does not end it: it goes on to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from bowstring.core import sections
from bowstring.core.due_blocks import decode_due_block, decode_due_directory
from bowstring.core.pages import LOST, PageEntry, PageIndex, decode_header
from bowstring.frames import reference_of, verify
from bowstring.inspection.contents import Contents, Key
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.findings import Finding
from bowstring.inspection.structure import extent_structure, structure
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store.spans import spans

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class Sealed(NamedTuple):
    """An extent as its sections tell it: the index, if it can be read, and every reference beside
    pages.
    """

    pages: PageIndex | None
    places: list[Reference]
    """Index section, directories and blocks of ids and due times, as far as they can be read."""
    is_whole: bool


class Verified(NamedTuple):
    """The counts and findings of a verification."""

    findings: list[Finding]
    pages: int
    bytes: int


class Verifier:
    """One verification of one directory."""

    def __init__(self, directory: DataDirectory, contents: Contents, progress: Progress) -> None:
        self._directory = directory
        self._contents = contents
        self._progress = progress
        self._total = contents.journal_bytes + sum(sum(used for _, used in extent.uses) for extent in _all(contents.extents))
        self._total += sum(sum(size for size in partition.pages.segments().values()) for partition in contents.partitions.values())
        self._pages = 0
        self._bytes = 0
        self._findings: list[Finding] = []

    def run(self) -> Verified:
        self._progress(0, self._total)
        for text in self._directory.catalog.trouble():
            self._findings.append(Finding("catalog", f"SQLite finds: {text}"))
        self._findings += self._contents.findings
        for key, extents in self._contents.extents.items():
            if key in self._contents.partitions:
                for extent in extents:
                    self._extent(key, extent)
        for key, partition in self._contents.partitions.items():
            self._check_pages(key, partition.pages.state())
        self._findings += structure(self._directory, self._contents)
        self._progress(self._total, self._total)
        return Verified(self._findings, self._pages, self._bytes)

    def _extent(self, key: Key, extent: Extent) -> None:
        sealed = read_sections(self._directory, extent, lambda kind, error: self._section_damaged(key, extent, kind, error))
        self._read(sum(place.length for place in sealed.places))
        if sealed.pages is not None:
            entries = sealed.pages.state()
            self._findings += extent_structure(self._contents, extent, entries, sealed.places if sealed.is_whole else None)
            self._check_pages(key, entries)

    def _section_damaged(self, key: Key, extent: Extent, kind: str, error: Exception) -> None:
        self._findings.append(Finding(kind, str(error), **self._contents.at(key, extent.first_offset, extent.end_offset)))

    # Pages

    def _check_pages(self, key: Key, entries: list[PageEntry]) -> None:
        """Reads the pages in the order of the disk, and tells of the damaged ones in the order of
        the log.
        """
        found: dict[int, Finding] = {}
        for entry in entries:
            if entry.segment == LOST:
                found[entry.first_offset] = self._lost(key, entry)
        by_place = {reference_of(entry, self._contents.owners[key]): entry for entry in entries if entry.segment != LOST}
        for reference, data in self._bytes_of(sorted(by_place)):
            entry = by_place[reference]
            try:
                _check_page(key, entry, _verified(data, reference))
            except Damaged as error:
                found[entry.first_offset] = Finding("page", str(error), **self._contents.at(key, entry.first_offset, entry.end))
            self._pages += 1
            self._read(reference.length)
        self._findings += [found[offset] for offset in sorted(found)]

    def _lost(self, key: Key, entry: PageEntry) -> Finding:
        place = self._contents.at(key, entry.first_offset, entry.end)
        return Finding("lost", "these messages are known to be lost", damaged=False, **place)

    def _bytes_of(self, references: list[Reference]) -> Iterator[tuple[Reference, bytes | Damaged]]:
        """The frames, or why they cannot be read; neighbours are read together."""
        for reference in references:
            if not reference.segment:
                yield reference, self._inlined(reference)
        for span in spans([reference for reference in references if reference.segment]):
            data: bytes | Damaged
            try:
                data = self._directory.read(span.segment, span.position, span.length)
            except Damaged as error:
                data = error
            for reference in span.references:
                start = reference.position - span.position
                yield reference, data if isinstance(data, Damaged) else data[start : start + reference.length]

    def _inlined(self, reference: Reference) -> bytes | Damaged:
        try:
            return self._directory.catalog.inlined(reference.broker, reference.sequence)[
                reference.position : reference.position + reference.length
            ]
        except Damaged as error:
            return error

    def _read(self, length: int) -> None:
        self._bytes += length
        self._progress(min(self._bytes, self._total), self._total)


def read_sections(directory: DataDirectory, extent: Extent, damaged: Callable[[str, Exception], None]) -> Sealed:
    """The sections of an extent; damaged ones are reported and left out."""
    places: list[Reference] = []
    index: PageIndex | None = None
    try:
        header, body = read_section(directory, extent, extent.index, sections.INDEX)
        index = sections.decode_index(header, body)
        places.append(extent.index)
    except (Damaged, sections.Unreadable) as error:
        damaged("index", error)
    whole = index is not None
    for kind, read in ((sections.IDS, _read_ids), (sections.DUE, _read_dues)):
        try:
            section = extent.section(kind)
            places += read(directory, extent, section) if section is not None else []
        except (Damaged, sections.Unreadable) as error:
            damaged(kind, error)
            whole = False
    return Sealed(index, places, whole)


def _read_ids(directory: DataDirectory, extent: Extent, section: Reference) -> list[Reference]:
    """The directory of an extent's ids and its blocks, all of them read. Raises Damaged or Unreadable."""
    _, blocks = sections.decode_directory(*read_section(directory, extent, section, sections.IDS))
    places = [section._replace(**place._asdict()) for place in blocks]
    for place in places:
        sections.decode_block(*read_section(directory, extent, place, sections.ID_BLOCK))
    return [section, *places]


def _read_dues(directory: DataDirectory, extent: Extent, section: Reference) -> list[Reference]:
    """The same of its due times."""
    found = decode_due_directory(*read_section(directory, extent, section, sections.DUE))
    places = [section._replace(**place._asdict()) for place in found.places]
    for place in places:
        decode_due_block(*read_section(directory, extent, place, sections.DUE_BLOCK))
    return [section, *places]


def read_section(directory: DataDirectory, extent: Extent, reference: Reference, kind: str) -> tuple[sections.SectionHeader, memoryview]:
    """Raises Damaged or Unreadable."""
    page = verify(directory.frame(reference), reference)
    header = sections.decode_header(page.header, kind)
    if (header.topic, header.partition, header.first_offset) != (extent.topic, extent.partition, extent.first_offset):
        raise Damaged(f"the section in segment {reference.segment:#x} at {reference.position} is another extent's")
    return header, memoryview(page.body)


def _verified(data: bytes | Damaged, reference: Reference) -> Page:
    if isinstance(data, Damaged):
        raise data
    return verify(data, reference)


def _check_page(key: Key, entry: PageEntry, page: Page) -> None:
    try:
        header = decode_header(page.header)
    except msgspec.DecodeError as error:
        raise Damaged(f"its header cannot be read: {error}") from error
    if (header.topic, header.partition, header.rows) != (*key, entry.rows):
        raise Damaged(f"the page is {header.rows} rows of topic {header.topic}, partition {header.partition}: another page")
    if sum(origin.rows for origin in header.origins) != header.rows:
        raise Damaged("its origins do not add up to its rows")


def _all(extents: dict[Key, list[Extent]]) -> Iterable[Extent]:
    return (extent for found in extents.values() for extent in found)
