"""How a micro-batch is cut, and into which tasks. Nothing here starts a Spark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bowstring.spark import limits, options, places, tasks
from bowstring.spark.places import Standing
from bowstring.spark.tasks import Task

COUNTS = st.dictionaries(st.integers(0, 9), st.integers(0, 10_000), min_size=1)


@given(COUNTS, st.integers(1, 20_000))
def test_partitions_share_a_limit_by_what_waits_in_them(waiting: dict[int, int], rows_max: int) -> None:
    starts = {"orders": {number: 1 for number in waiting}}
    ends = {"orders": {number: 1 + count for number, count in waiting.items()}}
    cut = limits.advance(starts, ends, rows_max)
    total = sum(waiting.values())
    assert limits.rows(starts, cut) == min(total, rows_max)
    for number, count in waiting.items():
        taken = cut["orders"][number] - 1
        assert 0 <= taken <= count
        assert taken == count or abs(taken - rows_max * count / total) < 1


@given(st.integers(1, 10_000), st.integers(1, 10_000_000), st.floats(1, 100_000))
def test_a_limit_in_bytes_lets_a_stream_get_on(count: int, bytes_max: int, row_bytes: float) -> None:
    standings = {"orders": Standing(1, {0: range(1, 1 + count)}, row_bytes)}
    rows = limits.rows_of_bytes({"orders": {0: 1}}, {"orders": {0: 1 + count}}, standings, bytes_max)
    assert 1 <= rows <= count
    assert rows == 1 or rows * row_bytes <= bytes_max


@given(COUNTS, st.one_of(st.none(), st.integers(1, 50)), st.one_of(st.none(), st.integers(1, 500)))
def test_finer_tasks_have_every_offset_once(counts: dict[int, int], at_least: int | None, rows_max: int | None) -> None:
    asked = options.parse(
        {
            "subscribe": "orders",
            **({} if at_least is None else {"minPartitions": str(at_least)}),
            **({} if rows_max is None else {"maxRecordsPerPartition": str(rows_max)}),
        },
        0,
    )
    whole = [Task("orders", 1, number, 5, 5 + count, False) for number, count in counts.items()]
    parts = tasks.split(whole, asked)
    assert [(task.partition, offset) for task in whole for offset in range(task.start, task.end)] == [
        (task.partition, offset) for task in parts for offset in range(task.start, task.end)
    ]
    assert all(task.rows > 0 for task in parts)
    assert rows_max is None or all(task.rows <= rows_max for task in parts)
    assert at_least is None or len(parts) >= min(at_least, sum(counts.values()))


@given(st.dictionaries(st.text("abc", min_size=1), st.dictionaries(st.integers(0, 20), st.integers(1, 2**60))))
def test_offsets_survive_as_json_and_the_same_ones_are_the_same_text(offsets: places.Offsets) -> None:
    ids = {name: number for number, name in enumerate(offsets)}
    told = places.to_json(offsets, ids)
    assert places.from_json(told) == (offsets, ids)
    shuffled = {name: dict(reversed(partitions.items())) for name, partitions in reversed(offsets.items())}
    assert repr(places.to_json(shuffled, ids)) == repr(told)
