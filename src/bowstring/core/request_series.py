"""The numbers of a consumer's requests come in series: one for each time it opens a stream.

A request whose number is not above the last one is a repeat. But two programs may have one name, one
after the other, and the first may come back with a request that never arrived. If the other one has
used its number, the broker would take it for a repeat and answer "done", although it did nothing. So
each opening begins a series above all before it. A request of a series that is older than the last
one's is no repeat: another program, or the same one with a newer stream, has settled since. The
broker does not know any more whether it was carried out, and refuses its rows.

The number of a series is the time of leases when it begins. So a series is also above those of
programs that have settled nothing, of which the ledger has no number.
"""

from __future__ import annotations

from typing import Final

TICK: Final = 125_000
"""A series for each so many microseconds."""
REQUESTS: Final = 1 << 28
"""So many requests may a series have in one partition."""


def series_of(number: int) -> int:
    """The series of a request."""
    return number // REQUESTS


def begun(series: int) -> int:
    """The number above which the requests of a series are."""
    return series * REQUESTS


def next_series(now: int, last_series: int, last_number: int) -> int:
    """The one that begins now, after another and after a request."""
    return max(now // TICK, last_series + 1, series_of(last_number) + 1)
