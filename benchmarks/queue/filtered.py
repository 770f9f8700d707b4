"""A subscription whose filter one message in a thousand passes: the time until all of them are acked,
beside the time in which a subscription without a filter gets and acks everything, message by message
in the same loop. As batches everything is told too.

The rates count all messages of the topic, those that are left out too. Those that pass are spread
evenly, so every page has some. The filter is over an attribute or over the key. The last message
passes, so in the end nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

import bowstring
from benchmarks import server
from benchmarks.clients import work
from benchmarks.turns import Setting, take_turns
from benchmarks.worker import TOPIC
from benchmarks.years.tables import Tables, publish

COUNT = 5_000_000
SIZE = 100
ROWS = 10_000
ONE_IN = 1_000
SUBSCRIPTION = "bench"
RARE = b"%08d" % (ONE_IN - 1)
FILTERS = {"all": "", "all_batches": "", "attribute": "attributes.kind = 'rare'", "key": f"key = '{RARE.decode()}'"}


def measure(setting: Setting) -> dict[str, Any]:
    """The runs, by the filter."""
    count = setting.amount(COUNT)
    turns = {name: partial(_consumed, setting, name, count) for name in FILTERS}
    return {"count": count, "rates": take_turns(setting.rounds, turns)}


def tables(count: int) -> Iterator[pa.Table]:
    """Rows with a key of a thousand, and an attribute that those of the last key have otherwise."""
    source = Tables(size=SIZE, rows=ROWS)
    kinds = [[("kind", "usual")]] * (ONE_IN - 1) + [[("kind", "rare")]]
    attributes = pa.array(kinds * (ROWS // ONE_IN), pa.map_(pa.string(), pa.string()))
    for _ in range(0, count, ROWS):
        yield source.with_keys(ONE_IN).append_column("attributes", attributes)


def _consumed(setting: Setting, name: str, count: int) -> dict[str, Any]:
    where = FILTERS[name]
    with server.running(setting.folder) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
            publish(client, TOPIC, tables(count))
            client.create_subscription(TOPIC, SUBSCRIPTION, where=where or None)
        broker.restart()
        passing = count // ONE_IN if where else count
        found = work(
            "consume-rows" if name == "all_batches" else "consume-messages", broker, size=SIZE, count=passing, subscription=SUBSCRIPTION
        )
        return {**found, "messages_per_second": round(count / found["seconds"])}
