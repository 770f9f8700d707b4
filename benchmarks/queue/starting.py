"""How long a broker needs to load 10,000 partitions with ten subscriptions each, measured as every
start is (`years/starting`).

Each subscription has consumed some of each partition: a part is acked, a part was nacked, a part is
under a lease that lasts.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import bowstring
from benchmarks.server import Server, running
from benchmarks.turns import Setting
from benchmarks.years.starting import OFTEN, starts
from benchmarks.years.tables import Tables, publish

PARTITIONS = 10_000
TOPICS = 10
SUBSCRIPTIONS = 10
LEASE_SECONDS = 3600.0
CALLS = 2
"""So many calls of send_batch fill a topic."""
FILL_SECONDS_MAX = 600.0


def measure(setting: Setting) -> dict[str, Any]:
    partitions = setting.amount(PARTITIONS)
    with running(setting.folder, settings=OFTEN) as broker:
        _fill(broker, partitions)
        with bowstring.connect(broker.address) as client:
            ledgers = sum(len(one.partitions) for topic in range(TOPICS) for one in client.subscriptions(f"topic-{topic}"))
        return {**starts(broker), "partitions": partitions, "ledgers": ledgers}


def _fill(broker: Server, partitions: int) -> None:
    tables = Tables()
    topics = [f"topic-{number}" for number in range(TOPICS)]
    with bowstring.connect(broker.address) as client:
        for topic in topics:
            client.create_topic(topic, partitions=partitions // TOPICS)
            for subscription in range(SUBSCRIPTIONS):
                client.create_subscription(topic, f"subscription-{subscription}")
            publish(client, topic, [tables.with_keys(partitions) for _ in range(CALLS)])
    consumers = multiprocessing.get_context("spawn").Process(target=consume, args=(broker.address, topics, CALLS * tables.rows))
    consumers.start()
    consumers.join(FILL_SECONDS_MAX)
    if consumers.exitcode != 0:
        consumers.kill()
        raise RuntimeError(f"the consumers have ended with {consumers.exitcode}")
    time.sleep(6.0)  # sealed, by these settings


def consume(address: str, topics: list[str], rows: int) -> None:
    """The consumers' process: it goes without a word, so that its leases last."""
    client = bowstring.connect(address)
    for topic in topics:
        for subscription in range(SUBSCRIPTIONS):
            _consume(client, topic, f"subscription-{subscription}", rows)
    os._exit(0)


def _consume(client: Any, topic: str, subscription: str, rows: int) -> None:
    """Gets everything, nacks a tenth and acks half of it. The rest, with what was nacked, stays under
    lease.
    """
    consumer = client.consumer(topic, subscription, credit=rows, credit_bytes=1 << 30, lease=LEASE_SECONDS)
    count, held = 0, list[Any]()
    for batch in consumer.batches(max_rows=rows, max_wait=0.2):
        held.append(batch)
        count += len(batch)
        if count >= rows:
            break
    for batch in held:
        batch.nack([row for row in range(len(batch)) if row % 10 == 0])
        batch.ack([row for row in range(len(batch)) if row % 2])
    consumer.flush()
