"""Which pages go out as they are stored."""

from __future__ import annotations

import pytest

from bowstring.broker.reading.selection import Selection
from bowstring.core.pages import PageEntry
from bowstring.messages import filters
from bowstring.messages.schema import ATTRIBUTES, CREATED, DUE, EXPIRES, KEY, TIMES, VALUE


def page(columns: int, row_bytes: int, rows: int = 1000) -> PageEntry:
    return PageEntry(1, rows, 0, 0, 0, rows * row_bytes, 1, columns, 0)


@pytest.mark.parametrize(
    ("wanted", "columns", "row_bytes", "untouched"),
    [
        (None, KEY | VALUE | TIMES, 10, True),
        (KEY | VALUE, VALUE, 10, True),
        (KEY | VALUE, VALUE | CREATED, 112, True),
        (KEY | VALUE, VALUE | CREATED, 79, False),
        (KEY | VALUE, KEY | VALUE | CREATED | DUE | EXPIRES, 240, True),
        (KEY | VALUE, KEY | VALUE | CREATED | DUE | EXPIRES, 239, False),
        (KEY | VALUE, VALUE | ATTRIBUTES, 10_000, False),
        (KEY, VALUE | CREATED, 10_000, False),
        (KEY, CREATED, 10_000, False),
        (0, CREATED, 10_000, False),
    ],
)
def test_only_small_moments_go_along_with_what_is_wanted(wanted: int | None, columns: int, row_bytes: int, untouched: bool) -> None:
    assert Selection(None, wanted).takes_untouched(page(columns, row_bytes)) == untouched


def test_a_filter_touches_every_page() -> None:
    selection = Selection(filters.parse("key = 'a'"), None)
    assert not selection.takes_untouched(page(VALUE, 100))
    assert selection.takes_columns(page(VALUE, 100))
