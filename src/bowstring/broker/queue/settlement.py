"""The rows that a consumer names in a request, made of the arrays in which they travel.

Parts follow each other, each a lease with an outcome and some runs; the runs of all of them follow
each other in two arrays. A part without runs means all messages that the lease still has. Whoever
sends arrays that do not fit together has a bug, and its stream ends; a row that the consumer does
not hold is answered with the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring import errors, times
from bowstring.core.ledger_changes import Settlement
from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows

ROWS_MAX: Final = 1 << 24
"""A request names at most so many messages by their runs; without runs it may mean any number."""
PARTS_MAX: Final = 1 << 14
"""A request has at most so many parts: each takes 50 µs."""
REASON_MAX: Final = 4096
"""The most characters of a reason."""
OFFSET_MAX: Final = 1 << 62
LONG_RUN: Final = 64
"""Runs of so many rows in the mean are put together as runs: arrays of their offsets cost more."""
_OUTCOMES: Final = {outcome.value: outcome for outcome in Settlement if outcome is not Settlement.CONDEMN}


class NamedRows(NamedTuple):
    """Parts of a request as they travel."""

    grants: Sequence[int]
    runs: Sequence[int]
    """Of each part how many runs it has."""
    offsets: Sequence[int]
    """Of each run the first offset."""
    rows: Sequence[int]
    """Of each run how many."""


class TimedOutcome(NamedTuple):
    """A part of a request, and when its messages come again: at a moment of the broker's clock, or
    after a span; both in microseconds.
    """

    rows: OutcomeRows
    moment: int | None = None
    delay: int | None = None


def timed_parts(
    named: NamedRows, outcomes: Sequence[int], moments: Sequence[int], delays: Sequence[int], reasons: Sequence[str] = ()
) -> list[TimedOutcome]:
    """The parts of a request that settles messages. Of a moment 0 means none, and so it does of a span.
    Raises InvalidArgument.
    """
    parts = _with_reasons(outcome_parts(named, outcomes), reasons)
    if not moments and not delays:
        return [TimedOutcome(part) for part in parts]
    if len(moments) not in (0, len(parts)) or len(delays) not in (0, len(parts)):
        raise _unequal(f"{len(parts)} parts, {len(moments)} moments and {len(delays)} delays")
    found = itertools.zip_longest(parts, moments, delays, fillvalue=0)
    return [_timed(part, moment, delay) for part, moment, delay in found if isinstance(part, OutcomeRows)]


def _with_reasons(parts: list[OutcomeRows], reasons: Sequence[str]) -> list[OutcomeRows]:
    if not reasons:
        return parts
    if len(reasons) != len(parts):
        raise _unequal(f"{len(parts)} parts and {len(reasons)} reasons")
    if (longest := max(map(len, reasons))) > REASON_MAX:
        raise errors.InvalidArgument(f"a reason has {longest} characters.", hint=f"Use at most {REASON_MAX}.")
    return [part._replace(reason=reason) for part, reason in zip(parts, reasons, strict=True)]


def _timed(part: OutcomeRows, moment: int, delay: int) -> TimedOutcome:
    if not moment and not delay:
        return TimedOutcome(part)
    if moment and delay:
        raise errors.InvalidArgument("a part of a request has both a moment and a delay.", hint="Give one of them.")
    if part.outcome is not Settlement.NACK:
        raise errors.InvalidArgument(f"a part with outcome {part.outcome} has a time.", hint="Only a nack puts messages back for later.")
    if moment >= times.MOMENT_MAX or moment < 0:
        raise errors.InvalidArgument(f"{moment} is not a moment.", hint="Moments are microseconds since 1970, before 2200.")
    if delay > times.microseconds(times.DELAY_MAX):
        raise errors.InvalidArgument(f"a delay of {delay} microseconds is too long.", hint="A message may be put off by at most 10 years.")
    return TimedOutcome(part, moment or None, delay or None)


def check_together(named: Sequence[NamedRows]) -> None:
    """Raises InvalidArgument for a request that has too many parts or names too many messages in all.
    What the consumer does not hold would cost time and memory as if it did.
    """
    parts, rows = sum(len(one.grants) for one in named), sum(_together(np.array(one.rows, np.uint64)) for one in named)
    if parts > PARTS_MAX:
        raise errors.InvalidArgument(f"a request has {parts} parts.", hint=f"Send at most {PARTS_MAX} at once.")
    _check_rows(rows)


def _check_rows(rows: int) -> None:
    if rows > ROWS_MAX:
        raise errors.InvalidArgument(
            f"a request names {rows} messages.", hint=f"Name at most {ROWS_MAX}, or a whole lease by no run at all."
        )


def outcome_parts(named: NamedRows, outcomes: Sequence[int]) -> list[OutcomeRows]:
    """Raises InvalidArgument."""
    if len(outcomes) != len(named.grants):
        raise _unequal(f"{len(named.grants)} leases and {len(outcomes)} outcomes")
    try:
        settlements = [_OUTCOMES[outcome] for outcome in outcomes]
    except KeyError as unknown:
        raise errors.InvalidArgument(f"an outcome {unknown} is not known.", hint="1 ack, 2 nack, 3 reject, 4 release.") from None
    return [OutcomeRows(grant, outcome, rows) for (grant, rows), outcome in zip(grant_parts(named), settlements, strict=True)]


def grant_parts(named: NamedRows) -> list[GrantRows]:
    """Raises InvalidArgument."""
    grants, runs, offsets, rows = named
    if not grants:
        raise errors.InvalidArgument("a request names no lease.", hint="Name the leases whose messages are meant.")
    if len(runs) != len(grants):
        raise _unequal(f"{len(grants)} leases and {len(runs)} numbers of runs")
    if not len(offsets) == len(rows) == sum(runs):
        raise _unequal(f"{sum(runs)} runs, {len(offsets)} offsets and {len(rows)} lengths")
    if max(grants) >= OFFSET_MAX:
        raise errors.InvalidArgument(f"{max(grants)} is not the number of a lease.")
    if not len(offsets):
        return [GrantRows(grant) for grant in grants]
    firsts, lengths = np.array(offsets, np.uint64), np.array(rows, np.uint64)
    _check_runs(firsts, lengths)
    return list(_parts(grants, runs, firsts.astype(np.int64), lengths.astype(np.int64)))


def _check_runs(firsts: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> None:
    if not 1 <= firsts.min() <= firsts.max() < OFFSET_MAX:
        wrong = firsts.min() or firsts.max()
        raise errors.InvalidArgument(f"{wrong} is not an offset.", hint="Offsets count from 1.")
    if not lengths.min():
        raise errors.InvalidArgument("a run has no rows.", hint="A run has at least one.")
    _check_rows(_together(lengths))


def _together(lengths: NDArray[np.uint64]) -> int:
    """How many messages these runs have; lengths so large that their sum would wrap round count as the
    largest of them.
    """
    largest = int(lengths.max(initial=0))
    return largest if largest > ROWS_MAX else int(lengths.sum())


def _parts(grants: Sequence[int], runs: Sequence[int], firsts: Offsets, lengths: Offsets) -> Iterator[GrantRows]:
    at = 0
    for grant, count in zip(grants, runs, strict=True):
        yield GrantRows(grant, _rows(firsts[at : at + count], lengths[at : at + count]) if count else None)
        at += count


def _rows(firsts: Offsets, lengths: Offsets) -> RowSet:
    if len(firsts) == 1:
        return RowSet(int(firsts[0]), int(firsts[0] + lengths[0]))
    rows = int(lengths.sum())
    if rows >= LONG_RUN * len(lengths):
        found = RowSet.union([RowSet(first, first + count) for first, count in zip(firsts.tolist(), lengths.tolist(), strict=True)])
    else:
        found = RowSet.of_lengths(firsts, lengths)
    if len(found) != rows:
        raise errors.InvalidArgument("a message stands twice in one part of a request.", hint="Name each once.")
    return found


def _unequal(lengths: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"a request has {lengths}.", hint="Arrays that belong together have the same length.")
