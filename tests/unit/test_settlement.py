"""The rows that a request names, out of the arrays in which they travel."""

from __future__ import annotations

import random

import pytest

from bowstring import errors
from bowstring.broker.queue.settlement import ROWS_MAX, NamedRows, grant_parts, outcome_parts
from bowstring.core.ledger_changes import Settlement
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows


def test_parts_follow_each_other():
    named = NamedRows([7, 8, 7], [2, 0, 1], [5, 1, 20], [2, 3, 1])
    assert outcome_parts(named, [1, 2, 4]) == [
        OutcomeRows(7, Settlement.ACK, RowSet.of_runs([(1, 3), (5, 2)])),
        OutcomeRows(8, Settlement.NACK, None),
        OutcomeRows(7, Settlement.RELEASE, RowSet(20, 21)),
    ]
    assert grant_parts(NamedRows([3], [0], [], [])) == [GrantRows(3)]


def test_many_runs_in_any_order():
    rng = random.Random(3)
    offsets = rng.sample(range(1, 100_000, 3), 5000)
    (part,) = grant_parts(NamedRows([1], [5000], offsets, [2] * 5000))
    assert part.rows == RowSet.of_runs([(offset, 2) for offset in offsets])


@pytest.mark.parametrize(
    ("named", "outcomes", "said"),
    [
        (NamedRows([], [], [], []), [], "names no lease"),
        (NamedRows([1], [0], [], []), [], "1 leases and 0 outcomes"),
        (NamedRows([1], [0], [], []), [5], "an outcome 5 is not known"),
        (NamedRows([1], [0], [], []), [0], "an outcome 0 is not known"),
        (NamedRows([1], [], [], []), [1], "1 leases and 0 numbers of runs"),
        (NamedRows([1], [2], [1], [1]), [1], "2 runs, 1 offsets and 1 lengths"),
        (NamedRows([1], [1], [1], []), [1], "1 runs, 1 offsets and 0 lengths"),
        (NamedRows([1 << 63], [0], [], []), [1], "is not the number of a lease"),
        (NamedRows([1], [1], [0], [1]), [1], "0 is not an offset"),
        (NamedRows([1], [1], [1 << 63], [1]), [1], "9223372036854775808 is not an offset"),
        (NamedRows([1], [1], [1], [0]), [1], "a run has no rows"),
        (NamedRows([1], [1], [1], [ROWS_MAX + 1]), [1], "names 16777217 messages"),
        (NamedRows([1, 1], [1, 1], [1, 1], [ROWS_MAX, 1]), [1, 1], "names 16777217 messages"),
        (NamedRows([1, 1], [1, 1], [1, 1], [(1 << 64) - 1, 2]), [1, 1], "names 18446744073709551615 messages"),
        (NamedRows([1], [2], [1, 2], [2, 1]), [1], "stands twice"),
        (NamedRows([1], [2], [4, 4], [1, 1]), [1], "stands twice"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(named: NamedRows, outcomes: list[int], said: str):
    with pytest.raises(errors.InvalidArgument, match=said):
        outcome_parts(named, outcomes)
