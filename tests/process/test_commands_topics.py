"""`bowstring topic`, `context`, `config` and `completion`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from bowstring import settings
from bowstring.cli import config
from tests.process import ephemeral
from tests.process.commanding import Commander, commanding

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


broker = ephemeral.broker_on_request


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commander]:
    monkeypatch.chdir(tmp_path)
    yield from commanding(broker, tmp_path)


# Topics


def test_a_topic_from_its_creation_to_its_end(command: Commander, broker: bowstring.Broker):
    made = command.done("topic", "create", "orders", "--partitions", "3", "--retention", "30d", "--retention-bytes", "1GiB").rows
    assert [(row["name"], row["partitions"], row["retention"], row["retention_bytes"]) for row in made] == [("orders", 3, 2592000.0, 2**30)]
    assert command("topic", "create", "orders").code == 1
    assert command.done("topic", "create", "orders", "--exists-ok").rows == made
    altered = command.done("topic", "alter", "orders", "--retention", "1d", "--retention-bytes", "none", "--deduplication", "1h").rows[0]
    assert (altered["retention"], altered["retention_bytes"], altered["deduplication"]) == (86400.0, None, 3600.0)
    assert command.done("topic", "describe", "orders").rows == [altered]
    assert command.done("topic", "delete", "orders", "--yes").rows == [{"name": "orders", "deleted": True}]
    assert command.done("topic", "list").out == b""
    assert command("topic", "delete", "orders", "--yes").code == 1
    assert command("topic", "delete", "orders", "--yes", "--missing-ok").code == 0


def test_a_list_has_counts_and_takes_patterns(command: Commander, broker: bowstring.Broker):
    with broker.connect() as client:
        for name in ("orders.ch", "orders.de", "clicks"):
            client.create_topic(name)
        with client.producer("orders.ch") as producer:
            producer.send_batch([b"a", b"b"])
    assert [(row["name"], row["messages"]) for row in command.done("topic", "list", "orders.*").rows] == [
        ("orders.ch", 2),
        ("orders.de", 0),
    ]
    assert [row["name"] for row in command.done("topic", "list", "--limit", "1").rows] == ["clicks"]
    lines = command.done("topic", "list", "-o", "table").text.splitlines()
    assert lines[0].split() == ["topic", "partitions", "messages", "size", "keeps", "created"]
    assert [line.split()[0] for line in lines[1:]] == ["clicks", "orders.ch", "orders.de"]


def test_more_topics_than_a_page_of_the_table(command: Commander, broker: bowstring.Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bowstring.cli.topic.PAGE", 3)
    with broker.connect() as client:
        for number in range(8):
            client.create_topic(f"t{number}")
    assert [row["name"] for row in command.done("topic", "list").rows] == [f"t{number}" for number in range(8)]


@pytest.mark.parametrize(("typed", "left"), [("y\n", []), ("n\n", ["orders"])])
def test_on_a_terminal_deleting_asks(command: Commander, broker: bowstring.Broker, typed: str, left: list[str]):
    with broker.connect() as client:
        client.create_topic("orders")
        ended = command("topic", "delete", "orders", stdin=typed, terminal=True)
        assert "Delete 'orders' with 0 messages (0 B)?" in ended.said
        assert ended.code == 0
        assert [topic.name for topic in client.topics()] == left


def test_people_get_sentences(command: Commander):
    assert command.done("topic", "create", "orders", "-o", "table").text == "orders: 1 partition, keeps 7d, 0 messages\n"
    described = command.done("topic", "describe", "orders", "-o", "table").text
    assert "partition  first offset  next offset\n        0             1            1\n" in described
    assert command.done("topic", "delete", "orders", "--yes", "-o", "table").text == "orders is deleted.\n"


# Contexts


def test_a_context_names_a_server(command: Commander, broker: bowstring.Broker, tmp_path: Path):
    nobody = {"BOWSTRING_SERVER": ""}
    assert command("context", "list").out == b""
    assert command("context", "add", "here", broker.address).said == f"here is {broker.address}.\n"
    assert command("context", "add", "there", "bowstring://127.0.0.1:1").code == 0
    file = tmp_path / ".config" / "bowstring" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [row["name"] for row in command.done("context", "list").rows if row["current"]] == ["here"]
    assert command("topic", "list", variables=nobody).code == 0
    assert command("context", "use", "there", variables=nobody).said == "there is in use: bowstring://127.0.0.1:1.\n"
    assert command("topic", "list", "--timeout", "100ms", variables=nobody).code == 3
    assert command("topic", "list", "--context", "here", "--timeout", "5s", variables=nobody).code == 0
    assert command("topic", "list", variables={**nobody, "BOWSTRING_CONTEXT": "here"}).code == 0
    shown = {row["setting"]: row for row in command.done("config", "show", variables=nobody).rows}
    assert shown["server"] == {"setting": "server", "value": "bowstring://127.0.0.1:1", "source": "the context in use, there"}
    assert command("context", "remove", "there").code == 0
    assert [(row["name"], row["current"]) for row in command.done("context", "list").rows] == [("here", False)]
    file.write_text("contexts = 5")
    assert "is not a file of contexts" in command("context", "list").said


# Settings


def test_each_setting_and_where_it_comes_from(command: Commander, tmp_path: Path):
    (tmp_path / "bowstring.toml").write_text('listen = "127.0.0.1:1"\n[topic]\nretention = "30d"\ndeduplication = "1h"\n')
    variables = {"BOWSTRING_TOPIC_RETENTION": "14d"}
    changed = command.done("config", "show", "--changed", variables=variables).rows
    assert [tuple(row.values()) for row in changed if row["setting"] != "server"] == [
        ("listen", "127.0.0.1:1", "bowstring.toml line 1: listen"),
        ("topic.retention", "14d", "BOWSTRING_TOPIC_RETENTION"),
        ("topic.deduplication", "1h", "bowstring.toml line 4: topic.deduplication"),
    ]
    everything = command.done("config", "show").rows
    assert [row["setting"] for row in everything] == [*map(settings.key_of, settings.TABLE), "server"]
    assert command.done("config", "check").text == "bowstring.toml is right.\n"
    assert command.done("serve", "--check").text == "The settings are right.\n"
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text('listen = "127.0.0.1:2"\n')
    found = command.done("config", "show", "--changed", "--config", str(elsewhere)).rows[0]
    assert found["value"] == "127.0.0.1:2"
    os.remove(tmp_path / "bowstring.toml")
    assert command("config", "check").said == "There is no bowstring.toml here; the defaults apply.\n"


def test_every_default_can_be_written_to_a_file(command: Commander, tmp_path: Path):
    lines = [f'{settings.key_of(name)} = "{settings.kind_of(name).show(entry.default)}"' for name, entry in settings.TABLE.items()]
    (tmp_path / "bowstring.toml").write_text("\n".join(lines))
    command.done("config", "check")
    sources = {row["source"] for row in command.done("config", "show").rows}
    assert "default" not in sources


def test_the_reference_page_is_up_to_date():
    assert REFERENCE.read_text(encoding="utf-8").startswith(config.reference_text()), "tools/reference.py writes it anew"


# The shell


def test_shells_complete_commands_and_flags(command: Commander):
    assert "_BOWSTRING_COMPLETE=complete_bash" in command.done("completion", "bash").text
    assert command.done("completion", "zsh").text.startswith("#compdef bowstring")
    assert "complete --command bowstring" in command.done("completion", "fish").text


def test_the_version(command: Commander):
    assert command.done("version").text.startswith("bowstring ")
    assert list(command.done("version", "-o", "json").rows[0]) == ["version"]
    assert command.done("--version").text == command.done("version").text


def test_help_is_also_a_command(command: Commander):
    assert command.done("help").text == command.done("--help").text
    assert command.done("help", "topic", "create").text == command.done("topic", "create", "--help").text
    wrong = command("help", "topic", "creat")
    assert (wrong.code, wrong.text) == (2, "")
    assert "there is no command 'topic creat'. Did you mean 'topic create'?" in wrong.said
