"""The arguments of a consumer and of a subscription, checked in the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bowstring import errors, times
from bowstring.client import arguments, ranges, subscription_request
from bowstring.client.arguments import shown
from bowstring.client.ranges import Clocks, Moment
from bowstring.client.subscription_request import checked_lease
from bowstring.wire.generated import bowstring_pb2 as pb

KEY_SHARED: Final = "key_shared"
MODES: Final = ("shared", KEY_SHARED)
CREDIT_MAX: Final = 2**31 - 1


class ConsumerSettings(NamedTuple):
    """The checked arguments of a consumer."""

    topic: str
    subscription: str
    mode: str
    """Empty for the one that the subscription has."""
    name: str | None
    lease: int
    """In microseconds; 0 for the subscription's."""
    credit: int | None
    credit_bytes: int
    extend_max: float
    alive: Callable[[], Any] | None
    creation: pb.CreateSubscriptionRequest | None
    """How to make the subscription if there is none."""
    where: str
    """The filter; empty for the one that the subscription has."""

    @classmethod
    def checked(
        cls,
        topic: object,
        subscription: object,
        clocks: Clocks,
        *,
        mode: Any = None,
        start: Any = None,
        name: Any = None,
        lease: Any = None,
        credit: Any = None,
        credit_bytes: Any = 16 * 2**20,
        extend_max: Any = 3600,
        alive: Any = None,
        where: Any = None,
        create: Any = True,
    ) -> ConsumerSettings:
        """Refuses arguments that make no sense."""
        topic_name, subscription_name = arguments.topic_name(topic), checked_name(subscription, "subscription")
        if alive is not None and not callable(alive):
            raise errors.InvalidArgument(f"alive={shown(alive)} cannot be called.", hint="Use a function that returns a truth value.")
        creation = subscription_creation(topic_name, subscription_name, clocks, mode=mode, start=start, where=where)
        return cls(
            topic_name,
            subscription_name,
            "" if mode is None else checked_mode(mode),
            None if name is None else checked_name(name, "name"),
            0 if lease is None else checked_lease(lease, clocks.now),
            None if credit is None else _whole(credit, "credit"),
            _whole(credit_bytes, "credit_bytes"),
            times.span(extend_max, "extend_max"),
            alive,
            creation if create else None,
            creation.where,
        )


def subscription_creation(
    topic: str, name: str, clocks: Clocks, *, mode: Any = None, start: Any = None, exists_ok: bool = False, **given: Any
) -> pb.CreateSubscriptionRequest:
    """The request that makes a subscription. It does not send settings that are not given: the
    broker fills in its defaults.
    """
    request = pb.CreateSubscriptionRequest(topic=topic, name=name, exists_ok=exists_ok)
    if mode is not None:
        request.mode = checked_mode(mode)
    place = ranges.check(start, "start", clocks) if start is None or not isinstance(start, int | dict) else ...
    if isinstance(place, Moment):
        request.moment = place.microseconds
    elif place == "latest":
        request.latest = True
    elif place in (None, "beginning"):
        request.beginning = True
    else:
        hint = "Use 'beginning', 'latest', an aware datetime or a timedelta from now."
        raise errors.InvalidArgument(f"start={shown(start)} is not a start of a subscription.", hint=hint)
    subscription_request.fill(request, clocks.now, given)
    return request


def checked_mode(given: object) -> str:
    """The mode of a subscription."""
    if isinstance(given, str) and given in MODES:
        return given
    raise errors.InvalidArgument(f"mode={shown(given)} is not known.", hint="Use mode='shared' or mode='key_shared'.")


def checked_name(given: object, argument: str) -> str:
    """The name of a subscription or of a consumer."""
    if not isinstance(given, str) or not arguments.TOPIC_NAME.fullmatch(given):
        raise errors.InvalidArgument(
            f"{argument}={shown(given)} is not a name.",
            hint="A name has up to 249 letters (A to Z), digits, dots, dashes and underscores, and begins with a letter or a digit.",
        )
    return given


def _whole(given: object, name: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= CREDIT_MAX:
        hint = "Use a whole number above 0, or pause()." if given == 0 else "Use a whole number above 0."
        raise errors.InvalidArgument(f"{name}={shown(given)} is not valid.", hint=hint)
    return given
