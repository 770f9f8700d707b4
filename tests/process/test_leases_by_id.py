"""A consumer leases messages by their ids, with both faces of the kit."""

from __future__ import annotations

import asyncio

import pytest

import bowstring
from tests.process import still_clock

broker = still_clock.broker
client = still_clock.client


def sent(client: bowstring.Client, rows: int, *, key: bytes | None = None, country: str = "CH") -> list[str]:
    with client.producer("orders") as producer:
        receipts = [producer.send(b"%d" % number, key=key, attributes={"country": country}) for number in range(rows)]
    return [receipt.id for receipt in receipts]


def idle(client: bowstring.Client, subscription: str = "billing", **more: object) -> bowstring.Consumer:
    """A consumer that is pushed nothing, and has given back what came before it paused."""
    consumer = client.consumer("orders", subscription, **more)
    consumer.pause()
    consumer.lease(["no-such"])  # answered behind everything that was pushed before
    consumer.flush()
    return consumer


def leased(client: bowstring.Client, subscription: str = "billing") -> int:
    return client.subscription("orders", subscription).leased


def standing(batch: bowstring.LeasedBatch, message_id: str) -> str | None:
    error = batch.refused[message_id]
    assert type(error) is bowstring.Conflict
    return error.details.get("standing")


def test_messages_are_leased_by_id_and_settled(client):
    ids = sent(client, 10)
    with idle(client) as consumer:
        batch = consumer.lease([ids[7], ids[2]])
        assert {message.id for message in batch} == {ids[7], ids[2]}
        assert batch.refused == {}
        assert leased(client) == 2
        batch.ack().result()
        assert (leased(client), client.subscription("orders", "billing").backlog) == (0, 8)
        with client.consumer("orders", "billing", credit=100) as other:
            rest = [next(iter(other)) for _ in range(8)]
            assert {message.id for message in rest} == set(ids) - {ids[7], ids[2]}
            assert {message.retry_count for message in rest} == {0}


def test_a_message_comes_again_at_its_old_place_when_it_is_nacked(client):
    ids = sent(client, 5)
    with idle(client, credit=10) as consumer:
        batch = consumer.lease(iter([ids[3]]))
        batch.nack(reason="not yet").result()
        again = consumer.lease([ids[3]])
        assert [(message.id, message.retry_count) for message in again] == [(ids[3], 1)]
        again.nack().result()
        consumer.resume()
        assert sorted(next(iter(consumer)).id for _ in range(5)) == sorted(ids)


def test_what_another_consumer_holds_is_refused_with_its_name(client):
    ids = sent(client, 3)
    with idle(client, name="ada") as ada, idle(client, name="bob") as bob:
        held = ada.lease([ids[1]])
        batch = bob.lease(ids)
        assert {message.id for message in batch} == {ids[0], ids[2]}
        taken = batch.refused[ids[1]]
        assert isinstance(taken, bowstring.LeaseTaken)
        assert taken.details["consumer"] == "ada"
        assert "'ada' holds orders/" in str(taken)
        assert len(bob.lease([ids[1]])) == 0
        held.ack().result()
        assert standing(bob.lease([ids[1]]), ids[1]) == "settled"


def test_what_was_handed_out_already_is_refused_and_what_waits_in_the_kit_is_not(client):
    ids = sent(client, 6)
    with client.consumer("orders", "billing", credit=6, name="ada") as consumer:
        first = next(iter(consumer))
        waiting = next(message_id for message_id in ids if message_id != first.id)
        batch = consumer.lease([waiting, first.id])
        assert [message.id for message in batch] == [waiting]
        assert isinstance(batch.refused[first.id], bowstring.LeaseTaken)
        assert batch.refused[first.id].details["consumer"] == "ada"
        batch.ack()
        first.ack()
        rest = [next(iter(consumer)) for _ in range(4)]
        assert {message.id for message in rest} == set(ids) - {first.id, waiting}


def test_a_lease_by_id_ends_like_any_other(broker, client):
    ids = sent(client, 2)
    with idle(client, lease=30, alive=lambda: False) as consumer:
        batch = consumer.lease([ids[0]])
        broker.clock.advance(31)
        with pytest.raises(bowstring.LeaseLost):
            batch[0].ack().result()
        again = consumer.lease([ids[0]])
        assert [message.retry_count for message in again] == [1]


def test_ids_that_no_message_has_and_messages_that_are_not_due_say_so(broker, client):
    with client.producer("orders") as producer:
        later = producer.send(b"later", delay=60).id
        now = producer.send(b"now").id
    with idle(client, lease=600) as consumer:
        batch = consumer.lease([later, now, "order-7"])
        assert [message.id for message in batch] == [now]
        assert isinstance(batch.refused["order-7"], bowstring.MessageNotFound)
        assert standing(batch, later) == "later"
        assert "due" in batch.refused[later].details
        broker.clock.advance(61)
        assert [message.id for message in consumer.lease([later])] == [later]
        batch.nack(delay=30).result()
        assert standing(consumer.lease([now]), now) == "later"
        broker.clock.advance(31)
        assert [message.id for message in consumer.lease([now])] == [now]


def test_a_filter_counts_for_leases_by_id_too(client):
    german, swiss = sent(client, 3, country="DE"), sent(client, 3)
    with idle(client, "swiss", where="attributes.country = 'CH'") as consumer:
        batch = consumer.lease([*german, swiss[1]])
        assert [message.id for message in batch] == [swiss[1]]
        assert {standing(batch, each) for each in german} <= {"left-out", "settled"}
        assert {message.id for message in consumer.lease(swiss)} == {swiss[0], swiss[2]}


def test_keys_stay_in_order_and_at_one_consumer(client):
    ids = sent(client, 4, key=b"k")
    client.create_subscription("orders", "keyed", mode="key_shared")
    with idle(client, "keyed", name="ada") as ada, idle(client, "keyed", name="bob") as bob:
        assert standing(ada.lease([ids[1]]), ids[1]) == "behind"
        batch = ada.lease([ids[0], ids[1]])
        assert [message.id for message in batch] == ids[:2]
        busy = bob.lease([ids[2]])
        assert isinstance(busy.refused[ids[2]], bowstring.LeaseTaken)
        assert busy.refused[ids[2]].details["consumer"] == "ada"
        batch.ack().result()
        assert [message.id for message in bob.lease([ids[2]])] == [ids[2]]


def test_a_thousand_ids_in_one_request_and_no_more(client):
    ids = sent(client, 1001)
    with idle(client, credit_bytes=1 << 20) as consumer:
        with pytest.raises(bowstring.InvalidArgument, match="Lease at most 1000 at once"):
            consumer.lease(ids)
        batch = consumer.lease(ids[:1000])
        assert (len(batch), batch.refused) == (1000, {})


def test_bytes_bound_what_is_leased_by_id(client):
    with client.producer("orders") as producer:
        ids = [producer.send(bytes(300_000)).id for _ in range(8)]
    with idle(client, credit_bytes=1 << 20) as consumer:
        batch = consumer.lease(ids)
        assert 1 <= len(batch) < 8
        assert {type(error) for error in batch.refused.values()} == {bowstring.Full}
        assert len(batch) + len(batch.refused) == 8
        batch.ack().result()
        assert len(consumer.lease(list(batch.refused))) >= 1


def test_a_seek_ends_leases_by_id(client):
    ids = sent(client, 4)
    with idle(client) as consumer:
        batch = consumer.lease(ids[:2])
        client.seek_subscription("orders", "billing", "beginning")
        with pytest.raises(bowstring.LeaseLost):
            batch[0].ack().result()
        assert len(consumer.lease(ids)) == 4


@pytest.mark.parametrize(
    ("ids", "told"),
    [([], "ids is empty"), ("order-7", "order-7"), ([7], "7"), (None, "None"), ([""], "id"), (["x" * 2000], "bytes")],
)
def test_wrong_ids_are_refused(client, ids, told):
    with idle(client) as consumer, pytest.raises(bowstring.InvalidArgument, match=told):
        consumer.lease(ids)


def test_a_closed_consumer_leases_nothing(client):
    ids = sent(client, 1)
    consumer = idle(client)
    consumer.lease(ids).nack().result()
    consumer.close()
    with pytest.raises(bowstring.Conflict, match="closed"):
        consumer.lease(ids)


def test_leases_by_id_of_the_other_face(broker, client):
    ids = sent(client, 4)

    async def work() -> None:
        async with bowstring.aio.connect(broker.address) as other, other.consumer("orders", "billing") as consumer:
            consumer.pause()
            batch = await consumer.lease([ids[3], "no-such"])
            assert [message.id for message in batch] == [ids[3]]
            assert isinstance(batch.refused["no-such"], bowstring.MessageNotFound)
            assert [type(each) for each in batch] == [bowstring.aio.LeasedMessage]
            await batch.ack()

    asyncio.run(work())
    assert client.subscription("orders", "billing").backlog == 3
