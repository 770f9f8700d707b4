"""What goes out of gathered rows to a consumer."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.gathered_rows import GatheredPage, RowsAtHand
from bowstring.broker.reading.moved_page import with_dues
from bowstring.broker.reading.page_cutting import dated
from bowstring.broker.reading.visibility import Moments, moments_of
from bowstring.core.pages import Origin
from bowstring.core.partition import Partition
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.messages import encoding


class RowsTaken(NamedTuple):
    """What gathered rows come to for a consumer."""

    piece: Fetched | None
    expired: RowSet
    """Rows that have expired by a time of their own."""
    too_old: RowSet


def take(partition: Partition, page: GatheredPage, wanted: RowSet, moments: Moments | None) -> RowsTaken:
    """Those of the rows that were asked for that are wanted, less those that have expired or are too
    old. A consumer that was sent them before (`moments` is None) gets them all the same.
    """
    rows, offsets, places = page.rows, page.offsets, page.places
    if len(wanted) < len(offsets):
        offsets = wanted.offsets()
        places = rows.first_of(offsets)
    batch = with_dues(partition, offsets, rows.batch.take(pa.array(places)))
    if moments is None:
        return RowsTaken(_piece(partition, rows, offsets, places, batch), NO_ROWS, NO_ROWS)
    age, is_current = rows.arrived[places], np.ones(len(offsets), np.bool_)
    if "due" in batch.schema.names:
        age = np.maximum(age, moments_of(batch.column("due")))
    if "expires" in batch.schema.names:
        expires = moments_of(batch.column("expires"))
        is_current = (expires == 0) | (expires > moments.now)
    is_young = age >= moments.horizon
    kept = np.flatnonzero(is_young & is_current)
    if len(kept) == len(offsets):
        return RowsTaken(_piece(partition, rows, offsets, places, batch), NO_ROWS, NO_ROWS)
    expired, too_old = RowSet.of_offsets(offsets[is_young & ~is_current]), RowSet.of_offsets(offsets[~is_young])
    piece = _piece(partition, rows, offsets[kept], places[kept], batch.take(pa.array(kept))) if len(kept) else None
    return RowsTaken(piece, expired, too_old)


def _piece(partition: Partition, rows: RowsAtHand, offsets: NDArray[np.int64], places: NDArray[np.int64], batch: pa.RecordBatch) -> Fetched:
    mask, count, data = encoding.rewrite(batch)
    arrived, origins = rows.arrived[places], _origins(rows, offsets, places)
    end, first = int(offsets[-1]) + 1, int(arrived[0])
    return Fetched(partition.number, end, first, rows.schema, mask, count, dated(offsets, arrived), origins, data, len(data))


def _origins(rows: RowsAtHand, offsets: NDArray[np.int64], places: NDArray[np.int64]) -> list[Origin]:
    """An origin has as many of the rows as it has, in one piece."""
    origin_of = rows.origin_of[places]
    starts = np.concatenate(([0], np.flatnonzero(origin_of[1:] != origin_of[:-1]) + 1))
    numbers, borders = origin_of[starts], [*starts.tolist(), len(offsets)]
    found = zip(numbers.tolist(), itertools.pairwise(borders), (offsets[starts] - rows.bases[numbers]).tolist(), strict=True)
    given = ((rows.origins[number], end - start, first) for number, (start, end), first in found)
    return [Origin(count, one.producer, one.number, first, one.group, one.arrived, one.rest) for one, count, first in given]
