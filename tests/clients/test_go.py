"""The client in Go (tests/go_client) against a real broker, both ways with the kit: that the schema and docs/protocol.md are enough."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring.messages.hashing import partition_of
from tests.clients.go_program import ROOT, GoClient
from tests.process.serving import serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with serving("--data", str(tmp_path / "data")) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders", partitions=3)
        yield served.address


def text(data: bytes | None) -> str | None:
    """As JSON of Go has bytes."""
    return None if data is None else base64.b64encode(data).decode()


def order(number: int) -> dict[str, Any]:
    """A message with everything in it, or with hardly anything."""
    row: dict[str, Any] = {"value": text(b"order %d" % number), "id": f"order-{number}"}
    if number % 2:
        row |= {"key": text(b"customer-%d" % (number % 7)), "attributes": {"country": "CH", "größe": "klein"}, "created": 10**15 + number}
    return row


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["partition"], row["offset"]


def test_the_hash_vectors_and_the_worked_example_come_out(go_client: GoClient) -> None:
    vectors = ROOT / "docs" / "hash-vectors.json"
    assert int(go_client.text("vectors", str(vectors))) == len(json.loads(vectors.read_text(encoding="utf-8"))["vectors"])
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```hex\n(.*?)```", page, flags=re.DOTALL)
    assert bytes.fromhex(go_client.text("example")) == b"".join(bytes.fromhex(line[6:54]) for line in block.splitlines())


def test_the_kit_reads_what_go_has_published(go_client: GoClient, server: str) -> None:
    sent = [order(number) for number in range(1000)]
    ended = go_client("publish", server, "orders", "-rows", "50", rows=sent)
    assert ended.code == 0, ended.failure
    assert sum(answer["rows"] for answer in ended.rows) == 1000
    with bowstring.connect(server) as client:
        found = {message.id: message for message in client.reader("orders", end="latest")}
    assert len(found) == 1000
    for row in sent:
        message = found[row["id"]]
        assert (text(message.value), text(message.key)) == (row["value"], row.get("key"))
        assert dict(message.attributes) == row.get("attributes", {})
        assert message.partition == partition_of(message.key if message.key is not None else message.id.encode(), 3)
        assert message.producer_group == "go"


def test_a_batch_that_go_writes_twice_is_a_duplicate_and_stored_once(go_client: GoClient, server: str) -> None:
    ended = go_client("publish", server, "orders", "-rows", "10", "-twice", rows=[{"value": text(b"%d" % n)} for n in range(100)])
    first, second = ended.rows[:10], ended.rows[10:]
    assert [answer["duplicate"] for answer in first] == [False] * 10
    assert [{**answer, "duplicate": False} for answer in second] == first
    assert all(answer["duplicate"] for answer in second)
    with bowstring.connect(server) as client:
        assert [message.value for message in client.reader("orders", end="latest")] == [b"%d" % n for n in range(100)]


def test_ids_that_go_repeats_are_told_as_repeats(go_client: GoClient, server: str) -> None:
    rows = [{"value": text(b"%d" % n), "key": text(b"k"), "id": f"id-{n}"} for n in range(5)]
    (stored,) = go_client("publish", server, "orders", rows=rows[:3]).rows
    (again,) = go_client("publish", server, "orders", rows=rows[1:]).rows
    assert (stored["first_offset"], stored["rows"]) == (1, 3)
    assert (again["first_offset"], again["rows"], again["repeats"]) == (4, 2, [[0, 2, 2]])


def test_a_refused_batch_in_the_middle_and_a_broken_connection_change_no_order(go_client: GoClient, server: str) -> None:
    rows = [{"value": text(b"%d" % n), "key": text(b"one key")} for n in range(400)]
    ended = go_client("publish", server, "orders", "-rows", "10", "-spoil", "7", "-break", "20", rows=rows)
    assert ended.code == 0, ended.failure
    assert [answer["number"] for answer in ended.rows if answer.get("refused") == "invalid-argument"] == [7]
    expected = [b"%d" % n for n in range(400) if not 60 <= n < 70]
    with bowstring.connect(server) as client:
        assert [message.value for message in client.reader("orders", end="latest")] == expected


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_go_reads_what_the_kit_has_published(go_client: GoClient, server: str, compression: str | None) -> None:
    with bowstring.connect(server) as client:
        with client.producer("orders", group="shop", compression=compression) as producer:
            for number in range(500):
                key, attributes = f"customer-{number % 5}", {"country": ("CH", "AT")[number % 2]}
                producer.send(b"order %d" % number * 20, key=key, attributes=attributes, delay=60 if number % 3 else None)
            producer.send("ohne alles")
            producer.send(json={"order": 7}, id="order-7")
        wanted = [
            {
                "partition": message.partition,
                "offset": message.offset,
                "id": message.id,
                "key": text(message.key),
                "value": text(message.value),
                "attributes": dict(message.attributes) or None,
                "created": round(message.created.timestamp() * 1e6),
                "arrived": round(message.arrived.timestamp() * 1e6),
                "due": 0 if message.due is None else round(message.due.timestamp() * 1e6),
                "expires": 0,
                "producer_group": "shop",
            }
            for message in client.reader("orders", end="latest")
        ]
    found = go_client("read", server, "orders").rows
    assert sorted(found, key=place) == sorted(wanted, key=place)
    assert len(go_client("read", server, "orders", "-where", "attributes.country = 'CH'").rows) == 250


def test_go_publishes_and_reads_over_native_frames(go_client: GoClient, server: str) -> None:
    """More than the windows of both directions, so that credit has to come back."""
    ended = go_client("native", server, "native", "40", "1000000")
    assert (ended.code, ended.rows) == (0, [{"stored": 40, "rows": 40, "bytes": 40_000_000}]), ended.failure
    with bowstring.connect(server) as client:
        assert sum(len(message.value or b"") for message in client.reader("native", end="latest")) == 40_000_000
    again = go_client("native", server, "native", "1", "1")
    assert (again.code, again.failure["Kind"]) == (1, "topic-exists")


def test_go_sees_errors_as_they_were_raised(go_client: GoClient, server: str) -> None:
    assert go_client("read", server, "order").failure["Kind"] == "topic-not-found"
    missing = go_client("publish", server, "order", rows=[{"value": text(b"x")}])
    assert (missing.code, missing.failure["Kind"], missing.failure["Status"]) == (1, "topic-not-found", "NotFound")
    assert go_client("publish", server, "orders", rows=[{"value": text(b"x")}]).code == 0
    wrong = go_client("read", server, "orders", "-where", "country = 'CH'")
    assert (wrong.code, wrong.failure["Kind"], wrong.failure["Status"]) == (1, "invalid-argument", "InvalidArgument")
