"""Every row exactly once in a file sink, whoever is killed while it is written."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

import bowstring
from tests.process.serving import serving
from tests.spark import driver
from tests.spark.reads import LIMIT_SECONDS, eventually

ROWS = 60_000
PARTITIONS = 3


class Driver:
    """A driver with everything that it has started."""

    def __init__(self, server: str, topic: str, place: Path) -> None:
        self._place = place
        command = [sys.executable, driver.__file__, server, topic, str(place)]
        self._process = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def batch_begins(self, number: int) -> None:
        """Waits until the offsets of a micro-batch are logged: its tasks run now."""
        self._logged("offsets", number)

    def batch_ends(self, number: int) -> None:
        """Waits until a micro-batch is in the commit log."""
        self._logged("commits", number)

    def _logged(self, log: str, number: int) -> None:
        file = self._place / "checkpoint" / log / str(number)
        eventually(lambda: file.exists() or self._process.poll() is not None, f"{log}/{number}")
        assert file.exists(), "the driver has ended"

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and all workers."""
        for process in (self._process, *self._children()):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=LIMIT_SECONDS)

    def kill_workers(self) -> int:
        """SIGKILL for the Python processes that Spark has started; gives their number."""
        killed = 0
        for process in self._children():
            with suppress(psutil.NoSuchProcess):
                if any(part.startswith("pyspark.") for part in process.cmdline()):
                    process.send_signal(signal.SIGKILL)
                    killed += 1
        return killed

    def ends_well(self) -> None:
        said, _ = self._process.communicate(timeout=3 * LIMIT_SECONDS)
        assert said.endswith("done\n")

    def _children(self) -> list[psutil.Process]:
        try:
            return self._process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with serving("--data", str(tmp_path / "broker")) as served:
        yield served.address


@pytest.fixture
def topic(server: str) -> str:
    """A topic with numbered rows."""
    with bowstring.connect(server) as client:
        client.create_topic("orders", partitions=PARTITIONS)
        with client.producer("orders") as producer:
            for first in range(0, ROWS, 1000):
                producer.send_batch([str(number).encode() for number in range(first, first + 1000)])
    return "orders"


def test_driver_and_workers_are_killed_and_every_row_is_there_once(spark: SparkSession, server: str, topic: str, tmp_path: Path) -> None:
    """Killed with a micro-batch planned and not committed, at a commit, and without its Python workers; then it runs to its end."""
    first = Driver(server, topic, tmp_path)
    first.batch_begins(3)
    first.kill()
    second = Driver(server, topic, tmp_path)
    second.batch_ends(7)
    second.kill()
    third = Driver(server, topic, tmp_path)
    try:
        third.batch_begins(11)
        assert third.kill_workers()
        third.batch_begins(16)
        assert third.kill_workers()
        third.ends_well()
    finally:
        third.kill()
    rows = spark.read.parquet(str(tmp_path / "out")).select("value", "partition", "offset").toArrow()
    assert sorted(int(value) for value in rows["value"].to_pylist()) == list(range(ROWS))
    assert len(set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))) == ROWS
