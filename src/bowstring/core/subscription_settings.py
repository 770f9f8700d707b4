"""The settings of a subscription: what can be chosen when it is created."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

MAX_DELIVERIES = 10
KEY_SHARED = "key_shared"
"""The mode in which messages of one key go to one consumer, in order."""
DROP = "drop"
DEAD_LETTER = "dead_letter"
KEEP = "keep"
"""What becomes of messages that retention reaches before they are settled."""


class Backoff(NamedTuple):
    """How long a message waits that failed, in microseconds."""

    first: int
    """After the first failure."""
    factor: float
    """By what the wait grows with each further one."""
    most: int


class SubscriptionSettings(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Fields are added at the end, with a default: they stand in the journal."""

    mode: str = "shared"
    lease: int = 30_000_000
    """How long a consumer holds a message, in microseconds, if it does not say."""
    max_deliveries: int = MAX_DELIVERIES
    """After so many a message is a dead letter; 0 for never."""
    backoff: Backoff | None = None
    dead_letters: str = ""
    """The topic for dead letters; empty for the one that is named after the subscription."""
    unsettled: str = DROP
    """What becomes of messages that retention reaches before they are settled (`overtaking`)."""
    keep_max: int = 0
    """How long `KEEP` keeps them from there on, in microseconds; 0 for until they are settled."""
    where: str = ""
    """The filter that its messages pass; empty for all messages."""
