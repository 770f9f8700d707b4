"""Every option of a broker, in one table.

A setting is a field of `Settings`. Its name gives the key in `bowstring.toml`, the environment
variable and the flag: `batch_bytes_max` is `[batch] bytes-max`, `BOWSTRING_BATCH_BYTES_MAX` and
`--batch-bytes-max`. Sizes are bytes and spans are seconds once parsed.

The field gives the kind of its value, its range and its meaning. Parsing, the flags of `bowstring
serve`, its help and the documentation come from that. `load` takes layers, the strongest first
(flags, environment, file). Each layer keeps the names as people write them there, so that an error
can quote them: `--topic-retention = "7 dayz"`. An unknown setting is an error.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from typing import Any, Final, NamedTuple

from bowstring import listening, times
from bowstring.errors import InvalidArgument

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB


OFF: Final = "off"
_HTTP_HINT: Final = 'Use "127.0.0.1:27770", "[::1]:27770", "0.0.0.0:0" or "off".'


# ---- kinds of values -------------------------------------------------------------------------------------------------

_UNITS: Final = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]*)", re.ASCII)


def size_to_text(size: int) -> str:
    """The shortest text of the form `16MiB` that gives this size again."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _parse_text(value: object, name: str) -> str:
    if isinstance(value, str) and "\0" not in value:
        return value
    if hasattr(value, "__fspath__"):
        return str(value)
    raise InvalidArgument(f"{name} = {value!r} is not text.", hint='Use text in quotes: "…".')


def _parse_path(value: object, name: str) -> str:
    return at_home(_parse_text(value, name), name, os.environ)


def at_home(path: str, name: str, environment: Mapping[str, str]) -> str:
    """A path with the home directory in place of a leading ~: flags, variables and files do not
    pass through a shell.
    """
    if not path.startswith("~"):
        return path
    if path != "~" and not path.startswith("~/"):
        hint = f'Write the whole path, or "./{path}" for one that is called so.'
        raise InvalidArgument(f'{name} = "{path}": only your own home directory, ~/, is known here.', hint=hint)
    if not environment.get("HOME"):
        raise InvalidArgument(f'{name} = "{path}": there is no home directory (HOME is not set).', hint="Write the whole path.")
    return environment["HOME"].rstrip("/") + path[1:]


def _parse_address(value: object, name: str) -> str:
    listen = _parse_text(value, name)
    if listen.startswith(listening.UNIX):
        listen = listening.UNIX + _parse_path(listen.removeprefix(listening.UNIX), name)
    listening.parse(listen, name)
    return listen


def _parse_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    if value in choices:
        return str(value)
    quoted = " or ".join(f'"{choice}"' for choice in choices)
    raise InvalidArgument(f"{name} = {_quoted(value)} is not known.", hint=f"Use {quoted}.")


def _parse_span(value: object, name: str, least: float, forever: bool) -> float:
    from_text, from_value = (times.keeping_from_text, times.keeping) if forever else (times.span_from_text, times.span)
    seconds = from_text(value, name) if isinstance(value, str) else from_value(value, name)
    if seconds < least:
        raise InvalidArgument(f"{name} = {_quoted(value)} is too short.", hint=f"It is at least {times.span_to_text(least)}.")
    return seconds


def _parse_http(value: object, name: str) -> str:
    address = _parse_text(value, name)
    if address != OFF and listening.parse(address, name, _HTTP_HINT) is None:
        raise InvalidArgument(f"{name} = {_quoted(address)} is not a place for HTTP.", hint=_HTTP_HINT)
    return address


def size_from_text(text: str, name: str) -> int:
    """A size in bytes from `16MiB`, `500kB` or a plain number of bytes."""
    return _parse_size(text, name)


def _parse_size(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise InvalidArgument(f"{name} = {_quoted(value)} is not a size.", hint='Use "16MiB", "500kB" or a number of bytes.')
    return int(float(match[1]) * _UNITS[match[2]])


def _parse_count(value: object, name: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value.strip(), re.ASCII):
        return int(value)
    raise InvalidArgument(f"{name} = {_quoted(value)} is not a number.", hint='Use a whole number such as "1000".')


def _in_range(number: int, value: object, name: str, least: int, most: int, show: Callable[[int], str]) -> int:
    if least <= number <= most:
        return number
    raise InvalidArgument(f"{name} = {_quoted(value)} is out of range.", hint=f"It is from {show(least)} to {show(most)}.")


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value.total_seconds():g} s" if isinstance(value, timedelta) else repr(value)


# ---- the table ------------------------------------------------------------------------------------------------------


class SettingKind(NamedTuple):
    """The kind of value that a setting takes, and its meaning for people."""

    meaning: str
    parse: Callable[[object, str], object]
    show: Callable[[Any], str] = str


def _path(default: str, meaning: str) -> str:
    return field(default=default, metadata={"kind": SettingKind(meaning, _parse_path)})


def _address(default: str, meaning: str) -> str:
    return field(default=default, metadata={"kind": SettingKind(meaning, _parse_address)})


def _grpc(default: str, meaning: str) -> str:
    kind = SettingKind(meaning, lambda value, name: OFF if value == OFF else _parse_address(value, name))
    return field(default=default, metadata={"kind": kind})


def _http(default: str, meaning: str) -> str:
    return field(default=default, metadata={"kind": SettingKind(meaning, _parse_http)})


def _choice(*choices: str, meaning: str) -> str:
    """One of these words; the first is the default."""
    return field(default=choices[0], metadata={"kind": SettingKind(meaning, lambda value, name: _parse_choice(value, name, choices))})


def _span(default: float, meaning: str, least: float, *, forever: bool = False) -> float:
    kind = SettingKind(meaning, lambda value, name: _parse_span(value, name, least, forever), times.span_to_text)
    return field(default=default, metadata={"kind": kind})


def _size(default: int, meaning: str, least: int, most: int) -> int:
    kind = SettingKind(
        meaning, lambda value, name: _in_range(_parse_size(value, name), value, name, least, most, size_to_text), size_to_text
    )
    return field(default=default, metadata={"kind": kind})


def _count(default: int, meaning: str, least: int, most: int) -> int:
    kind = SettingKind(meaning, lambda value, name: _in_range(_parse_count(value, name), value, name, least, most, str))
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one broker, parsed and checked."""

    listen: str = _address("127.0.0.1:27769", "Where the broker listens for clients; port 0 takes any free one.")
    grpc_listen: str = _grpc(
        OFF,
        "A second address, for gRPC alone: spares its clients the passage through `listen`; `off` for none.",
    )
    data: str = _path("", "The data directory; empty for the default place of this user, ~/.local/share/bowstring.")
    store: str = _choice(
        "local",
        "memory",
        meaning="`local` keeps pages in the data directory, `memory` keeps everything in this process and nothing beyond.",
    )

    http: str = _http(
        "127.0.0.1:27770",
        "Where to serve metrics and health by HTTP; `off` for none. If no port is named and the default is in use, any free port.",
    )
    metrics_topics_max: int = _count(200, "This many topics, the largest, have metrics of their own; the others are summed up.", 0, 10_000)
    metrics_positions_max: int = _count(200, "The same for positions of readers, and for subscriptions: the largest lags.", 0, 10_000)
    log_format: str = _choice(
        "text", "json", meaning="How `bowstring serve` writes its log to stderr: lines for people, or one JSON object a line."
    )

    topic_create: str = _choice(
        "on-request", "on-publish", meaning="`on-publish` creates a topic at the first publish to it, `on-request` only when asked to."
    )
    topic_retention: float = _span(
        7 * 86400.0, 'How long a new topic keeps its messages, unless it says otherwise: "30d", "forever".', 1.0, forever=True
    )
    topic_deduplication: float = _span(
        600.0, "How long a new topic recognises an id, unless it says otherwise; at most its retention.", 0.0
    )

    batch_bytes_max: int = _size(16 * MIB, "The largest batch, as it travels and decompressed.", KIB, GIB)

    flush_inline_bytes: int = _size(
        16 * KIB, "A flush with at most this many bytes of pages carries them in its journal row: one sync instead of two.", 0, MIB
    )
    segment_bytes_first: int = _size(16 * MIB, "The size of a young broker's segment files.", 64 * KIB, 4 * GIB)
    segment_bytes_max: int = _size(256 * MIB, "The size that segment files grow to under load.", 64 * KIB, 4 * GIB)

    memory_publish_bytes: int = _size(64 * MIB, "Bytes of batches that may be on their way to the disk, over all producers.", KIB, TIB)
    memory_tail_bytes: int = _size(48 * MIB, "Bytes of newly published pages kept for readers that follow.", 0, TIB)
    memory_pages_bytes: int = _size(32 * MIB, "Bytes of verified pages from the store, kept for further reads.", 0, TIB)
    memory_index_bytes: int = _size(16 * MIB, "Bytes of the index that locates sealed pages, kept in memory.", 0, TIB)
    memory_ids_bytes: int = _size(64 * MIB, "Bytes of the ids of sealed messages, kept in memory.", 0, TIB)

    seal_rows: int = _count(20_000, "The journal is sealed when it has this many rows, or 15 times as many changes.", 2, 10_000_000)
    seal_inline_bytes: int = _size(64 * MIB, "The journal is sealed when it holds this many bytes of pages.", KIB, TIB)
    seal_bytes: int = _size(256 * MIB, "The journal is sealed after this many bytes of pages were written.", KIB, TIB)
    seal_seconds: float = _span(600.0, "The journal is sealed after this time.", 0.001)
    upkeep_seconds: float = _span(1.0, "How often the broker checks for something to seal, remove or clean.", 0.001)

    publish_window: int = _size(16 * MIB, "Bytes that one publish stream may have under way.", KIB, 4 * GIB)
    connections_max: int = _count(1000, "Publish and fetch streams served at the same time.", 1, 1_000_000)
    connection_streams_max: int = _count(
        100, "Publish and fetch streams of one connection. Each may hold one batch that waits for admission, and two MiB unread.", 1, 10_000
    )

    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """The settings that any layer gives; the others have their default."""


TABLE: Final[dict[str, Field[Any]]] = {entry.name: entry for entry in fields(Settings) if "kind" in entry.metadata}
ENVIRONMENT: Final = "BOWSTRING_"
# Variables that are not settings of a broker: those that clients read, those that `bowstring
# consume --exec` sets for its commands, and those that Kubernetes sets for a service called bowstring.
_NO_SETTINGS: Final = re.compile(
    r"SERVER|TOKEN|CONTEXT|CONFIG|TOPIC|PARTITION|OFFSET|ID|KEY|RETRY_COUNT|ATTRIBUTES"
    r"|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT(_\d+_\w+)?"
)


def kind_of(name: str) -> SettingKind:
    """The kind and the meaning of the setting of this name."""
    return TABLE[name].metadata["kind"]


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    return ENVIRONMENT + name.upper()


# ---- layers ----------------------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """A value as the user gave it, and the user's name for the setting."""

    shown: str
    value: object


Layer = Mapping[str, Given]


def from_flags(flags: Mapping[str, object]) -> Layer:
    """The layer of a command line; flags that were not given are None."""
    return {name: Given(flag_of(name), value) for name, value in flags.items() if value is not None}


def from_environment(environment: Mapping[str, str]) -> Layer:
    """The layer of the variables that begin with BOWSTRING_. Raises InvalidArgument for an unknown
    one.
    """
    layer: dict[str, Given] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT):
            continue
        name = variable.removeprefix(ENVIRONMENT).lower()
        if name in TABLE:
            layer[name] = Given(variable, value)
        elif not _NO_SETTINGS.fullmatch(variable.removeprefix(ENVIRONMENT)):
            raise _unknown(variable, map(variable_of, TABLE))
    return layer


def key_of(name: str) -> str:
    """The setting's key in bowstring.toml: `topic.retention` is `retention` in the table `[topic]`."""
    first, _, rest = name.partition("_")
    return f"{first}.{rest.replace('_', '-')}" if rest else first


def from_file(content: Mapping[str, Any], shown: Callable[[str], str]) -> Layer:
    """The layer of a file, as TOML gives it; `shown` names a key for error messages, with file and
    line.
    """
    layer: dict[str, Given] = {}
    for key, value in _leaves(content):
        name = key.replace(".", "_").replace("-", "_")
        if name not in TABLE or "_" in key:
            unknown = _unknown(key, map(key_of, TABLE))
            raise InvalidArgument(f"{shown(key)} is no setting.", hint=unknown.hint)
        if name in layer:
            raise InvalidArgument(f"{shown(key)} is there twice.", hint=f"{key_of(name)} is another way to write it; keep one.")
        layer[name] = Given(shown(key), value)
    return layer


def _leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def from_keywords(keywords: Mapping[str, object]) -> Layer:
    """The layer of the Python keywords of an embedded broker."""
    for name in keywords:
        if name not in TABLE:
            raise _unknown(name, TABLE)
    return {name: Given(name, value) for name, value in keywords.items() if value is not None}


def load(*layers: Layer, defaults: Mapping[str, object] | None = None) -> Settings:
    """Settings from layers, the strongest first; `defaults` replace those of the table. Raises
    InvalidArgument naming what is wrong.
    """
    values: dict[str, Any] = dict(defaults or {})
    shown = {name: name for name in TABLE}
    for layer in reversed(layers):
        for name, given in layer.items():
            values[name] = kind_of(name).parse(given.value, given.shown)
            shown[name] = given.shown
    if "topic_deduplication" not in values and "topic_retention" in values:
        values["topic_deduplication"] = min(TABLE["topic_deduplication"].default, values["topic_retention"])
    settings = Settings(**values, given=frozenset(name for layer in layers for name in layer))
    _check_together(settings, shown)
    return settings


def _check_together(settings: Settings, shown: Mapping[str, str]) -> None:
    """Checks values against each other."""
    smaller_than = (
        ("segment_bytes_first", "segment_bytes_max"),
        ("topic_deduplication", "topic_retention"),
        ("flush_inline_bytes", "segment_bytes_first"),
    )
    for small, large in smaller_than:
        if getattr(settings, small) > getattr(settings, large):
            low, high = (kind_of(name).show(getattr(settings, name)) for name in (small, large))
            raise InvalidArgument(f"{shown[small]} = {low} is more than {shown[large]} = {high}.", hint="It must not be larger.")


def default_data(environment: Mapping[str, str]) -> str:
    """The default data directory of this user."""
    home = environment.get("XDG_DATA_HOME") or (environment["HOME"] + "/.local/share" if environment.get("HOME") else "")
    if not home:
        raise InvalidArgument("there is no home directory to keep data in.", hint="Name a data directory: --data DIR.")
    return home + "/bowstring"


def _unknown(name: str, names: Iterable[str]) -> InvalidArgument:
    close = difflib.get_close_matches(name, list(names), n=1)
    return InvalidArgument(
        f"there is no setting {name}.", hint=f"Did you mean {close[0]}?" if close else "`bowstring serve --help` lists them."
    )
