"""The settings of a subscription for messages that fail or grow too old: flags, and how they are
shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bowstring import errors, times
from bowstring.cli.connecting import span

if TYPE_CHECKING:
    from bowstring.client.subscriptions import Subscription

MaxDeliveries = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="After so many a message is a dead letter: 10, never. [default: 10]", show_default=False),
]
BackoffSpans = Annotated[
    str | None, typer.Option("--backoff", metavar="SPANS", help="How long what failed waits: 1s,2,5m; none.", show_default=False)
]
DeadLetters = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="Where dead letters go. [default: TOPIC.SUBSCRIPTION.dead-letters]", show_default=False)
]
Unsettled = Annotated[
    str | None, typer.Option(metavar="WHAT", help="What retention does: drop, dead_letter, keep. [default: drop]", show_default=False)
]
KeepMax = Annotated[str | None, typer.Option(metavar="SPAN", help="How long --unsettled keep keeps: 7d; none.", show_default=False)]


def given(
    max_deliveries: str | None, backoff: str | None, dead_letters: str | None, unsettled: str | None, keep_max: str | None
) -> dict[str, Any]:
    """The given settings for messages that fail or grow too old, as the kit takes them."""
    found: dict[str, Any] = {}
    if max_deliveries is not None:
        found["max_deliveries"] = _deliveries(max_deliveries)
    if backoff is not None:
        found["backoff"] = _backoff(backoff)
    if dead_letters is not None:
        found["dead_letters"] = dead_letters
    if unsettled is not None:
        found["unsettled"] = unsettled.replace("-", "_")
    if keep_max is not None:
        found["keep_max"] = None if keep_max == "none" else span(keep_max, "--keep-max")
    return found


def _deliveries(text: str) -> int | None:
    if text == "never":
        return None
    if not text.isdecimal() or not int(text):
        raise errors.InvalidArgument(f'--max-deliveries = "{text}" is not a number.', hint='Use a number above 0, or "never".')
    return int(text)


def _backoff(text: str) -> tuple[float, float, float] | None:
    if text == "none":
        return None
    try:
        first, factor, most = text.split(",")
        return span(first.strip(), "--backoff"), float(factor), span(most.strip(), "--backoff")
    except ValueError as error:
        if isinstance(error, errors.Error):
            raise
        hint = 'Use the first wait, a factor and the longest wait, "1s,2,5m", or "none".'
        raise errors.InvalidArgument(f'--backoff = "{text}" is not valid.', hint=hint) from None


def told(each: Subscription) -> str:
    """What becomes of messages that fail or grow too old, in a line."""
    most = "no dead letters" if each.max_deliveries is None else f"a dead letter after {each.max_deliveries:,} deliveries"
    backoff = ""
    if each.backoff is not None:
        first, factor, longest = each.backoff
        backoff = f", backoff {times.span_to_text(first)} × {factor:g} up to {times.span_to_text(longest)}"
    kept = "" if each.keep_max is None else f" for {times.span_to_text(each.keep_max.total_seconds())}"
    return f"{most}{backoff}, unsettled: {each.unsettled}{kept}"
