"""A broker that keeps nothing, one for all tests of a file, and a client of it.

A test file takes the fixtures by name: `broker = ephemeral.broker`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import bowstring


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as running:
        yield running


@pytest.fixture(scope="module")
def broker_on_request() -> Iterator[bowstring.Broker]:
    """One that makes no topic because somebody publishes to it."""
    with bowstring.Broker.ephemeral(topic_create="on-request") as running:
        yield running


def with_topics(partitions: Mapping[str, int], **settings: Any) -> Iterator[bowstring.Broker]:
    """For a fixture: a broker that has topics of so many partitions."""
    with bowstring.Broker.ephemeral(**settings) as running:
        with running.connect() as client:
            for name, count in partitions.items():
                client.create_topic(name, partitions=count)
        yield running


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as connected:
        yield connected
