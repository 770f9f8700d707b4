"""Writes a record of the log: as text for people, or as JSON, one object a line.

    2026-11-16T09:30:00.123Z INFO    a topic was created topic=orders partitions=4 client=127.0.0.1:51234
    {"time":"2026-11-16T09:30:00.123Z","level":"info","event":"topic-created","message":"a topic was created","topic":"orders",…}

A line is one line whatever is in it: values with spaces or control characters are quoted as in
JSON, and so are such messages. Only a traceback, the sign of a bug, takes further lines of text; as
JSON it is a field.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any, Final

from bowstring import times

SPANS: Final = {"retention", "deduplication"}
"""Fields in seconds, shown to people as 7d."""


class TextFormat(logging.Formatter):
    """Time, level, what happened, and its fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        words = [moment(record), f"{record.levelname:7}", _one_line(record.getMessage())]
        words += [f"{name}={_value(name, value)}" for name, value in fields.items()]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormat(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", None)
        told: dict[str, Any] = {"time": moment(record), "level": record.levelname.lower()}
        told |= {"event": event} if event else {}
        told |= {"message": record.getMessage()}
        told |= {name: _plain(value) for name, value in fields_of(record).items()}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=str)


def moment(record: logging.LogRecord) -> str:
    """When it was, in UTC to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03}Z"


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of an event; for any other record, its logger."""
    return getattr(record, "fields", None) or ({} if hasattr(record, "event") else {"logger": record.name})


def _value(name: str, value: object) -> str:
    if name in SPANS and isinstance(value, float) and math.isfinite(value):
        return times.span_to_text(value)
    text = "none" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)


def _plain(value: object) -> object:
    """JSON has no infinity, and nanoseconds are of no use."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
