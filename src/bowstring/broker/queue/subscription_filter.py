"""The filter of a subscription, which lasts as long as the subscription does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.messages import filters

if TYPE_CHECKING:
    from bowstring.broker.queue.subscription import LiveSubscription


def checked_filter(where: str) -> str:
    """Raises InvalidArgument for one that is wrong, or whose moments count from now: it would let
    other messages pass each time that the broker is started.
    """
    if where:
        filters.parse(where, None)
    return where


def check_filter(subscription: LiveSubscription, where: str) -> None:
    """Raises Conflict if another filter is asked for than it has. Filters are the same if they are
    read the same.
    """
    has = subscription.settings.where
    if not where or (has and filters.parse(where, None) == filters.parse(has, None)):
        return
    raise errors.Conflict(
        f"the subscription '{subscription.name}' has {f'the filter {has!r}' if has else 'no filter'}.",
        hint="Omit where=, or use another subscription: a filter stays as it was created.",
        details={"where": has},
    )
