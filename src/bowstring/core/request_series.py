"""The numbers of a consumer's requests come in series: one for each time it opens a stream.

A request whose number is not above the last one is a repeat. But two programs may have one name, one
after the other, and the first may come back with a request that never arrived. Its number would be
taken for one of the other's, and the answer would be "done" for what nobody has done. So each
opening begins a series above all before it. A request of a series that is older than the last one's
is no repeat: another program, or the same one with a newer stream, has settled since. Whether it was
carried out is not known any more, so its rows are refused, and nothing is confirmed that was not done.

A series begins by the time of leases. So it is above one that has left nothing in the ledger, too.
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
