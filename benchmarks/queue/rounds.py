"""The plan of the queue, by the names that `--only` takes; `--only queue` is all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.queue import consuming, crowd, delivery, held, starting, tails
from benchmarks.turns import Setting

WORKS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "queue-consume": consuming.measure,
    "queue-delivery": delivery.measure,
    "queue-crowd": crowd.measure,
    "queue-memory": held.memory,
    "queue-expiry": held.expiry,
    "queue-tails": tails.measure,
    "queue-start": starting.measure,
}
NAMES = tuple(WORKS)
