"""Room on the disk for publishes: the broker refuses them early enough to leave some for the work
that makes room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bowstring.broker.shortage import disk_full
from bowstring.broker.surroundings import Surroundings

ALIVE_MIN: Final = 0.4
"""The cleaner copies the live pages out of a segment when they are less than this share of it."""
ROOM_KEPT: Final = 1 << 20
"""Bytes in segments that publishers leave to the sealer. They also leave the cleaner room for the
live pages of a segment.
"""


class DiskRoom:
    """The room that is left for publishes."""

    def __init__(self, surroundings: Surroundings, waiting_bytes: Callable[[], int]) -> None:
        self._store = surroundings.store
        self._reserve = surroundings.reserve
        self._shortage = surroundings.shortage
        self._segment_bytes_max = surroundings.settings.segment_bytes_max
        self._waiting_bytes = waiting_bytes
        """Bytes of pages that are decided and not written yet."""

    def check(self, size: int) -> None:
        """Raises Full if the disk has no room for this many bytes."""
        if not self._has(size):
            self._shortage.begin()
            raise disk_full()

    @property
    def is_full(self) -> bool:
        """Are publishes refused for lack of room?"""
        return self._shortage.is_on or not self._has(1)

    def look(self) -> None:
        """Tells the shortage whether the disk is full."""
        if not self._has(1):
            self._shortage.begin()
        elif not self._store.is_short:
            self._shortage.found_room()

    def _has(self, size: int) -> bool:
        """Whether there is room: the store has its next segment, and the catalog its reserve."""
        if self._reserve is not None and not self._reserve.held:
            return False
        if not self._store.is_short:
            return True
        kept = int(ALIVE_MIN * max(self._store.segments().values(), default=0)) + ROOM_KEPT
        return self._store.room >= self._waiting_bytes() + size + min(kept, self._segment_bytes_max // 2)
