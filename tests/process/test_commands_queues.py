"""`bowstring subscription`, `consume` and `lease`: what they do, and what they print."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bowstring
from tests.process import ephemeral
from tests.process.commanding import Commander, Ended


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1, "clicks": 3}, clock="manual")


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as connected:
        yield connected


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path) -> Commander:
    return Commander(broker.address, str(tmp_path))


def publish(client: bowstring.Client, *values: str, topic: str = "orders") -> None:
    with client.producer(topic) as producer:
        for value in values:
            producer.send(value, key=f"key of {value}", attributes={"country": "CH"}, id=f"id-{value}")


def consume(command: Commander, *arguments: str, topic: str = "orders", name: str = "billing") -> Ended:
    """A consumer that ends well; all that it says is its summary."""
    ended = command("consume", topic, name, *arguments)
    assert ended.code == 0, ended.said
    return ended


# ---- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_subscription_is_created_listed_described_altered_and_deleted(command: Commander, client: bowstring.Client):
    publish(client, "a", "b", "c")
    (made,) = command.done("subscription", "create", "orders", "billing", "--lease", "5m").rows
    assert (made["topic"], made["name"], made["mode"], made["lease"], made["backlog"]) == ("orders", "billing", "shared", 300.0, 3)
    assert [row["name"] for row in command.done("subscription", "list").rows] == ["billing"]
    assert [row["name"] for row in command.done("subscription", "list", "orders").rows] == ["billing"]
    assert command.done("subscription", "list", "clicks").out == b""
    (described,) = command.done("subscription", "describe", "orders", "billing").rows
    assert described.keys() == made.keys()
    assert (described["partitions"][0]["backlog"], described["consumers"]) == (3, [])
    assert 0 <= described["oldest"] < 60
    (altered,) = command.done("subscription", "alter", "orders", "billing", "--lease", "10s").rows
    assert altered["lease"] == 10.0
    deleted = command.done("subscription", "delete", "orders", "billing", "--yes")
    assert deleted.rows == [{"topic": "orders", "name": "billing", "deleted": True}]
    assert command.done("subscription", "list").out == b""
    command.done("subscription", "delete", "orders", "billing", "--yes", "--missing-ok")


def test_where_a_subscription_starts(command: Commander, client: bowstring.Client, broker: bowstring.Broker):
    publish(client, "a")
    broker.clock.advance(3600)
    moment = f"{broker.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    publish(client, "b")
    for name, start, backlog in (("all", "beginning", 2), ("new", "latest", 0), ("hour", moment, 1)):
        (made,) = command.done("subscription", "create", "orders", name, "--start", start).rows
        assert made["backlog"] == backlog, name


def test_an_existing_subscription_is_no_error_if_that_is_fine(command: Commander):
    command.done("subscription", "create", "orders", "billing")
    ended = command("subscription", "create", "orders", "billing", "--exists-ok", "--lease", "1m")
    assert (ended.code, ended.said) == (0, "'billing' was there already: lease is 30s, not 1m.\n")


def test_deleting_asks_on_a_terminal(command: Commander, client: bowstring.Client):
    publish(client, "a", "b")
    command.done("subscription", "create", "orders", "billing")
    left = command("subscription", "delete", "orders", "billing", stdin="n\n", terminal=True)
    assert "Delete 'billing' of 'orders', with 2 messages not settled? [y/N]:" in left.said
    assert "'billing' was left as it is." in left.said
    assert command("subscription", "delete", "orders", "billing", stdin="y\n", terminal=True).code == 0
    assert command.done("subscription", "list").out == b""


def test_subscriptions_for_people(command: Commander, client: bowstring.Client, broker: bowstring.Broker):
    publish(client, "a", "b", "c")
    broker.clock.advance(200)
    said = command.done("subscription", "create", "orders", "billing", "-o", "table").text
    assert said == "billing of orders: shared, lease 30s, 3 messages not settled\n"
    listed = command.done("subscription", "list", "-o", "table").text.splitlines()
    assert listed[0].split() == ["topic", "name", "mode", "lease", "backlog", "oldest", "leased", "consumers"]
    assert listed[1].split() == ["orders", "billing", "shared", "30s", "3", "3m", "20s", "0", "0"]
    described = command.done("subscription", "describe", "orders", "billing", "-o", "table").text
    assert "3 messages not settled, the oldest 3m 20s old, 0 leased" in described
    assert "0.0 delivered, 0.0 acked, 0.0 nacked, 0.0 expired: a second, in the last minute" in described
    assert described.splitlines()[-1].split() == ["0", "1", "1", "3", "0"]


# ---- consume ----------------------------------------------------------------------------------------------------------


def test_what_is_printed_is_acked(command: Commander, client: bowstring.Client):
    publish(client, "a", "b", "c")
    ended = consume(command, "--limit", "2")
    assert [(row["value"], row["retry_count"], row["topic"]) for row in ended.rows] == [("a", 0, "orders"), ("b", 0, "orders")]
    assert ended.said == "2 messages printed and acked.\n"
    assert consume(command, "--limit", "1", "-o", "raw").text == "c\n"
    assert client.subscription("orders", "billing").backlog == 0


def test_without_ack_it_comes_again_uncounted(command: Commander, client: bowstring.Client):
    publish(client, "a", "b")
    first = consume(command, "--limit", "2", "--no-ack")
    assert first.said == "2 messages printed and given back.\n"
    again = consume(command, "--limit", "2")
    assert [(row["value"], row["retry_count"]) for row in again.rows] == [("a", 0), ("b", 0)]


def test_it_ends_when_nothing_comes(command: Commander, client: bowstring.Client):
    publish(client, *"abc")
    assert consume(command, "--idle", "10ms", "-o", "raw").text == "a\nb\nc\n"
    assert consume(command, "--idle", "10ms", "--quiet") == Ended(0, b"", "")


@pytest.mark.parametrize("form", ["json", "csv", "raw", "arrow", "parquet", "table"])
def test_every_form_of_output(command: Commander, client: bowstring.Client, form: str):
    publish(client, *"abcd")
    out = consume(command, "--limit", "4", "-o", form).out
    if form == "arrow":
        table = pa.ipc.open_stream(out).read_all()
    elif form == "parquet":
        table = pq.read_table(io.BytesIO(out))
    else:
        values = {"json": [b'"value":"a"', b'"retry_count":0', b'"age":'], "csv": [b"retry_count,age,lease_end\n"], "raw": [b"a\n", b"d\n"]}
        assert all(text in out for text in values.get(form, [b"partition  offset", b"retry_count"]))
        return
    assert table.column("value").to_pylist() == [b"a", b"b", b"c", b"d"]
    assert table.column("retry_count").to_pylist() == [0] * 4
    assert client.subscription("orders", "billing").backlog == 0


def test_columns_and_formats(command: Commander, client: bowstring.Client):
    publish(client, "a", "b", "c")
    (row,) = consume(command, "--limit", "1", "--columns", "value,retry_count").rows
    assert row == {"value": "a", "retry_count": 0}
    assert consume(command, "-n", "1", "--format", "{key}: {value} {retry_count} {attributes.country}").text == "key of b: b 0 CH\n"


def test_what_it_prints_can_be_published(command: Commander, client: bowstring.Client):
    publish(client, "a", "b")
    printed = consume(command, "--limit", "2").out
    command.done("produce", "copy", "--input", "json", stdin=printed)
    assert [message.value for message in client.reader("copy", end="latest")] == [b"a", b"b"]


def test_flags_make_the_subscription(command: Commander, client: bowstring.Client):
    publish(client, "a")
    assert consume(command, "--start", "latest", "--mode", "shared", "--idle", "1ms", name="new").out == b""
    assert client.subscription("orders", "new").backlog == 0


# ---- consume --exec ---------------------------------------------------------------------------------------------------


def test_a_command_is_run_for_each_message(command: Commander, client: bowstring.Client, tmp_path: Path):
    publish(client, "a", "b", "c")
    line = f'cat > "{tmp_path}/$BOWSTRING_ID"; env | grep ^BOWSTRING_ > "{tmp_path}/$BOWSTRING_OFFSET.env"'
    ended = consume(command, "--exec", line, "--limit", "3")
    assert ended.said == "3 messages: 3 acked.\n"
    assert {name: (tmp_path / f"id-{name}").read_text() for name in "abc"} == {"a": "a", "b": "b", "c": "c"}
    shown = dict(text.split("=", 1) for text in (tmp_path / "2.env").read_text().splitlines())
    assert (shown["BOWSTRING_KEY"], shown["BOWSTRING_TOPIC"], shown["BOWSTRING_RETRY_COUNT"]) == ("key of b", "orders", "0")
    assert json.loads(shown["BOWSTRING_ATTRIBUTES"]) == {"country": "CH"}


def test_its_exit_code_decides(command: Commander, client: bowstring.Client):
    publish(client, "a")
    ended = consume(command, "--exec", "exit $((3 - BOWSTRING_RETRY_COUNT))", "--limit", "4")
    assert ended.said.splitlines() == [
        "0@1 is given back: the command ended with exit code 3.",
        "0@1 is given back: the command ended with exit code 2.",
        "0@1 is given back: the command ended with exit code 1.",
        "4 messages: 1 acked, 3 given back.",
    ]
    publish(client, "b")
    assert consume(command, "--exec", "exit 65", "--limit", "1").said.splitlines() == [
        "0@2 is rejected: the command ended with exit code 65.",
        "1 message: 1 rejected.",
    ]


def test_several_run_at_a_time(command: Commander, client: bowstring.Client, tmp_path: Path):
    """Each waits until all four are there."""
    publish(client, *"abcd")
    line = f'touch "{tmp_path}/$BOWSTRING_ID"; while [ $(ls "{tmp_path}" | wc -l) -lt 4 ]; do sleep 0.01; done'
    assert consume(command, "--exec", line, "--concurrency", "4", "--limit", "4").said == "4 messages: 4 acked.\n"


def test_a_command_that_cannot_run_ends_it(command: Commander, client: bowstring.Client):
    publish(client, "a", "b")
    ended = command("consume", "orders", "billing", "--exec", "no-such-command 2> /dev/null")
    assert ended.code == 1
    assert ended.said.splitlines()[-1] == "bowstring: the command cannot be run: it ended with exit code 127. Try it in a shell."
    assert client.subscription("orders", "billing").backlog == 2


# ---- leases -----------------------------------------------------------------------------------------------------------


def test_leases_are_listed_and_released(command: Commander, client: bowstring.Client, broker: bowstring.Broker):
    publish(client, *"abcd")
    with client.consumer("orders", "billing", name="worker-7", credit=3) as consumer:
        message = next(iter(consumer))
        (lease,) = command.done("lease", "list", "orders", "billing").rows
        assert (lease["consumer"], lease["partition"], lease["messages"]) == ("worker-7", 0, 3)
        assert command.done("lease", "list", "orders", "billing", "--consumer", "worker-8").out == b""
        assert command.done("lease", "list", "orders", "billing", "--older-than", "10s").out == b""
        table = command.done("lease", "list", "orders", "billing", "-o", "table").text.splitlines()
        assert table[0].split() == ["consumer", "partition", "messages", "offsets", "held", "for", "ends", "in"]
        assert table[1].split()[:4] == ["worker-7", "0", "3", "1–3"]
        (released,) = command.done("lease", "release", "orders", "billing", "--consumer", "worker-7", "--yes").rows
        assert released == {"topic": "orders", "subscription": "billing", "released": 3}
        with pytest.raises(bowstring.LeaseLost):
            message.ack().result()
    assert consume(command, "--limit", "1").rows[0]["retry_count"] == 0


def test_releasing_asks_on_a_terminal(command: Commander, client: bowstring.Client):
    publish(client, "a")
    client.create_subscription("orders", "billing")
    assert command("lease", "release", "orders", "billing", terminal=True).said == "There is no such lease.\n"
    with client.consumer("orders", "billing") as consumer:
        next(iter(consumer))
        left = command("lease", "release", "orders", "billing", stdin="n\n", terminal=True)
        assert "Take 1 message of 'billing' away? [y/N]:" in left.said
        assert "Nothing was released." in left.said


def test_scheduled_messages_are_listed_and_cancelled(broker: bowstring.Broker, command: Commander):
    with broker.connect() as client, client.producer("orders") as producer:
        producer.send("late", id="late", delay=3600)
        producer.send("soon", id="soon", delay=60)
        producer.send("now", id="now")
    assert [line["id"] for line in command.done("scheduled", "list", "orders").rows] == ["late", "soon"]
    assert [line["id"] for line in command.done("scheduled", "cancel", "orders", "--id", "soon", "--dry-run").rows] == ["soon"]
    assert command.done("scheduled", "cancel", "orders", "--id", "soon").rows == [{"topic": "orders", "cancelled": 1}]
    assert [line["id"] for line in command.done("scheduled", "list", "orders").rows] == ["late"]
    moved = "scheduled", "move", "orders", "--before", "+10000d"
    assert [line["id"] for line in command.done(*moved, "--delay", "9h", "--dry-run").rows] == ["late"]
    assert command.done(*moved, "--at", "2150-01-01T08:00Z").rows == [{"topic": "orders", "moved": 1}]
    assert [line["due"] for line in command.done("scheduled", "list", "orders").rows] == ["2150-01-01T08:00:00.000000Z"]
    assert command.done("scheduled", "list", "orders", "--group", "other").rows == []


def test_dead_letters_are_listed_shown_sent_back_and_purged(client: bowstring.Client, command: Commander):
    publish(client, "a", "b", "c", "d")
    with client.consumer("orders", "billing", credit=4, name="worker-7") as consumer:
        for message in (next(iter(consumer)) for _ in range(4)):
            message.reject("it's late" if message.text() < "c" else "no such customer").result(5)
    assert client.subscription("orders", "billing").dead == 4
    group = "dead-letters", "list", "orders", "billing"
    rows = command.done(*group).rows
    assert [(row["id"], row["reason"], row["consumer"], row["redriven"]) for row in rows] == [
        ("id-a", "it's late", "worker-7", False),
        ("id-b", "it's late", "worker-7", False),
        ("id-c", "no such customer", "worker-7", False),
        ("id-d", "no such customer", "worker-7", False),
    ]
    assert [row["id"] for row in command.done(*group, "--reason", "it's late", "--where", "key = 'key of b'").rows] == ["id-b"]
    assert [row["id"] for row in command.done(*group, "--limit", "3").rows] == ["id-a", "id-b", "id-c"]
    assert "no such customer" in command.done(*group, "-o", "table").out.decode()
    redrive = "dead-letters", "redrive", "orders", "billing"
    told = {"topic": "orders", "subscription": "billing"}
    assert command.done(*redrive, "--reason", "it's late", "--dry-run").rows == [{**told, "redriven": 2, "dry_run": True}]
    assert command.done(*redrive, "--reason", "it's late", "--limit", "1", "--rate", "50").rows == [
        {**told, "redriven": 1, "dry_run": False}
    ]
    assert [row["id"] for row in command.done(*group).rows if row["redriven"]] == ["id-a"]
    (shown,) = command.done("dead-letters", "show", "orders", "billing", "id-a").rows
    assert (shown["value"], shown["redriven"], shown["attributes"]["bowstring-topic"]) == ("a", True, "orders")
    refused = command(*redrive, "--id", "id-a")
    assert (refused.code, "redriven already, and waits for a consumer" in refused.said) == (1, True)
    purge = "dead-letters", "purge", "orders", "billing"
    assert command(*purge).code == 2
    left = command(*purge, stdin="n\n", terminal=True)
    assert "Delete 3 dead letters of 'billing'? [y/N]:" in left.said
    assert command.done(*purge, "--reason", "no such customer", "--dry-run").rows == [{**told, "purged": 2, "dry_run": True}]
    assert command.done(*purge, "--reason", "no such customer", "--yes").rows == [{**told, "purged": 2, "dry_run": False}]
    assert [row["id"] for row in command.done(*group).rows] == ["id-a", "id-b"]
    assert consume(command, "--limit", "1").out.decode().count("id-a") == 1
    assert [row["id"] for row in command.done(*group).rows] == ["id-b"]


# ---- looking ----------------------------------------------------------------------------------------------------------


def test_a_description_counts_dead_letters_and_those_that_were_sent_back(command: Commander, client: bowstring.Client):
    publish(client, "a", "b")
    with client.consumer("orders", "billing", credit=2) as consumer:
        for message in (next(iter(consumer)) for _ in range(2)):
            message.reject("late").result()
        consumer.pause()
        client.redrive("orders", "billing", ["id-a"]).raise_for_refused()
        describe = "subscription", "describe", "orders", "billing"
        (described,) = command.done(*describe).rows
        assert (described["dead"], described["redriven"]) == (2, 1)
        line = "2 dead letters, 1 of them sent back: bowstring dead-letters list orders billing"
        assert line in command.done(*describe, "-o", "table").text.splitlines()


def test_peek_prints_what_waits_and_takes_nothing(command: Commander, client: bowstring.Client):
    publish(client, "a", "b", "c")
    client.create_subscription("orders", "billing")
    assert [row["value"] for row in command.done("peek", "orders", "billing").rows] == ["a", "b", "c"]
    assert [row["id"] for row in command.done("peek", "orders", "billing", "--limit", "2").rows] == ["id-a", "id-b"]
    assert [row["value"] for row in command.done("peek", "orders", "billing", "--key", "key of b").rows] == ["b"]
    assert [row["value"] for row in command.done("peek", "orders", "billing", "--id", "id-c", "--id", "id-a").rows] == ["a", "c"]
    table = command.done("peek", "orders", "billing", "-o", "table").text.splitlines()
    assert [line.split()[1] for line in table] == ["offset", "1", "2", "3"]
    assert command.done("peek", "orders", "billing", "--id", "nobodys").out == b""
    found = client.subscription("orders", "billing")
    assert (found.backlog, found.leased) == (3, 0)


def test_dead_letters_are_listed_with_the_names_of_their_json(command: Commander, client: bowstring.Client):
    publish(client, "a")
    with client.consumer("orders", "billing") as consumer:
        next(iter(consumer)).reject("no such customer").result()
    (row,) = command.done("dead-letters", "list", "orders", "billing").rows
    headings, cells = command.done("dead-letters", "list", "orders", "billing", "-o", "table").text.splitlines()
    assert {*headings.split()} <= row.keys()
    assert cells.split() == ["id-a", "0", "1", "no", "such", "customer", "1", *row["ended"][:16].split("T")]
