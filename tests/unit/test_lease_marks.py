"""Marks of rows become runs of offsets, and masks of all kinds become rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.client import lease_extension, lease_marks, settle_requests
from bowstring.client.lease_marks import ACK, LOST, NACK, REJECT, RELEASE
from bowstring.client.lease_receipts import LeaseReceipt
from bowstring.client.leased_page import HeldLease, LeasedPage
from bowstring.client.masks import chosen
from bowstring.client.settle_requests import MarkedPart, RequestLane
from bowstring.wire.generated import bowstring_pb2 as pb


class Desk:
    """As much of the settlements of a consumer as a page needs."""

    receipt = LeaseReceipt
    is_keyed = False

    def __init__(self) -> None:
        self.enlisted: list[LeasedPage] = []

    def monotonic(self) -> float:
        return 0.0

    def enlist(self, page: LeasedPage) -> None:
        self.enlisted.append(page)


def page_of(*runs: tuple[int, int], grant: int = 1) -> LeasedPage:
    rows = sum(many for _, many in runs)
    header = pb.FetchAnswer(rows=rows, next_offset=runs[-1][0] + runs[-1][1])
    for offset, many in runs:
        header.runs.add(offset=offset, rows=many)
    return LeasedPage("t", header, None, pb.Lease(grant=grant, until=1), HeldLease(0, grant, 1), Desk())


def listed(parts: list[tuple[int, lease_marks.Rows]]) -> list[tuple[int, list[int] | None]]:
    return [(code, None if rows is None else rows.tolist()) for code, rows, *_ in parts]


def test_a_page_is_enlisted_with_its_first_mark_and_again_after_it_was_gathered():
    page = page_of((1, 10))
    page.mark(0, 3, ACK)
    page.mark(3, 3, ACK)
    assert page.settlements.enlisted == [page]
    assert listed(lease_marks.gathered(page)) == [(ACK, [0, 1, 2, 3, 4, 5])]
    assert listed(lease_marks.gathered(page)) == []
    page.mark(9, 1, NACK)
    assert page.settlements.enlisted == [page, page]
    assert listed(lease_marks.gathered(page)) == [(NACK, [9])]


def test_a_whole_page_of_one_word_is_gathered_as_a_whole():
    page = page_of((5, 4))
    page.mark(0, 4, ACK)
    assert listed(lease_marks.gathered(page)) == [(ACK, None)]
    assert lease_marks.runs(page, None) == ([5], [4])
    one = page_of((9, 1))
    assert listed(lease_marks.gathered(one)) == []
    one.mark(0, 1, REJECT)
    assert listed(lease_marks.gathered(one)) == [(REJECT, None)]
    assert listed(lease_marks.gathered(one)) == []


def test_words_are_gathered_apart_and_a_row_keeps_its_first_one():
    page = page_of((1, 8))
    page.mark(0, 8, ACK, np.arange(8) % 2 == 0)
    page.mark(0, 8, NACK)
    page.mark(0, 8, RELEASE)
    assert listed(lease_marks.gathered(page)) == [(ACK, [0, 2, 4, 6]), (NACK, [1, 3, 5, 7])]


def test_what_the_loop_has_taken_is_not_taken_again_whatever_a_late_thread_writes():
    page = page_of((1, 3))
    page.mark(0, 3, ACK)
    lease_marks.gathered(page)
    page.marks[1] = NACK
    assert listed(lease_marks.gathered(page)) == []


def test_lost_rows_are_gathered_as_lost():
    page = page_of((1, 4))
    page.mark(0, 1, ACK)
    page.lose(0, 4)
    assert listed(lease_marks.gathered(page)) == [(ACK, [0]), (LOST, [1, 2, 3])]


@pytest.mark.parametrize(
    ("runs", "rows", "expected"),
    [
        ([(1, 10)], [0, 1, 2], ([1], [3])),
        ([(1, 10)], [0, 2, 3, 9], ([1, 3, 10], [1, 2, 1])),
        ([(1, 3), (10, 3)], [0, 1, 2, 3, 4, 5], ([1, 10], [3, 3])),
        ([(1, 3), (10, 3)], [2, 3], ([3, 10], [1, 1])),
        ([(1, 3), (10, 3)], None, ([1, 10], [3, 3])),
        ([(7, 1)], [0], ([7], [1])),
    ],
)
def test_rows_become_runs_of_offsets_and_back(runs, rows, expected):
    page = page_of(*runs)
    asked = None if rows is None else np.array(rows)
    assert lease_marks.runs(page, asked) == expected
    assert lease_marks.rows_at(page, *expected).tolist() == (list(range(page.rows)) if rows is None else rows)


def test_requests_are_numbered_upwards_and_bounded_in_runs(monkeypatch):
    monkeypatch.setattr(settle_requests, "RUNS_MAX", 4)
    page, other = page_of((1, 20)), page_of((101, 3), grant=2)
    lane = RequestLane(0, numbers_from=7)
    requests = lane.add([MarkedPart(page, ACK, np.arange(0, 20, 2)), MarkedPart(other, NACK, None)])
    assert [request.message.request for request in requests] == [8, 9, 10]
    assert [len(request.message.offsets) for request in requests] == [4, 4, 3]
    last = requests[-1].message
    assert (list(last.grants), list(last.outcomes), list(last.runs)) == ([1, 2], [1, 2], [2, 1])
    assert (list(last.offsets), list(last.rows)) == ([17, 19, 101], [1, 1, 3])
    named = [row for request in requests for part in request.parts if part.page is page for row in part.rows.tolist()]
    assert named == list(range(0, 20, 2))


def test_a_request_says_up_to_which_the_answers_have_come():
    lane, page = RequestLane(0), page_of((1, 9))
    first, second, third = (lane.add([MarkedPart(page, ACK, np.array([row]))])[0] for row in range(3))
    assert [message.answered for message in lane.to_write([first, second, third], 0.0)] == [0, 0, 0]
    del lane.unanswered[2]
    assert [message.answered for message in lane.to_write([third], 0.0)] == [0]
    del lane.unanswered[1]
    assert [message.answered for message in lane.to_write([third], 0.0)] == [2]


def test_numbers_go_on_where_the_broker_says_once_nothing_is_unanswered():
    lane, page = RequestLane(0, numbers_from=7), page_of((1, 9))
    (first,) = lane.add([MarkedPart(page, ACK, np.array([0]))])
    lane.numbers_from = 1_000
    (second,) = lane.add([MarkedPart(page, ACK, np.array([1]))])
    lane.unanswered.clear()
    (third,) = lane.add([MarkedPart(page, ACK, np.array([2]))])
    assert [request.message.request for request in (first, second, third)] == [8, 9, 1_001]
    assert [message.answered for message in lane.to_write([third], 0.0)] == [1_000]


def test_extensions_are_divided_by_partition_and_by_runs():
    here, there = page_of((1, 12)), page_of((1, 2), grant=2)
    there.lease.partition = 1
    parts = [(here, np.arange(0, 12, 2)), (there, np.arange(2)), (here, np.array([1]))]
    divided = [[(number, rows.tolist()) for number, rows in some] for some in lease_extension.divided(parts, 4)]
    assert divided == [[(0, [0, 2, 4, 6])], [(0, [8, 10]), (2, [1])], [(1, [0, 1])]]


# ---- masks

GOOD = [True, False, True, False]


@pytest.mark.parametrize(
    "mask",
    [
        GOOD,
        tuple(GOOD),
        np.array(GOOD),
        pa.array(GOOD),
        pa.chunked_array([GOOD[:1], GOOD[1:]]),
        pl.Series(GOOD),
        pd.Series(GOOD),
        pd.Series(GOOD, dtype="boolean"),
        [0, 2],
        [2, 0],
        range(0, 4, 2),
        np.array([0, 2], np.uint8),
        pa.array([0, 2]),
        pl.Series([0, 2]),
        pd.Series([0, 2]),
        [np.int64(0), 2],
    ],
    ids=lambda mask: f"{type(mask).__module__}.{type(mask).__name__}",
)
def test_masks_of_all_kinds_choose_the_same_rows(mask):
    assert chosen(mask, 4).tolist() == GOOD


def test_no_mask_means_all_rows_and_an_empty_list_none():
    assert chosen(None, 4) is None
    assert chosen([], 4).tolist() == [False] * 4
    assert chosen(np.array([], np.int64), 0).tolist() == []


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([True], "the mask has 1 entries, the batch has 4 rows"),
        (np.ones(5, bool), "5 entries"),
        (np.array([], np.bool_), "0 entries"),
        ([0, 4], "the batch has no row 4"),
        ([-1], "the batch has no row -1"),
        ([1, 2, 1], "names row 1 twice"),
        ([True, None, False, True], "has nulls"),
        (pa.array([True, None, False, True]), "has nulls"),
        (pl.Series([True, None, False, True]), "has nulls"),
        (pd.Series([True, None, False, True], dtype="boolean"), "has nulls"),
        ([True, 1, 0, 1], "and no mask"),
        ([1.0], "and no mask"),
        (["a"], "and no mask"),
        ("all", "of type str, and no mask"),
        (3, "of type int, and no mask"),
        (True, "of type bool"),
        ({0: True}, "of type dict"),
        (np.ones((2, 2), bool), "2 dimensions"),
    ],
)
def test_what_is_no_mask_is_refused(mask, words):
    with pytest.raises(errors.InvalidArgument, match=words):
        chosen(mask, 4)
