"""Places in a topic, as people type them: `beginning`, `latest`, `5001`, `0:17,1:4`, `-100`, `-1h`,
`2026-11-15 09:00Z`, `@1794740400`.

Numbers may have commas, because tables print them with commas. A bare number such as 1794740400 can
be an offset and can be a Unix time. It is an offset as long as the topic has one that high
(`settled`); `@1794740400` is always the time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from bowstring import errors, times
from bowstring.cli.arguments import NUMBER, number
from bowstring.cli.connecting import moment

if TYPE_CHECKING:
    from bowstring.client.sync import Client

NAMES: Final = ("beginning", "latest")
MEANT: Final = {
    **dict.fromkeys(("earliest", "oldest", "first", "start", "begin", "smallest", "all"), "beginning"),
    **dict.fromkeys(("end", "newest", "largest", "now", "tail"), "latest"),
    **dict.fromkeys(("last",), "-1"),
}
"""Names of places in other systems, and their names here."""
RIGHT: Final = 'Use "beginning", "latest", an offset, "0:17,1:4", "-100" or "2026-11-15T09:00Z".'
_PAIRS: Final = re.compile(r"\d+:\d+(?:,(?:\d+:\d+|\d{3}))*", re.ASCII)
_TIME_OF_DAY: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(:[0-5]\d(?:\.\d+)?)?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class OffsetOrTime(int):
    """A number in the range of present-day Unix times. It is a time unless the topic has such an
    offset.
    """


def place(text: str | None, name: str) -> Any:
    """A start or an end, as the kit takes it, or an `OffsetOrTime` that `settled` still has to
    decide.
    """
    if text is None or text in NAMES:
        return text
    if text in MEANT:
        raise errors.InvalidArgument(f'{name} = "{text}" is not a place here.', hint=f"Use {MEANT[text]}.")
    if NUMBER.fullmatch(text.removeprefix("-")):
        found = number(text)
        return OffsetOrTime(found) if times.is_unix(found) else found
    if _PAIRS.fullmatch(text):
        return _offsets(text, name)
    if _TIME_OF_DAY.fullmatch(text):
        raise errors.InvalidArgument(f'{name} = "{text}" is not a place in a topic.', hint=_of_today(text))
    if text[:1] == "-" and text[1:2].isdigit():
        return timedelta(seconds=-times.span_from_text(text[1:], name))
    return _moment(text, name)


def _moment(text: str, name: str) -> Any:
    try:
        return times.to_datetime(moment(text, name))
    except errors.InvalidArgument as error:
        if "not a moment" not in error.message:
            raise
        hint = 'For offsets by partition write "0:17,1:4".' if ":" in text and not _DATE.match(text) else RIGHT
        raise errors.InvalidArgument(f'{name} = "{text}" is not a place in a topic.', hint=hint) from None


def _offsets(text: str, name: str) -> dict[int, int]:
    """Offsets by partition. A group of three digits without a partition belongs to the offset
    before it: `0:5,001,1:4`.
    """
    found = {int(partition): int(offset.replace(",", "")) for partition, offset in re.findall(r"(\d+):(\d+(?:,\d{3}(?![\d:]))*)", text)}
    if 0 in found.values() and _TIME_OF_DAY.fullmatch(text):
        raise errors.InvalidArgument(
            f'{name} = "{text}" would be offset 0 of partition {next(iter(found))}, and offsets begin at 1.', hint=_of_today(text)
        )
    return found


def _of_today(time_of_day: str) -> str:
    today = times.to_text(time.time_ns() // 1000)[:10]
    return f'For that time of today write "{today}T{time_of_day:0>5}Z", or with your zone "+01:00" in the place of "Z".'


def settled(client: Client, topics: Sequence[str], wanted: Any) -> Any:
    """Decides whether an `OffsetOrTime` is an offset or a time, by the offsets that these topics
    have.
    """
    if not isinstance(wanted, OffsetOrTime):
        return wanted
    if any(wanted <= end for topic in topics for end in client.offsets(topic, "latest").values()):
        return int(wanted)
    return times.to_datetime(times.from_unix(wanted))


@contextmanager
def told_as_given(**given: str | None) -> Generator[None]:
    """Makes errors of the kit about a place name the text that the user typed: `--start = "+1h" is
    in the future.`
    """
    try:
        yield
    except errors.InvalidArgument as error:
        for text in given.values():
            if "has no partition" in error.message and text and _TIME_OF_DAY.fullmatch(text):
                raise errors.InvalidArgument(error.message, hint=f"{error.hint} {_of_today(text)}") from None
        match = re.match(r"(\w+)=(?:datetime|timedelta)?\(.*?\)(?= )", error.message)
        if match is None or given.get(match[1]) is None:
            raise
        said = error.message[match.end() :]
        raise errors.InvalidArgument(f'--{match[1]} = "{given[match[1]]}"{said}', hint=error.hint) from None


def reachable(client: Client, topic: str, end: Any) -> Any:
    """Lowers an end offset to the end of each partition, so that the reader does not wait for
    messages that are not published yet.
    """
    if not isinstance(end, dict) and not (isinstance(end, int) and end > 0):
        return end
    ends = client.offsets(topic, "latest")
    wanted = end if isinstance(end, dict) else dict.fromkeys(ends, end)
    return {number: min(wanted.get(number, there), there) for number, there in ends.items()}
