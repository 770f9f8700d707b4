"""Consumers of the kit, both faces, against a broker in memory; with a manual clock where time matters."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

import bowstring
from bowstring import errors
from tests.process import still_clock
from tests.process.still_clock import sent, taken

broker = still_clock.broker
client = still_clock.client


# ---- leases and time


def test_a_lease_that_has_ended_is_lost_and_the_error_says_who_has_it_now(broker, client):
    sent(client, 1)
    with client.consumer("orders", "billing", name="slow") as slow, client.consumer("orders", "billing", name="worker-7") as quick:
        (message,) = taken(slow)
        assert message.retry_count == 0
        slow.pause()
        broker.clock.advance(31)
        (again,) = taken(quick)
        assert (again.id, again.retry_count) == (message.id, 1)
        with pytest.raises(bowstring.LeaseLost, match=r"ended 1\.0 s ago at .*Z and 'worker-7' holds it now\. Ask for a longer lease="):
            message.ack().result()
        again.ack().result()
        assert slow.statistics().lost == 1
        assert client.subscription("orders", "billing").backlog == 0


def test_a_message_whose_lease_has_ended_is_not_handed_out(broker, client):
    sent(client, 4)
    with client.consumer("orders", "billing", credit=4) as consumer:
        (message,) = taken(consumer)
        message.ack().result()
        while consumer.statistics().ahead < 3:
            consumer.flush()
        broker.clock.advance(31)
        for later in taken(consumer, 3):
            assert later.retry_count == 1, "it was delivered again, under a lease that lasts"
            later.ack().result()


def test_a_lease_is_extended_by_hand(broker, client):
    sent(client, 2)
    with client.consumer("orders", "billing", credit=2) as consumer:
        held, other = taken(consumer, 2)
        end = held.extend(timedelta(minutes=5)).result()
        assert held.lease_end == end
        broker.clock.advance(60)
        held.ack().result()
        with pytest.raises(bowstring.LeaseLost):
            other.extend().result()
        assert client.subscription("orders", "billing").backlog == 1


def test_leases_are_extended_while_the_program_works():
    """Leases of a second, by the machine's clock."""
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
        client.create_topic("orders")
        sent(client, 2)
        asked = threading.Event()
        with client.consumer("orders", "billing", lease=1, credit=2, alive=lambda: asked.set() or True) as consumer:
            message, other = taken(consumer, 2)
            end = message.lease_end
            for _ in range(3):
                assert asked.wait(30)
                asked.clear()
            while message.lease_end < end + timedelta(seconds=1):
                assert asked.wait(30)
                asked.clear()
            message.ack().result()
            other.ack().result()
            assert consumer.statistics().lost == 0


# ---- settling


def test_retry_counts_rise_with_each_delivery_that_ends_without_an_ack(client):
    sent(client, 1)
    with client.consumer("orders", "billing") as consumer:
        counts = []
        for message in consumer:
            counts.append(message.retry_count)
            if message.retry_count == 3:
                message.ack()
                break
            message.nack(reason="not yet")
        consumer.flush()
    assert counts == [0, 1, 2, 3]


def test_closing_gives_back_uncounted_what_was_not_seen(client):
    sent(client, 10)
    with client.consumer("orders", "billing", credit=10) as consumer:
        seen = taken(consumer)[0].id
        while consumer.statistics().ahead < 9:
            consumer.flush()
    assert client.subscription("orders", "billing").leased == 0
    with client.consumer("orders", "billing", credit=10) as consumer:
        counts = {message.id: message.retry_count for message in taken(consumer, 10)}
        assert counts.pop(seen) == 1
        assert set(counts.values()) == {0}


def test_masks_settle_rows_of_a_batch(client):
    sent(client, 100)
    with client.consumer("orders", "billing", credit=100) as consumer:
        acked: set[str] = set()
        for batch in consumer.batches(max_rows=50):
            frame = pl.DataFrame(batch)
            assert frame.columns[-3:] == ["retry_count", "age", "lease_end"]
            assert pa.table(batch).schema.field("age").type == pa.duration("us")
            good = (frame["value"].cast(pl.String).cast(pl.Int64) % 2 == 0) | (frame["retry_count"] > 0)
            batch.nack(~good)
            answers = batch.ack().result()
            assert answers.ok.true_count == good.sum()
            acked |= set(frame.filter(good)["id"])
            if len(acked) == 100:
                break
    assert client.subscription("orders", "billing").backlog == 0


@pytest.mark.parametrize(("wrong", "what"), [({"max_wait": -1}, "max_wait=-1 is negative"), ({"max_rows": 0}, "max_rows=0 is not valid")])
def test_wrong_batches_are_refused_before_anything_comes(client, wrong, what):
    with client.consumer("orders", "billing") as consumer, pytest.raises(bowstring.InvalidArgument, match=what):
        consumer.batches(**wrong)
    with client.reader("orders") as reader, pytest.raises(bowstring.InvalidArgument, match=what):
        reader.batches(**wrong)


def test_a_refused_settlement_that_nobody_looks_at_is_raised_at_the_end(broker, client):
    sent(client, 1)
    consumer = client.consumer("orders", "billing")
    (message,) = taken(consumer)
    consumer.pause()
    broker.clock.advance(40)
    message.ack()
    with pytest.raises(bowstring.LeaseLost):
        consumer.__exit__(None, None, None)


def test_an_owner_cannot_delete_what_a_consumer_holds(client):
    with client.producer("orders") as producer:
        receipt = producer.send(b"one", key="k")
        receipt.result()
        with client.consumer("orders", "billing", name="w") as consumer:
            (message,) = taken(consumer)
            refused = producer.delete([receipt.id]).refused
            assert isinstance(refused[0], bowstring.Leased)
            message.ack().result()
            assert not producer.delete([receipt.id]).refused


# ---- names


def test_a_second_consumer_under_a_name_is_refused_while_the_first_answers(client):
    sent(client, 2)
    with client.consumer("orders", "billing", name="w", credit=2) as one, client.consumer("orders", "billing", name="w") as two:
        with pytest.raises(bowstring.NameInUse):
            taken(two)
        for message in taken(one, 2):
            message.ack().result()


def test_a_consumer_that_comes_again_under_its_name_settles_anew(client):
    sent(client, 6)
    seen = []
    for _ in range(3):
        with client.consumer("orders", "billing", name="w", credit=2) as consumer:
            for message in taken(consumer, 2):
                seen.append(message.id)
                message.ack().result()
    assert len(set(seen)) == 6
    assert client.subscription("orders", "billing").backlog == 0


def test_another_program_under_the_name_gets_its_leases_again(broker, client):
    sent(client, 3)
    crashed = broker.connect()
    consumer = crashed.consumer("orders", "billing", name="w", credit=3)
    held = {message.id for message in taken(consumer, 3)}
    crashed._thread.run(consumer._consumer._consumption._stream.close())
    consumer._consumer._consumption.broken()
    crashed.close()
    with client.consumer("orders", "billing", name="w", credit=3) as again:
        got = taken(again, 3)
        assert {message.id for message in got} == held
        assert {message.retry_count for message in got} == {0}, "the lease goes on, nothing has ended"
        for message in got:
            message.ack().result()


# ---- breaks and restarts


def test_a_restart_of_the_broker_loses_no_lease_and_no_ack(tmp_path):
    with bowstring.Broker(tmp_path / "data") as broker, broker.connect() as client:
        client.create_topic("orders", partitions=2)
        sent(client, 300)
        seen: Counter[str] = Counter()
        with client.consumer("orders", "billing") as consumer:
            for message in consumer:
                seen[message.id] += 1
                assert message.retry_count == 0
                message.ack()
                if len(seen) in (50, 150):
                    broker.restart()
                if len(seen) == 300:
                    break
            consumer.flush()
            assert consumer.statistics().lost == 0
            assert consumer.statistics().connections >= 2
        assert set(seen.values()) == {1}
        assert client.subscription("orders", "billing").backlog == 0


# ---- subscriptions


def test_a_subscription_begins_at_the_beginning_the_latest_or_a_moment(broker, client):
    sent(client, 3)
    broker.clock.advance(10)
    client.create_subscription("orders", "all")
    client.create_subscription("orders", "new", start="latest")
    client.create_subscription("orders", "recent", start=timedelta(seconds=-5))
    sent(client, 2)
    assert {each.name: each.backlog for each in client.subscriptions("orders")} == {"all": 5, "new": 2, "recent": 2}
    broker.clock.advance(10)
    assert client.subscription("orders", "all").oldest == pytest.approx(20, abs=0.01)
    with client.consumer("orders", "late", start="latest") as consumer:
        sent(client, 1)
        taken(consumer)[0].ack().result()


def test_who_holds_what_is_listed_and_taken_away(broker, client):
    sent(client, 4)
    with client.consumer("orders", "billing", credit=4, name="w") as consumer:
        held = taken(consumer, 4)
        broker.clock.advance(10)
        leases = list(client.leases("orders", "billing"))
        assert sum(lease.messages for lease in leases) == 4
        assert {lease.consumer for lease in leases} == {"w"}
        assert all(lease.left == timedelta(seconds=20) for lease in leases)
        assert list(client.leases("orders", "billing", consumer="other")) == []
        assert client.release_leases("orders", "billing", older_than=60) == 0
        consumer.pause()
        assert client.release_leases("orders", "billing", consumer="w") == 4
        for message in held:
            with pytest.raises(bowstring.LeaseLost):
                message.ack().result()
        consumer.resume()
        assert [message.retry_count for message in taken(consumer, 4)] == [0] * 4


def test_the_settings_of_a_subscription_are_told_altered_and_outlive_a_restart(tmp_path):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
        made = client.create_subscription("orders", "billing", max_deliveries=3, backoff=(1, 2.5, timedelta(minutes=5)), unsettled="keep")
        assert (made.max_deliveries, made.backoff, made.unsettled, made.keep_max) == (3, (1.0, 2.5, 300.0), "keep", None)
        assert made.dead_letters == "orders.billing.dead-letters"
        changed = client.alter_subscription("orders", "billing", max_deliveries=None, backoff=None, keep_max=timedelta(days=1))
        assert (changed.max_deliveries, changed.backoff, changed.keep_max) == (None, None, timedelta(days=1))
        assert changed.lease == made.lease
    with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        found = client.subscription("orders", "billing")
        assert (found.max_deliveries, found.backoff, found.unsettled, found.keep_max) == (None, None, "keep", timedelta(days=1))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_deliveries": 0}, "max_deliveries=0 is not valid"),
        ({"max_deliveries": True}, "max_deliveries=True is not valid"),
        ({"backoff": 5}, "backoff=5 is not valid"),
        ({"backoff": (0, 2, 10)}, "is not valid. The first wait is above 0"),
        ({"backoff": (10, 2, 1)}, "is not valid. The first wait is above 0"),
        ({"backoff": (1, 0.5, 10)}, "the factor 0.5"),
        ({"backoff": (1, float("nan"), 10)}, "the factor nan"),
        ({"unsettled": "forget"}, "unsettled='forget' is not known"),
        ({"keep_max": -1}, "is negative"),
        ({"dead_letters": "a b"}, "'a b' is not a topic name"),
    ],
)
def test_settings_that_make_no_sense_are_refused(client, given, told):
    with pytest.raises(errors.InvalidArgument) as refused:
        client.create_subscription("orders", "billing", **given)
    assert told in str(refused.value)
