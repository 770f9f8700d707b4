"""Joins small neighbouring pages into one message: a topic of many partitions has pages of a few
rows each, scattered over its segments.

A message on the wire costs broker and kit some hundred microseconds, whatever its size; joining a
page costs under ten. The facts about each page (offsets, arrivals, producers) stay separate, as
runs and origins. Nothing waits for this: only pages of one round are joined. Large or compressed
pages are sent as they are stored, untouched.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bowstring.core.pages import Origin
from bowstring.messages import encoding
from bowstring.messages.metadata import is_compressed
from bowstring.ports.disk import Buffer

SMALL_BYTES = 64 * 1024
JOINED_BYTES_MAX = 1024 * 1024
"""The largest joined batch, in bytes and in rows: the receiver takes it apart by runs."""
JOINED_ROWS_MAX = 65_536


FetchedRuns = NDArray[np.int64]
"""A line for each run of consecutive offsets that arrived together: its first offset, its rows, its
arrival. A page may have a hundred thousand of them, so they are an array.
"""
NO_RUNS: FetchedRuns = np.empty((0, 3), np.int64)


class Fetched(NamedTuple):
    """Rows of one page or of several, or (without data) deleted rows that were passed over."""

    partition: int
    next_offset: int
    arrived: int
    schema: int
    columns: int
    rows: int
    runs: FetchedRuns
    origins: list[Origin]
    """Rows of one origin lie as far from one another in the producer's batch as by their offsets."""
    data: Buffer | None
    size: int


def joined(pieces: Sequence[Fetched]) -> list[Fetched]:
    """The same rows in the same order, in fewer pieces where they are small. All are of one
    partition.
    """
    return [_one(group) if len(group) > 1 else group[0] for group in _groups(pieces)]


def _groups(pieces: Sequence[Fetched]) -> Iterator[list[Fetched]]:
    """The groups of pieces to send as one."""
    group: list[Fetched] = []
    size = rows = 0
    for piece in pieces:
        fits = size + piece.size <= JOINED_BYTES_MAX and rows + piece.rows <= JOINED_ROWS_MAX
        if group and not (fits and _is_small(piece) and _is_small(group[0]) and _alike(group[0], piece)):
            yield group
            group, size, rows = [], 0, 0
        group.append(piece)
        size, rows = size + piece.size, rows + piece.rows
    if group:
        yield group


def _is_small(piece: Fetched) -> bool:
    return piece.data is not None and piece.size <= SMALL_BYTES and not is_compressed(piece.data)


def _alike(one: Fetched, other: Fetched) -> bool:
    return (one.schema, one.columns) == (other.schema, other.columns)


def _one(group: list[Fetched]) -> Fetched:
    whole = encoding.rewrite_together([encoding.decode(piece.columns, piece.data) for piece in group if piece.data is not None])
    runs = np.concatenate([piece.runs for piece in group])
    origins = list(itertools.chain.from_iterable(piece.origins for piece in group))
    size = sum(piece.size for piece in group)
    batch = group[0]._replace(columns=whole.mask, rows=whole.rows, data=whole.data, size=size)
    return batch._replace(next_offset=group[-1].next_offset, runs=runs, origins=origins)
