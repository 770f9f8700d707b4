"""Rows of many pages that are due soon, taken out of them before they are due.

Rows that are due one after the other lie in different pages. One out of a page of some megabytes costs as
much as the whole page: it is read, and its checksum is computed over all of it. So rows of the next minutes
are gathered (`DueAhead`), each page read once for all of them, and stand here side by side until they are
delivered. They are kept as they were published; a due time that their owner gave them since is put in when
they go out, and whether they have expired or are too old is decided then.

Gathered rows are bounded in bytes over all partitions. Where rows are not here, they are read from their
pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.core.pages import Origin, PageEntry, PageHeader
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding
from bowstring.ports.store import Page

ROW_BYTES: Final = 20
"""Of a gathered row beside its columns."""
ORIGIN_BYTES: Final = 300


class RowsAtHand(NamedTuple):
    """Rows of one schema with the same columns, in the order of their offsets."""

    schema: int
    columns: int
    size: int
    """The bytes that they take in memory."""
    offsets: NDArray[np.int64]
    arrived: NDArray[np.int64]
    batch: pa.RecordBatch
    origin_of: NDArray[np.int32]
    """Of each row the place of its origin."""
    origins: list[Origin]
    bases: NDArray[np.int64]
    """Of each origin the offset that its producer's row 0 would have."""

    @staticmethod
    def of_page(
        entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, arrived: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> RowsAtHand:
        """Some rows of a page."""
        places = offsets - entry.first_offset
        origins, origin_of, bases = _origins(entry, header, places)
        taken = batch.take(pa.array(places))
        size = taken.nbytes + ROW_BYTES * len(offsets) + ORIGIN_BYTES * len(origins)
        return RowsAtHand(header.schema, header.columns, size, offsets, arrived[places], taken, origin_of, origins, bases)

    @staticmethod
    def joined(parts: Sequence[RowsAtHand]) -> RowsAtHand:
        """Rows of one schema with the same columns, given in the order of their offsets."""
        starts = np.cumsum([0, *(len(part.origins) for part in parts)])
        return RowsAtHand(
            parts[0].schema,
            parts[0].columns,
            sum(part.size for part in parts),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.arrived for part in parts]),
            encoding.together([part.batch for part in parts]),
            np.concatenate([part.origin_of + np.int32(start) for part, start in zip(parts, starts, strict=False)]),
            [origin for part in parts for origin in part.origins],
            np.concatenate([part.bases for part in parts]),
        )

    @property
    def kind(self) -> tuple[int, int]:
        """Rows of one kind can be joined."""
        return self.schema, self.columns

    def page(self, offsets: NDArray[np.int64], places: NDArray[np.int64]) -> GatheredPage:
        """Some of the rows, which stand there."""
        page, first, arrived = GatheredPage(b"", b""), int(offsets[0]), int(self.arrived[places[0]])
        page.rows, page.offsets, page.places = self, offsets, places
        page.entry = PageEntry(first, int(offsets[-1]) + 1 - first, arrived, 0, 0, 0, 0, self.columns, arrived)
        return page

    def first_of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the first ones of these rows stand, up to one that is not here."""
        places = np.searchsorted(self.offsets, offsets)
        here = self.offsets[np.minimum(places, len(self.offsets) - 1)] == offsets
        return places if here.all() else places[: int(here.argmin())]


def _origins(entry: PageEntry, header: PageHeader, places: NDArray[np.int64]) -> tuple[list[Origin], NDArray[np.int32], NDArray[np.int64]]:
    """Those of some rows of a page, which of them each row has, and where they begin."""
    starts = np.cumsum([0, *(origin.rows for origin in header.origins)])
    numbers, origin_of = np.unique(np.searchsorted(starts, places, side="right") - 1, return_inverse=True)
    origins = [header.origins[number] for number in numbers.tolist()]
    bases = entry.first_offset + starts[numbers] - np.array([origin.first_row for origin in origins], np.int64)
    return origins, origin_of.astype(np.int32), bases


class GatheredPage(Page):
    """Gathered rows that stand for the pages that they are from, as far as these are to be delivered."""

    rows: RowsAtHand
    offsets: NDArray[np.int64]
    """Those of the rows that were asked for."""
    places: NDArray[np.int64]
    """Where they stand."""
    entry: PageEntry
    """From the first of the rows to the last; other rows lie between them."""


class Gathered:
    """What is gathered in one incarnation."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rows: dict[tuple[int, int], list[RowsAtHand]] = {}
        """By topic and partition; of each kind of rows one."""
        self._wanted: set[tuple[int, int]] = set()
        """Partitions of which rows were to be delivered since they were gathered."""
        self._users: set[tuple[int, int]] = set()

    def find(self, partition: Partition, rows: RowSet, bytes_max: int) -> GatheredPage | None:
        """The first of these rows, about so many bytes; None if the first one is not here."""
        place = partition.topic, partition.number
        self._wanted.add(place)
        for found in self._rows.get(place, ()):
            at = int(np.searchsorted(found.offsets, rows.first))
            if at == len(found.offsets) or found.offsets[at] != rows.first or rows.first < partition.retained.first:
                continue
            most = max(1, bytes_max * len(found.offsets) // found.size)
            offsets = rows.smallest(min(most, len(found.offsets))).offsets()
            places = found.first_of(offsets)
            return found.page(offsets[: len(places)], places)
        return None

    def put(self, partition: Partition, rows: list[RowsAtHand]) -> None:
        """In place of those that were gathered before."""
        self._rows[partition.topic, partition.number] = rows

    def take_wanted(self, partition: Partition) -> bool:
        """Whether rows of a partition were to be delivered since this was asked."""
        place = partition.topic, partition.number
        is_wanted = place in self._wanted
        self._wanted.discard(place)
        return is_wanted

    def share(self, partition: Partition) -> int:
        """How many bytes a partition may have gathered."""
        self._users.add((partition.topic, partition.number))
        return self._bytes_max // len(self._users)

    def forget(self, partition: Partition) -> None:
        """Nothing is due there any more."""
        place = partition.topic, partition.number
        self._rows.pop(place, None)
        self._users.discard(place)
        self._wanted.discard(place)

    @property
    def bytes(self) -> int:
        return sum(rows.size for found in self._rows.values() for rows in found)
