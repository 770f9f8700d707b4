"""The consumer in plain Python (plain_consumer.py) against a real broker: that docs/protocol.md is enough to consume, settle and
reconnect."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bowstring
from tests.clients.plain_client import PlainClient, Refused, field, fields, unpacked
from tests.clients.plain_consumer import ACK, NACK, RELEASE, PlainConsumer, Push, arrays
from tests.process.serving import serving, start

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
MINUTE = 60_000_000


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serving("--data", str(tmp_path / "data")) as served:
        published(served.address, 20)
        yield served.address


def published(address: str, count: int, topic: str = "orders") -> None:
    with bowstring.connect(address) as client:
        client.create_topic(topic)
        with client.producer(topic) as producer:
            producer.send_batch([b"order %d" % number for number in range(1, count + 1)]).result(30)


@contextmanager
def consuming(address: str, name: bytes = b"worker", *, credit: int = 100, lease: int = MINUTE) -> Iterator[PlainConsumer]:
    host, port = address.rsplit(":", 1)
    consumer = PlainConsumer(host, int(port), topic=b"orders", subscription=b"billing", name=name, credit=credit, lease=lease)
    try:
        yield consumer
    finally:
        consumer.client.close()


def taken(consumer: PlainConsumer, count: int) -> list[Push]:
    """Pushes of so many messages in all."""
    pushes = list[Push]()
    while sum(len(push.offsets) for push in pushes) < count:
        pushes.append(consumer.take())
    return pushes


def standing(address: str) -> tuple[int, int]:
    """Backlog and leased messages of the subscription."""
    host, port = address.rsplit(":", 1)
    client = PlainClient(host, int(port))
    found = dict(fields(client.unary("DescribeSubscription", field(1, b"orders") + field(2, b"billing"))))
    client.close()
    return int(found.get(8, 0)), int(found.get(9, 0))


def retries(pushes: list[Push]) -> dict[int, int]:
    return {offset: count for push in pushes for offset, count in zip(push.offsets, push.retry_counts, strict=True)}


def test_the_worked_example_comes_out() -> None:
    (block,) = re.findall(r"```packed\n(.*?)```", PAGE, flags=re.DOTALL)
    shown = {name: list(map(int, numbers)) for name, *numbers in (line.split() for line in block.splitlines())}
    example = arrays((7, ACK, ((101, 4), (107, 1))), (7, NACK, ((105, 2),)), (7, RELEASE, ((108, 3),)), (9, ACK, ()))
    names = {4: "grants", 5: "outcomes", 6: "runs", 7: "offsets", 8: "rows"}
    assert {names[number]: unpacked(values) for number, values in fields(example)} == shown


def test_what_is_acked_is_gone_and_what_is_nacked_comes_again_and_counts(address: str) -> None:
    with consuming(address) as consumer:
        first = taken(consumer, 20)
        assert [value for push in first for value in push.values] == [b"order %d" % number for number in range(1, 21)]
        assert set(retries(first).values()) == {0}
        for push in first:
            runs = [((one, 1),) for one in push.offsets]
            outcomes = [NACK if one % 5 == 0 else RELEASE if one % 5 == 1 else ACK for one in push.offsets]
            consumer.settle(push.partition, *((push.grant, outcome, run) for outcome, run in zip(outcomes, runs, strict=True)))
        consumer.answers()
        again = taken(consumer, 8)
        assert retries(again) == {1: 0, 6: 0, 11: 0, 16: 0, 5: 1, 10: 1, 15: 1, 20: 1}
        for push in again:
            consumer.settle(push.partition, (push.grant, ACK, push.runs))
        consumer.answers()
        assert consumer.refused == []
        assert standing(address) == (0, 0)


def test_credit_is_a_limit_on_what_is_held(address: str) -> None:
    with consuming(address, credit=3) as consumer:
        seen = list[int]()
        while len(seen) < 20:
            push = consumer.take()
            assert len(push.offsets) <= 3
            seen += push.offsets
            consumer.settle(push.partition, (push.grant, ACK, push.runs))
        assert seen == list(range(1, 21))
        consumer.answers()


def test_a_settlement_whose_answer_was_lost_is_sent_again_and_counts_once(address: str) -> None:
    with consuming(address) as consumer:
        pushes = taken(consumer, 20)
        for push in pushes:
            consumer.settle(push.partition, (push.grant, NACK, push.runs[:1]), (push.grant, ACK, push.runs[1:] or ()))
        consumer.client.close()
        consumer.connect()
        consumer.answers()
        assert consumer.refused == []
        again = taken(consumer, len(pushes))
        assert retries(again) == {push.offsets[0]: 1 for push in pushes}


def test_a_reconnect_keeps_what_is_held(address: str) -> None:
    with consuming(address, credit=4) as consumer:
        pushes = taken(consumer, 4)
        consumer.client.close()
        consumer.connect()
        assert standing(address) == (20, 4)
        for push in pushes:
            consumer.settle(push.partition, (push.grant, ACK, push.runs))
        consumer.answers()
        assert (consumer.refused, consumer.lost) == ([], [])
        assert consumer.take().offsets[0] == 5


def test_a_lease_that_had_not_come_whole_comes_again_and_nothing_twice(tmp_path: Path) -> None:
    """Messages so large that one lease takes several pushes."""
    with serving("--data", str(tmp_path / "data")) as served:
        with bowstring.connect(served.address) as client:
            client.create_topic("orders")
            with client.producer("orders") as producer:
                for number in range(12):
                    producer.send(bytes([number]) * 700_000).result(30)
        with consuming(served.address) as consumer:
            pushes = [consumer.take()]
            consumer.settle(0, (pushes[0].grant, ACK, pushes[0].runs[:1]))
            for _ in range(3):
                consumer.client.close()
                consumer.connect()
                pushes.append(consumer.take())
            pushes += taken(consumer, 12 - sum(len(push.offsets) for push in pushes))
            assert len({push.grant for push in pushes}) < len(pushes)
            assert sorted(offset for push in pushes for offset in push.offsets) == list(range(1, 13))
            assert set(retries(pushes).values()) == {0}
            consumer.settle(0, *((push.grant, ACK, runs) for push in pushes if (runs := push.runs[push is pushes[0] :])))
            consumer.answers()
            assert (consumer.refused, consumer.lost) == ([], [])
            assert standing(served.address) == (0, 0)


def test_another_consumer_of_the_name_gets_its_leases_and_goes_on_with_its_numbers(address: str) -> None:
    with consuming(address, credit=10) as first:
        pushes = taken(first, 10)
        for push in pushes[:-1]:
            first.settle(push.partition, (push.grant, ACK, push.runs))
        first.settle(pushes[-1].partition, (pushes[-1].grant, ACK, ((pushes[-1].offsets[0], 1),)))
        first.answers()
    with consuming(address) as second:
        left = 20 - sum(len(push.offsets) for push in pushes[:-1]) - 1
        found = taken(second, left)
        assert set(retries(found).values()) == {0}
        for push in found:
            second.settle(push.partition, (push.grant, ACK, push.runs))
        second.answers()
        assert second.refused == []
        assert standing(address) == (0, 0)


def test_a_late_ack_is_refused_and_says_who_holds_the_message(address: str) -> None:
    with consuming(address, b"slow", credit=1, lease=1_000_000) as slow, consuming(address, b"quick") as quick:
        late = slow.take()
        while late.offsets[0] not in (found := retries([quick.take()])):
            pass  # until the lease has ended
        assert found[late.offsets[0]] == 1
        slow.settle(late.partition, (late.grant, ACK, ((late.offsets[0], 1),)))
        slow.answers()
        assert slow.refused == [(0, late.grant, ((late.offsets[0], 1),), "leased", "quick")]


def test_a_reconnected_consumer_is_told_what_it_has_lost(address: str) -> None:
    with consuming(address, b"slow", lease=1_000_000) as slow:
        first = taken(slow, 20)
        with bowstring.connect(address) as client, client.producer("orders") as producer:
            producer.send(b"order 21")
        slow.take()  # by another lease, so the first ones have come whole
        slow.client.close()
        with consuming(address, b"quick") as quick:
            assert set(retries(taken(quick, 21)).values()) == {1}  # when the leases have ended
            slow.connect()
            slow.settle(0, (first[0].grant, ACK, first[0].runs))
            slow.answers()
            assert {(0, push.grant) for push in first} <= set(slow.lost)
            assert {standing for *_, standing, _ in slow.refused} == {"leased"}


def test_a_name_is_refused_while_its_consumer_answers_and_taken_from_a_silent_one(address: str) -> None:
    with consuming(address, credit=5) as first:
        held = taken(first, 5)
        with consuming(address) as second:  # nobody reads the broker's ping to the first
            assert {offset for push in taken(second, 5) for offset in push.offsets} >= {1, 2, 3, 4, 5}
            first.settle(held[0].partition, (held[0].grant, ACK, held[0].runs))
            with pytest.raises(Refused, match="name-in-use"):
                first.answers()


def test_a_closed_consumer_has_given_everything_back(address: str) -> None:
    with consuming(address) as consumer:
        taken(consumer, 20)
        consumer.close()
        assert standing(address) == (20, 0)
    with consuming(address, b"another") as consumer:
        assert set(retries(taken(consumer, 20)).values()) == {0}


def test_leases_and_settlements_survive_a_killed_broker(tmp_path: Path) -> None:
    served = start("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    published(served.address, 20)
    with consuming(served.address, credit=10) as consumer:
        pushes = taken(consumer, 10)
        consumer.settle(0, (pushes[0].grant, ACK, pushes[0].runs))
        served.end(signal.SIGKILL)
        with serving("--data", str(tmp_path / "data"), "--listen", served.address) as again:
            for push in pushes[1:]:
                consumer.settle(push.partition, (push.grant, ACK, push.runs))
            consumer.answers()
            assert (consumer.refused, consumer.lost) == ([], [])
            assert min(consumer.take().offsets) > 10
            assert again.process.poll() is None


def test_a_deleted_subscription_ends_the_stream(address: str) -> None:
    host, port = address.rsplit(":", 1)
    with consuming(address) as consumer:
        taken(consumer, 20)
        other = PlainClient(host, int(port))
        other.unary("DeleteSubscription", field(1, b"orders") + field(2, b"billing"))
        other.close()
        with pytest.raises(Refused, match="subscription-not-found"):
            consumer.take()
