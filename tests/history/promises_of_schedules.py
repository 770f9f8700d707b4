"""A message that was published for later does not come to a consumer before it is due."""

from __future__ import annotations

from tests.history.keeping import Keeping
from tests.history.lease_facts import QueueFacts
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases


def nothing_comes_before_it_is_due(queue: QueueFacts, kept: Keeping, clocks: LeaseClocks) -> Cases:
    """By any clock that the broker may have had when it pushed the row."""
    del clocks
    if kept.clocks is None:
        return
    for push, row in queue.rows:
        if row.due > (now := kept.clocks.latest(push.time)):
            early = (row.due - now) / 1e6
            yield f"{row.label} of {queue.topic} came to {queue.subscription} at {push.time:.3f} s, {early:.3f} s before it was due"


CHECKERS = (nothing_comes_before_it_is_due,)
