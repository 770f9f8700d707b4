"""Rows that are due soon stand side by side until they are delivered, and go out as if out of their pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bowstring.broker.reading import gathered_cutting, page_cutting
from bowstring.broker.reading.fetched import Fetched, joined
from bowstring.broker.reading.gathered_rows import Gathered, RowsAtHand
from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.reading.visibility import Moments
from bowstring.core.changes import Reschedule
from bowstring.core.pages import Origin, PageEntry, PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding
from bowstring.messages.schema import BYTES_SCHEMA, CREATED, DUE, EXPIRES, VALUE
from bowstring.ports.store import Page

ROWS = 20
MASK = VALUE | CREATED | DUE | EXPIRES
DUE_AT = 1_000
NEVER_EXPIRES = 1 << 50
ALL = Moments(now=DUE_AT, horizon=0)

Pages = list[tuple[PageEntry, Page]]


def page_at(first: int, *, due: int = DUE_AT, expires: Sequence[int] = ()) -> tuple[PageEntry, Page]:
    """A page of two origins that arrived one after the other; row 3 of each has the value `b"3"`."""
    origins = (Origin(8, b"p" * 16, first, 0, "", 5), Origin(12, b"q" * 16, first, 30, "", 7))
    header = PageHeader(1, 0, BYTES_SCHEMA, MASK, ROWS, origins)
    values, ends = [b"%d" % row for row in range(ROWS)], [*expires, *[NEVER_EXPIRES] * (ROWS - len(expires))]
    batch = encoding.encode_columns(ROWS, values=values, created=1, due=[due + row for row in range(ROWS)], expires=ends)
    entry = PageEntry(first, ROWS, 5, 1, 0, len(batch.data), 1, MASK, 7, due=due + ROWS)
    return entry, Page(encode_header(header), batch.data)


def partition(end: int = 101) -> Partition:
    found = Partition(1, 0, 600)
    found.retained.first, found.next_offset = 1, end
    return found


def numbers(*offsets: int) -> np.ndarray:
    return np.array(offsets, np.int64)


def gathered(of: Partition, pages: Pages, *offsets: int) -> Gathered:
    parts = list[RowsAtHand]()
    for entry, page in pages:
        mine = numbers(*[offset for offset in offsets if entry.first_offset <= offset < entry.end])
        header = PageHeader(1, 0, BYTES_SCHEMA, MASK, ROWS, ())
        if len(mine):
            header = page_cutting.decode_header(page.header)
            batch = encoding.decode(header.columns, page.body)
            parts.append(RowsAtHand.of_page(entry, header, batch, arrivals(header, entry), mine))
    found = Gathered(1 << 20)
    found.put(of, [RowsAtHand.joined(parts)])
    return found


def taken(of: Partition, rows: Gathered, *offsets: int, moments: Moments | None = ALL) -> gathered_cutting.RowsTaken:
    wanted = RowSet.of_offsets(numbers(*offsets))
    page = rows.find(of, wanted, 1 << 20)
    assert page is not None
    return gathered_cutting.take(of, page, wanted & RowSet(page.entry.first_offset, page.entry.end), moments)


def values(piece: Fetched | None) -> list[bytes]:
    assert piece is not None
    assert piece.data is not None
    return encoding.decode(piece.columns, piece.data).column("value").to_pylist()


def test_they_go_out_as_they_would_out_of_their_pages():
    here, pages = partition(), [page_at(1), page_at(21), page_at(41)]
    wanted = [2, 3, 9, 10, 25, 60]
    piece = taken(here, gathered(here, pages, *wanted, 11, 33), *wanted).piece
    plain = list[Fetched]()
    for entry, page in pages:
        header = page_cutting.decode_header(page.header)
        mine = numbers(*[offset for offset in wanted if entry.first_offset <= offset < entry.end])
        batch = encoding.decode(header.columns, page.body)
        plain.append(page_cutting.some_rows(here, entry.end, entry, header, batch, mine))
    (expected,) = joined(plain)
    assert piece is not None
    assert piece.data == expected.data
    assert piece.runs.tolist() == expected.runs.tolist()
    assert piece.origins == expected.origins
    assert (piece.schema, piece.columns, piece.rows, piece.next_offset) == (expected.schema, expected.columns, expected.rows, 61)


def test_the_first_ones_are_found_up_to_one_that_is_not_there():
    here = partition()
    rows = gathered(here, [page_at(1), page_at(21)], 3, 9, 25)
    assert values(taken(here, rows, 3, 9, 10, 25).piece) == [b"2", b"8"]
    assert rows.find(here, RowSet.of_offsets(numbers(4, 9)), 1 << 20) is None
    assert rows.find(here, RowSet(30, 40), 1 << 20) is None
    here.retained.first = 5
    assert rows.find(here, RowSet.of_offsets(numbers(3, 9)), 1 << 20) is None


def test_no_more_go_out_at_once_than_there_is_room_for():
    here = partition()
    rows = gathered(here, [page_at(1), page_at(21)], *range(1, 41))
    page = rows.find(here, RowSet(1, 41), rows.bytes // 4)
    assert page is not None
    assert 1 <= len(page.offsets) <= 11
    page = rows.find(here, RowSet(1, 41), 1)
    assert page is not None
    assert len(page.offsets) == 1


def test_those_that_have_expired_and_those_that_are_too_old_are_told_apart():
    here = partition()
    rows = gathered(here, [page_at(1, expires=[DUE_AT - 1, DUE_AT + 1])], 1, 2, 3)
    found = taken(here, rows, 1, 2, 3)
    assert (values(found.piece), found.expired, found.too_old) == ([b"1", b"2"], RowSet(1, 2), RowSet(0, 0))
    found = taken(here, rows, 1, 2, 3, moments=Moments(DUE_AT, DUE_AT + 2))
    assert (values(found.piece), found.too_old) == ([b"2"], RowSet(1, 3))
    assert values(taken(here, rows, 1, 2, 3, moments=None).piece) == [b"0", b"1", b"2"]
    assert taken(here, rows, 1, 2, moments=Moments(DUE_AT, DUE_AT + 2)).piece is None


def test_a_row_that_was_moved_since_goes_out_with_its_new_due_time():
    here = partition()
    rows = gathered(here, [page_at(1)], 3, 4)
    here.moved_rows.apply(Reschedule(1, 0, ((3, 1),), 77_000))
    piece = taken(here, rows, 3, 4).piece
    assert piece is not None
    assert piece.data is not None
    dues = encoding.decode(piece.columns, piece.data).column("due").cast("int64").to_pylist()
    assert dues == [77_000, DUE_AT + 3]


def test_partitions_share_the_bytes_that_may_be_gathered():
    here, there = partition(), Partition(2, 0, 600)
    rows = Gathered(1000)
    assert rows.share(here) == 1000
    assert rows.share(there) == rows.share(here) == 500
    rows.forget(there)
    assert rows.share(here) == 1000
    assert not rows.take_wanted(here)
    rows.find(here, RowSet(1, 2), 100)
    assert [rows.take_wanted(here) for _ in range(2)] == [True, False]
