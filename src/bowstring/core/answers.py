"""The answers to a publish, as values. Refusals are `bowstring.Error`s."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Repeat(NamedTuple):
    """A run of rows of a batch that were stored before, and the first of their consecutive offsets."""

    row: int
    rows: int
    offset: int


class Stored(NamedTuple):
    """The batch is durable. Rows that are in no repeat have the offsets `first_offset`,
    `first_offset + 1`, … in their order.
    """

    first_offset: int
    rows: int
    repeats: tuple[Repeat, ...] = ()
    duplicate: bool = False


class ResendAfter(NamedTuple):
    """Not stored, because it does not follow the producer's last batch in this partition, which has
    this number.
    """

    number: int


Answer = Stored | ResendAfter


def repeats_of(rows: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[Repeat, ...]:
    """These rows, as runs of consecutive ones with consecutive offsets; `offsets` has those of all
    rows of the batch.
    """
    if not len(rows):
        return ()
    known = offsets[rows]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(known) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    counts = np.diff(np.concatenate((starts, [len(rows)])))
    return tuple(Repeat(int(rows[at]), int(count), int(known[at])) for at, count in zip(starts, counts, strict=True))
