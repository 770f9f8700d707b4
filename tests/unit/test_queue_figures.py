"""The figures of queues: the data that is published for them, and how they are held against their bars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.queue import bars, filtered, rounds, scheduled
from benchmarks.queue.scheduled import Lateness

DAY = {
    "count": 20_000_000,
    "publish_seconds": 20.0,
    "empty_bytes": 100_000_000,
    "published_peak_bytes": 500_000_000,
    "delivering_peak_bytes": 300_000_000,
    "start": {"seconds": 0.5, "first_message": 1.0},
    "window": {"rows": 13_860, "early": 0, "median_ms": 20.0, "p99_ms": 50.0, "most_ms": 60.0, "per_second": 231.0, "cpu_share": 0.05},
}


def judged(name: str, found: dict[str, Any]) -> list[bool]:
    """Which of the bars are met."""
    return [row.met for row in bars.rows({name: found}) if row.met is not None]


def runs(**speeds: int) -> dict[str, list[dict[str, Any]]]:
    return {who: [{"messages_per_second": speed, "early": 0, "server_cpu_per_million": 1.0}] for who, speed in speeds.items()}


def test_every_measurement_of_queues_has_rows() -> None:
    assert set(rounds.NAMES) == set(bars._ROWS)  # pyright: ignore[reportPrivateUsage]


def test_due_times_are_spread_over_the_whole_span_and_none_is_outside() -> None:
    tables = list(scheduled.dated(120_000, 1_000.0, 60.0))
    assert [len(table) for table in tables] == [50_000, 50_000, 20_000]
    dues = np.concatenate([np.asarray(table["due"].cast(pa.int64())) for table in tables])
    assert dues.min() >= 1_000_000_000
    assert dues.max() < 1_060_000_000
    counts = np.histogram(dues, 6)[0]
    assert (abs(counts - 20_000) < 1_000).all()
    assert "due" not in next(scheduled.dated(10)).column_names


def test_a_row_that_comes_before_its_due_time_is_early() -> None:
    lateness = Lateness()
    lateness.note(pa.chunked_array([pa.array([9_000_000, 10_000_000, 10_500_000, None], pa.timestamp("us", "UTC"))]), 10.0)
    told = lateness.told()
    assert (told["rows"], told["early"], told["most_ms"]) == (4, 1, 1000.0)
    assert lateness.told()["rows"] == 0, "what was told is not told again"
    assert lateness.rows == 4


def test_one_message_in_a_thousand_passes_the_filters_and_the_last_is_one() -> None:
    (table,) = filtered.tables(10_000)
    rare = pc.equal(table["key"], filtered.RARE).to_numpy()
    assert (int(rare.sum()), bool(rare[-1])) == (10, True)
    kinds = [dict(pairs)["kind"] for pairs in table["attributes"].to_pylist()]
    assert [kind == "rare" for kind in kinds] == rare.tolist()


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, None),
        ({"published_peak_bytes": 501_000_000}, 0),
        ({"delivering_peak_bytes": 501_000_000}, 0),
        ({"start": {"seconds": 0.5, "first_message": 10.1}}, 1),
        ({"window": {**DAY["window"], "cpu_share": 0.051}}, 2),
        ({"window": {**DAY["window"], "p99_ms": 101.0}}, 3),
        ({"window": {**DAY["window"], "early": 1}}, 4),
    ],
)
def test_each_bar_of_a_day_is_judged_by_its_own_figure(changed: dict[str, Any], missed: int | None) -> None:
    assert judged("queue-day", DAY | changed) == [number != missed for number in range(5)]


def test_what_is_due_within_a_minute_is_held_against_shared_of_the_same_run() -> None:
    live = {"rows": 100, "early": 0, "median_ms": 1.0, "p99_ms": 2.0, "after_seconds": 0.0}
    found = {"count": 100, "seconds": 60.0, "live": live}
    assert judged("queue-minute", {**found, "rates": runs(shared=100, due=50)}) == [True, True]
    assert judged("queue-minute", {**found, "rates": runs(shared=100, due=49)}) == [False, True]
    assert judged("queue-minute", {**found, "rates": runs(shared=100, due=50), "live": {**live, "early": 1}}) == [True, False]


def test_backoff_and_filter_are_held_against_plain_consuming_of_the_same_run() -> None:
    rates = {"consume-messages": 100, "consume-backoff": 50, "consume-rows": 1000, "consume-backoff-rows": 499}
    assert judged("queue-backoff", {"rates": runs(**rates)}) == [True, False]
    assert judged("queue-filter", {"rates": runs(all=10, all_batches=20, attribute=49, key=50)}) == [False, True]
