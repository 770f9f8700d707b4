"""The settings of a subscription as a caller gives them, checked: those that are not given have a
default when it is created, and stay when it is altered.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bowstring import errors
from bowstring.broker.queue.subscription_filter import checked_filter
from bowstring.broker.topics import NAME
from bowstring.core.subscription_settings import DEAD_LETTER, DROP, KEEP, KEY_SHARED, MAX_DELIVERIES, Backoff, SubscriptionSettings

LEASE_DEFAULT: Final = 30_000_000
LEASE_MIN: Final = 1_000_000
LEASE_MAX: Final = 24 * 3_600_000_000
"""Leases last 1 s to 24 h, in microseconds."""
DELIVERIES_MAX: Final = 1_000_000
BACKOFF_MAX: Final = 7 * 24 * 3_600_000_000
FACTOR_MAX: Final = 1_000.0
SPAN_MAX: Final = 10 * 366 * 24 * 3_600_000_000
MODES: Final = ("shared", KEY_SHARED)
UNSETTLED: Final = (DROP, DEAD_LETTER, KEEP)
NO_BACKOFF: Final = Backoff(0, 0.0, 0)
"""Ends the one that a subscription has."""


class GivenSettings(NamedTuple):
    """What a caller has given; None is not given."""

    mode: str | None = None
    lease: int | None = None
    """Microseconds."""
    max_deliveries: int | None = None
    """0 for never a dead letter."""
    backoff: Backoff | None = None
    dead_letters: str | None = None
    unsettled: str | None = None
    keep_max: int | None = None
    where: str | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing is given."""
        return all(value is None for value in self)


def settings_of(given: GivenSettings, before: SubscriptionSettings | None = None) -> SubscriptionSettings:
    """The settings of a new subscription, or those of one that is altered. Raises
    InvalidArgument.
    """
    base = SubscriptionSettings(MODES[0], LEASE_DEFAULT, MAX_DELIVERIES) if before is None else before
    unsettled = base.unsettled if given.unsettled is None else _check_unsettled(given.unsettled)
    return SubscriptionSettings(
        mode=base.mode if given.mode is None else mode_of(given.mode),
        lease=base.lease if given.lease is None else check_lease(given.lease),
        max_deliveries=base.max_deliveries if given.max_deliveries is None else _check_deliveries(given.max_deliveries),
        backoff=base.backoff if given.backoff is None else _check_backoff(given.backoff),
        dead_letters=base.dead_letters if given.dead_letters is None else _check_topic(given.dead_letters),
        unsettled=unsettled,
        keep_max=_keep_max_of(given.keep_max, base.keep_max, unsettled),
        where=base.where if given.where is None else checked_filter(given.where),
    )


def mode_of(mode: str) -> str:
    """Raises InvalidArgument for an unknown one."""
    if (mode or MODES[0]) not in MODES:
        raise errors.InvalidArgument(f"mode={mode!r} is not known.", hint=f"Use {' or '.join(map(repr, MODES))}.")
    return mode or MODES[0]


def check_lease(lease: int) -> int:
    """Raises InvalidArgument for a span that is too short or too long."""
    if not LEASE_MIN <= lease <= LEASE_MAX:
        raise errors.InvalidArgument(f"a lease of {lease / 1e6:g} s is out of range.", hint="Leases last 1 s to 24 h.")
    return lease


def _check_deliveries(most: int) -> int:
    if most > DELIVERIES_MAX:
        raise errors.InvalidArgument(
            f"max_deliveries={most} is too many.", hint=f"Use at most {DELIVERIES_MAX}, or None for never a dead letter."
        )
    return most


def _check_backoff(backoff: Backoff) -> Backoff | None:
    if backoff == NO_BACKOFF:
        return None
    first, factor, most = backoff
    if not (0 < first <= most <= BACKOFF_MAX and 1.0 <= factor <= FACTOR_MAX):
        raise errors.InvalidArgument(
            f"backoff=({first / 1e6:g}, {factor:g}, {most / 1e6:g}) is not valid.",
            hint="Use (seconds at first, factor, seconds at most): the first above 0 and not above the last, which is at most a week; "
            f"a factor of 1 to {FACTOR_MAX:g}.",
        )
    return backoff


def _check_topic(name: str) -> str:
    if name and not NAME.fullmatch(name):
        raise errors.InvalidArgument(f"dead_letters={name!r} is not the name of a topic.", hint="Omit it for the default.")
    return name


def _check_unsettled(what: str) -> str:
    if (what or UNSETTLED[0]) not in UNSETTLED:
        raise errors.InvalidArgument(f"unsettled={what!r} is not known.", hint="Use 'drop', 'dead_letter' or 'keep'.")
    return what or UNSETTLED[0]


def _keep_max_of(span: int | None, before: int, unsettled: str) -> int:
    if unsettled != KEEP:
        if span:
            raise errors.InvalidArgument(f"keep_max goes with unsettled='keep', not with {unsettled!r}.", hint="Omit keep_max.")
        return 0
    if span is None:
        return before
    if span > SPAN_MAX:
        raise errors.InvalidArgument(f"keep_max is {span / 86_400e6:.0f} days.", hint="Use at most 10 years, or None.")
    return span
