"""Checks the arguments of `send` in the call itself.

Rows of many calls travel together, so a row that the broker would refuse must not get in among
them. This module runs every check of a batch on the single message, and its errors name the
argument and say what to use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from bowstring import errors, times
from bowstring.messages import limits

TIMEOUT_MAX: Final = 86_400.0
TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}")

Span = timedelta | float
SpanOrMoment = timedelta | datetime | float


def topic_name(name: object) -> str:
    """A topic's name, of the form that brokers take."""
    if not isinstance(name, str):
        raise errors.InvalidArgument(f"the topic name {name!r} is of type {type(name).__name__}.", hint="A topic's name is text.")
    if name.startswith("~"):
        raise errors.NotSupported(
            f"{name!r} is a topic of a user's own, for which one has to log in, and this version has no login.",
            hint="Use a name without '~/'.",
        )
    if not TOPIC_NAME.fullmatch(name):
        shown = name if len(name) <= 80 else name[:77] + "..."
        raise errors.InvalidArgument(
            f"{shown!r} is not a topic name.",
            hint="A name has up to 249 letters (A to Z), digits, dots, dashes and underscores, and begins with a letter or a digit.",
        )
    return name


def pattern(given: object) -> str:
    """A glob over names of topics."""
    if not isinstance(given, str) or not given:
        what = "is empty" if given == "" else f"is of type {type(given).__name__}"
        raise errors.InvalidArgument(f"pattern={shown(given)} {what}.", hint="Use a glob such as 'orders.*', or None for all topics.")
    return given


def partition(given: object) -> int:
    """The number of a partition. The topic need not have it."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise errors.InvalidArgument(f"partition={shown(given)} is not a partition.", hint="Use a whole number; they count from 0.")
    return given


def no_partition(topic: str, number: int, partitions: int) -> errors.InvalidArgument:
    """The error for a partition that the topic does not have."""
    return errors.InvalidArgument(f"'{topic}' has no partition {number}.", hint=f"It has {partitions}, counted from 0.")


def client_name(given: object) -> str | None:
    """The name by which people recognise a client."""
    if given is not None and (not isinstance(given, str) or len(utf8(given, "name")) > limits.NAME_BYTES_MAX):
        raise errors.InvalidArgument(f"name={shown(given)} is not a name.", hint=f"Use text of at most {limits.NAME_BYTES_MAX} bytes.")
    return given


def callback(given: Any, name: str) -> Callable[[float], object] | None:
    """A function to call, or none."""
    if given is not None and not callable(given):
        raise errors.InvalidArgument(f"{name}={shown(given)} cannot be called.", hint="Use a function of the seconds.")
    return given


def no_login(environment: Mapping[str, str], **given: object) -> None:
    """Refuses arguments that only a login needs: a program that believes itself protected must
    learn that brokers serve everyone.
    """
    found = [f"{name}=" for name, value in given.items() if value is not None]
    if environment.get("BOWSTRING_TOKEN"):
        found.append("BOWSTRING_TOKEN")
    if found:
        raise errors.NotSupported(
            f"{found[0]} is for a login, and this version has none: every broker serves everyone who reaches it.",
            hint=f"Omit {found[0]}, and restrict who reaches the broker.",
        )


def value(given: object, json: object) -> bytes | None:
    """The payload of a message."""
    if json is not None:
        if given is not None:
            raise errors.InvalidArgument(
                "Both a value and json= were given.", hint="Give the value as bytes or text, or json= to have it written."
            )
        return _json(json)
    return None if given is None else binary(given, "value")


def binary(given: object, name: str) -> bytes:
    """Bytes, or text as UTF-8. Copies values that could change afterwards."""
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return utf8(given, name)
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = "Use bytes or text, or json= to have it written." if name == "value" else "Use bytes or text."
    raise errors.InvalidArgument(f"{name}={shown(given)} is of type {type(given).__name__}.", hint=hint)


def attributes(given: object) -> dict[str, str] | None:
    """A copy of the attributes. None and an empty dict are the same."""
    if given is None:
        return None
    if type(given) is not dict and not isinstance(given, Mapping):
        raise errors.InvalidArgument(f"attributes={shown(given)} is of type {type(given).__name__}.", hint="Use a dict: {'country': 'CH'}.")
    checked: dict[Any, Any] = dict(given)
    for name, text in checked.items():
        # Nearly all of them are plain ASCII, which needs no further check.
        if type(name) is type(text) is str and name.isascii() and text.isascii() and not name.startswith(limits.RESERVED_PREFIX):
            continue
        if not isinstance(name, str) or not isinstance(text, str):
            wrong = text if isinstance(name, str) else name
            raise errors.InvalidArgument(
                f"attributes has {shown(name)}: {shown(text)}, and {shown(wrong)} is of type {type(wrong).__name__}.",
                hint="The names and values of attributes are text: {'country': 'CH'}.",
            )
        utf8(name, "attributes")
        utf8(text, "attributes")
        if name.startswith(limits.RESERVED_PREFIX):
            hint = f"Names that begin with {limits.RESERVED_PREFIX!r} are written by the broker; choose another."
            raise errors.InvalidArgument(f"attributes has {name!r}.", hint=hint)
    return checked or None


def message_id(given: object) -> str:
    """A natural id, or a generated one that the program passes back."""
    if not isinstance(given, str):
        raise errors.InvalidArgument(f"id={shown(given)} is of type {type(given).__name__}.", hint="An id is text.")
    size = len(utf8(given, "id", "An id is text of whole characters."))
    if not 0 < size <= limits.ID_BYTES_MAX:
        what = f"has {size} bytes" if size else "is empty"
        raise errors.InvalidArgument(f"id={shown(given)} {what}.", hint=f"An id has 1 to {limits.ID_BYTES_MAX} bytes as UTF-8.")
    return given


def message_ids(given: Any) -> list[str]:
    """Ids, of which there is at least one: a list, or any other column of text."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        wanted = f"[{shown(given)}]" if isinstance(given, str) and given else "['order-7']"
        raise errors.InvalidArgument(f"ids={shown(given)} is of type {type(given).__name__}.", hint=f"Use a list of ids: {wanted}.")
    texts: Any = getattr(given, "to_pylist", lambda: given)()  # Arrow's own items are no text yet
    checked = [message_id(text) for text in texts]
    if not checked:
        raise errors.InvalidArgument("ids is empty.", hint="Give at least one id.")
    return checked


def group(given: object) -> str:
    """The name of a producer group."""
    if not isinstance(given, str) or not given or len(utf8(given, "group")) > limits.NAME_BYTES_MAX:
        raise errors.InvalidArgument(
            f"group={shown(given)} is not the name of a group.", hint=f"Use text of 1 to {limits.NAME_BYTES_MAX} bytes."
        )
    return given


def compression(given: object) -> str | None:
    """How batches are compressed."""
    if given is None or given in ("lz4", "zstd"):
        return given  # pyright: ignore[reportReturnType]
    raise errors.InvalidArgument(f"compression={given!r} is not known.", hint="Use None, 'lz4' or 'zstd'.")


def expiry(given: object, now: int) -> int | None:
    """The moment after which a message is not delivered, from a moment or a span from now."""
    if given is None:
        return None
    return now + times.microseconds(times.span_until(given, "expires", now))


def timeout(given: object, now: int) -> float:
    """Until when a publish may be committed, as seconds from now."""
    seconds = times.span_until(given, "timeout", now)
    if not 0 < seconds <= TIMEOUT_MAX:
        what = "leaves no time" if seconds <= 0 else "is longer than a day"
        raise errors.InvalidArgument(f"timeout={shown(given)} {what}.", hint="Use a span above 0 s and up to a day.")
    return max(seconds, 1e-3)


def too_large(what: str, size: int, limit: int) -> errors.TooLarge:
    """The error for more bytes than a batch may have."""
    return errors.TooLarge(
        f"the {what} has {in_mebibytes(size, limit)}, a batch may have {in_mebibytes(limit)} here (batch.bytes-max).",
        hint="Split it, or create the topic with payload='reference'.",
    )


def in_mebibytes(size: int, above: int = 0) -> str:
    """A size for people; never shown as small as the limit that it is above."""
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if size >= unit:
            text = f"{size / unit:.1f}".removesuffix(".0")
            return f"{size} bytes" if above and in_mebibytes(above) == f"{text} {name}" else f"{text} {name}"
    return f"{size} bytes"


def _json(given: object) -> bytes:
    import msgspec  # takes long to load, and few need it

    try:
        return msgspec.json.encode(given)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise errors.InvalidArgument(
            f"json={shown(given)} cannot be written as JSON: {error}.", hint="Use dict, list, text, numbers."
        ) from error


def utf8(text: str, name: str, hint: str = "Give it as bytes.") -> bytes:
    """Text as bytes. Refuses what has none, such as half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgument(f"{name}={shown(text)} cannot be written as UTF-8: {error.reason}.", hint=hint) from None


def shown(given: object) -> str:
    """The value for an error message: as in a program, shortened."""
    text = repr(given).removeprefix("datetime.").replace("tzinfo=datetime.timezone.utc", "tzinfo=UTC")
    return text if len(text) <= 60 else text[:57] + "..."
