"""Reading dead letters of one partition, as far as one answer has room for them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import leased_page
from bowstring.broker.queue.granted_pages import GrantedPages
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.page_cutting import some_rows
from bowstring.broker.reading.reading import Reading
from bowstring.broker.reading.selection import Selection
from bowstring.core.pages import decode_header
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.messages import encoding

LOOK_BYTES_MAX: Final = 32 * 1024 * 1024
"""About how many bytes a page of the list looks at."""
READ_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""About how many bytes of letters it has at most."""


class Room:
    """What one answer has room for."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.bytes = ANSWER_BYTES_MAX
        self.look = LOOK_BYTES_MAX

    @property
    def is_over(self) -> bool:
        return self.rows <= 0 or self.bytes <= 0 or self.look <= 0


class LettersFound(NamedTuple):
    pieces: list[Fetched]
    rows: RowSet


async def passing(
    reading: Reading, actor: PartitionActor, rows: RowSet, selection: Selection | None, left: Room
) -> tuple[LettersFound, int]:
    """Those of the rows that pass, and up to where it has looked. Without a selection nothing is read."""
    if not rows:
        return LettersFound([], NO_ROWS), rows.stop
    if selection is None:
        some = rows.smallest(left.rows)
        left.rows -= len(some)
        return LettersFound([], some), rows.stop if len(some) == len(rows) else some.stop
    partition, pages, upto = actor.partition, GrantedPages(reading, whole=True), rows.first
    pieces, passed = list[Fetched](), list[RowSet]()
    while rows and not left.is_over:
        found = await pages.read(partition, rows, READ_BYTES_MAX)
        for entry, page in zip(found.entries, found.pages, strict=True):
            left.look -= entry.length
            header = decode_header(page.header)
            batch = encoding.decode(header.columns, page.body)
            offsets = partition.live(entry.first_offset, entry.end)
            offsets = np.intersect1d(offsets, (rows & RowSet(entry.first_offset, entry.end)).offsets(), assume_unique=True)
            offsets = selection.passing(entry, header, batch, offsets)
            upto = entry.end
            if len(offsets):
                if len(offsets) > left.rows:
                    offsets = offsets[: left.rows]
                    upto = int(offsets[-1]) + 1
                piece = leased_page.first_rows(some_rows(partition, entry.end, entry, header, batch, offsets), len(offsets))
                pieces.append(piece)
                passed.append(RowSet.of_offsets(offsets))
                left.rows -= len(offsets)
                left.bytes -= piece.size
            if left.is_over:
                return LettersFound(pieces, RowSet.union(passed)), upto
        upto = max(upto, found.damaged.stop) if found.damaged else found.entries[-1].end if found.entries else rows.stop
        rows = rows - RowSet(0, upto)
        await reading.clock.sleep(0)
    return LettersFound(pieces, RowSet.union(passed)), upto
