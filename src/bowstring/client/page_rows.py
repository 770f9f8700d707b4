"""Where the rows of an answer lie: their offsets, and when they arrived.

A few runs of rows come as a message each. Rows that are scattered, because they come again one by
one, come as arrays. The kit checks those when they come: a page whose arrays do not fit together
would name wrong messages.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb

Numbers = npt.NDArray[np.int64]

OFFSET_MAX: Final = (1 << 63) - 1


class RowRuns(NamedTuple):
    """Runs of rows, in the order of their offsets."""

    firsts: Numbers
    """The first offset of each."""
    rows: Numbers
    """How many rows each has."""
    arrived: Numbers
    """Moments of arrival; of each,"""
    arrived_rows: Numbers
    """so many rows."""

    def offsets(self) -> Numbers:
        """The offset of each row."""
        ends = self.rows.cumsum()
        offsets = (self.firsts - ends + self.rows).repeat(self.rows)
        offsets += np.arange(len(offsets), dtype=np.int64)
        return offsets

    def moments(self) -> Numbers:
        """The arrival of each row."""
        return np.repeat(self.arrived, self.arrived_rows)


def scattered(header: pb.FetchAnswer) -> RowRuns:
    """The runs of an answer that has them as arrays. Raises InvalidArgument if these do not fit
    together.
    """
    told = header.scattered
    told_offsets = np.array(told.offsets, np.uint64)
    if (told_offsets > OFFSET_MAX).any():
        raise _malformed("an offset is too large")
    steps = told_offsets.astype(np.int64)
    rows = np.array(told.rows, np.int64) if told.rows else np.ones(len(steps), np.int64)
    if len(rows) != len(steps):
        raise _malformed(f"{len(steps)} runs have {len(rows)} numbers of rows")
    firsts = steps.cumsum()  # one that wraps round is negative, because each step is below 2^63
    if not len(rows) or (rows < 1).any() or rows.sum() != header.rows:
        raise _malformed(f"its runs do not have {header.rows} rows")
    if header.runs or (firsts < 0).any() or (steps[1:] < rows[:-1]).any() or int(firsts[-1]) > OFFSET_MAX - int(rows[-1]):
        raise _malformed("its runs of offsets do not follow each other")
    if not told.arrived and not told.arrived_rows:
        return RowRuns(firsts, rows, np.array((header.arrived,), np.int64), np.array((header.rows,), np.int64))
    arrived, arrived_rows = np.array(told.arrived, np.int64), np.array(told.arrived_rows, np.int64)
    if len(arrived) != len(arrived_rows) or (arrived_rows < 1).any() or arrived_rows.sum() != header.rows:
        raise _malformed(f"its arrivals are not those of {header.rows} rows")
    return RowRuns(firsts, rows, arrived, arrived_rows)


def _malformed(why: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"this is not a message of the protocol: {why}.", hint="The schema is in proto/bowstring/v1.")
