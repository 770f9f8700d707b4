"""Rows that lie anywhere: what the broker writes is what kits read, and arrays that do not fit together are refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.broker.queue import leased_page
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.page_cutting import some_rows
from bowstring.client.pages import FetchedPage
from bowstring.core.pages import Origin, PageEntry, PageHeader
from bowstring.core.partition import Partition
from bowstring.gateway.protobuf_queue import RUNS_FEW, fill_page
from bowstring.messages import encoding, ids
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process.wire_calls import runs_in
from tests.simulation.plain_reader import places

BIG = (1 << 63) - 1
FIRST = 1000


def answer_of(piece: Fetched) -> pb.FetchAnswer:
    answer = pb.FetchAnswer()
    fill_page(answer, piece)
    return pb.FetchAnswer.FromString(answer.SerializeToString())


def told(
    offsets: list[int], rows: Sequence[int] = (), arrived: Sequence[int] = (), arrived_rows: Sequence[int] = (), count: int = 0
) -> pb.FetchAnswer:
    scattered = pb.ScatteredRows(offsets=offsets, rows=rows, arrived=arrived, arrived_rows=arrived_rows)
    return pb.FetchAnswer(rows=count or sum(rows) or len(offsets), arrived=7, scattered=scattered)


def page_of(answer: pb.FetchAnswer) -> FetchedPage:
    return FetchedPage("t", answer, None)


RUNS = st.lists(st.tuples(st.integers(1, 1 << 40), st.sampled_from([1, 1, 1, 2, 50]), st.sampled_from([7, 8, 9])), min_size=1, max_size=60)


@given(RUNS)
def test_what_the_broker_writes_is_what_kits_read(drawn: list[tuple[int, int, int]]):
    runs, end = list[tuple[int, int, int]](), 0
    for gap, rows, arrived in drawn:
        runs.append((end + gap, rows, arrived))
        end = runs[-1][0] + rows
    count = sum(rows for _, rows, _ in runs)
    answer = answer_of(Fetched(3, end, 7, 0, 0, count, np.array(runs), [], None, 0))
    assert answer.HasField("scattered") == (len(runs) > RUNS_FEW)
    offsets = [first + at for first, rows, _ in runs for at in range(rows)]
    arrived = [moment for _, rows, moment in runs for _ in range(rows)]
    page = page_of(answer)
    assert page.offsets.tolist() == offsets
    assert page.entries("arrived") == arrived
    assert page.ages_from == arrived[0]
    assert places(answer) == (offsets, arrived), "a client without the kit sees the same"
    assert runs_in(answer) == [run[:2] for run in runs]


def test_rows_one_by_one_of_one_arrival_are_an_array_of_steps_and_nothing_else():
    runs = np.array([(offset, 1, 7) for offset in range(100, 200, 10)])
    answer = answer_of(Fetched(0, 191, 7, 0, 0, 10, runs, [], None, 0))
    assert list(answer.scattered.offsets) == [100] + [10] * 9
    assert not answer.runs
    assert not answer.scattered.rows
    assert not answer.scattered.arrived


def test_the_example_of_the_protocol():
    assert page_of(told([100, 10, 5, 85], [1, 2, 1, 1])).offsets.tolist() == [100, 110, 111, 115, 200]


@given(st.sets(st.integers(0, 299), min_size=1), st.integers(1, 300))
def test_scattered_rows_keep_their_ids_groups_and_offsets(chosen: set[int], most: int):
    made = encoding.encode_values([b"%d" % row for row in range(300)])
    origins = tuple(Origin(100, bytes([number]) * 16, number, 5 * number, f"g{number}") for number in range(3))
    entry = PageEntry(FIRST, 300, 7, 1, 0, len(made.data), 1, made.mask, 7, 0, 0)
    rows = np.array(sorted(chosen))
    partition = Partition(1, 2, 100)
    batch = encoding.decode(made.mask, made.data)
    piece = some_rows(partition, entry.end, entry, PageHeader(1, 2, 0, made.mask, 300, origins), batch, rows + FIRST)
    assert len(piece.origins) == len({row // 100 for row in chosen})
    piece, rows = leased_page.first_rows(piece, most), rows[:most]
    assert leased_page.offsets_of(piece).offsets().tolist() == (rows + FIRST).tolist()
    page = FetchedPage("t", answer_of(piece), memoryview(piece.data))
    assert page.entries("value") == [b"%d" % row for row in rows]
    assert page.entries("producer_group") == [f"g{row // 100}" for row in rows]
    names = [(origins[row // 100], row % 100) for row in rows.tolist()]
    assert page.entries("id") == [ids.generated(one.producer, one.number, 2, one.first_row + at) for one, at in names]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (told([5, 5], [1]), "2 runs have 1 numbers"),
        (told([5], [1, 1]), "1 runs have 2 numbers"),
        (told([], count=1), "do not have 1 rows"),
        (told([5, 5], [1, 0]), "do not have 1 rows"),
        (told([5, 5], [2, 2], count=3), "do not have 3 rows"),
        (told([5, 5], [1, (1 << 32) - 1], count=3), "do not have 3 rows"),
        (told([5, 0], [1, 1]), "do not follow"),
        (told([5, 4], [5, 1]), "do not follow"),
        (told([5, BIG], [1, 1]), "do not follow"),
        (told([5, BIG - 5], [1, 2]), "do not follow"),
        (told([BIG + 1]), "too large"),
        (told([5, (1 << 64) - 1]), "too large"),
        (told([5, 5], arrived=[7]), "arrivals"),
        (told([5, 5], arrived=[7, 8], arrived_rows=[1]), "arrivals"),
        (told([5, 5], arrived=[7, 8], arrived_rows=[1, 2]), "arrivals"),
        (told([5, 5], arrived_rows=[2]), "arrivals"),
        (told([5, 5], arrived=[7, 8], arrived_rows=[0, 2]), "arrivals"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(answer: pb.FetchAnswer, why: str):
    with pytest.raises(errors.InvalidArgument, match=why):
        page_of(answer)


def test_both_forms_at_once_are_refused():
    answer = told([5, 5])
    answer.runs.add(offset=5, rows=2)
    with pytest.raises(errors.InvalidArgument):
        page_of(answer)


NUMBERS = st.lists(st.one_of(st.integers(0, 3), st.integers(0, (1 << 32) - 1)), max_size=6)
WIDE = st.lists(st.one_of(st.integers(0, 9), st.integers(0, (1 << 64) - 1)), max_size=6)


@given(WIDE, NUMBERS, WIDE.map(lambda some: [one >> 1 for one in some]), NUMBERS, st.integers(0, 20))
def test_whatever_comes_is_refused_or_names_rows_in_order(
    offsets: list[int], rows: list[int], arrived: list[int], arrived_rows: list[int], count: int
):
    answer = told(offsets, rows, arrived, arrived_rows, count)
    answer.rows = count
    try:
        page = page_of(answer)
    except errors.InvalidArgument:
        return
    runs = zip(accumulate(offsets), rows or [1] * len(offsets), strict=True)
    assert page.offsets.tolist() == [first + at for first, many in runs for at in range(many)]
    assert len(page.offsets) == len(page.entries("arrived")) == count
    assert all(np.diff(page.offsets) > 0)
