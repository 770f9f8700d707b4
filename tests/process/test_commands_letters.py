"""How dead letters and scheduled messages are printed for people, and what is said of those that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import bowstring
from bowstring.cli import output
from tests.process import ephemeral
from tests.process.commanding import Commander

REASON = "its card was declined by the bank, which asks to call them back on a working day between nine and five"
LIST = ("dead-letters", "list", "orders", "billing", "-o", "table")


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1}, clock="manual")


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as connected:
        yield connected


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path) -> Commander:
    return Commander(broker.address, str(tmp_path))


def reject(client: bowstring.Client, reason: str, id: str | None = None) -> str:
    """Makes a dead letter, and says its id."""
    with client.producer("orders") as producer:
        stored = producer.send(b"a", id=id).result()
    with client.consumer("orders", "billing", name="worker-7") as consumer:
        next(iter(consumer)).reject(reason).result()
    return stored.id


def in_columns(width: int) -> mock._patch[int]:
    """Tables of this width."""
    return mock.patch.object(output, "_PLAIN_COLUMNS", width)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_of_dead_letters_fits_and_cuts_neither_ids_nor_reasons(client: bowstring.Client, command: Commander, width: int):
    made = reject(client, REASON)
    short = reject(client, "no such customer", id="order-7")
    with in_columns(width):
        text = command.done(*LIST).text
    assert max(map(len, text.splitlines())) <= width
    assert made in text.split()
    assert short in text.split()
    assert REASON in " ".join(text.split())
    assert "no such customer" in text


def test_a_reason_has_a_column_where_there_is_room(client: bowstring.Client, command: Commander):
    reject(client, "no such customer", id="order-7")
    headings, cells = command.done(*LIST).text.splitlines()
    assert headings.split() == ["id", "partition", "offset", "reason", "retry_count", "ended", "redriven"]
    assert cells.split()[:7] == ["order-7", "0", "1", "no", "such", "customer", "1"]
    with in_columns(60):
        lines = command.done(*LIST).text.splitlines()
    assert [line.split() for line in lines[:2]] == [["id", "retry_count", "ended", "redriven"], ["reason"]]
    assert lines[3] == "  no such customer"


def test_a_letter_is_shown_whole_and_each_fact_once(client: bowstring.Client, command: Commander):
    reject(client, REASON, id="order-7")
    client.redrive("orders", "billing").raise_for_refused()
    text = command.done("dead-letters", "show", "orders", "billing", "order-7", "-o", "table").text
    assert text.count(REASON) == 1
    assert "redriven                yes" in text


def test_a_table_of_scheduled_messages_fits_and_cuts_no_id(client: bowstring.Client, command: Commander):
    with client.producer("orders") as producer:
        stored = producer.send(b"a", delay=3600).result()
    with in_columns(80):
        text = command.done("scheduled", "list", "orders", "-o", "table").text
    assert stored.id in text.split()
    assert max(map(len, text.splitlines())) <= 80


def test_a_group_without_scheduled_messages_is_told_that_there_are_other_groups(client: bowstring.Client, command: Commander):
    with client.producer("orders", group="shop") as producer:
        producer.send(b"a", id="late", delay=3600).result()
    empty = command("scheduled", "list", "orders", "-o", "table")
    assert (empty.code, empty.out) == (0, b"")
    assert empty.said == "No message of the group 'default' is scheduled. For another group: --group NAME.\n"
    assert command.done("scheduled", "list", "orders").out == b""
    others = command("scheduled", "cancel", "orders", "--id", "late")
    assert (others.code, others.said) == (1, "bowstring: message 'late' belongs to group 'shop'. To cancel it: --group 'shop'.\n")


def test_each_message_that_is_refused_is_told_by_its_id(client: bowstring.Client, command: Commander):
    with client.producer("orders") as producer:
        producer.send(b"a", id="late", delay=3600)
        producer.send(b"a", id="now").result()
    cancel = "scheduled", "cancel", "orders", "--id", "late", "--id", "now", "--id", "nobodys"
    ended = command(*cancel)
    assert (ended.code, ended.rows) == (1, [{"topic": "orders", "cancelled": 1}])
    assert ended.said.splitlines() == [
        "message 'now' is due: it cannot be cancelled any more. Use `bowstring message delete`.",
        "there is no message 'nobodys' in 'orders'. An id is known until retention takes its message.",
        "bowstring: 2 of 3 messages were refused.",
    ]
    told = json.loads(command(*cancel, "-o", "json").said)
    assert (told["error"], sorted(told["details"])) == ("partly-refused", ["nobodys", "now"])
    client.create_subscription("orders", "billing")
    redriven = command("dead-letters", "redrive", "orders", "billing", "--id", "now", "--id", "nobodys")
    assert (redriven.code, redriven.out) == (1, b"")
    assert [line.split("'")[1] for line in redriven.said.splitlines()[:2]] == ["now", "nobodys"]


def test_a_dry_run_says_what_would_be_refused(client: bowstring.Client, command: Commander):
    with client.producer("orders") as producer:
        producer.send(b"a", id="late", delay=3600)
        producer.send(b"a", id="now").result()
    move = "scheduled", "move", "orders", "--delay", "1h", "--dry-run"
    assert [row["id"] for row in command.done(*move, "--id", "late").rows] == ["late"]
    ended = command(*move, "--id", "late", "--id", "now")
    assert (ended.code, [row["id"] for row in ended.rows]) == (1, ["late"])
    assert ended.said == (
        "bowstring: 'now' would be refused: it is no scheduled message of the group 'default' in 'orders'. "
        "It is due, gone, or another group's: --group.\n"
    )
