"""The benchmarks' yardsticks: values that differ, and a look at what others do meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks import processes, quiet
from benchmarks.product import bars
from benchmarks.quiet import FOREIGN_CORES_MAX, Run
from benchmarks.spark.reading import VALUE_BYTES, different_values

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_no_two_values_of_the_spark_benchmark_are_the_same() -> None:
    values = different_values(20_000)
    assert len(values.unique()) == 20_000
    assert {len(value.as_py()) for value in values} == {VALUE_BYTES}


def test_what_our_own_processes_burn_is_not_foreign() -> None:
    before = processes.family_cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert processes.family_cpu_seconds(os.getpid()) - before >= 0.25
    burnt = quiet.timed(lambda: subprocess.run([sys.executable, "-c", BURN], check=True), os.getpid(), [])
    assert burnt.foreign_cores * burnt.seconds >= 0.2, "with no process of ours everything is foreign"


def test_a_round_with_foreign_load_is_repeated_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([0.0, 1.0, 0.0, FOREIGN_CORES_MAX])
    monkeypatch.setattr(quiet, "timed", lambda work, server, ours: Run(1.0, 0.0, next(loads)))
    found, believed = quiet.rounds({"work": lambda: None}, 3, 0, [])
    assert believed
    assert [each["work"].foreign_cores for each in found] == [0.0, 0.0, FOREIGN_CORES_MAX]


def test_bars_are_not_judged_where_it_never_was_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "timed", lambda work, server, ours: Run(1.0, 0.0, 1.0))
    found, believed = quiet.rounds({"work": lambda: None}, 2, 0, [])
    assert (len(found), believed) == (2 * quiet.TRIES, False)
    figures = {"rates": {"parquet": 6.0, "batch": 1.0, "stream": 1.0}, "broker_cpu": {"batch": 0.2}}
    judged = {quietly: [row.met for row in bars.rows({"spark": {**figures, "quiet": quietly}})] for quietly in (True, False)}
    assert judged[True][:2] == [False, False]
    assert set(judged[False]) == {None}
