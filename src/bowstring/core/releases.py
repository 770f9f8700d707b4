"""Which rows retention has taken of those that it had kept below the floor, as far as a reader has to
know that is among them. A reader from the beginning passes over what was gone when it began; what goes
later it has missed.

Of rows whose time is over their due times tell: those that are due at the horizon of the reader or later
were there when it began. Only rows are remembered that no other one stands for, with a later due time and
a larger offset: these are few, because rows go in the order of their due times. Rows that were too many
bytes go up to an offset, whenever they are due.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np

from bowstring.core.due_blocks import Dues

FRONT_MAX: Final = 1024
"""So many rows are remembered. Of more, neighbours stand for each other: a reader that began between
the two gets OutOfRange, although it may not be overtaken.
"""


class Releases:
    """Those of one partition, since it was loaded. No reader is older."""

    def __init__(self) -> None:
        self._moments: list[int] = []
        """Due times, ascending, and beside them offsets, descending."""
        self._offsets: list[int] = []
        self.latest = 0
        """The latest due time of a row that was released."""
        self.shed_to = 0
        """Kept rows before this offset were too many bytes."""

    def note(self, dues: Dues) -> None:
        """These go, because their time is over; they are sorted by due time."""
        if not len(dues.moments):
            return
        moments, offsets = np.concatenate((self._moments, dues.moments)), np.concatenate((self._offsets, dues.offsets))
        order = np.lexsort((offsets, moments))
        moments, offsets = moments[order], offsets[order]
        behind = np.maximum.accumulate(offsets[::-1])[::-1]
        stand = np.append(offsets[:-1] > behind[1:], True)
        moments, offsets = moments[stand].astype(np.int64), offsets[stand].astype(np.int64)
        if len(moments) > FRONT_MAX:
            count = len(moments) // 2
            moments = np.concatenate((moments[1 : 2 * count : 2], moments[2 * count :]))
            offsets = np.concatenate((offsets[: 2 * count : 2], offsets[2 * count :]))
        self._moments, self._offsets = moments.tolist(), offsets.tolist()
        self.latest = max(self.latest, int(dues.moments[-1]))

    def shed(self, offset: int) -> None:
        """All that was kept before this offset goes."""
        self.shed_to = max(self.shed_to, offset)

    def any(self, since: int, offset: int) -> bool:
        """Has a row gone from the offset on, that is due at that moment or later?"""
        at = bisect_left(self._moments, since)
        return at < len(self._moments) and self._offsets[at] >= offset
