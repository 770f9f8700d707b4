"""The frames of one segment, as they lie there: found by walking, with what refers to each of them.

Walking tells no truth: behind a segment's end lie the frames of an earlier life. Those name another
segment and are not listed. Where a frame is damaged its length cannot be believed, so the walk goes
on at the next place that something refers to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from bowstring import errors
from bowstring.core import sections
from bowstring.core.pages import PageEntry, decode_header
from bowstring.frames import FRAME_HEADER_BYTES, MAGIC, header_of, padded, reference_of, verify
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.verification import read_sections
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store.segments import in_blocks, segment_name


class Referrer(NamedTuple):
    """Who refers to a frame, and how long it takes it to be."""

    reference: Reference
    kind: str
    topic: str
    partition: int
    first_offset: int
    end_offset: int


def segment_of(directory: DataDirectory, text: str) -> int:
    """The segment of a name: its id in hexadecimal, or the name of its file. Raises NotFound."""
    digits = text.removeprefix("segment-").removeprefix("0x")
    try:
        segment = int(digits, 16)
    except ValueError:
        segment = 0
    if directory.size(segment) is None:
        known = [f"{each:x}" for each in directory.inventory().unused]
        hint = f"There are: {', '.join(known[:8])}{' …' if len(known) > 8 else ''}." if known else "There are none."
        raise errors.NotFound(f"there is no segment '{text}' in {directory.path}.", hint=hint)
    return segment


def frames(directory: DataDirectory, contents: Contents, segment: int) -> Iterator[dict[str, Any]]:
    """The frames in the order in which they lie there."""
    referrers = _referrers(directory, contents, segment)
    known = sorted(referrers)
    size = directory.size(segment) or 0
    position = 0
    while position + FRAME_HEADER_BYTES <= size:
        length, row = _frame(directory, contents, segment, position, referrers.get(position))
        if row is not None:
            yield row
        if length:
            position += padded(length)
        elif position % in_blocks(1):
            position = in_blocks(position)
        else:
            at = bisect_right(known, position)
            if at == len(known):
                return
            position = known[at]


def _frame(
    directory: DataDirectory, contents: Contents, segment: int, position: int, referrer: Referrer | None
) -> tuple[int, dict[str, Any] | None]:
    """The length of what lies there, 0 if that is not known, and what there is to tell of it."""
    try:
        header = header_of(directory.read(segment, position, FRAME_HEADER_BYTES))
    except Damaged:
        return 0, None
    ours = header.magic == MAGIC and header.segment == segment and (header.position == position or header.version == 1)
    if not ours and referrer is None:
        return 0, None
    reference = referrer.reference if referrer is not None else Reference(segment, position, header.length, header.sequence)
    row: dict[str, Any] = {
        "segment": segment_name(segment),
        "position": position,
        "length": reference.length,
        "sequence": reference.sequence,
    }
    try:
        page = verify(directory.frame(reference), reference)
    except Damaged as error:
        row |= {"kind": referrer.kind if referrer is not None else "unknown", "damaged": str(error)}
        length = reference.length if referrer is not None else 0
    else:
        row |= {"version": header.version, "epoch": header.epoch, "copy": bool(header.copy), **_content(contents, page)}
        length = header.length
    row["referred"] = referrer is not None
    if referrer is not None:
        row |= {
            "topic": referrer.topic,
            "partition": referrer.partition,
            "first_offset": referrer.first_offset,
            "last_offset": referrer.end_offset - 1,
        }
    return length, row


def _content(contents: Contents, page: Page) -> dict[str, Any]:
    """The contents of a frame, by its own header."""
    try:
        section = sections.decode_header(page.header)
    except sections.Unreadable:
        pass
    else:
        return {"kind": section.kind, "topic": contents.name(section.topic), "partition": section.partition, "rows": section.count}
    try:
        header = decode_header(page.header)
    except msgspec.DecodeError:
        return {"kind": "unknown"}
    return {"kind": "page", "topic": contents.name(header.topic), "partition": header.partition, "rows": header.rows}


def _referrers(directory: DataDirectory, contents: Contents, segment: int) -> dict[int, Referrer]:
    """Who refers to what in the segment, by position."""
    found: dict[int, Referrer] = {}
    for (topic, number), extents in contents.extents.items():
        for extent in extents:
            if segment not in dict(extent.uses):
                continue
            sealed = read_sections(directory, extent, lambda _kind, _error: None)
            kinds = {section.reference: section.kind for section in extent.sections}
            for place in (*kinds, *sealed.places):
                if place.segment == segment:
                    kind = kinds.get(place, "block")
                    found[place.position] = Referrer(place, kind, contents.name(topic), number, extent.first_offset, extent.end_offset)
            for entry in sealed.pages.state() if sealed.pages is not None else ():
                _add_page(found, contents, topic, number, entry, segment)
    for (topic, number), partition in contents.partitions.items():
        for entry in partition.pages.state():
            _add_page(found, contents, topic, number, entry, segment)
    return found


def _add_page(found: dict[int, Referrer], contents: Contents, topic: int, number: int, entry: PageEntry, segment: int) -> None:
    if entry.segment == segment:
        found[entry.position] = Referrer(reference_of(entry), "page", contents.name(topic), number, entry.first_offset, entry.end)
