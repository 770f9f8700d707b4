"""The settings of a subscription in the request that creates or alters it, checked in the call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.client.arguments import shown
from bowstring.messages import filters
from bowstring.wire.generated import bowstring_pb2 as pb

LEASE_MIN: Final = 1.0
LEASE_MAX: Final = 86_400.0
"""How long a lease may last, in seconds."""
DELIVERIES_MAX: Final = 1_000_000
UNSETTLED: Final = ("drop", "dead_letter", "keep")
BACKOFF_HINT: Final = "Use (seconds at first, factor, seconds at most), such as (1, 2, 300), or None."

Request = pb.CreateSubscriptionRequest | pb.AlterSubscriptionRequest


def fill(request: Request, now: int, given: dict[str, Any]) -> None:
    """Puts settings into a request. Those that are `...` are not given: the broker fills in a
    default, or leaves them as they are.
    """
    for name, value in given.items():
        if value is not ...:
            _FILL[name](request, value, now)


def checked_lease(given: object, now: int) -> int:
    """The span of a lease, or its end, as microseconds from now."""
    seconds = times.span_until(given, "lease", now)
    if not LEASE_MIN <= seconds <= LEASE_MAX:
        what = "shorter than a second" if seconds < LEASE_MIN else "longer than a day"
        raise errors.InvalidArgument(f"lease={shown(given)} is {what}.", hint="A lease lasts from 1 s to 24 h.")
    return times.microseconds(seconds)


def _lease(request: Request, given: Any, now: int) -> None:
    request.lease = checked_lease(given, now)


def _max_deliveries(request: Request, given: Any, now: int) -> None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= DELIVERIES_MAX):
        hint = f"Use a whole number from 1 to {DELIVERIES_MAX}, or None for never a dead letter."
        raise errors.InvalidArgument(f"max_deliveries={shown(given)} is not valid.", hint=hint)
    request.max_deliveries = given or 0


def _backoff(request: Request, given: Any, now: int) -> None:
    if given is None:
        if isinstance(request, pb.AlterSubscriptionRequest):
            request.backoff.SetInParent()
        return
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise errors.InvalidArgument(f"backoff={shown(given)} is not valid.", hint=BACKOFF_HINT)
    first, most = times.span(given[0], "backoff"), times.span(given[2], "backoff")
    factor = given[1]
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1_000:
        raise errors.InvalidArgument(f"the factor {shown(factor)} of backoff= is not valid.", hint="Use a number from 1 to 1000.")
    if not 0 < first <= most <= 7 * 86_400:
        raise errors.InvalidArgument(
            f"backoff={shown(given)} is not valid.",
            hint="The first wait is above 0 and not longer than the last, which is at most a week.",
        )
    request.backoff.first, request.backoff.factor, request.backoff.most = times.microseconds(first), float(factor), times.microseconds(most)


def _dead_letters(request: Request, given: Any, now: int) -> None:
    request.dead_letters = "" if given is None else arguments.topic_name(given)


def _unsettled(request: Request, given: Any, now: int) -> None:
    if given not in UNSETTLED:
        raise errors.InvalidArgument(f"unsettled={shown(given)} is not known.", hint="Use 'drop', 'dead_letter' or 'keep'.")
    request.unsettled = given


def _keep_max(request: Request, given: Any, now: int) -> None:
    if isinstance(given, datetime):
        raise errors.InvalidArgument("keep_max= is a span, not a moment.", hint="Use a timedelta or a number of seconds.")
    span = None if given is None else times.microseconds(times.span(given, "keep_max"))
    if span == 0:
        raise errors.InvalidArgument("keep_max=0 keeps nothing.", hint="Use a span above 0, or unsettled='drop'.")
    request.keep_max = span or 0


def checked_filter(given: object) -> str:
    """A filter that lasts: its moments do not count from now."""
    if not isinstance(given, str):
        raise errors.InvalidArgument(f"where={shown(given)} is of type {type(given).__name__}.", hint="Use text: \"key = 'a'\".")
    filters.parse(given, None)
    return given


def _where(request: Request, given: Any, now: int) -> None:
    if given is not None and isinstance(request, pb.CreateSubscriptionRequest):
        request.where = checked_filter(given)


_FILL: Final[dict[str, Callable[[Request, Any, int], None]]] = {
    "lease": _lease,
    "max_deliveries": _max_deliveries,
    "backoff": _backoff,
    "dead_letters": _dead_letters,
    "unsettled": _unsettled,
    "keep_max": _keep_max,
    "where": _where,
}
