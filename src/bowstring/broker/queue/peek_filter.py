"""Which rows a peek shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.log import message_lookup
from bowstring.broker.log.log import Log
from bowstring.broker.reading.selection import Selection
from bowstring.broker.reading.visibility import moments_of
from bowstring.core.pages import PageEntry, PageHeader
from bowstring.messages import filters


def selection_of(where: str, now: int | None) -> Selection:
    """The filter of a text; empty for all rows. Raises InvalidArgument."""
    return Selection(filters.parse(where, now) if where else None)


async def places_of(log: Log, topic: str, ids: Sequence[str]) -> dict[int, list[int]] | None:
    """The offsets of messages by partition, as far as they are found; None if none is asked for."""
    if not ids:
        return None
    named: dict[int, list[int]] = {}
    for message_id in ids:
        place = await message_lookup.find(log, topic, message_id)
        if place is not None:
            named.setdefault(place.partition, []).append(place.offset)
    return named


class PeekFilter(NamedTuple):
    """What passes."""

    filter: Selection
    """The subscription's."""
    where: Selection
    offsets: NDArray[np.int64] | None
    """Only these; None for all."""
    now: int
    kept_longer: int | None = 0
    """For how long after the retention of their topic the subscription gets rows; None for ever."""

    def passing(
        self, entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, offsets: NDArray[np.int64], fresh: bool
    ) -> NDArray[np.int64]:
        """`fresh` rows were never granted: those were not compared with the subscription's filter."""
        if self.offsets is not None:
            offsets = offsets[np.isin(offsets, self.offsets)]
        if fresh:
            offsets = self.filter.passing(entry, header, batch, offsets)
            if "due" in batch.schema.names:
                offsets = offsets[moments_of(batch.column("due"))[offsets - entry.first_offset] <= self.now]
        return self.where.passing(entry, header, batch, offsets)
