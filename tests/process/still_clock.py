"""A broker whose clock stands still until a test moves it, a client of it with a topic `orders` of two
partitions, and consumers that take a few messages.

A test file takes the fixtures by name: `broker = still_clock.broker`. `consuming_broker` has the
same for tests that speak the protocol by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral(clock="manual") as running:
        yield running


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as connected:
        connected.create_topic("orders", partitions=2)
        yield connected


def sent(client: bowstring.Client, rows: int, topic: str = "orders") -> None:
    """Publishes so many messages, each with a key of its own."""
    with client.producer(topic) as producer:
        for number in range(rows):
            producer.send(b"%d" % number, key=b"%d" % number)


def taken(consumer: bowstring.Consumer, count: int = 1) -> list[bowstring.LeasedMessage]:
    """The next messages, which stay leased."""
    found: list[bowstring.LeasedMessage] = []
    for message in consumer:
        found.append(message)
        if len(found) == count:
            break
    return found
