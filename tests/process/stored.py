"""A data directory as a broker leaves it, small and known to the last message: sealed pages, pages in segments and in journal rows.

    stored = store(tmp_path / "data")
    stored.values["orders", 0]     what has been published there, in the order of offsets

`damage` flips a byte; `catalog` runs SQL on the catalog behind the broker's back. Nothing is sealed or cleaned by itself meanwhile, so
that every run gives the same directory.
"""

from __future__ import annotations

import io
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import bowstring
from bowstring.cli.main import main
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import DataDirectory

SETTINGS: dict[str, Any] = {
    "segment_bytes_first": 256 * 1024,
    "segment_bytes_max": 256 * 1024,
    "upkeep_seconds": 86_400.0,
    "flush_inline_bytes": 16 * 1024,
}
LARGE = 20 * 1024
"""A value that does not go into the journal."""
Values = dict[tuple[str, int], list[bytes]]


class Stored(NamedTuple):
    data: Path
    values: Values


@contextmanager
def broker(data: Path) -> Iterator[bowstring.Broker]:
    with bowstring.Broker(data=data, **SETTINGS) as running:
        yield running


def seal(running: bowstring.Broker) -> None:
    """Seals everything that is committed, now."""
    live = running._broker._server.broker.live
    running._thread.run(live.upkeep.sealer.seal())


def retain(running: bowstring.Broker) -> None:
    """Lets go of what is too old, or too much, now."""
    live = running._broker._server.broker.live
    running._thread.run(live.upkeep.retention.turn())


def publish(running: bowstring.Broker, topic: str, messages: Iterable[tuple[str, bytes]], values: Values, timeout: float = 30) -> None:
    """Publishes (id, value) one after the other, each in a flush of its own."""
    with running.connect() as client, client.producer(topic, timeout=timeout) as producer:
        for id, value in messages:
            stored = producer.send(value, id=id).result(60)
            values.setdefault((topic, stored.partition), []).append(value)


def store(data: Path) -> Stored:
    """`orders` has one partition: 10 small messages and a large one sealed together, again 10 and one, then 3 small and one large that
    are not sealed. `clicks` has two partitions and one extent in each."""
    values: Values = {}
    with broker(data) as running:
        with running.connect() as client:
            client.create_topic("orders")
            client.create_topic("clicks", partitions=2)
        for round in (1, 2):
            publish(running, "orders", ((f"o{round}-{n}", b"%d/%d" % (round, n)) for n in range(10)), values)
            publish(running, "orders", [(f"large{round}", bytes([round]) * LARGE)], values)
            if round == 1:
                publish(running, "clicks", ((f"c{n}", b"click %d" % n) for n in range(10)), values)
            seal(running)
        publish(running, "orders", ((f"o3-{n}", b"3/%d" % n) for n in range(3)), values)
        publish(running, "orders", [("large3", b"\x03" * LARGE)], values)
    return Stored(data, values)


class Read(NamedTuple):
    """What a reader got of a partition, and how it ended."""

    values: list[bytes]
    error: bowstring.Error | None


def read(running: bowstring.Broker, topic: str, partition: int, start: int = 1) -> Read:
    """Reads to the end, or to an error; from the beginning, wherever that is, if `start` is 0."""
    begin = {partition: start} if start else "beginning"
    values: list[bytes] = []
    with running.connect() as client:
        try:
            for message in client.reader(topic, start=begin, end="latest", partitions=[partition]):
                values.append(message.value)
        except bowstring.Error as error:
            return Read(values, error)
    return Read(values, None)


def read_all(running: bowstring.Broker, stored: Stored) -> Values:
    """Everything, which has to be readable."""
    found: Values = {}
    for topic, partition in stored.values:
        part = read(running, topic, partition)
        assert part.error is None, part.error
        found[topic, partition] = part.values
    return found


def contents(data: Path) -> Contents:
    with DataDirectory(str(data)) as directory:
        return Contents(directory.catalog)


def catalog(data: Path, query: str, *values: object) -> list[Any]:
    with closing(sqlite3.connect(data / "catalog.sqlite")) as connection, connection:
        return connection.execute(query, values).fetchall()


def damage(path: Path, position: int) -> None:
    """Flips a bit."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As `serving.run`, without the second that a process takes to begin."""
    said, complained = io.StringIO(), io.StringIO()
    code = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
        patch.setattr(sys, "argv", ["bowstring", *arguments])
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), complained.getvalue())


def snapshot(data: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below the directory with its bytes and the moment it was changed."""
    files = sorted(path for path in data.rglob("*") if path.is_file())
    return {str(path.relative_to(data)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# Fixtures: a test file takes them by name, `made = stored.made`.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return store(tmp_path_factory.mktemp("stored") / "data")


@pytest.fixture
def held(made: Stored, tmp_path: Path) -> Stored:
    return Stored(Path(shutil.copytree(made.data, tmp_path / "data")), made.values)
