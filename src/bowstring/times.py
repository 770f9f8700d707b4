"""Moments and spans: the forms that people may give, and the numbers that the code works with.

A **moment** is a point in time. People give an aware `datetime`; inside it is a whole number of
microseconds since 1970 in UTC. A **span** is a length of time. People give a `timedelta` or a
number of seconds; inside it is seconds as a float. As text (commands, settings, Spark) a moment is
`2026-11-15T09:00Z`, `-1h` and `+30m` from now, or the Unix time `@1794740400`; a span is `500ms 30s
10m 2h 7d`, and where things are kept also `forever`.

Nothing is guessed. These functions refuse a datetime without a zone, a date, text where Python has
better types, NaN, a span below zero, and a Unix time given as a delay, which would otherwise delay
a message by half a century. Every refusal names the argument, shows the value and says what to use.

Moments before 1970 count as 1970: no message is older, so every comparison has the same result.

Nothing here asks a clock: where "now" matters it is an argument, in microseconds.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from numbers import Real
from typing import Final

from bowstring.errors import InvalidArgument

MICROSECOND: Final = timedelta(microseconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
YEAR: Final = 365.25 * 86400
MOMENT_MAX: Final = (datetime(2200, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
DELAY_MAX: Final = 10 * YEAR
SPAN_MAX: Final = 200 * YEAR
"""Longer spans would end after 2200 whenever they begin."""
FOREVER: Final = SPAN_MAX
"""A topic with this retention keeps its messages for ever. In Python that is `timedelta.max`, as
text `forever`.
"""

# Numbers in these ranges are present-day Unix times, in seconds and in milliseconds: from 2001
# to 2096.
_UNIX_SECONDS: Final = (1e9, 4e9)
_UNIX_MILLISECONDS: Final = (1e12, 4e12)

_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN_TEXT: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(us|ms|s|m|h|d)?", re.ASCII)
_SPAN_RIGHT: Final = 'Use "7d", "12h", "30s", "500ms" or a number of seconds.'
_UNIX_TEXT: Final = re.compile(r"@?(\d{1,13}(?:\.\d{1,6})?)", re.ASCII)
_MOMENT_RIGHT: Final = 'Use "2026-11-15T09:00Z", "2026-11-15T10:00+01:00", "-1h" or "+30m".'


# ---- what Python gives -----------------------------------------------------------------------------------------------


def span(value: object, name: str) -> float:
    """A length of time in seconds, from a timedelta or a number of seconds."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, Real) and not isinstance(value, bool):
        seconds = _number(value)
    else:
        raise InvalidArgument(f"{_shown(name, value)} is {_what(value)}.", hint="Use a timedelta or a number of seconds.")
    if not math.isfinite(seconds):
        raise InvalidArgument(f"{_shown(name, value)} is not a length of time.", hint="Use a timedelta or a finite number of seconds.")
    if seconds < 0:
        raise InvalidArgument(f"{_shown(name, value)} is negative.", hint="A span is zero or longer.")
    if seconds > SPAN_MAX:
        raise InvalidArgument(f"{_shown(name, value)} is {years(seconds)}.", hint="The maximum is 200 years.")
    return seconds


def keeping(value: object, name: str) -> float:
    """How long something is kept, in seconds: a span, or `timedelta.max` for ever."""
    return FOREVER if value == timedelta.max else span(value, name)


def delay(value: object, name: str = "delay") -> float:
    """A span from now until a message is due, in seconds: at most ten years, so that a Unix time is
    not taken for one.
    """
    if isinstance(value, datetime):
        raise InvalidArgument(f"{_shown(name, value)} is a moment.", hint=f"Use at={_source(value)}, or a timedelta from now.")
    if hint := _unix(value, "at="):
        raise InvalidArgument(f"{_shown(name, value)} is {years(_number(value))}, which looks like a Unix time.", hint=hint)
    seconds = span(value, name)
    if seconds <= DELAY_MAX:
        return seconds
    raise InvalidArgument(f"{_shown(name, value)} is {years(seconds)}.", hint="A message may be put off by at most 10 years.")


def moment(value: object, name: str) -> int:
    """A point in time in microseconds, from an aware datetime of any zone, not after 2200."""
    if not isinstance(value, datetime):
        hint = _unix(value, f"{name}=") or "Use an aware datetime such as datetime(2026, 11, 15, 9, 0, tzinfo=UTC)."
        raise InvalidArgument(f"{_shown(name, value)} is {_what(value)}.", hint=hint)
    if value.utcoffset() is None:
        aware = _source(value).removesuffix(")") + ", tzinfo=UTC)"
        hint = f"Use {aware}, or delay= for a span from now." if name == "at" else f"Use {aware}."
        raise InvalidArgument(f"{_shown(name, value)} has no time zone.", hint=hint)
    result = (value - EPOCH) // MICROSECOND
    if result >= MOMENT_MAX:
        raise InvalidArgument(f"{_shown(name, value)} is after 2200.", hint="Use a moment before 2200.")
    return max(0, result)


def moment_or_span(value: object, name: str, now: int, *, future: bool = True) -> int:
    """A point in time from an aware datetime, or from a timedelta counted from now. `future=False`
    refuses the future.
    """
    if isinstance(value, timedelta):
        result = max(0, now + value // MICROSECOND)
        if result >= MOMENT_MAX:
            raise InvalidArgument(f"{_shown(name, value)} from now is after 2200.", hint="Use a moment before 2200.")
    elif isinstance(value, datetime):
        result = moment(value, name)
    else:
        hint = "Use an aware datetime, or a timedelta from now such as timedelta(hours=-1)."
        raise InvalidArgument(f"{_shown(name, value)} is {_what(value)}.", hint=hint)
    if not future and result > now:
        hint = (
            "For the past use a timedelta below zero: timedelta(hours=-1)." if isinstance(value, timedelta) else "Use a moment in the past."
        )
        raise InvalidArgument(f"{_shown(name, value)} is in the future.", hint=hint)
    return result


def span_until(value: object, name: str, now: int) -> float:
    """A span in seconds from a timedelta, a number of seconds, or an aware datetime: until then.
    One that has passed is 0.
    """
    if isinstance(value, datetime):
        return max(0, moment(value, name) - now) / 1e6
    return span(value, name)


def delivery(delay_given: object, at_given: object, now: int) -> int | None:
    """When a message is due, from the `delay` and the `at` of a call, at most one of them given.
    None: at once.
    """
    if delay_given is not None and at_given is not None:
        raise InvalidArgument("Both delay= and at= were given.", hint="Give delay= for a span from now, or at= for a moment.")
    if delay_given is not None:
        return now + microseconds(delay(delay_given))
    return None if at_given is None else moment(at_given, "at")


# ---- what text gives -------------------------------------------------------------------------------------------------


def span_from_text(text: str, name: str) -> float:
    """A length of time in seconds from `500ms 30s 10m 2h 7d`, or a plain number of seconds."""
    match = _SPAN_TEXT.fullmatch(text.strip())
    if not match:
        raise InvalidArgument(f'{name} = "{text}" is not a span of time.', hint=_SPAN_RIGHT)
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds > SPAN_MAX:
        raise InvalidArgument(f'{name} = "{text}" is {years(seconds)}.', hint="The maximum is 200 years.")
    return seconds


def keeping_from_text(text: str, name: str) -> float:
    """How long something is kept, in seconds: a span, or `forever`."""
    return FOREVER if text.strip() == "forever" else span_from_text(text, name)


def moment_from_text(text: str, name: str, now: int) -> int:
    """A point in time in microseconds from ISO text with a zone, or from a signed span counted from
    now.
    """
    stripped = text.strip()
    if stripped[:1] in ("-", "+"):
        if not _SPAN_TEXT.fullmatch(stripped[1:]):
            raise InvalidArgument(f'{name} = "{text}" is not a moment.', hint=_MOMENT_RIGHT)
        away = microseconds(span_from_text(stripped[1:], name))
        result = now - away if stripped[0] == "-" else now + away
    elif (unix := _UNIX_TEXT.fullmatch(stripped)) and (stripped[0] == "@" or is_unix(float(unix[1]))):
        result = from_unix(float(unix[1]))
    else:
        try:
            parsed = datetime.fromisoformat(stripped)
        except ValueError:
            raise InvalidArgument(f'{name} = "{text}" is not a moment.', hint=_MOMENT_RIGHT) from None
        if parsed.utcoffset() is None:
            raise InvalidArgument(f'{name} = "{text}" has no time zone.', hint=f'For UTC write "{parsed.isoformat(timespec="minutes")}Z".')
        result = (parsed - EPOCH) // MICROSECOND
    result = max(0, result)
    if result >= MOMENT_MAX:
        raise InvalidArgument(f'{name} = "{text}" is after 2200.', hint="Use a moment before 2200.")
    return result


def is_unix(number: float) -> bool:
    """Whether a number is a present-day Unix time, in seconds or in milliseconds."""
    return any(first <= number <= last for first, last in (_UNIX_SECONDS, _UNIX_MILLISECONDS))


def from_unix(number: float) -> int:
    """The moment of a Unix time in seconds, or in milliseconds if it would be thousands of years
    away otherwise.
    """
    return round(number * (1_000 if number >= _UNIX_MILLISECONDS[0] else 1_000_000))


# ---- between the forms -----------------------------------------------------------------------------------------------


def microseconds(seconds: float) -> int:
    """A span in microseconds, as it travels, from seconds."""
    return round(seconds * 1_000_000)


def to_datetime(moment_microseconds: int) -> datetime:
    """The aware UTC datetime of a moment, as users get it."""
    return EPOCH + timedelta(microseconds=moment_microseconds)


def to_text(moment_microseconds: int) -> str:
    """A moment as JSON and commands write it: 2026-11-15T09:30:00.000000Z."""
    return to_datetime(moment_microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_timedelta(seconds: float) -> timedelta:
    """A span as users get it: `timedelta.max` for ever."""
    return timedelta.max if seconds >= FOREVER else timedelta(seconds=seconds)


def span_to_text(seconds: float) -> str:
    """The shortest text of the form `7d` or `90s` that gives this span again, or `forever`."""
    if seconds >= FOREVER:
        return "forever"
    for unit, factor in reversed(_UNITS.items()):
        if seconds >= factor and seconds % factor == 0:
            return f"{int(seconds // factor)}{unit}"
    return f"{seconds:g}s"


# ---- how refusals show what was given --------------------------------------------------------------------------------


def _source(value: object) -> str:
    """The value as one would write it: repr, without the module name that datetime adds."""
    text = repr(value).removeprefix("datetime.").replace("tzinfo=datetime.timezone.utc", "tzinfo=UTC")
    return text if len(text) <= 80 else text[:77] + "..."


def _shown(name: str, value: object) -> str:
    return f"{name}={_source(value)}"


def _what(value: object) -> str:
    """The kind of a value that is not a time, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text, which is for commands and settings but not for Python"
    if isinstance(value, datetime):
        return "a moment, not a span"
    if isinstance(value, date):
        return "a date, which is a whole day somewhere"
    if isinstance(value, timedelta):
        return "a span, not a moment"
    return f"of type {type(value).__name__}"


def years(seconds: float) -> str:
    """A span that is too long, for a refusal."""
    years = int(seconds / YEAR)
    return "more than 10 years" if years == 10 else f"{years} years"  # the limit itself is no reason


def _number(value: object) -> float:
    """A number as a float: NaN for anything that is not a number, infinity for one that is too
    large.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _unix(value: object, argument: str) -> str:
    """The hint for a number that is a Unix time; empty if it is none."""
    number = _number(value)
    if not is_unix(number):
        return ""
    return f"Use {argument}datetime.fromtimestamp({_source(value)}{' / 1000' if number >= _UNIX_MILLISECONDS[0] else ''}, UTC)."
