"""What all commands have: forms of output, flags before and behind the command, how they talk."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import bowstring
from bowstring.cli import output
from bowstring.cli.commands import TABLE
from tests.process import ephemeral
from tests.process.commanding import Commander


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"clicks": 2, "orders": 1})


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path) -> Commander:
    return Commander(broker.address, str(tmp_path))


def test_a_list_as_csv(command: Commander):
    rows = list(csv.DictReader(io.StringIO(command.done("topic", "list", "-o", "csv").text)))
    assert [(row["name"], row["partitions"]) for row in rows] == [("clicks", "2"), ("orders", "1")]
    assert rows[1]["ranges"] == '[{"first":1,"next":1}]'


def test_a_list_of_names_alone(command: Commander):
    assert command.done("topic", "list", "-o", "raw").text == "clicks\norders\n"


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_list_as_a_file(command: Commander, form: str):
    out = command.done("topic", "list", "-o", form).out
    table = pa.ipc.open_stream(out).read_all() if form == "arrow" else pyarrow.parquet.read_table(pa.py_buffer(out))
    assert table.column("name").to_pylist() == ["clicks", "orders"]
    assert table.column("partitions").to_pylist() == [2, 1]


@pytest.mark.parametrize("form", ["json", "csv", "raw", "table"])
def test_an_empty_result_prints_nothing(command: Commander, form: str):
    assert command.done("topic", "list", "nothing.*", "-o", form).out == b""


def test_flags_stand_before_the_command_or_behind_it(command: Commander, broker: bowstring.Broker):
    nowhere = {"BOWSTRING_SERVER": "bowstring://localhost:1"}
    before = command("--server", broker.address, "--timeout", "5s", "-o", "raw", "topic", "list", variables=nowhere)
    behind = command("topic", "list", "--server", broker.address, "--timeout", "5s", "-o", "raw", variables=nowhere)
    assert before == behind
    assert before.text == "clicks\norders\n"
    assert command("--server", "bowstring://localhost:1", "topic", "list", "--server", broker.address).code == 0
    assert command("-o", "raw", "read", "orders").code == 0
    assert command("-o", "json", "version").rows[0].keys() == {"version"}


def test_a_quiet_command_gives_no_hints(command: Commander):
    assert command("context", "list").said == ""
    assert "There is none" in command("context", "list", "-o", "table").said
    assert command("context", "list", "-o", "table", "--quiet").said == ""
    assert command("--quiet", "context", "list", "-o", "table").said == ""
    assert command("topic", "describe", "nothing", "-q").said.startswith("bowstring: there is no topic")


def test_every_command_knows_how_to_talk(command: Commander):
    for words in (
        *("serve", "dev", "topic create", "topic list", "topic describe", "topic alter", "topic delete", "produce", "read", "bench"),
        *("position list", "position show", "position set", "position delete", "inspect", "backup", "restore", "config show"),
        *("config check", "context add", "context list", "completion", "version", "consume", "lease list", "lease release"),
        *(f"subscription {name}" for name in ("create", "list", "describe", "alter", "seek", "delete")),
        *("peek", "explain", "top", "scheduled list", "scheduled cancel", "scheduled move"),
        *(f"dead-letters {name}" for name in ("list", "show", "redrive", "purge")),
    ):
        text = command.done(*words.split(), "--help", variables={"COLUMNS": "80"}).text
        assert all(flag in text for flag in ("--quiet", "--verbose", "--no-color")), words
        assert max(map(len, text.splitlines())) <= 80, words


def test_every_command_has_help_with_examples(command: Commander):
    for name in TABLE:
        text = command.done(name, "--help", variables={"COLUMNS": "80"}).text
        assert "Examples:" in text or name == "version", name
        assert max(map(len, text.splitlines())) <= 80, name


def test_a_table_cuts_names_before_figures(broker: bowstring.Broker, command: Commander, monkeypatch: pytest.MonkeyPatch):
    name = "a-long-name." * 12
    monkeypatch.setattr(output, "_PLAIN_COLUMNS", 80)
    with broker.connect() as client:
        client.create_topic(name, exists_ok=True)
        try:
            lines = command.done("topic", "list", "-o", "table").text.splitlines()
        finally:
            client.delete_topic(name)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == ["topic", "partitions", "messages", "size", "keeps", "created"]
    assert "…" in lines[1]
    assert "7d" in lines[1].split()
