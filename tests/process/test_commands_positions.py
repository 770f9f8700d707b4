"""Reading by time, by filter, over several topics and by name; and where the named readers are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.commanding import Commander


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 2}, clock="manual")


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path) -> Commander:
    return Commander(broker.address, str(tmp_path))


def publish(command: Commander, *values: str, topic: str = "orders", country: str = "CH") -> None:
    for value in values:
        command.done("produce", topic, "-v", value, "--key", value, "-a", f"country={country}")


def read(command: Commander, *arguments: str) -> list[str]:
    return sorted(command.done("read", *arguments, "-o", "raw").text.split())


def test_a_reader_by_name_goes_on_where_it_was(command: Commander):
    publish(command, "a", "b", "c")
    assert read(command, "orders", "--name", "report") == ["a", "b", "c"]
    assert read(command, "orders", "--name", "report") == []
    publish(command, "d")
    assert read(command, "orders", "--name", "report", "--start", "beginning") == ["d"]
    assert read(command, "orders") == ["a", "b", "c", "d"]


def test_a_limit_keeps_only_what_was_printed(command: Commander):
    publish(command, *"abcdefg")
    found = [read(command, "orders", "--name", "report", "--limit", "3") for _ in range(4)]
    assert [len(values) for values in found] == [3, 3, 1, 0]
    assert sorted(value for values in found for value in values) == list("abcdefg")


def test_by_time_and_by_filter(command: Commander, broker: bowstring.Broker):
    publish(command, "a")
    broker.clock.advance(7200)
    publish(command, "b")
    publish(command, "c", country="DE")
    moment = f"{broker.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    assert read(command, "orders", "--start", moment) == ["b", "c"]
    assert read(command, "orders", "--end", moment) == ["a"]
    assert read(command, "orders", "--where", "attributes.country = 'DE'") == ["c"]
    assert read(command, "orders", "--where", "attributes.country = 'CH' and key <> 'a'", "--columns", "value") == ["b"]


def test_several_topics(command: Commander):
    publish(command, "a", "b")
    publish(command, "x", topic="clicks")
    assert read(command, "orders", "clicks") == ["a", "b", "x"]
    rows = command.done("read", "clicks", "orders", "--name", "report").rows
    assert sorted((row["topic"], row["value"]) for row in rows) == [("clicks", "x"), ("orders", "a"), ("orders", "b")]
    assert read(command, "clicks", "orders", "--name", "report") == []
    assert "topic" in command.done("read", "clicks", "orders", "-o", "table").text.splitlines()[0]


def test_the_last_ones_in_the_order_of_their_arrival(command: Commander, broker: bowstring.Broker):
    for value in "abcdef":
        publish(command, value)
        broker.clock.advance(1)
    assert command.done("read", "orders", "--last", "4", "-o", "raw").text.split() == list("cdef")
    assert command.done("read", "orders", "--start", "-2", "-o", "raw").text.split() == list("ef")


def test_positions_are_listed_shown_set_and_deleted(command: Commander):
    publish(command, "a", "b", "c")
    assert command.done("position", "list").out == b""
    read(command, "orders", "--name", "report")
    (listed,) = command.done("position", "list").rows
    assert (listed["name"], listed["topic"], sum(listed["lag"].values())) == ("report", "orders", 0)
    assert command.done("position", "list", "--topic", "orders", "-o", "raw").text == "report\n"
    assert command.done("position", "show", "report", "--topic", "orders").rows == [listed]
    dry = command("position", "set", "report", "--topic", "orders", "--to", "beginning", "--dry-run")
    assert (dry.rows[0]["offsets"], dry.said) == ({"0": 1, "1": 1}, "Nothing was changed.\n")
    assert read(command, "orders", "--name", "report") == []
    command.done("position", "set", "report", "--topic", "orders", "--to", "beginning")
    assert read(command, "orders", "--name", "report") == ["a", "b", "c"]
    command.done("position", "set", "report", "--topic", "orders", "--to", "-1")
    assert len(read(command, "orders", "--name", "report")) == 1
    assert command.done("position", "delete", "report", "--topic", "orders", "--yes").rows == [
        {"name": "report", "topic": "orders", "deleted": True}
    ]
    assert command.done("position", "list").out == b""


def test_positions_for_people(command: Commander):
    publish(command, "a")
    read(command, "orders", "--name", "report")
    publish(command, "b")
    listed = command.done("position", "list", "-o", "table").text.splitlines()
    assert listed[0].split() == ["name", "topic", "partitions", "behind", "moved"]
    assert listed[1].split()[:4] == ["report", "orders", "2", "1"]
    assert "report in orders: 1 messages behind" in command.done("position", "show", "report", "-t", "orders", "-o", "table").text
