"""The plan of the queue, by the names that `--only` takes; `--only queue` is all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.queue import backoff, consuming, crowd, delivery, filtered, held, keys, scheduled, starting, tails
from benchmarks.turns import Setting

WORKS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "queue-consume": consuming.measure,
    "queue-delivery": delivery.measure,
    "queue-crowd": crowd.measure,
    "queue-memory": held.memory,
    "queue-expiry": held.expiry,
    "queue-tails": tails.measure,
    "queue-start": starting.measure,
    "queue-keys": keys.measure,
    "queue-day": scheduled.day,
    "queue-minute": scheduled.minute,
    "queue-backoff": backoff.measure,
    "queue-filter": filtered.measure,
}
NAMES = tuple(WORKS)
