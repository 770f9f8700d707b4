"""The client in Go (tests/go_client) against a real broker, both ways with the kit: that the schema and docs/protocol.md are enough.

It is built here, in a copy: the wire code is generated from the schema each time, so there is none in the repository that could grow
stale, and the generators are pinned by the module's own go.mod and go.sum. A first build takes a minute or two; later ones are in Go's
cache.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import bowstring
from bowstring.messages.hashing import partition_of
from tests.process.serving import serving

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "go_client"
SCHEMA = "bowstring/v1/bowstring.proto"
GENERATORS = ("google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
MODULE = "bowstring.test/client"
BUILD_SECONDS = 1200
CALL_SECONDS = 120


class Ended(NamedTuple):
    code: int
    rows: list[dict[str, Any]]
    failure: dict[str, Any]


class Client:
    """The program, once it is built."""

    def __init__(self, program: Path) -> None:
        self._program = str(program)

    def text(self, *arguments: str) -> str:
        done = subprocess.run([self._program, *arguments], capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def __call__(self, *arguments: str, rows: list[dict[str, Any]] | None = None) -> Ended:
        given = "".join(json.dumps(row) + "\n" for row in rows or [])
        done = subprocess.run([self._program, *arguments], input=given, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        failure = json.loads(done.stderr) if done.returncode else {}
        return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], failure)


@pytest.fixture(scope="session")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    if shutil.which("go") is None:
        pytest.skip("there is no Go here: install Go 1.26 or newer to try the client in Go")
    folder = tmp_path_factory.mktemp("go") / "client"
    shutil.copytree(SOURCE, folder)
    fetched = subprocess.run(["go", "mod", "download"], cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if fetched.returncode:
        pytest.skip(f"the modules of the client in Go cannot be fetched here: {fetched.stderr.strip().splitlines()[-1]}")
    _run(folder, "go", "build", "-o", "generators/", *GENERATORS)
    options = f"module={MODULE},M{SCHEMA}={MODULE}/wire"
    plugins = [f"--plugin={folder}/generators/{name.rpartition('/')[2]}" for name in GENERATORS]
    targets = [f"--go_out={folder}", f"--go_opt={options}", f"--go-grpc_out={folder}", f"--go-grpc_opt={options}"]
    _run(folder, sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", *plugins, *targets, SCHEMA)
    _run(folder, "go", "build", "-o", "client", ".")
    return Client(folder / "client")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


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


def test_the_hash_vectors_and_the_worked_example_come_out(go_client: Client) -> None:
    vectors = ROOT / "docs" / "hash-vectors.json"
    assert int(go_client.text("vectors", str(vectors))) == len(json.loads(vectors.read_text(encoding="utf-8"))["vectors"])
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```hex\n(.*?)```", page, flags=re.DOTALL)
    assert bytes.fromhex(go_client.text("example")) == b"".join(bytes.fromhex(line[6:54]) for line in block.splitlines())


def test_the_kit_reads_what_go_has_published(go_client: Client, server: str) -> None:
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


def test_a_batch_that_go_writes_twice_is_a_duplicate_and_stored_once(go_client: Client, server: str) -> None:
    ended = go_client("publish", server, "orders", "-rows", "10", "-twice", rows=[{"value": text(b"%d" % n)} for n in range(100)])
    first, second = ended.rows[:10], ended.rows[10:]
    assert [answer["duplicate"] for answer in first] == [False] * 10
    assert [{**answer, "duplicate": False} for answer in second] == first
    assert all(answer["duplicate"] for answer in second)
    with bowstring.connect(server) as client:
        assert [message.value for message in client.reader("orders", end="latest")] == [b"%d" % n for n in range(100)]


def test_ids_that_go_repeats_are_told_as_repeats(go_client: Client, server: str) -> None:
    rows = [{"value": text(b"%d" % n), "key": text(b"k"), "id": f"id-{n}"} for n in range(5)]
    (stored,) = go_client("publish", server, "orders", rows=rows[:3]).rows
    (again,) = go_client("publish", server, "orders", rows=rows[1:]).rows
    assert (stored["first_offset"], stored["rows"]) == (1, 3)
    assert (again["first_offset"], again["rows"], again["repeats"]) == (4, 2, [[0, 2, 2]])


def test_a_refused_batch_in_the_middle_and_a_broken_connection_change_no_order(go_client: Client, server: str) -> None:
    rows = [{"value": text(b"%d" % n), "key": text(b"one key")} for n in range(400)]
    ended = go_client("publish", server, "orders", "-rows", "10", "-spoil", "7", "-break", "20", rows=rows)
    assert ended.code == 0, ended.failure
    assert [answer["number"] for answer in ended.rows if answer.get("refused") == "invalid-argument"] == [7]
    expected = [b"%d" % n for n in range(400) if not 60 <= n < 70]
    with bowstring.connect(server) as client:
        assert [message.value for message in client.reader("orders", end="latest")] == expected


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_go_reads_what_the_kit_has_published(go_client: Client, server: str, compression: str | None) -> None:
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


def test_go_sees_errors_as_they_were_raised(go_client: Client, server: str) -> None:
    assert go_client("read", server, "order").failure["Kind"] == "topic-not-found"
    missing = go_client("publish", server, "order", rows=[{"value": text(b"x")}])
    assert (missing.code, missing.failure["Kind"], missing.failure["Status"]) == (1, "topic-not-found", "NotFound")
    assert go_client("publish", server, "orders", rows=[{"value": text(b"x")}]).code == 0
    wrong = go_client("read", server, "orders", "-where", "country = 'CH'")
    assert (wrong.code, wrong.failure["Kind"], wrong.failure["Status"]) == (1, "invalid-argument", "InvalidArgument")
