"""Key-shared subscriptions against a real broker: order by key, one consumer at a time, revoking, and what `explain` says."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
from bowstring import errors
from bowstring.core import keys
from tests.process import still_clock
from tests.process.still_clock import taken

broker = still_clock.broker


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        client.create_topic("orders")
        client.create_subscription("orders", "billing", mode="key_shared")
        yield client


def sent(client: bowstring.Client, keys: str) -> None:
    """A message for each letter, which is its key; a dash is none."""
    with client.producer("orders") as producer:
        for number, key in enumerate(keys):
            producer.send(f"{key}{number}", key=None if key == "-" else key)


def texts(messages: list[bowstring.LeasedMessage]) -> list[str]:
    return [message.text() for message in messages]


def test_a_key_that_one_consumer_holds_is_given_to_no_other(client):
    sent(client, "aaa")
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        (first,) = taken(one, 1)
        with client.consumer("orders", "billing", name="two"):
            report = client.explain("orders", "billing", "a")
            assert (report.consumer, report.held, report.waiting) == ("one", 1, 2)
            first.ack().result(5)


def test_messages_without_a_key_go_to_anyone(client):
    sent(client, "a---")
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        taken(one, 1)
        with client.consumer("orders", "billing", name="two", credit=3) as two:
            assert texts(taken(two, 3)) == ["-1", "-2", "-3"]


def test_a_nack_revokes_the_later_messages_of_its_key_and_they_come_again_in_order(client):
    sent(client, "abaa-b")
    with client.consumer("orders", "billing", credit=6) as consumer:
        got = taken(consumer, 6)
        assert texts(got) == ["a0", "b1", "a2", "a3", "-4", "b5"]
        got[0].nack()
        with pytest.raises(errors.LeaseLost, match="earlier message of its key was given back"):
            got[2].ack()
        got[1].ack().result(5)
        got[4].ack().result(5)
        again = taken(consumer, 3)
        assert texts(again) == ["a0", "a2", "a3"]
        assert [message.retry_count for message in again] == [1, 0, 0]


def test_the_later_messages_that_were_not_handed_out_yet_are_not(client):
    sent(client, "aabab")
    with client.consumer("orders", "billing", credit=5) as consumer:
        order: list[str] = []
        for message in consumer:
            order.append(message.text())
            if len(order) == 1:
                message.nack()
            else:
                message.ack()
            if len(order) == 6:
                break
        assert [text for text in order if text[0] == "a"] == ["a0", "a0", "a1", "a3"]
        assert [text for text in order if text[0] == "b"] == ["b2", "b4"]


def test_of_a_key_whose_lease_ends_only_the_first_message_counts(broker, client):
    sent(client, "aab")
    with client.consumer("orders", "billing", name="one", credit=3, lease=2, extend_max=0) as one:
        taken(one, 3)
        broker.clock.advance(3)
        got = taken(one, 3)
        assert [(message.text(), message.retry_count) for message in got] == [("a0", 1), ("a1", 0), ("b2", 1)]


def test_batches_have_the_order_of_keys(client):
    sent(client, "abc" * 40)
    seen: dict[bytes | None, list[int]] = defaultdict(list)
    nacked = False
    with client.consumer("orders", "billing") as consumer:
        for batch in consumer.batches(max_rows=7):
            mask = [message.key == b"a" and not nacked for message in batch]
            batch.nack(mask)
            batch.ack()
            for message, is_nacked in zip(batch, mask, strict=True):
                if not is_nacked:
                    seen[message.key].append(message.offset)
            nacked |= any(mask)
            if sum(map(len, seen.values())) == 120:
                break
    assert all(offsets == sorted(offsets) for offsets in seen.values())
    assert sorted(map(len, seen.values())) == [40, 40, 40]


def test_run_works_on_one_message_of_a_key_at_a_time(client):
    sent(client, "abcd" * 60 + "a" * 60)
    consumer, at_work, done, both = (
        client.consumer("orders", "billing"),
        Counter[bytes | None](),
        defaultdict[bytes | None, list[int]](list),
        [],
    )
    lock, failed = threading.Lock(), set[int]()

    def handler(message: bowstring.LeasedMessage) -> None:
        with lock:
            at_work[message.key] += 1
            if at_work[message.key] > 1:
                both.append(message.offset)
        threading.Event().wait(0.0005)
        with lock:
            at_work[message.key] -= 1
            if message.offset % 29 == 0 and message.offset not in failed:
                failed.add(message.offset)
                raise ValueError("not this time")
            done[message.key].append(message.offset)
            if sum(map(len, done.values())) == 300:
                consumer.close()

    consumer.run(handler, concurrency=6)
    assert not both
    assert all(offsets == sorted(offsets) for offsets in done.values())


def test_run_of_the_async_kit_works_on_one_message_of_a_key_at_a_time(broker, client):
    sent(client, "abc" * 50)

    async def run() -> dict[bytes | None, list[int]]:
        at_work, done = Counter[bytes | None](), defaultdict[bytes | None, list[int]](list)
        async with bowstring.aio.connect(broker.address) as connected:
            consumer = connected.consumer("orders", "billing")

            async def handler(message: bowstring.LeasedMessage) -> None:
                at_work[message.key] += 1
                assert at_work[message.key] == 1
                for _ in range(message.offset % 5):
                    await asyncio.sleep(0)
                at_work[message.key] -= 1
                done[message.key].append(message.offset)
                if sum(map(len, done.values())) == 150:
                    await consumer.close()

            await consumer.run(handler, concurrency=8)
        return done

    done = asyncio.run(run())
    assert [len(done[key]) for key in (b"a", b"b", b"c")] == [50, 50, 50]
    assert all(offsets == sorted(offsets) for offsets in done.values())


def test_keys_that_are_held_stay_busy_after_a_restart(tmp_path: Path):
    with bowstring.Broker(tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
        client.create_subscription("orders", "billing", mode="key_shared", lease=60)
        sent(client, "aab")
        one = client.consumer("orders", "billing", name="one", credit=1)
        (first,) = taken(one, 1)
        broker.restart()
        report = client.explain("orders", "billing", "a")
        assert (first.text(), report.consumer, report.held) == ("a0", "one", 1)
        with client.consumer("orders", "billing", name="two", credit=3) as two:
            first.nack().result(10)
            one.close()
            came = [(message.text(), message.retry_count) for message in taken(two, 3)]
            assert [row for row in came if row != ("b2", 0)] == [("a0", 1), ("a1", 0)]  # b is free all the time: it comes when it comes
            assert len(came) == 3


# ---- explain


def test_explain_says_who_holds_a_key_and_what_waits(client):
    sent(client, "aab")
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        taken(one, 1)
        report = client.explain("orders", "billing", "a")
        assert (report.consumer, report.held, report.waiting, report.first, report.stopped) == ("one", 1, 1, 2, False)
        assert report.since < report.until
        held = r"'one' holds 1 message of it for 0\.\d s\. Its lease ends in \d+\.\d s\. "
        assert re.fullmatch(held + r"1 message of it waits until that is settled\.", report.reason)
        free = client.explain("orders", "billing", b"b")
        assert (free.consumer, free.preferred, free.waiting) == (None, "one", 1)
        assert free.reason == "1 message of it waits until 'one' has room."


def test_explain_looks_at_messages_that_wait_while_no_consumer_is_there(client):
    sent(client, "ab" * 3000)
    report = client.explain("orders", "billing", "b")
    assert (report.consumer, report.preferred, report.waiting, report.first, report.looked) == (None, None, 3000, 2, 6001)
    assert report.reason == "3,000 messages of it wait: no consumer is connected."
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        (first,) = taken(one, 1)
        first.nack().result(5)
    assert client.explain("orders", "billing", "a").waiting == 3000, "one of them was given back"


def test_explain_says_when_the_message_comes_back_that_the_others_of_its_key_wait_for(client, broker):
    sent(client, "aaa")
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        (first,) = taken(one, 1)
        first.nack(delay=600).result(5)
        report = client.explain("orders", "billing", "a")
        assert (report.consumer, report.later, report.waiting) == (None, 1, 2)
        assert 590 < report.left.total_seconds() <= 600
        assert re.fullmatch(r"orders/0@1 was given back, and comes again in [\d.]+ s\. 2 messages of its key wait for it\.", report.reason)


def test_explain_names_the_moment_of_a_message_that_comes_back_much_later(client):
    sent(client, "a")
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        (first,) = taken(one, 1)
        first.nack(delay=timedelta(days=1)).result(5)
        report = client.explain("orders", "billing", "a")
        assert report.reason == f"orders/0@1 was given back, and comes again at {report.until:%Y-%m-%dT%H:%MZ}."


def test_explain_says_where_the_bound_of_waiting_messages_stops_the_search(client, monkeypatch):
    monkeypatch.setattr(keys, "WAITING_MAX", 100)
    sent(client, "a" * 200)
    with client.consumer("orders", "billing", name="one", credit=1) as one:
        taken(one, 1)
        sent(client, "b")
        report = client.explain("orders", "billing", "b")
        assert (report.waiting, report.first, report.looked, report.stopped) == (1, 201, 201, True)
        assert "The broker looks at no message from orders/0@201 on: too many wait." in report.reason
        assert "'one' holds" in client.explain("orders", "billing", "a").reason


def test_explain_of_what_has_no_keys_or_is_not_known(client):
    client.create_subscription("orders", "audit")
    with pytest.raises(errors.Conflict, match="'audit' of 'orders' is shared"):
        client.explain("orders", "audit", "a")
    with pytest.raises(errors.NotFound, match=r"no message of the key b'x' waits in 'billing' of 'orders', and no consumer holds one\."):
        client.explain("orders", "billing", "x")
    with client.consumer("orders", "billing"), pytest.raises(errors.NotFound, match="All that it has are settled"):
        client.explain("orders", "billing", "x")
    with pytest.raises(errors.SubscriptionNotFound, match="Did you mean 'billing'"):
        client.explain("orders", "biling", "a")
    with pytest.raises(errors.InvalidArgument, match="key=7 is not a key"):
        client.explain("orders", "billing", 7)


def test_another_mode_than_the_existing_one_is_a_conflict(client):
    with pytest.raises(errors.Conflict, match="has the mode 'key_shared', not 'shared'"):
        taken(client.consumer("orders", "billing", mode="shared"), 1)
    with pytest.raises(errors.Conflict, match="has the mode 'key_shared', not 'shared'"):
        client.create_subscription("orders", "billing", mode="shared", exists_ok=True)
