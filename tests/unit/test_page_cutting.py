"""The runs and origins of rows that are taken out of a page."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bowstring.broker.queue.leased_page import offsets_of
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.page_cutting import _dated, _origins  # pyright: ignore[reportPrivateUsage]
from bowstring.core.pages import Origin, PageEntry, PageHeader
from bowstring.messages.schema import BYTES_SCHEMA, VALUE

FIRST = 1001
Origins = tuple[Origin, ...]
ORIGINS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=5).map(
    lambda parts: tuple(Origin(rows, b"p" * 16, at + 7, first, "group", at // 2 + 5, 3) for at, (rows, first, _) in enumerate(parts))
)


def row_by_row(origins: Origins, wanted: set[int]) -> list[tuple[int, Origin]]:
    """Each wanted row with an origin of its own."""
    every = [origin._replace(rows=1, first_row=origin.first_row + row) for origin in origins for row in range(origin.rows)]
    return [(row, origin) for row, origin in enumerate(every) if row in wanted]


def of_each(origins: list[Origin], rows: np.ndarray) -> list[Origin]:
    """The origin of each row: rows of one origin lie as far apart in its batch as in the page."""
    found, at = list[Origin](), 0
    for origin in origins:
        mine = rows[at : at + origin.rows].tolist()
        found += [origin._replace(rows=1, first_row=origin.first_row + row - mine[0]) for row in mine]
        at += origin.rows
    return found


@given(ORIGINS, st.sets(st.integers(0, 149), min_size=1))
def test_scattered_rows_keep_their_origin_and_their_arrival(origins: Origins, some: set[int]):
    count = sum(origin.rows for origin in origins)
    expected = row_by_row(origins, {row % count for row in some})
    rows = np.array([row for row, _ in expected], np.int64)
    assert of_each(_origins(origins, rows), rows) == [origin for _, origin in expected]

    last = origins[-1].arrived
    entry = PageEntry(FIRST, count, origins[0].arrived, 1, 0, 100, 1, VALUE, last)
    runs = _dated(entry, PageHeader(1, 0, BYTES_SCHEMA, VALUE, count, origins), rows + FIRST)
    told = [(offset + row, arrived) for offset, length, arrived in runs.tolist() for row in range(length)]
    assert told == [(row + FIRST, origin.arrived) for row, origin in expected]

    fetched = Fetched(0, FIRST + count, 5, BYTES_SCHEMA, VALUE, len(rows), runs, [], None, 0)
    assert offsets_of(fetched).offsets().tolist() == (rows + FIRST).tolist()
