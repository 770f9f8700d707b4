"""Rows of ledgers as tests write them, and as the ledger has them."""

from __future__ import annotations

import numpy as np

from bowstring.core.offset_set import runs_of
from bowstring.core.row_set import RowSet
from bowstring.core.settling import LostRows


def rows(offsets: set[int]) -> RowSet:
    return RowSet.of_offsets(np.array(sorted(offsets), np.int64))


def runs(offsets: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple(runs_of(np.array(sorted(offsets), np.int64)))


def offsets(found: RowSet | None) -> set[int]:
    return {0} if found is None else set(found.offsets().tolist())


def pairs(lost: tuple[LostRows, ...]) -> set[tuple[int, int]]:
    """The grants and rows that were refused."""
    return {(one.grant, row) for one in lost for row in offsets(one.rows)}
