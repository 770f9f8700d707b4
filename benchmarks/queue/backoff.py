"""A tenth of all messages fails the first time, in a subscription with a backoff: how fast everything is
acked in the end, beside the same work where nothing fails.

The clock runs until the last message is acked, so it has the wait of what failed last in it. That is
short here: a tenth of a second.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import bowstring
from benchmarks.clients import work
from benchmarks.queue.consuming import BATCH_TIMES, filled
from benchmarks.turns import Setting, take_turns
from benchmarks.worker import TOPIC

COUNT = 1_000_000
SIZE = 100
BACKOFF = (0.1, 2, 60)
SUBSCRIPTION = "bench"
WAYS = ("consume-messages", "consume-backoff", "consume-rows", "consume-backoff-rows")


def measure(setting: Setting) -> dict[str, Any]:
    """The runs, by the way to consume."""
    count = setting.amount(COUNT)
    return {"count": count, "rates": take_turns(setting.rounds, {way: partial(_consumed, setting, way, count) for way in WAYS})}


def _consumed(setting: Setting, way: str, count: int) -> dict[str, Any]:
    if way.endswith("rows"):
        count *= BATCH_TIMES
    with filled(setting, SIZE, count) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_subscription(TOPIC, SUBSCRIPTION, backoff=BACKOFF if "backoff" in way else None)
        return work(way, broker, size=SIZE, count=count, subscription=SUBSCRIPTION)
