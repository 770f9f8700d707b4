"""Which pages become one when they are sealed."""

from __future__ import annotations

from bowstring.broker.tuning import Tuning
from bowstring.broker.upkeep.coalesced_page import BYTES_MAX, runs
from bowstring.core.pages import PageEntry

JOURNAL, SEGMENT = 0, 7
SMALL_BYTES = Tuning().small_page_bytes


def pages(*kinds: tuple[int, int], columns: int = 2) -> list[PageEntry]:
    """Pages of ten rows that follow each other, each given as segment and length."""
    return [PageEntry(1 + 10 * number, 10, 1000, segment, 0, length, 3, columns, 1000) for number, (segment, length) in enumerate(kinds)]


def together(entries: list[PageEntry], *, hurry: bool = False) -> list[list[int]]:
    """The first offsets of what is to become one."""
    return [[entry.first_offset for entry in run] for run in runs(entries, small_bytes=0 if hurry else SMALL_BYTES)]


def test_small_neighbours_become_one_wherever_they_are():
    assert together(pages((JOURNAL, 100), (SEGMENT, 100), (SEGMENT, SMALL_BYTES - 1), (JOURNAL, 100))) == [[1, 11, 21, 31]]


def test_large_pages_in_segments_stay_alone_and_part_their_neighbours():
    assert together(pages((SEGMENT, 100), (SEGMENT, SMALL_BYTES), (SEGMENT, 100), (SEGMENT, 100))) == [[1], [11], [21, 31]]


def test_large_pages_of_the_journal_have_to_be_written_anyway():
    assert together(pages((JOURNAL, SMALL_BYTES), (JOURNAL, SMALL_BYTES))) == [[1, 11]]


def test_in_a_hurry_only_the_journal_is_copied():
    kinds = (SEGMENT, 100), (SEGMENT, 100), (JOURNAL, 100), (JOURNAL, 100), (SEGMENT, 100)
    assert together(pages(*kinds), hurry=True) == [[1], [11], [21, 31], [41]]


def test_a_page_does_not_grow_without_bound():
    found = together(pages(*[(SEGMENT, SMALL_BYTES - 1)] * 20))
    assert all(len(run) * (SMALL_BYTES - 1) <= BYTES_MAX for run in found)
    assert [offset for run in found for offset in run] == [1 + 10 * number for number in range(20)]


def test_pages_with_a_gap_or_other_columns_between_them_stay_apart():
    first, second, third = pages((SEGMENT, 100), (SEGMENT, 100), (SEGMENT, 100))
    assert together([first, third]) == [[1], [21]]
    assert together([first, second._replace(columns=3), third._replace(columns=3)]) == [[1], [11, 21]]
