"""Moments and spans: valid values, and refusals that say what to use."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import times
from bowstring.errors import InvalidArgument

NOW = 1_794_740_400_000_000  # 2026-11-15T11:00Z
NINE = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


def refusal(call, *arguments, **keywords) -> str:
    with pytest.raises(InvalidArgument) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (1.5, 1.5), (timedelta(minutes=2), 120), (np.float64(3.5), 3.5), (np.int64(4), 4), (Fraction(1, 2), 0.5)],
)
def test_spans(value: object, seconds: float):
    assert times.span(value, "lease") == seconds


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_a_span_is_finite(value: float):
    assert "is not a length of time" in refusal(times.span, value, "lease")


@pytest.mark.parametrize("value", [-1, -0.001, timedelta(seconds=-1)])
def test_a_span_is_not_negative(value: object):
    assert refusal(times.span, value, "lease").endswith("is negative. A span is zero or longer.")


@pytest.mark.parametrize("value", ["10m", "10", True, None, NINE, date(2026, 11, 15), [1], b"1", 1j])
def test_a_span_is_a_timedelta_or_a_number(value: object):
    said = refusal(times.span, value, "lease")
    assert said.startswith("lease=")
    assert said.endswith("Use a timedelta or a number of seconds.")


def test_text_is_for_commands():
    assert "is text, which is for commands and settings but not for Python" in refusal(times.span, "10m", "lease")


def test_a_span_ends_before_2200():
    assert "633 years" in refusal(times.span, 2e10, "retention")


def test_a_unix_time_is_no_delay():
    said = "delay=1794740400 is 56 years, which looks like a Unix time. Use at=datetime.fromtimestamp(1794740400, UTC)."
    assert refusal(times.delay, 1794740400) == said
    assert "fromtimestamp(1794740400000 / 1000, UTC)" in refusal(times.delay, 1794740400000)


def test_a_delay_has_at_most_ten_years():
    assert times.delay(times.DELAY_MAX) == times.DELAY_MAX
    assert "at most 10 years" in refusal(times.delay, times.DELAY_MAX + 1)
    assert "delay=timedelta(days=5000) is 13 years." in refusal(times.delay, timedelta(days=5000))


def test_a_moment_is_no_delay():
    assert "Use at=datetime(2026, 11, 15, 9, 0, tzinfo=UTC)" in refusal(times.delay, NINE)


def test_moments_of_any_zone():
    assert times.moment(NINE, "at") == 1_794_733_200_000_000
    assert times.moment(datetime(2026, 11, 15, 10, 0, tzinfo=timezone(timedelta(hours=1))), "at") == 1_794_733_200_000_000
    assert times.moment(datetime(1960, 1, 1, tzinfo=UTC), "at") == 0


def test_a_naive_moment():
    said = "at=datetime(2026, 11, 15, 9, 0) has no time zone. Use datetime(2026, 11, 15, 9, 0, tzinfo=UTC), or delay= for a span from now."
    assert refusal(times.moment, datetime(2026, 11, 15, 9, 0), "at") == said
    assert "delay=" not in refusal(times.moment, datetime(2026, 11, 15, 9, 0), "before")


def test_moments_end_before_2200():
    last = datetime(2199, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert times.moment(last, "at") == times.MOMENT_MAX - 1
    for late in (last + times.MICROSECOND, datetime.max.replace(tzinfo=UTC)):
        assert "is after 2200. Use a moment before 2200." in refusal(times.moment, late, "at")


def test_what_is_no_moment():
    assert "is a date" in refusal(times.moment, date(2026, 11, 15), "at")
    assert "is text" in refusal(times.moment, "2026-11-15T09:00Z", "at")
    assert "a span, not a moment" in refusal(times.moment, timedelta(1), "at")
    assert "Use at=datetime.fromtimestamp(1794740400, UTC)." in refusal(times.moment, 1794740400, "at")
    assert "Use an aware datetime" in refusal(times.moment, math.nan, "at")


def test_a_moment_or_a_span_from_now():
    assert times.moment_or_span(timedelta(hours=-1), "start", NOW) == NOW - 3_600_000_000
    assert times.moment_or_span(NINE, "start", NOW) == 1_794_733_200_000_000
    assert times.moment_or_span(timedelta.min, "start", NOW) == 0
    assert "after 2200" in refusal(times.moment_or_span, timedelta.max, "end", NOW)
    assert "Use an aware datetime, or a timedelta" in refusal(times.moment_or_span, -3600, "start", NOW)


def test_a_start_in_the_future():
    assert times.moment_or_span(timedelta(0), "start", NOW, future=False) == NOW
    assert "timedelta(hours=-1)" in refusal(times.moment_or_span, timedelta(hours=1), "start", NOW, future=False)
    assert "is in the future" in refusal(times.moment_or_span, datetime(2027, 1, 1, tzinfo=UTC), "start", NOW, future=False)


def test_until_then():
    assert times.span_until(times.to_datetime(NOW + 2_500_000), "lease", NOW) == 2.5
    assert times.span_until(NINE, "lease", NOW) == 0
    assert times.span_until(30, "lease", NOW) == 30
    assert "has no time zone" in refusal(times.span_until, datetime(2030, 1, 1), "lease", NOW)


def test_delivery_takes_delay_or_at():
    assert times.delivery(None, None, NOW) is None
    assert times.delivery(1.5, None, NOW) == NOW + 1_500_000
    assert times.delivery(None, NINE, NOW) == 1_794_733_200_000_000
    assert "Give delay=" in refusal(times.delivery, 1, NINE, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604800), ("1.5h", 5400), ("90", 90), (" 5 s ", 5)]
)
def test_spans_as_text(text: str, seconds: float):
    assert times.span_from_text(text, "lease") == seconds


@pytest.mark.parametrize("text", ["", "7 dayz", "-5s", "1h30m", "s", "٣s", "1e3s", "nan", "inf", "0x5", "1_000", "9" * 400])
def test_what_is_no_span_as_text(text: str):
    said = refusal(times.span_from_text, text, "topic.retention")
    assert said.startswith(f'topic.retention = "{text}" is not a span of time. Use "7d", "12h"')


def test_a_span_as_text_ends_before_2200():
    assert "The maximum is 200 years." in refusal(times.span_from_text, "999999d", "lease")


def test_moments_as_text():
    assert times.moment_from_text("2026-11-15T09:00Z", "--to", NOW) == 1_794_733_200_000_000
    assert times.moment_from_text("2026-11-15T10:00+01:00", "--to", NOW) == 1_794_733_200_000_000
    assert times.moment_from_text("-1h", "--to", NOW) == NOW - 3_600_000_000
    assert times.moment_from_text("+30m", "--to", NOW) == NOW + 1_800_000_000
    assert times.moment_from_text("-70000d", "--to", NOW) == 0


@pytest.mark.parametrize("text", ["", "yesterday", "-", "-1x", "09:00", "2026-13-01T00:00Z", "12"])
def test_what_is_no_moment_as_text(text: str):
    assert 'Use "2026-11-15T09:00Z"' in refusal(times.moment_from_text, text, "--to", NOW)


def test_text_without_a_zone_and_after_2200():
    assert 'For UTC write "2026-11-15T09:00Z".' in refusal(times.moment_from_text, "2026-11-15T09:00", "--to", NOW)
    assert "after 2200" in refusal(times.moment_from_text, "2200-01-01T00:00Z", "--to", NOW)


@given(st.integers(0, times.MOMENT_MAX - 1))
def test_moments_come_back_exactly(moment: int):
    there = times.to_datetime(moment)
    assert there.tzinfo is UTC
    assert times.moment(there, "at") == moment
    assert times.moment_from_text(times.to_text(moment), "--to", NOW) == moment


@given(st.one_of(st.integers(0, 10**9).map(float), st.sampled_from([0.5, 0.001, 0.25])))
def test_spans_come_back_exactly(seconds: float):
    assert times.span_from_text(times.span_to_text(seconds), "lease") == seconds


def test_how_moments_and_spans_are_written():
    assert times.to_text(1_794_735_000_000_000) == "2026-11-15T09:30:00.000000Z"
    assert [times.span_to_text(s) for s in (0, 0.5, 90, 600, 7 * 86400)] == ["0s", "0.5s", "90s", "10m", "7d"]


@given(st.one_of(st.floats(), st.integers(), st.text(), st.datetimes(), st.timedeltas(), st.dates(), st.none(), st.booleans()))
def test_nothing_but_an_invalid_argument_is_ever_raised(value: object):
    for call in (times.span, times.delay, times.moment):
        error = None
        try:
            call(value, "it")
        except InvalidArgument as refused:
            error = refused
        assert error is None or (error.message.startswith("it=") and error.hint)
