"""What `produce`, `read` and `message` do with single partitions, places, patterns and ids, as people type them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.commanding import Commander, commanding

broker = ephemeral.broker_on_request


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commander]:
    monkeypatch.chdir(tmp_path)
    yield from commanding(broker, tmp_path, orders=3)


def values(command: Commander, *arguments: str) -> list[str]:
    return command.done("read", *arguments, "-o", "raw").text.splitlines()


def test_everything_goes_into_the_partition_that_is_asked_for(command: Commander):
    lines = "".join(f"k{number}:{number}\n" for number in range(50))
    told = command.done("produce", "orders", "--partition", "2", "--separator", ":", stdin=lines).rows
    assert told[0]["offsets"] == {"2": [1, 50]}
    (row,) = command.done("produce", "orders", "-v", "x", "--id", "natural", "--partition", "1", "--attribute", "a=b").rows
    assert (row["partition"], row["duplicate"]) == (1, False)
    (row,) = command.done("produce", "orders", "-v", "x", "--id", "natural", "--partition", "1").rows
    assert (row["partition"], row["duplicate"]) == (1, True)
    assert {row["partition"] for row in command.done("read", "orders").rows} == {1, 2}


def test_rows_that_were_stored_before_are_counted(command: Commander):
    rows = '{"value":"a","id":"1"}\n{"value":"b","id":"2"}\n'
    assert command.done("produce", "orders", "--input", "json", stdin=rows).rows[0]["duplicates"] == 0
    more = rows + '{"value":"c","id":"3"}\n'
    assert command.done("produce", "orders", "--input", "json", stdin=more).rows[0]["duplicates"] == 2
    text = command.done("produce", "orders", "--input", "json", "-o", "table", stdin=rows).text
    assert text.endswith("2 of them had been stored before.\n")


def test_a_filter_knows_partitions_and_offsets(command: Commander):
    for partition in "01":
        command.done("produce", "orders", "--partition", partition, stdin="".join(f"{partition}-{number}\n" for number in range(1, 21)))
    found = values(command, "orders", "--where", "partition = 1 and offset between 5 and 6 or offset = 20")
    assert sorted(found) == ["0-20", "1-20", "1-5", "1-6"]


def test_numbers_are_taken_as_tables_print_them(command: Commander):
    command.done("produce", "orders", "--partition", "0", stdin="".join(f"{number}\n" for number in range(1, 2002)))
    assert "1,999" in command.done("produce", "orders", "--partition", "1", "-o", "table", stdin="x\n" * 1999).text
    assert values(command, "orders", "--start", "2,000", "--partition", "0") == ["2000", "2001"]
    assert values(command, "orders", "--start", "0:1,999,1:1,999") == ["1999", "2000", "2001", "x"]
    assert len(values(command, "orders", "--limit", "1,000")) == 1000
    assert command.done("topic", "create", "sized", "--retention-bytes", "1.5 MiB").rows[0]["retention_bytes"] == 1536 * 1024


def test_moments_as_people_have_them(command: Commander):
    command.done("produce", "orders", stdin="a\n")
    now = int(time.time())
    for start in (f"@{now - 60}", f"{now - 60}", f"{(now - 60) * 1000}", "2026-11-16 00:00:00Z", "2026-11-16T00:00+01:00"):
        assert values(command, "orders", "--start", start) == ["a"], start
    table = command.done("read", "orders", "-o", "table").text.splitlines()[1]
    arrived = " ".join(table.split()[2:4])
    assert values(command, "orders", "--start", arrived) == ["a"], "what a table prints is a place"


def test_a_number_that_could_be_both_is_an_offset_where_there_is_one(command: Commander, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bowstring.times._UNIX_SECONDS", (2, 3))
    command.done("produce", "orders", "--partition", "0", stdin="a\nb\nc\n")
    assert values(command, "orders", "--start", "3") == ["c"], "an offset"
    assert values(command, "orders", "--start", "@3") == ["a", "b", "c"], "three seconds after 1970"


def test_a_pattern_reads_all_topics_that_are_like_it(command: Commander):
    for name in ("shop.eu", "shop.us"):
        command.done("topic", "create", name)
        command.done("produce", name, "-v", name)
    command.done("produce", "orders", "-v", "other")
    assert sorted(values(command, "shop.*")) == ["shop.eu", "shop.us"]
    assert "topic" in command.done("read", "shop.e?", "-o", "table").text.splitlines()[0]
    assert sorted(values(command, "shop.*", "orders")) == ["other", "shop.eu", "shop.us"]


def test_messages_are_found_and_deleted_by_their_ids(command: Commander):
    for id in ("a", "b", "c"):
        command.done("produce", "orders", "-v", id, "--id", id, "--group", "shop")
    assert [row["id"] for row in command.done("message", "find", "orders", "a", "b").rows] == ["a", "b"]
    missing = command("message", "find", "orders", "a", "z")
    told = "bowstring: 'z' is not found in 'orders'. An id is known until retention takes its message.\n"
    assert (missing.code, missing.said) == (1, told)
    unsure = command("message", "delete", "orders", "a", "--group", "shop")
    assert (unsure.code, "--yes" in unsure.said) == (2, True)
    deleted = command.done("message", "delete", "orders", "-", "--group", "shop", "--yes", stdin="a\nb\n")
    assert [row["id"] for row in deleted.rows] == ["a", "b"]
    assert values(command, "orders") == ["c"]
    partly = command("message", "delete", "orders", "c", "nothing", "--group", "shop", "--yes")
    assert (partly.code, [row["id"] for row in partly.rows]) == (1, ["c"])
    assert "1 of the 2 messages are deleted." in partly.said
    others = command("message", "delete", "orders", "c", "--group", "other", "--yes")
    assert (others.code, others.rows) == (1, [])


def test_a_topic_keeps_for_ever(command: Commander, broker: bowstring.Broker):
    assert command.done("topic", "create", "kept", "--retention", "forever").rows[0]["retention"] is None
    assert "keeps forever" in command.done("topic", "describe", "kept", "-o", "table").text
    command.done("topic", "create", "kept", "--retention", "forever", "--exists-ok")
    with broker.connect() as client:
        assert client.topic("kept").retention == timedelta.max
        assert client.alter_topic("kept", retention=5).retention == timedelta(seconds=5)
        assert client.alter_topic("kept", retention=timedelta.max).retention == timedelta.max
        assert client.create_topic("also", retention=timedelta.max).retention == timedelta.max
