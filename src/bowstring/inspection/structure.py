"""Checks that the rows of a catalog fit together, and fit the files. It reads no page.

Offsets that nothing holds are no damage by themselves: pages of which every message has expired or
was deleted go before the floor comes by. They are reported, because they may also be the gap of a
lost extent.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from bowstring.core.machine import UnreadableState
from bowstring.core.pages import PageEntry, segments
from bowstring.core.partition import Partition
from bowstring.frames import FRAME_HEADER_BYTES, header_of
from bowstring.inspection.contents import Contents, Key
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.findings import Finding
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference
from bowstring.store.segments import epoch_of, segment_name


def extent_structure(contents: Contents, extent: Extent, entries: list[PageEntry], places: list[Reference] | None) -> list[Finding]:
    """Whether an extent's index and the extent say the same. `places` are those of its sections, if
    all are known.
    """
    wrong: list[str] = []
    if len(entries) != extent.pages or sum(entry.length for entry in entries) != extent.bytes:
        wrong.append(f"its index has {len(entries)} pages, and the extent says {extent.pages} of {extent.bytes} bytes")
    inside = all(extent.first_offset <= entry.first_offset and entry.end <= extent.end_offset for entry in entries)
    if not inside or any(before.end > after.first_offset for before, after in pairwise(entries)):
        wrong.append("its pages overlap, or are outside of it")
    if any(before.visible > after.visible for before, after in pairwise(entries)):
        wrong.append("its pages became visible in another order than that of their offsets")
    used = Counter(segments((entry.segment for entry in entries), (entry.length for entry in entries)))
    used.update(segments((place.segment for place in places or ()), (place.length for place in places or ())))
    if places is not None and dict(extent.uses) != dict(used):
        wrong.append("the bytes that it uses in segments do not add up")
    place = contents.at((extent.topic, extent.partition), extent.first_offset, extent.end_offset)
    return [Finding("extent", text, **place) for text in wrong]


def structure(directory: DataDirectory, contents: Contents) -> list[Finding]:
    """Checks everything but the contents of extents."""
    found: list[Finding] = []
    for key, partition in contents.partitions.items():
        found += _coverage(contents, key, partition)
        found += _ledgers(contents, key, partition)
    found += _usage(contents)
    found += _files(directory, contents)
    return found


def _coverage(contents: Contents, key: Key, partition: Partition) -> list[Finding]:
    """Extents and unsealed pages cover every retained offset once."""
    found: list[Finding] = []
    ranges = [(extent.first_offset, extent.end_offset) for extent in contents.extents.get(key, ())]
    pages = partition.pages.state()
    if pages:
        ranges.append((pages[0].first_offset, pages[-1].end))
    end = partition.retained.first
    for first, last in ranges:
        if first < end and last > end and first >= partition.retained.first:
            text = "these offsets are covered twice"
            found.append(Finding("overlap", text, **contents.at(key, first, min(end, last))))
        elif first > end and not _told(contents, key, end, first):
            found.append(_uncovered(contents, key, partition, end, first))
        end = max(end, last)
    if end < partition.committed_offset:
        found.append(_uncovered(contents, key, partition, end, partition.committed_offset))
    return [finding for finding in found if finding.kind != "nothing"]


def _ledgers(contents: Contents, key: Key, partition: Partition) -> list[Finding]:
    """Whether the subscriptions of a partition are in order, each by itself and with the log."""
    found: list[Finding] = []
    for number in sorted(partition.ledgers.numbers()):
        try:
            ledger = partition.ledgers[number]
            ledger.check()
            assert ledger.cursor <= partition.next_offset, f"it has delivered rows up to {ledger.cursor}"
        except (AssertionError, KeyError, UnreadableState) as error:
            found.append(Finding("ledger", f"subscription {number}: {error}", topic=contents.name(key[0]), partition=key[1]))
    return found


def _told(contents: Contents, key: Key, first: int, end: int) -> bool:
    """Is it known already why nothing is there?"""
    damaged = any(bad.key[:2] == key and first <= bad.key[2] < end for bad in contents.bad_extents)
    return damaged or any(gap.key == key and gap.first_offset < end and first < gap.end_offset for gap in contents.gaps)


def _uncovered(contents: Contents, key: Key, partition: Partition, first: int, end: int) -> Finding:
    kind = "gap" if len(partition.live(first, end)) else "nothing"
    text = "no page holds these offsets: the messages have expired, or an extent is lost"
    return Finding(kind, text, damaged=False, **contents.at(key, first, end))


def _usage(contents: Contents) -> list[Finding]:
    """Compares the uses in the extents with the table of uses by segment."""
    said = Counter({(segment, *extent[:3]): used for each in contents.extents.values() for extent in each for segment, used in extent.uses})
    damaged = {bad.key for bad in contents.bad_extents}
    found: list[Finding] = []
    for use in contents.uses:
        place = contents.at((use.topic, use.partition), use.first_offset)
        name = segment_name(use.segment) if isinstance(use.segment, int) else str(use.segment)
        if not use.adds_up:
            found.append(Finding("usage", "its uses of a segment do not add up", segment=name, **place))
        elif said.pop(use[:4], None) != use.bytes and use[1:4] not in damaged:
            found.append(Finding("usage", "it uses another part of a segment than is written down", segment=name, **place))
    for segment, topic, partition, offset in said:
        place = contents.at((topic, partition), offset)
        found.append(Finding("usage", "it uses a segment that does not know of it", segment=segment_name(segment), **place))
    return found


def referred_to(contents: Contents) -> Counter[int]:
    """The bytes in use by segment: of extents, and of pages that are not sealed."""
    used: Counter[int] = Counter()
    for extents in contents.extents.values():
        for extent in extents:
            used.update(dict(extent.uses))
    for use in contents.uses:
        if isinstance(use.segment, int) and use.segment not in used:
            used[use.segment] = 0
    for partition in contents.partitions.values():
        used.update(partition.pages.segments())
    return used


def _files(directory: DataDirectory, contents: Contents) -> list[Finding]:
    """Segments that are missing, that nothing refers to, and that were put aside."""
    used, stock = referred_to(contents), directory.inventory()
    found = [
        Finding("segment", f"the file is missing; {size:,} bytes in it are in use", segment=segment_name(segment))
        for segment, size in sorted(used.items())
        if segment > 0 and directory.size(segment) is None
    ]
    for segment in stock.unused:
        if epoch_of(segment) > contents.epoch:
            text = f"it is of epoch {epoch_of(segment)}, the catalog of {contents.epoch}: the catalog is older than this file"
            found.append(Finding("segment", text, segment=segment_name(segment)))
        elif segment not in used and _is_written(directory, segment):
            text = "nothing refers to it; the next start reuses it, or puts it aside if it may still be needed"
            found.append(Finding("unused", text, damaged=False, segment=segment_name(segment)))
    for orphan in stock.orphans:
        text = "nothing refers to it; it was put aside when a broker started"
        found.append(Finding("orphan", text, damaged=False, segment=orphan.name))
    return found


def _is_written(directory: DataDirectory, segment: int) -> bool:
    """Does the file begin with a frame of its own? One that waits to be written begins with zeros,
    or with one of an earlier life.
    """
    try:
        beginning = directory.read(segment, 0, FRAME_HEADER_BYTES)
    except Damaged:
        return True
    return len(beginning) == FRAME_HEADER_BYTES and any(beginning) and header_of(beginning).segment == segment
