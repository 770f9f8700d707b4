"""The options of a read, checked.

Each has the name and the meaning that it has in Spark's Kafka source, or is ours. Spark passes
options as text with names in lower case. This module refuses unknown, contradictory and malformed
options on the driver, before anything runs. `places` checks what depends on topics, which may not
exist yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from bowstring import times
from bowstring.errors import InvalidArgument, NotSupported

NAMES: Final = {
    name.lower(): name
    for name in (
        "server token context subscribe subscribePattern assign startingOffsets endingOffsets startingTimestamp endingTimestamp "
        "startingOffsetsByTimestamp endingOffsetsByTimestamp startingOffsetsByTimestampStrategy maxOffsetsPerTrigger minOffsetsPerTrigger "
        "maxTriggerDelay maxBytesPerTrigger minPartitions maxRecordsPerPartition failOnDataLoss includeHeaders columns includeMetadata "
        "payload onBadPayload name timeout"
    ).split()
}
LATER: Final = {"subscription": "subscription", "mode": "mode", "lease": "lease", "topic": "topic", "writername": "writerName"}
BATCH_ONLY: Final = "endingOffsets endingTimestamp endingOffsetsByTimestamp".split()
STREAM_ONLY: Final = "maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay maxBytesPerTrigger name".split()
PAYLOADS: Final = ("bytes", "text", "json", "arrow")
POLICIES: Final = ("fail", "null", "skip")
SELECTORS: Final = "columns includeHeaders includeMetadata".split()
TIMEOUT: Final = "2m"
KAFKA: Final = {
    "groupidprefix": "There are no consumer groups: Spark keeps its offsets itself. To see a stream's progress at the broker, use 'name'.",
    "fetchoffset.numretries": "To say how long a broker may be away, use 'timeout'.",
    "fetchoffset.retryintervalms": "To say how long a broker may be away, use 'timeout'.",
    "kafkaconsumer.polltimeoutms": "To say how long a broker may be away, use 'timeout'.",
}
"""Options of Spark's Kafka source that have no namesake here."""
EARLIEST: Final = -2
LATEST: Final = -1
IDS: Final = "_ids"
"""The key of the topics' numbers in a stream's offsets; no topic can have this name."""

Kind = Literal["earliest", "latest", "offsets", "moment", "moments"]


class Place(NamedTuple):
    """The place to read from or to, as the options give it."""

    kind: Kind
    option: str
    """Who says so."""
    offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})
    """By topic and partition: offsets, or moments in microseconds."""
    moment: int = 0
    asked: int = 0
    """The time of the request, for moments in the future."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one read."""

    server: str | None
    token: str | None
    context: str | None
    topics: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, tuple[int, ...]]
    start: Place | None
    end: Place | None
    strategy: str
    offsets_max: int | None
    offsets_min: int | None
    delay_seconds_max: float
    bytes_max: int | None
    tasks_min: int | None
    task_rows_max: int | None
    fail_on_data_loss: bool
    headers: bool
    columns: tuple[str, ...] | None
    metadata: bool
    payload: str
    on_bad_payload: str
    name: str | None
    timeout_seconds: float
    """How long the read waits for a broker that is away."""
    chooses_columns: str | None
    """The option that chooses the columns, if one does."""

    @property
    def description(self) -> str:
        """The topics of the read, for people."""
        what = f"topics like {self.pattern}" if self.pattern is not None else ", ".join(self.topics)
        return f"{what} of {self.server}"


def parse(given: Mapping[str, str], now: int, kind: Literal["batch", "stream"] | None = None) -> Options:
    """The options as values. `kind` says whether they are for a batch or a stream, once that is
    known.
    """
    said = _Said(given)
    said.check(kind)
    topics, pattern, assigned = _topics(said)
    start, end = _place(said, "starting", now), _place(said, "ending", now)
    if kind == "batch" and start is not None and start.kind == "latest":
        raise InvalidArgument("startingOffsets=latest leaves nothing for a batch to read.", hint="Use earliest, offsets or a time.")
    if end is not None and end.kind == "earliest":
        raise InvalidArgument("endingOffsets=earliest leaves nothing to read.", hint="Use latest, offsets or a time.")
    least, most = said.whole("minOffsetsPerTrigger"), said.whole("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise InvalidArgument(
            f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}.", hint="Raise the one or lower the other."
        )
    payload, policy = said.choice("payload", PAYLOADS), said.choice("onBadPayload", POLICIES)
    if payload == "bytes" and policy != "fail":
        raise InvalidArgument(f"onBadPayload={policy} needs a payload: bytes are never bad.", hint="Set payload to text, json or arrow.")
    chooser = said.first(SELECTORS)
    if chooser is not None and payload in ("json", "arrow"):
        raise InvalidArgument(
            f"{chooser} beside payload={payload}: the schema names the columns.",
            hint=f"Omit {chooser}, and name what you want in the schema, for example _headers.",
        )
    timeout = times.span_from_text(said.text("timeout") or TIMEOUT, "timeout")
    if timeout <= 0:
        raise InvalidArgument("timeout=0 leaves no time to ask a broker.", hint=f"The default is {TIMEOUT}.")
    return Options(
        server=said.text("server"),
        token=said.text("token"),
        context=said.text("context"),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        strategy=said.choice("startingOffsetsByTimestampStrategy", ("error", "latest")),
        offsets_max=most,
        offsets_min=least,
        delay_seconds_max=times.span_from_text(said.text("maxTriggerDelay") or "15m", "maxTriggerDelay"),
        bytes_max=said.whole("maxBytesPerTrigger"),
        tasks_min=said.whole("minPartitions"),
        task_rows_max=said.whole("maxRecordsPerPartition"),
        fail_on_data_loss=said.flag("failOnDataLoss", True),
        headers=said.flag("includeHeaders", False),
        columns=said.names("columns"),
        metadata=said.flag("includeMetadata", False),
        payload=payload,
        on_bad_payload=policy,
        name=said.text("name"),
        timeout_seconds=timeout,
        chooses_columns=chooser,
    )


class _Said:
    """The text that was given, by option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def check(self, kind: str | None) -> None:
        """Refuses what is not an option of a read, or not of this kind of read."""
        for name in self._given:
            if name not in NAMES:
                raise _unknown(name, self._given[name])
        for wrong, options, word in (("batch", STREAM_ONLY, "a stream"), ("stream", BATCH_ONLY, "a batch")):
            if kind == wrong and (found := [name for name in options if name.lower() in self._given]):
                article = "a stream reads on and has no end" if kind == "stream" else "a batch has no triggers and no progress"
                raise InvalidArgument(f"{found[0]} is an option of {word}: {article}.", hint=f"Omit {found[0]}.")
        if "server" in self._given and "context" in self._given:
            raise InvalidArgument("both server and context were given.", hint="Give one of them.")

    def text(self, name: str) -> str | None:
        """The value of an option. Refuses an empty one."""
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidArgument(f"{name} is empty.", hint=f"Give it a value, or omit {name}.")
        return value

    @property
    def empty(self) -> bool:
        return not self._given

    def first(self, names: Iterable[str]) -> str | None:
        """The first of these options that was given."""
        return next((name for name in names if name.lower() in self._given), None)

    def whole(self, name: str) -> int | None:
        """A whole number above 0."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value.strip()) or int(value) < 1:
            raise InvalidArgument(f"{name}={value} is not valid.", hint="Use a whole number above 0.")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            raise InvalidArgument(f"{name}={value} is neither true nor false.", hint="Use one of them.")
        return value.strip().lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of several words, of which the first is the default."""
        value = self.text(name) or choices[0]
        if value.strip().lower() not in choices:
            raise InvalidArgument(f"{name}={value} is not valid.", hint=f"Use {', '.join(choices[:-1])} or {choices[-1]}.")
        return value.strip().lower()

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between."""
        value = self.text(name)
        if value is None:
            return None
        found = tuple(part.strip() for part in value.split(","))
        if not all(found) or len(set(found)) != len(found):
            raise InvalidArgument(f"{name}={value} has an empty or a repeated name.", hint='Write each once, as in "value, offset".')
        return found

    def json(self, name: str) -> dict[str, Any] | None:
        """A JSON object that is not empty."""
        value = self.text(name)
        if value is None:
            return None
        try:
            found = json.loads(value)
        except ValueError as error:
            raise InvalidArgument(f"{name}={value} is not JSON: {error}.", hint=_EXAMPLES[name]) from None
        if not isinstance(found, dict) or not found:
            raise InvalidArgument(f"{name}={value} is not a JSON object of topics.", hint=_EXAMPLES[name])
        return found


def _unknown(name: str, value: str) -> InvalidArgument | NotSupported:
    if name.startswith("kafka."):
        right = (
            f"'server', as in bowstring://{value.split(',')[0].split(':')[0]}"
            if name == "kafka.bootstrap.servers"
            else "the table in the guide"
        )
        return InvalidArgument(f"'{name}' is an option of Spark's Kafka source; this is Bowstring.", hint=f"Use {right}.")
    if name in KAFKA:
        return InvalidArgument(f"'{name}' is an option of Spark's Kafka source; this is Bowstring.", hint=KAFKA[name])
    if name in LATER:
        what = "Reading a subscription as a queue" if name in ("subscription", "mode", "lease") else "Writing to topics from Spark"
        return NotSupported(f"'{LATER[name]}': {what[0].lower()}{what[1:]} comes in a later version.", hint="Read as a log: 'subscribe'.")
    if name == "path":
        return InvalidArgument(f"load() was given '{value}'; a topic is not a path.", hint=f"Use .option('subscribe', '{value}').load().")
    close = get_close_matches(name, NAMES, 1)
    hint = f"Did you mean '{NAMES[close[0]]}'?" if close else f"There are {', '.join(NAMES.values())}."
    return InvalidArgument(f"there is no option '{name}'.", hint=hint)


def _topics(said: _Said) -> tuple[tuple[str, ...], str | None, dict[str, tuple[int, ...]]]:
    """Topics by name, by pattern, or by partition."""
    names, pattern, assigned = said.names("subscribe"), said.text("subscribePattern"), said.json("assign")
    given = [option for option, value in (("subscribe", names), ("subscribePattern", pattern), ("assign", assigned)) if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} were given" if given else "no topic was given"
        table = " A table whose columns were named has lost its options: read it WITH (subscribe = …), or use a view." * said.empty
        raise InvalidArgument(f"{what}.", hint=f"Give one of subscribe, subscribePattern and assign.{table}")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidArgument(f"subscribePattern={pattern} is not a regular expression: {error}.", hint="orders-.* is one.") from None
    numbers: dict[str, tuple[int, ...]] = {}
    for topic, partitions in (assigned or {}).items():
        if not isinstance(partitions, list) or not partitions or not all(_whole(number) and number >= 0 for number in partitions):
            raise InvalidArgument(f"assign has {json.dumps(partitions)} for '{topic}'.", hint=_EXAMPLES["assign"])
        numbers[topic] = tuple(sorted(set(partitions)))
    return names or tuple(numbers), pattern, numbers


def _place(said: _Said, prefix: str, now: int) -> Place | None:
    """Where to start or to end: by offsets, by one moment, or by a moment for each partition; None
    if no option says.
    """
    options = (f"{prefix}Offsets", f"{prefix}Timestamp", f"{prefix}OffsetsByTimestamp")
    given = [option for option in options if said.text(option) is not None]
    if len(given) > 1:
        raise InvalidArgument(f"{' and '.join(given)} were given.", hint="Give one of them.")
    if not given:
        return None
    option, text = given[0], str(said.text(given[0])).strip()
    if option == options[0] and text.lower() in ("earliest", "latest"):
        return Place("earliest" if text.lower() == "earliest" else "latest", option)
    if option == options[1]:
        return Place("moment", option, moment=_moment(text, option, now), asked=now)
    if option == options[2]:
        return Place("moments", option, _by_partition(said, option, lambda value: _moment(str(value), option, now)), asked=now)
    return Place("offsets", option, _by_partition(said, option, lambda value: _offset(value, option, prefix == "ending")))


def _by_partition(said: _Said, option: str, read: Callable[[Any], int]) -> dict[str, dict[int, int]]:
    places: dict[str, dict[int, int]] = {}
    for topic, partitions in (said.json(option) or {}).items():
        if topic.startswith("_"):
            continue
        if not isinstance(partitions, dict) or not all(re.fullmatch(r"[0-9]{1,9}", number) for number in partitions):
            raise InvalidArgument(f"{option} has {json.dumps(partitions)} for '{topic}'.", hint=_EXAMPLES[option])
        places[topic] = {int(number): read(value) for number, value in partitions.items()}
    return places


def _offset(value: Any, option: str, ending: bool) -> int:
    if not _whole(value) or value < EARLIEST or (ending and value == EARLIEST):
        hint = "Offsets count from 1; -1 is the latest" + ("." if ending else ", -2 the earliest.")
        raise InvalidArgument(f"{option} has {json.dumps(value)}, which is not an offset.", hint=hint)
    return max(1, value) if value >= 0 else value


def _moment(text: str, option: str, now: int) -> int:
    """A moment as milliseconds since 1970, or as text with a zone. Refuses the future, because its
    offsets would change with every look.
    """
    if re.fullmatch(r"[0-9]{1,15}", text):
        moment = int(text) * 1000
        if moment >= times.MOMENT_MAX:
            raise InvalidArgument(f"{option}={text} is after 2200.", hint="Give milliseconds since 1970.")
    else:
        moment = times.moment_from_text(text, option, now)
    if moment > now and option.startswith("starting"):
        raise InvalidArgument(f"{option}={text} is in the future.", hint="Use a moment in the past, or startingOffsets=latest.")
    return moment


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_OFFSETS: Final = 'Use "earliest", "latest" or {"orders": {"0": 23, "1": -1}}.'
_MOMENTS: Final = 'Use {"orders": {"0": 1763197200000, "1": "2026-11-15T09:00Z"}}.'
_EXAMPLES: Final = {
    "assign": 'Use {"orders": [0, 1]}.',
    "startingOffsets": _OFFSETS,
    "endingOffsets": _OFFSETS.replace('"earliest", ', ""),
    "startingOffsetsByTimestamp": _MOMENTS,
    "endingOffsetsByTimestamp": _MOMENTS,
}
