"""Where a page is cut when it is sealed, so that one row that is due in a year does not cost megabytes.

A page goes as a whole, when retention has taken all of its rows. A row that is due after the rest
of its page is gone keeps all of the page's bytes. So the late rows get pages of their own. Offsets
stay as they are: the page is cut into runs of rows that follow each other.

A cut has to pay. Late rows that stand close to each other stay together, with what is between them,
unless that is `PIECE_BYTES` or more; and nothing is cut that frees less than half of the page.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bowstring.core.pages import Origin

PIECE_BYTES = 16 * 1024
"""What a page of its own is worth."""


def pieces(late: NDArray[np.bool_], length: int, cut_bytes: int) -> list[tuple[int, int]]:
    """The runs of rows, as (first, end), that become pages of their own, in order; none if the page stays whole.

    `late` says of each row whether it outlives the others, `length` is what the page takes. Pages of less than `cut_bytes` stay whole."""
    rows, places = len(late), np.flatnonzero(late)
    if length < cut_bytes or not len(places) or len(places) == rows:
        return []
    gap = max(1, rows * min(PIECE_BYTES, cut_bytes // 4) // length)
    apart = np.flatnonzero(np.diff(places) > gap)
    firsts = [int(places[0]), *places[apart + 1].tolist()]
    ends = [*(places[apart] + 1).tolist(), int(places[-1]) + 1]
    if 2 * sum(end - first for first, end in zip(firsts, ends, strict=True)) > rows:
        return []
    borders = sorted({0, *firsts, *ends, rows})
    return list(pairwise(borders))


def cut_origins(origins: tuple[Origin, ...], first: int, end: int) -> tuple[Origin, ...]:
    """Whose the rows [first, end) of a page are. An origin that goes on behind them says how many of its rows do."""
    found: list[Origin] = []
    start = 0
    for origin in origins:
        low, high = max(first, start), min(end, start + origin.rows)
        if low < high:
            behind = start + origin.rows - high
            found.append(origin._replace(rows=high - low, first_row=origin.first_row + low - start, rest=origin.rest + behind))
        start += origin.rows
    return tuple(found)
