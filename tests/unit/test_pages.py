"""The index of pages: when a page was written is one thing, when its rows became visible another."""

from __future__ import annotations

import numpy as np
import pytest

from bowstring.core import sections
from bowstring.core.changes import Append
from bowstring.core.machine import NEVER
from bowstring.core.pages import PageEntry, PageIndex, entry_of
from bowstring.core.partition import Partition

ADA = b"a" * 16


def page(first: int, *, written: int, visible: int, segment: int = 0) -> PageEntry:
    return PageEntry(first, 10, 1000, segment, 0, 100, written, 2, 1000, visible=visible)


def index(*entries: PageEntry) -> PageIndex:
    found = PageIndex()
    for entry in entries:
        found.add(entry)
    return found


def test_a_page_is_written_and_visible_with_the_flush_of_its_append():
    entry = entry_of(Append(1, 0, 1, 10, 1000, 2, ADA, 1, length=100), 7)
    assert (entry.written, entry.visible) == (7, 7)


def test_a_seal_takes_what_is_visible_whenever_it_was_written():
    pages = index(page(1, written=3, visible=3), page(11, written=2, visible=5), page(21, written=9, visible=6))
    assert [pages.count_upto(sequence) for sequence in (2, 3, 4, 5, 6)] == [0, 1, 1, 2, 3]
    assert [entry.first_offset for entry in pages.upto(5)] == [1, 11]
    pages.check(31)


def test_pages_become_visible_in_the_order_of_their_offsets():
    with pytest.raises(AssertionError, match="visible"):
        index(page(1, written=3, visible=3), page(11, written=2, visible=2)).check(21)


def test_the_oldest_row_that_is_needed_is_that_of_an_inlined_page_however_late_it_became_visible():
    partition = Partition(1, 0, 600)
    assert partition.oldest_needed() == NEVER
    partition.pages.add(page(1, written=4, visible=9, segment=7))
    assert partition.oldest_needed() == NEVER
    partition.pages.add(page(11, written=5, visible=12))
    partition.pages.add(page(21, written=13, visible=13))
    assert partition.oldest_needed() == 5
    partition.changed_sequence, partition.snapshot_sequence = 13, 2
    assert partition.oldest_needed() == 3, "and changes that no snapshot has"
    partition.snapshot_sequence = 13
    assert partition.oldest_needed() == 5


def header(count: int, version: int) -> sections.SectionHeader:
    return sections.SectionHeader(sections.INDEX, version, 1, 0, 1, 21, count)


def test_an_index_section_has_both_and_one_of_before_says_that_nobody_wrote_it_down():
    entries = [page(1, written=8, visible=3, segment=7), page(11, written=4, visible=4, segment=7)]
    body = sections.encode_index(entries)
    assert sections.decode_index(header(2, 2), memoryview(body)).state() == entries
    old = np.frombuffer(body, np.int64).reshape(12, 2)[:11].tobytes()
    assert sections.decode_index(header(2, 1), memoryview(old)).state() == [entry._replace(visible=0) for entry in entries]
    for wrong, version in ((body, 1), (old, 2)):
        with pytest.raises(sections.Unreadable):
            sections.decode_index(header(2, version), memoryview(wrong))
    with pytest.raises(sections.Unreadable, match="version 3"):
        sections.decode_header(sections.encode_header(header(2, 3)))
