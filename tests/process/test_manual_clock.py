"""A broker whose clock stands still until a test advances it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import bowstring
import bowstring.aio
from bowstring import errors


def values(client: bowstring.Client, topic: str = "orders") -> list[bytes | None]:
    return [message.value for message in client.reader(topic, end="latest")]


def test_messages_expire_when_the_clock_says_so_and_not_before():
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        with client.producer("orders") as producer:
            producer.send(b"a", expires=30)
        broker.clock.advance(29.999)
        assert values(client) == [b"a"]
        broker.clock.advance(0.001)
        assert values(client) == []


def test_retention_has_removed_what_is_too_old_when_advance_returns():
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        client.create_topic("orders", retention=timedelta(hours=1), deduplication=60)
        with client.producer("orders") as producer:
            producer.send(b"old")
            producer.flush()
            broker.clock.advance(timedelta(minutes=59))
            producer.send(b"young")
        assert client.topic("orders").ranges[0] == range(1, 3)
        broker.clock.advance(timedelta(minutes=2))
        assert client.topic("orders").ranges[0] == range(2, 3)
        assert values(client) == [b"young"]


def test_arrivals_are_by_this_clock_which_stands_still():
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        begun = broker.clock.now()
        assert abs(begun - datetime.now(UTC)) < timedelta(minutes=1)
        with client.producer("orders") as producer:
            producer.send(b"a")
            producer.flush()
            broker.clock.advance(3600)
            producer.send(b"b")
        assert [message.arrived for message in client.reader("orders", end="latest")] == [begun, begun + timedelta(hours=1)]
        assert broker.clock.now() == begun + timedelta(hours=1)


def test_sending_goes_on_after_a_day_has_passed():
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client, client.producer("orders", timeout=5) as producer:
        for number in range(1, 4):
            assert producer.send(b"x").result().offset == number
            broker.clock.advance(timedelta(days=1))


def test_the_clock_outlives_a_restart(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, clock="manual") as broker:
        begun = broker.clock.now()
        broker.clock.advance(60)
        broker.kill()
        broker.clock.advance(60)
        broker.restart()
        broker.clock.advance(60)
        assert broker.clock.now() == begun + timedelta(minutes=3)
        with broker.connect() as client:
            client.create_topic("orders")
            assert client.topic("orders").created == broker.clock.now()


async def test_the_async_face():
    async with bowstring.aio.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        async with client.producer("orders") as producer:
            await producer.send(b"a", expires=30)
        await broker.clock.advance(31)
        assert [message.value async for message in client.reader("orders", end="latest")] == []
        assert broker.clock.broker is broker


def test_what_is_wrong_is_told():
    with bowstring.Broker.ephemeral() as broker, pytest.raises(errors.Conflict, match=r'machine\'s clock. Make it with clock="manual"'):
        _ = broker.clock
    with pytest.raises(errors.InvalidArgument, match="clock='stopped' is not known"):
        bowstring.Broker.ephemeral(clock="stopped")  # pyright: ignore[reportArgumentType]
    with bowstring.Broker.ephemeral(clock="manual") as broker, pytest.raises(errors.InvalidArgument, match="span=-1 is negative"):
        broker.clock.advance(-1)
