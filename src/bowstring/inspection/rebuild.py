"""What can be put in the place of damaged rows of a catalog, from everything else that is there.
Nothing here writes.

    extent     from its index section, which says the same and more; if that is damaged too, one whose offsets answer `Corrupt`
    snapshot   the log's end and floor from extents and journal; what producers had sent is forgotten, so for the length of the
               deduplication window no ids are taken
    journal    the pages of the flush are found by their frames, and offsets are given in the order of a log, so what was published
               is there again; where the pages are gone, the offsets are lost and answer `Corrupt`. Deletions of the flush are forgotten
    deletions  cannot be rebuilt: what was deleted there is delivered again
    ledger     in `ledger_rebuild`

The segments of an extent that cannot be rebuilt stay in use: they may hold intact pages that an
expert can find.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from bowstring.catalog.sqlite.offline import Bad
from bowstring.core import journal, sections
from bowstring.core.changes import Append
from bowstring.core.offset_set import CHUNK_BITS
from bowstring.core.pages import LOST, PageEntry, PageHeader, decode_header, segments
from bowstring.core.partition import Partition
from bowstring.core.retained import Retained
from bowstring.core.snapshots import PARTITION, UnreadableState, restore, snapshot
from bowstring.frames import FRAME_HEADER_BYTES, MAGIC, header_of, padded, verify
from bowstring.inspection.contents import Contents, Gap, Key
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.verification import read_section, read_sections
from bowstring.messages.schema import ID
from bowstring.ports.extents import Extent, Section, StateRow
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Row
from bowstring.ports.store import Reference
from bowstring.store.segments import in_blocks

OFFSETS_BEYOND_MAX = 1 << 32
"""How far behind everything else a damaged snapshot may put the end of a log, and still be
believed.
"""
_NOBODY = bytes(16)
"""The producer of lost messages."""


# Extents


def rebuild_extent(directory: DataDirectory, contents: Contents, bad: Bad) -> tuple[Extent, bool]:
    """An extent in the place of a damaged one, and whether it is whole."""
    topic, number, first = bad.key
    told = {section.kind: section for section in bad.sections}
    index = told.get(sections.INDEX, Section(sections.INDEX, Reference(1, 0, 64, 0)))
    owner = contents.owners.get((topic, number), 0)
    blank = Extent(topic, number, first, first + 1, 0, 0, 0, 1, 0, owner, (index,), ())
    try:
        header, body = read_section(directory, blank, blank.index, sections.INDEX)
        entries = sections.decode_index(header, body).state()
    except (Damaged, sections.UnreadableSection):
        return _lost_extent(contents, bad, blank), False
    others = [section for kind, section in told.items() if kind != sections.INDEX]
    found = blank._replace(end_offset=header.end_offset, sections=(index, *others))
    failed: list[str] = []
    sealed = read_sections(directory, found, lambda kind, _: failed.append(kind))
    if failed:
        found = found._replace(sections=tuple(section for section in found.sections if section.kind not in failed))
        sealed = read_sections(directory, found, lambda kind, _: None)
    return _filled(found, entries, sealed.places), not failed


def _filled(extent: Extent, entries: list[PageEntry], places: list[Reference]) -> Extent:
    uses = segments((entry.segment for entry in entries), (entry.length for entry in entries))
    for place in places:
        uses[place.segment] = uses.get(place.segment, 0) + place.length
    expires = [entry.expires for entry in entries]
    return extent._replace(
        arrived_first=entries[0].arrived if entries else 0,
        arrived_last=entries[-1].arrived_last if entries else 0,
        expires=max(expires) if expires and all(expires) else 0,
        pages=len(entries),
        bytes=sum(entry.length for entry in entries),
        uses=tuple(sorted(uses.items())),
    )


def _lost_extent(contents: Contents, bad: Bad, blank: Extent) -> Extent:
    """Up to the next one, as old as the one before, and with whatever is written down that it uses."""
    key = blank.topic, blank.partition
    others = contents.extents.get(key, [])
    starts = [extent.first_offset for extent in others if extent.first_offset > blank.first_offset]
    partition = contents.partitions.get(key)
    if partition is not None:
        starts.append(partition.pages.start or partition.next_offset)
    arrived = max((extent.arrived_last for extent in others if extent.first_offset < blank.first_offset), default=0)
    uses = {use.segment: use.bytes for use in contents.uses if use.adds_up and use[1:4] == bad.key}
    end = max(min(starts, default=0), blank.first_offset + 1)
    return blank._replace(end_offset=end, arrived_first=arrived, arrived_last=arrived, uses=tuple(sorted(uses.items())))


# States


def complete(contents: Contents, bad: Bad, now: int) -> None:
    """Fills in what a damaged head does not tell of its partition, from everything else that is there."""
    partition = contents.partitions.get((bad.key[0], bad.key[1]))
    if partition is None:
        return
    extents = contents.extents.get((partition.topic, partition.number), [])
    partition.next_offset = max(partition.next_offset, _end_it_told(partition, bad))
    starts = [extent.first_offset for extent in extents[:1]] + ([partition.pages.start] if partition.pages.start else [])
    partition.retained.floor = max(partition.retained.floor, min(starts, default=partition.next_offset))
    partition.arrived = max(partition.arrived, max((extent.arrived_last for extent in extents), default=0))
    partition.unread.add(1, max(partition.arrived, now) + partition.window)


def rebuild_head(contents: Contents, bad: Bad) -> StateRow | None:
    """A partition as of the journal's end, as far as it is known; None if there is no such
    partition any more.
    """
    partition = contents.partitions.get((bad.key[0], bad.key[1]))
    if partition is None:
        return None
    broker = contents.owners[bad.key[0], bad.key[1]]
    return StateRow(partition.topic, partition.number, PARTITION, 0, broker, contents.last_sequence(broker), snapshot(partition))


def rebuild_kept(contents: Contents, bad: Bad) -> StateRow | None:
    """A chunk of rows kept below the floor, with all that extents have there; None if there is no such partition any more."""
    topic, number, machine, part = bad.key
    partition = contents.partitions.get((topic, number))
    if partition is None:
        return None
    everything = Retained()
    for extent in contents.extents.get((topic, number), []):
        first, end = (
            max(extent.first_offset, (part - 1) << CHUNK_BITS),
            min(extent.end_offset, part << CHUNK_BITS, partition.retained.floor),
        )
        if first < end:
            everything.kept.add([(first, end - first)])
    captured = everything.capture()
    broker = contents.owners[topic, number]
    state = captured[part - 1]() if part - 1 in captured else b""
    return StateRow(topic, number, machine, part, broker, contents.last_sequence(broker), state) if state else None


def _end_it_told(partition: Partition, bad: Bad) -> int:
    """The end of the log as the damaged snapshot has it, if that can be: a number too high does no
    harm, offsets may have holes.
    """
    scratch = Partition(partition.topic, partition.number, partition.window)
    try:
        restore(scratch, bad.values[-1], 0)
    except (UnreadableState, TypeError, IndexError):
        return 0
    return scratch.next_offset if scratch.next_offset <= partition.next_offset + OFFSETS_BEYOND_MAX else 0


# The journal


class _Found(NamedTuple):
    """A page of a flush whose row is damaged, found by its frame."""

    header: PageHeader
    reference: Reference


class RebuiltRow(NamedTuple):
    broker: int
    row: Row
    recovered: list[tuple[Key, int, int]]
    """Partition, first offset and end of the recovered messages."""
    lost: list[tuple[Key, int, int]]


def rebuild_rows(directory: DataDirectory, contents: Contents) -> list[RebuiltRow]:
    """Rows in the place of all that are damaged or missing, broker by broker, in order."""
    brokers = sorted({bad.key[0] for bad in contents.bad_rows})
    return [rebuilt for broker in brokers for rebuilt in _rows_of(directory, contents, broker)]


def _rows_of(directory: DataDirectory, contents: Contents, broker: int) -> Iterator[RebuiltRow]:
    wanted = sorted(bad.key[1] for bad in contents.bad_rows if bad.key[0] == broker)
    frames = _frames_of(directory, broker, set(wanted))
    owned = [key for key in contents.partitions if contents.owners.get(key) == broker]
    ends = {key: contents.partitions[key].next_offset for key in owned}
    gaps = {(gap.key, max((row for row in wanted if row < gap.sequence), default=0)): gap for gap in contents.gaps}
    later = {gap.key: gap.sequence for gap in contents.gaps}
    for sequence in wanted:
        appends: list[Append] = []
        for key in owned:
            pages = [page for page in frames.get(sequence, ()) if (page.header.topic, page.header.partition) == key]
            gap = gaps.get((key, sequence))
            if gap is None and pages and later.get(key, 0) < sequence:
                arrived = contents.partitions[key].arrived
                gap = Gap(key, ends[key], ends[key] + sum(page.header.rows for page in pages), sequence, arrived)
                ends[key] = gap.end_offset
            if gap is not None:
                appends += _appends(gap, pages, sequence)
        spans = [((a.topic, a.partition), a.first_offset, a.first_offset + a.rows, a.segment == LOST) for a in appends]
        row = Row(sequence, contents.epoch, journal.encode(appends))
        yield RebuiltRow(broker, row, [span[:3] for span in spans if not span[3]], [span[:3] for span in spans if span[3]])


def _appends(gap: Gap, pages: list[_Found], sequence: int) -> Iterator[Append]:
    """The pages that fill the gap; if they do not, it is lost as a whole."""
    topic, number = gap.key
    if sum(page.header.rows for page in pages) != gap.end_offset - gap.first_offset:
        rows = gap.end_offset - gap.first_offset
        yield Append(topic, number, gap.first_offset, rows, gap.arrived, ID, _NOBODY, sequence, segment=LOST)
        return
    first = gap.first_offset
    for header, reference in pages:
        origin = header.origins[0]
        change = Append(topic, number, first, header.rows, gap.arrived, header.columns, origin.producer, origin.number)
        change.segment, change.position, change.length = reference.segment, reference.position, reference.length
        yield change
        first += header.rows


def _frames_of(directory: DataDirectory, broker: int, wanted: set[int]) -> dict[int, list[_Found]]:
    """The pages of these flushes, in the order in which they were written, from the rows themselves
    and from all segments.
    """
    found: dict[int, list[_Found]] = {}
    for sequence in wanted:
        for page in _pages(directory.catalog.inlined(broker, sequence), 0, {sequence}, broker=broker):
            found.setdefault(sequence, []).append(page)
    for segment in directory.inventory().unused if wanted else ():
        size, position = directory.size(segment) or 0, 0
        while position < size:
            block = directory.read(segment, position, FRAME_HEADER_BYTES)
            header = header_of(block) if len(block) == FRAME_HEADER_BYTES else None
            if header is None or header.magic != MAGIC or header.segment != segment:
                position = in_blocks(position + 1)
                continue
            if header.sequence in wanted and not header.copy:
                data = directory.read(segment, position, header.length)
                for page in _pages(data, segment, {header.sequence}, position):
                    found.setdefault(header.sequence, []).append(page)
            position += padded(header.length)
    return found


def _pages(data: bytes, segment: int, wanted: set[int], start: int = 0, broker: int = 0) -> Iterator[_Found]:
    """The frames in these bytes, one behind the other, as far as they verify."""
    position = 0
    while position + FRAME_HEADER_BYTES <= len(data):
        header = header_of(memoryview(data)[position:])
        reference = Reference(segment, start + position, header.length, header.sequence, broker)
        try:
            page = verify(memoryview(data)[position : position + header.length], reference)
            if header.sequence in wanted:
                yield _Found(decode_header(page.header), reference)
        except (Damaged, msgspec.DecodeError):
            return
        position += padded(header.length)
