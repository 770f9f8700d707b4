"""How records become lines, and which of many equal events are told."""

from __future__ import annotations

import json
import logging

import pytest

from bowstring.logs.formats import JsonFormat, TextFormat
from bowstring.logs.repeats import KEYS_MAX, Repeats


def record(message: str, *, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("bowstring.broker", level, __file__, 1, message, (), None)
    made.created, made.msecs = 1_794_820_200.123, 123.0
    if fields:
        made.event, made.fields = "topic-created", fields
    return made


def test_a_line_of_text():
    line = TextFormat().format(record("a topic was created", topic="orders", partitions=4, retention=604800.0, seconds=0.03449))
    assert line == "2026-11-16T09:10:00.123Z INFO    a topic was created topic=orders partitions=4 retention=7d seconds=0.034"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('"', '"\\""'),
        ("", '""'),
        ("line\nline", '"line\\nline"'),
        (None, "none"),
        ("é", "é"),
    ],
)
def test_a_value_stays_one_value_on_one_line(value: object, shown: str):
    assert TextFormat().format(record("x", problem=value)).endswith(f" x problem={shown}")


def test_a_message_stays_on_one_line():
    line = TextFormat().format(record("two\nlines", level=logging.WARNING))
    assert line == '2026-11-16T09:10:00.123Z WARNING "two\\nlines" logger=bowstring.broker'


def test_a_line_of_json():
    told = json.loads(JsonFormat().format(record("a topic was created", topic="orders", retention=float("inf"), seconds=0.1234567891)))
    assert told == {
        "time": "2026-11-16T09:10:00.123Z",
        "level": "info",
        "event": "topic-created",
        "message": "a topic was created",
        "topic": "orders",
        "retention": None,
        "seconds": 0.123457,
    }


def test_a_traceback_is_a_field_of_json():
    try:
        raise ValueError("x")
    except ValueError as error:
        failed = record("failed")
        failed.exc_info = (type(error), error, error.__traceback__)
    told = json.loads(JsonFormat().format(failed))
    assert told["traceback"].endswith("ValueError: x")
    assert told["logger"] == "bowstring.broker"
    assert TextFormat().format(failed).splitlines()[-1] == "ValueError: x"


def test_the_first_is_told_and_the_others_are_counted_once_a_minute():
    repeats: Repeats[str] = Repeats()
    assert repeats.note("a", 0.0)
    assert not repeats.note("a", 1.0)
    assert not repeats.note("a", 59.0)
    assert repeats.note("b", 30.0)
    assert repeats.due(59.9) == []
    assert repeats.next_due == 60.0
    assert repeats.due(60.0) == [("a", 2)]
    assert not repeats.note("a", 61.0)
    assert repeats.due(120.0) == [("a", 1)]
    assert repeats.due(180.0) == []
    assert repeats.note("a", 181.0), "after a minute without any the next is told at once"


def test_what_was_counted_and_not_told_is_told_at_the_end():
    repeats: Repeats[str] = Repeats()
    for _ in range(3):
        repeats.note("a", 0.0)
    repeats.note("b", 0.0)
    assert repeats.rest() == [("a", 2)]
    assert repeats.rest() == []
    assert repeats.next_due is None


def test_what_is_told_apart_is_bounded():
    repeats: Repeats[int] = Repeats()
    assert sum(repeats.note(key, 0.0) for key in range(2 * KEYS_MAX)) == KEYS_MAX
