"""`bowstring dev`, `bowstring bench`, and the sample orders."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring.cli.sample import COUNTRIES, MENU, Shop
from tests.process.commanding import Commander
from tests.process.serving import LIMIT_SECONDS, command, environment


class Dev:
    """`bowstring dev` as a child that has said where it is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.told: dict[str, Any] = json.loads(process.stdout.readline())

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=LIMIT_SECONDS)
        return self.process.returncode, said


@contextmanager
def dev(home: Path, *arguments: str) -> Iterator[Dev]:
    line = command("dev", "--listen", "127.0.0.1:0", *arguments)
    variables = environment({"TMPDIR": str(home), "HOME": str(home)})
    process = subprocess.Popen(line, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield Dev(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_throw_away_broker_leaves_nothing(tmp_path: Path, number: int):
    with dev(tmp_path, "--topic", "orders:3", "--topic", "clicks") as running:
        told = {name: running.told[name] for name in ("address", "http")}
        assert running.told == {**told, "data": None, "topics": ["orders", "clicks"]}
        assert told["http"].startswith("http://127.0.0.1:")
        assert [path.name.startswith("bowstring-dev-") for path in tmp_path.iterdir()] == [True]
        with bowstring.connect(running.told["address"]) as client:
            assert {topic.name: topic.partitions for topic in client.topics()} == {"orders": 3, "clicks": 1}
            with client.producer("made") as producer:  # on publish
                producer.send(b"x")
        assert running.end(number) == (0, "Ended; its messages are gone.\n")
    assert list(tmp_path.iterdir()) == []


def test_settings_on_the_command_line_reach_topics(tmp_path: Path):
    with dev(tmp_path, "--topic", "orders", "--topic-retention", "1h", "--topic-deduplication", "1m") as running:
        with bowstring.connect(running.told["address"]) as client:
            found = client.topic("orders")
            assert (found.retention.total_seconds(), found.deduplication.total_seconds()) == (3600, 60)
        assert running.end()[0] == 0


def test_a_directory_that_is_named_is_kept(tmp_path: Path):
    data = tmp_path / "data"
    for offset in (1, 2):
        with dev(tmp_path, "--data", str(data), "--topic", "orders") as running:
            assert running.told["data"] == str(data)
            with bowstring.connect(running.told["address"]) as client, client.producer("orders") as producer:
                assert producer.send(b"x").result().offset == offset
            assert running.end() == (0, f"Ended; its messages are kept in {data}.\n")


def test_orders_flow_in(tmp_path: Path):
    with dev(tmp_path, "--sample") as running, bowstring.connect(running.told["address"]) as client:
        orders = []
        for message in client.reader("orders"):
            orders.append(message)
            if len(orders) == 3:
                break
        assert {order.json()["state"] for order in orders} <= {"placed", "paid", "shipped", "cancelled"}
        assert all(order.key and order.attributes["country"] in COUNTRIES for order in orders)
        assert client.topic("orders").partitions == 4
        assert running.end()[0] == 0


def test_the_shop_is_the_same_for_the_same_seed_and_orders_go_their_way():
    events = list(islice(Shop(7).events(), 2000))
    assert events == list(islice(Shop(7).events(), 2000))
    assert [event.second for event in events] == sorted(event.second for event in events)
    assert len({event.id for event in events}) == len(events)
    states: dict[int, list[str]] = {}
    for event in events:
        order = json.loads(event.value)
        assert order["customer"] == event.key
        states.setdefault(order["order"], []).append(order["state"])
        for item in order.get("items", ()):
            assert item["price"] == MENU[item["article"]]
    ways = [["placed", "paid", "shipped"], ["placed", "cancelled"]]
    assert all(any(way[: len(went)] == went for way in ways) for went in states.values())
    assert {tuple(way) for way in ways} <= {tuple(went) for went in states.values()}


def test_a_port_in_use_is_told_and_nothing_is_left(tmp_path: Path):
    with bowstring.Broker.ephemeral() as broker:
        listen = broker.address.removeprefix("bowstring://")
        line = command("dev", "--listen", listen)
        done = subprocess.run(line, env=environment({"TMPDIR": str(tmp_path)}), capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        f"bowstring: port {listen.rpartition(':')[2]} on 127.0.0.1 is in use by another program. "
        "Stop that one, or choose another port: --listen HOST:PORT.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def commander() -> Iterator[Commander]:
    with bowstring.Broker.ephemeral() as broker, tempfile.TemporaryDirectory() as home:
        yield Commander(broker.address, home)


@pytest.mark.parametrize("batch", ["1", "50"])
def test_a_benchmark_measures_three_things_and_leaves_no_topic(commander: Commander, batch: str):
    rows = commander.done("bench", "--seconds", "300ms", "--size", "64", "--batch", batch, "--producers", "2", "--consumers", "2").rows
    assert [row["work"] for row in rows] == ["publish", "read", "delivery"]
    for row in rows:
        assert row["messages"] > 0
        assert row["bytes_per_second"] == pytest.approx(64 * row["messages"] / row["seconds"], rel=0.01)
    assert 0 < rows[0]["p50_ms"] <= rows[0]["max_ms"]
    assert 0 < rows[2]["p50_ms"] <= rows[2]["p90_ms"] <= rows[2]["max_ms"]
    assert rows[1]["max_ms"] is None
    assert commander.done("topic", "list").out == b""


def test_a_benchmark_for_people(commander: Commander):
    ended = commander("bench", "--seconds", "100ms", "-o", "table")
    assert ended.code == 0
    assert [line.split()[0] for line in ended.text.splitlines()] == ["work", "publish", "read", "delivery"]
    assert ended.said.startswith("1 producer, batches of 1,000, 100 bytes each.")
