"""Pages that are cut when they are sealed, beside the same pages whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bowstring.broker.reading.page_reader import arrivals
from bowstring.broker.upkeep.coalesced_page import Cutting, Sealable, coalesce
from bowstring.core.due_blocks import joined
from bowstring.core.page_cut import cut_origins, pieces
from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header, encode_header
from bowstring.messages import encoding
from bowstring.messages.schema import BYTES_SCHEMA
from bowstring.ports.store import Page

ARRIVED = 1_000_000
REACH = 100
CUT_BYTES = 64 * 1024
LATE = ARRIVED + 1_000_000
VALUE = b"x" * 700
ROWS = 120
DUES = st.dictionaries(st.integers(0, ROWS - 1), st.sampled_from((ARRIVED + 5, LATE, LATE + 7)), max_size=8)
CUTTING = Cutting(REACH, 16 * 1024)


def page_of(dues: list[int], origins: list[int], expires: bool = False) -> tuple[PageEntry, Page]:
    """A page of one batch of each of so many rows."""
    columns = {"value": pa.array([VALUE + str(row).encode() for row in range(len(dues))], pa.binary())}
    if any(dues):
        columns["due"] = pa.array([due or None for due in dues], pa.timestamp("us", "UTC"))
    if expires:
        columns["expires"] = pa.array([LATE + row for row in range(len(dues))], pa.timestamp("us", "UTC"))
    encoded = encoding.encode(pa.RecordBatch.from_pydict(columns))
    moments = [ARRIVED + number for number in range(len(origins))]
    made = [Origin(rows, bytes(16), number, 0, "", moments[number - 1]) for number, rows in enumerate(origins, start=1)]
    header = PageHeader(1, 0, BYTES_SCHEMA, encoded.mask, encoded.rows, tuple(made))
    entry = PageEntry(51, len(dues), moments[0], 7, 0, len(encoded.data), 3, encoded.mask, moments[-1], 0, max(dues))
    return entry, Page(encode_header(header), encoded.data)


def rows_of(sealed: list[Sealable], whole: Page) -> list[dict]:
    """Everything that can be told of each row, page by page."""
    found: list[dict] = []
    for entry, page, *_ in sealed:
        stored = page or whole
        header = decode_header(stored.header)
        assert (header.rows, header.columns) == (entry.rows, entry.columns)
        batch = encoding.decode(header.columns, stored.body)
        names = ("value", "due", "expires")
        values = [[None] * entry.rows if name not in batch.schema.names else batch.column(name).to_pylist() for name in names]
        owners = [(origin.producer, origin.number, origin.first_row + at) for origin in header.origins for at in range(origin.rows)]
        offsets = range(entry.first_offset, entry.end)
        found += [{"is": one} for one in zip(offsets, *values, owners, arrivals(header, entry).tolist(), strict=True)]
    return found


@given(DUES, st.booleans())
def test_a_cut_page_holds_what_it_held_whole(due: dict[int, int], expires: bool):
    dues = [due.get(row, 0) for row in range(ROWS)]
    entry, page = page_of(dues, [50, ROWS - 50], expires)
    whole, cut = coalesce([entry], [page], None), coalesce([entry], [page], CUTTING)
    assert rows_of(cut, page) == rows_of(whole, page)
    pairs = [joined([part.dues for part in sealed]) for sealed in (cut, whole)]
    assert pairs[0].offsets.tolist() == pairs[1].offsets.tolist()
    assert pairs[0].moments.tolist() == pairs[1].moments.tolist()
    for part in cut:
        assert part.entry.due == max(part.dues.moments.tolist(), default=0)
        assert part.entry.expires == (0 if len(cut) == 1 or not expires else LATE + part.entry.end - 52)


def test_one_late_row_does_not_keep_megabytes():
    dues = [0] * 500
    dues[200] = LATE
    entry, page = page_of(dues, [500])
    cut = coalesce([entry], [page], Cutting(REACH, CUT_BYTES))
    assert [part.entry.rows for part in cut] == [200, 1, 299]
    assert [part.entry.due for part in cut] == [0, LATE, 0]
    assert sum(part.entry.length for part in cut if part.entry.due) < 2_000
    assert all(VALUE + b"200" not in bytes(part.page.body) for part in cut if part.page and not part.entry.due)


def test_pages_stay_whole_where_a_cut_does_not_pay():
    dues = [0] * 500
    dues[200] = ARRIVED + REACH
    entry, page = page_of(dues, [500])
    assert len(coalesce([entry], [page], Cutting(REACH, CUT_BYTES))) == 1, "it is due before the others are gone"
    assert pieces(np.arange(100) % 2 == 0, 10 * CUT_BYTES, CUT_BYTES) == [], "late rows are everywhere"
    assert pieces(np.arange(100) == 5, CUT_BYTES - 1, CUT_BYTES) == [], "it is small"
    assert pieces(np.ones(100, np.bool_), 10 * CUT_BYTES, CUT_BYTES) == [], "all are late"


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.integers(1, 40))
def test_pieces_are_all_rows_in_order(late: list[bool], kib: int):
    cuts = pieces(np.array(late), kib * 16 * 1024, CUT_BYTES)
    if cuts:
        assert cuts[0][0] == 0
        assert cuts[-1][1] == len(late)
        assert all(before[1] == after[0] for before, after in pairwise(cuts))
        kept = sum(end - first for first, end in cuts if any(late[first:end]))
        assert 2 * kept <= len(late)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_origins_are_cut_with_their_rows(rows: list[int], data: st.DataObject):
    origins = tuple(Origin(count, bytes(16), number, 3, "") for number, count in enumerate(rows))
    total = sum(rows)
    border = data.draw(st.integers(0, total))
    first, second = cut_origins(origins, 0, border), cut_origins(origins, border, total)
    each = [(origin.number, origin.first_row + at) for origin in (*first, *second) for at in range(origin.rows)]
    assert each == [(number, 3 + at) for number, count in enumerate(rows) for at in range(count)]
    if first and first[-1].rest:
        assert first[-1].rest == second[0].rows
        assert second[0].number == first[-1].number
