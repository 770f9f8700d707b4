"""Rows that were taken out of pages when the pages were looked at."""

from __future__ import annotations

import numpy as np
import pytest

from bowstring.broker.queue.scouted_rows import RowLook
from bowstring.broker.reading.sifted_pages import SiftedPage, SiftedPages, sift
from bowstring.core.pages import Origin, PageEntry, PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding, filters
from bowstring.messages.schema import BYTES_SCHEMA, DUE, KEY, VALUE
from bowstring.ports.store import Page

ROWS = 40
MASK = KEY | VALUE


def entry_at(first: int, columns: int = MASK, arrived_last: int = 5) -> PageEntry:
    return PageEntry(first, ROWS, 5, 1, 0, 1000, 1, columns, arrived_last)


def whole() -> Page:
    header = encode_header(PageHeader(1, 0, BYTES_SCHEMA, MASK, ROWS, (Origin(ROWS, b"p" * 16, 1, 0, ""),)))
    keys, values = [b"%d" % (row % 10) for row in range(ROWS)], [b"value %d" % row for row in range(ROWS)]
    return Page(header, encoding.encode_columns(ROWS, values=values, keys=keys).data)


def sifted_at(first: int, rows: list[int], columns: int = MASK, arrived_last: int = 5) -> SiftedPage | None:
    page, offsets = whole(), np.array(rows, np.int64) + first
    return sift(entry_at(first, columns, arrived_last), page.header, encoding.decode(MASK, page.body), offsets)


def kept(bytes_max: int, *firsts: int) -> SiftedPages:
    pages = SiftedPages(bytes_max)
    for first in firsts:
        page = sifted_at(first, [3, 13])
        assert page is not None
        pages.put(partition(), page)
    return pages


def partition(first: int = 1) -> Partition:
    found = Partition(1, 0, 600)
    found.retained.first = first
    return found


def found_in(pages: SiftedPages, offsets: list[int], bytes_max: int = 1 << 20, retained: int = 1) -> list[int]:
    return [page.entry.first_offset for page in pages.find(partition(retained), RowSet.of_offsets(np.array(offsets)), bytes_max)]


def test_few_rows_of_a_page_are_taken_out():
    page = sifted_at(100, [3, 13])
    assert page is not None
    assert (page.offsets.tolist(), page.entry.rows) == ([103, 113], ROWS)
    assert encoding.decode(page.columns, page.body).column("value").to_pylist() == [b"value 3", b"value 13"]
    assert b"value 4" not in bytes(page.body)


@pytest.mark.parametrize(
    ("rows", "columns", "arrived_last"), [([], MASK, 5), (list(range(11)), MASK, 5), ([3], MASK | DUE, 5), ([3], MASK, 6)]
)
def test_many_rows_and_those_with_times_of_their_own_are_not(rows: list[int], columns: int, arrived_last: int):
    assert sifted_at(100, rows, columns, arrived_last) is None


def test_pages_are_found_by_the_rows_that_they_have():
    pages = kept(1 << 20, 141, 101, 221)
    assert found_in(pages, [104, 114, 144, 234]) == [101, 141, 221]
    assert found_in(pages, [114]) == [101]
    assert found_in(pages, [104, 114, 144], bytes_max=1) == [101]
    assert found_in(pages, [105, 114]) == [], "it does not have the first row"
    assert found_in(pages, [104, 145]) == [101], "it ends before the row that is missing"
    assert found_in(pages, [104, 190]) == [101], "that page was not sifted"
    assert found_in(pages, [50]) == found_in(pages, [500]) == found_in(pages, []) == []


def test_pages_that_retention_has_taken_are_not_found():
    pages = kept(1 << 20, 101, 141)
    assert found_in(pages, [104, 144], retained=141) == []
    assert found_in(pages, [144], retained=141) == [141]


def test_the_oldest_go_first_and_the_latest_of_a_page_counts():
    size = kept(1 << 20, 101).bytes
    pages = kept(2 * size, 101, 141, 181)
    assert pages.bytes == 2 * size
    assert (found_in(pages, [104]), found_in(pages, [144]), found_in(pages, [184])) == ([], [141], [181])
    other = sifted_at(141, [5])
    assert other is not None
    pages.put(partition(), other)
    assert (found_in(pages, [144]), found_in(pages, [146])) == ([], [141])
    assert kept(0, 101).bytes == 0


def test_rows_that_passed_another_filter_are_looked_at():
    page = sifted_at(101, [3, 13, 24])
    assert page is not None
    for where, offsets in (("key = '3'", [104, 114]), ("offset > 110", [114, 125]), ("key = '5'", [])):
        look = RowLook(filters.parse(where), with_keys=True)
        rows = look.of_page(101, page.entry, page).rows
        assert (rows.offsets.tolist(), len(rows.hashes)) == (offsets, len(offsets))
