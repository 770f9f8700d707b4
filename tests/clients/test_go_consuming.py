"""The consumer in Go (tests/go_client) against a real broker, with the kit on the other side, over gRPC and over native frames."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import bowstring
from tests.clients.go_program import ROOT, ClientFailed, GoClient
from tests.clients.plain_client import PlainClient, field
from tests.process.serving import serving, start

ACK, NACK = 1, 2
SECOND = 1_000_000

ways = pytest.mark.parametrize("way", [(), ("-native",)], ids=["grpc", "native"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with serving("--data", str(tmp_path / "data")) as served:
        yield served.address


@pytest.fixture
def kit(server: str) -> Iterator[bowstring.Client]:
    with bowstring.connect(server) as client:
        yield client


def publish(client: bowstring.Client, count: int, partitions: int = 1) -> None:
    client.create_topic("orders", partitions=partitions)
    with client.producer("orders", group="shop") as producer:
        for number in range(1, count + 1):
            key = f"customer-{number % 11}" if partitions > 1 else None
            producer.send(b"order %d" % number, key=key, attributes={"country": ("CH", "AT")[number % 2]})


def backlog(client: bowstring.Client) -> int:
    return client.subscription("orders", "billing").backlog


def places(push: dict[str, Any]) -> list[tuple[int, int]]:
    return [(message["partition"], message["offset"]) for message in push["messages"]]


def part(push: dict[str, Any], outcome: int, *offsets: int) -> dict[str, Any]:
    """These messages of a push, or all of them."""
    return {"grant": push["grant"], "outcome": outcome, "runs": [[at, 1] for at in offsets or [at for _, at in places(push)]]}


def test_the_worked_example_of_a_settlement_comes_out(go_client: GoClient) -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```packed\n(.*?)```", page, flags=re.DOTALL)
    shown = {name: list(map(int, numbers)) for name, *numbers in (line.split() for line in block.splitlines())}
    assert json.loads(go_client.text("packed")) == shown


@ways
def test_go_works_off_what_the_kit_has_published(go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]) -> None:
    publish(kit, 500, partitions=3)
    wanted = {(message.partition, message.offset): message for message in kit.reader("orders", end="latest")}
    ended = go_client("consume", server, "orders", "billing", "-count", "500", "-nack", "7", "-break", "4", *way)
    assert ended.code == 0, ended.failure
    acked, nacked = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for row in ended.rows:
        push = row["push"]
        assert row["refused"] == []
        acked.update((push["partition"], offset) for offset in row["acked"])
        nacked.update((push["partition"], offset) for offset in row["nacked"])
        for message in push["messages"]:
            place = message["partition"], message["offset"]
            found = wanted[place]
            assert (message["id"], message["producer_group"], message["attributes"]) == (found.id, "shop", dict(found.attributes))
            assert message["retry_count"] == nacked[place] - (message["offset"] in row["nacked"])
    assert acked == Counter(wanted.keys())
    assert nacked == Counter(place for place in wanted if place[1] % 7 == 0)
    assert backlog(kit) == 0


@ways
def test_a_lost_connection_loses_neither_leases_nor_settlements(
    go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]
) -> None:
    publish(kit, 10)
    with go_client.steps(server, "orders", "billing", "-credit", "1", *way) as consumer:
        first = consumer.do("take")["push"]
        consumer.do("send", parts=[part(first, NACK, 1)])
        consumer.do("break")
        assert consumer.do("answers")["refused"] == []
        again = consumer.do("take")["push"]
        assert [(message["offset"], message["retry_count"]) for message in again["messages"]] == [(1, 1)]
        consumer.do("break")
        consumer.do("connect")
        consumer.do("send", parts=[part(again, ACK)])
        assert consumer.do("answers")["refused"] == []
        assert places(consumer.do("take")["push"]) == [(0, 2)]
        assert consumer.end() == 0
    assert backlog(kit) == 9


@ways
def test_the_kit_gets_what_go_has_given_back(go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]) -> None:
    publish(kit, 4)
    with go_client.steps(server, "orders", "billing", "-credit", "4", *way) as consumer:
        seen = consumer.do("take")["push"]
        consumer.do("send", parts=[part(seen, ACK, 1)])
        assert consumer.end() == 0  # what it has taken is nacked, what it has not is released
    taken = {offset for _, offset in places(seen)}
    with kit.consumer("orders", "billing") as other:
        for _ in range(3):
            message = next(iter(other))
            assert message.retry_count == (message.offset in taken)
            message.ack()
        other.flush()
    assert backlog(kit) == 0


@ways
def test_a_late_ack_of_go_is_refused_and_an_extended_lease_holds(
    go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]
) -> None:
    publish(kit, 2)
    with go_client.steps(server, "orders", "billing", "-credit", "1", "-lease", str(SECOND), *way) as consumer:
        kept = consumer.do("take")["push"]
        assert consumer.do("extend", lease=60 * SECOND, parts=[part(kept, 0)])["until"] > kept["until"] + 50 * SECOND
        consumer.do("credit", messages=2)
        late = consumer.do("take")["push"]
        with kit.consumer("orders", "billing", name="kit") as other:
            message = next(iter(other))  # when the lease has ended
            assert (message.offset, message.retry_count) == (2, 1)
            consumer.do("send", parts=[part(kept, ACK, 1), part(late, ACK, 2)])
            (refused,) = consumer.do("answers")["refused"]
            assert refused == {"grant": late["grant"], "runs": [[2, 1]], "standing": "leased", "holder": "kit"}
            extended = consumer.do("extend", parts=[part(late, 0)])
            assert [one["grant"] for one in extended["refused"]] == [late["grant"]]
            message.ack()
            other.flush()
    assert backlog(kit) == 0


@ways
def test_a_name_belongs_to_go_while_it_answers(go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]) -> None:
    publish(kit, 1)
    with go_client.steps(server, "orders", "billing", "-name", "one", *way) as consumer:
        push = consumer.do("take")["push"]
        consumer.ask("take")  # there is nothing more, so it waits, and answers
        with pytest.raises(bowstring.NameInUse), kit.consumer("orders", "billing", name="one") as other:
            next(iter(other))
        with kit.producer("orders") as producer:
            producer.send(b"order 2")
        second = consumer.answer()["push"]
        # Now it reads its stdin, and not what the broker asks.
        with kit.consumer("orders", "billing", name="one") as other:
            for offset, message in enumerate(islice(other, 2), start=1):
                assert (message.offset, message.retry_count) == (offset, 0)
                message.ack()
            other.flush()
        consumer.ask("send", parts=[part(push, ACK), part(second, ACK)])
        consumer.ask("answers")
        with pytest.raises(ClientFailed, match="name-in-use"):
            consumer.answer(), consumer.answer()
    assert backlog(kit) == 0


@ways
def test_go_goes_on_when_the_broker_was_killed(go_client: GoClient, tmp_path: Path, way: tuple[str, ...]) -> None:
    served = start("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    with bowstring.connect(served.address) as client:
        publish(client, 3)
    with go_client.steps(served.address, "orders", "billing", "-credit", "1", *way) as consumer:
        push = consumer.do("take")["push"]
        served.end(signal.SIGKILL)
        with serving("--data", str(tmp_path / "data"), "--listen", served.address) as again:
            consumer.do("send", parts=[part(push, ACK)])
            assert consumer.do("answers")["refused"] == []
            assert places(consumer.do("take")["push"]) == [(0, 2)]
            assert consumer.end() == 0
            with bowstring.connect(again.address) as client:
                assert backlog(client) == 2


@ways
def test_go_is_told_what_was_taken_away(go_client: GoClient, server: str, kit: bowstring.Client, way: tuple[str, ...]) -> None:
    publish(kit, 1)
    host, port = server.rsplit(":", 1)
    with go_client.steps(server, "orders", "billing", "-credit", "1", *way) as consumer:
        push = consumer.do("take")["push"]
        operator = PlainClient(host, int(port))
        operator.unary("ReleaseLeases", field(1, b"orders") + field(2, b"billing"))
        operator.close()
        assert consumer.do("lost")["lost"] == [[0, push["grant"]]]
        again = consumer.do("take")["push"]
        assert [(message["offset"], message["retry_count"]) for message in again["messages"]] == [(1, 0)]
        consumer.do("send", parts=[part(push, ACK, 1)])
        (refused,) = consumer.do("answers")["refused"]
        assert (refused["grant"], refused["standing"]) == (push["grant"], "leased")


def test_go_sees_why_it_cannot_consume(go_client: GoClient, server: str, kit: bowstring.Client) -> None:
    missing = go_client("consume", server, "order", "billing")
    assert (missing.code, missing.failure["Kind"], missing.failure["Status"]) == (1, "topic-not-found", "NotFound")
    kit.create_topic("orders")
    short = go_client("consume", server, "orders", "billing", "-lease", "1000", "-native")
    assert (short.code, short.failure["Kind"]) == (1, "invalid-argument")
