"""The settings of a subscription: what can be chosen when it is created."""

from __future__ import annotations

import msgspec


class SubscriptionSettings(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Fields are added at the end, with a default: they stand in the journal."""

    mode: str = "shared"
    lease: int = 30_000_000
    """How long a consumer holds a message, in microseconds, if it does not say."""
