"""What consumers do in one seed: drawn with dice of its own, so that the rest of a seed stays what it
was. Half of the seeds have consumers.
"""

from __future__ import annotations

import random
from typing import Any

from tests.history.filtering import FILTERS

BEFORE_QUEUES = frozenset(
    {4, 6, 14, 504, 17, 2045, 201, 452, 3303, 93, 12, 13, 8, 34, 510, 10064, 10160, 10424, 20000, 40091, 40199, 40106, 40447}
    | {51, 60034, 91147, 91030, 93119, 100216}
)
"""Seeds that found something before there were queues: they stay as they were."""
BEFORE_LATER = frozenset({2, 37, 43, 52, 75, 96, 300003})
"""Seeds that found something before rows were nacked with a time, moved and cancelled."""
BEFORE_UNSETTLED = BEFORE_LATER | {66, 7105, 300052, 300098, 1045}
"""Seeds that found something before retention had more than one fate for unsettled rows."""
BEFORE_POISON = BEFORE_LATER | {66, 7105, 300052, 300098, 400331, 500079, 500113, 500197, 500227, 500282}
"""Seeds that found something before messages let consumers crash."""

BEFORE_REDRIVES = BEFORE_POISON | (
    {600028, 600146, 600253, 600258, 400053, 700209, 700286, 84, 800168, 800332, 800783, 900118, 900233, 900250, 900779, 900957}
    | {202, 1000077, 1000083, 800531, 1000141, 800341, 1200093, 1045}
)
"""Seeds that found something before dead letters were sent back."""


def drawn_queue(seed: int) -> dict[str, Any]:
    """What to change in a `Load`; nothing in a seed without consumers."""
    source = random.Random(f"{seed}/queue")
    if seed in BEFORE_QUEUES or source.random() < 0.5:
        return {}
    looking = random.Random(f"{seed}/looking")
    return {
        **({} if seed in BEFORE_LATER else _drawn_later(seed)),
        **({} if seed in BEFORE_UNSETTLED else _drawn_fate(seed)),
        **({} if seed in BEFORE_POISON else _drawn_poison(seed)),
        "ordered": random.Random(f"{seed}/ordered").choice((0, 0, 1, 1, 2)),
        "chosen": looking.choice((0, 0, *range(1, len(FILTERS) + 1))),
        "seek_every": looking.choice((0.0, 0.0, 1.0, 4.0)),
        "consumers": source.randint(1, 4),
        "subscriptions": source.choice((1, 1, 2)),
        "lease_seconds": source.choice((1.0, 2.0, 5.0)),
        "own_leases": source.choice((0.0, 0.3)),
        "credit_max": source.choice((1, 5, 30, 200)),
        "consume_seconds": source.choice((1.0, 3.0, 8.0)),
        "work_seconds": source.choice((0.0, 0.02, 0.2)),
        "nacks": source.choice((0.0, 0.1, 0.5)),
        "rejects": source.choice((0.0, 0.05)),
        "holds": source.choice((0.0, 0.1, 0.5)),
        "extends": source.choice((0.0, 0.2)),
        "late_extends": source.choice((0.0, 0.3)),
        "masks": source.choice((0.0, 0.5, 1.0)),
        "pauses": source.choice((0.0, 0.1)),
        "abandons": source.choice((0.0, 0.3, 0.8)),
        "named_consumers": source.choice((0.0, 0.5, 1.0)),
        "collisions": source.choice((0.0, 0.0, 0.3)),
        "plain_consumers": source.choice((0.0, 0.3, 1.0)),
        "delete_held": source.choice((0.0, 0.0, 0.1)),
        "amend_every": source.choice((0.0, 3.0)),
        "fleeting_seconds": source.choice((0.0, 0.0, 1.0, 4.0)),
        "take_away_every": source.choice((0.0, 0.0, 2.0)),
        **({} if seed in BEFORE_REDRIVES else _drawn_redrives(seed)),
    }


def _drawn_redrives(seed: int) -> dict[str, Any]:
    """How often dead letters are sent back, and what makes them; and how often consumers peek."""
    source = random.Random(f"{seed}/redrives")
    every = source.choice((0.0, 0.2, 0.7, 2.0))
    looking = random.Random(f"{seed}/peeks")
    looks = {"peeks": looking.choice((0.0, 0.1, 0.4)), "ids_leased": looking.choice((0.0, 0.5, 1.0))}
    return looks | ({"redrive_every": every, "rejects": source.choice((0.05, 0.2, 0.5))} if every else {})


def _drawn_later(seed: int) -> dict[str, Any]:
    """What consumers and owners put off."""
    source = random.Random(f"{seed}/later")
    return {
        "timed_nacks": source.choice((0.0, 0.3, 0.8)),
        "backoff_seconds": source.choice((0.0, 0.0, 0.1, 0.5)),
        "cancels": source.choice((0.0, 0.1, 0.3)),
        "moves": source.choice((0.0, 0.1, 0.5)),
    }


def _drawn_fate(seed: int) -> dict[str, Any]:
    """What retention does to unsettled rows."""
    source = random.Random(f"{seed}/unsettled")
    return {"unsettled": source.choice((0, 1, 2)), "keep_seconds": source.choice((0.0, 0.0, 2.0, 5.0))}


def _drawn_poison(seed: int) -> dict[str, Any]:
    """What lets consumers crash, and how often it is tried."""
    source = random.Random(f"{seed}/poison")
    return {"poison": source.choice((0.0, 0.0, 0.003, 0.03)), "deliveries": source.choice((0, 0, 2, 4))}
