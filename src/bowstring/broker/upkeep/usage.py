"""Which segments are needed: bytes that something refers to, in each.

Two kinds of things refer to a segment: pages that the journal has and that are not sealed yet, and
extents. A segment that neither uses is given back to the store, unless it is pinned: by a backup
that still copies it, or by a seal that has written to it and not yet committed that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager


class Usage:
    """The bytes in use, by segment."""

    def __init__(self) -> None:
        self._recent: Counter[int] = Counter()
        self._sealed: Counter[int] = Counter()
        self._pins: Counter[int] = Counter()
        self._holds = 0

    def add_recent(self, segments: Mapping[int, int]) -> None:
        """Pages were written, or found in the journal."""
        _add(self._recent, segments, 1)

    def remove_recent(self, segments: Mapping[int, int]) -> None:
        """Pages of the journal are sealed, or gone."""
        _add(self._recent, segments, -1)

    def left_the_index(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """The index of a partition's recent pages had `before` in these segments, and has `after`
        now.
        """
        self.remove_recent({segment: size - after.get(segment, 0) for segment, size in before.items()})

    def add_sealed(self, uses: Iterable[tuple[int, int]]) -> None:
        """Extents were added."""
        _add(self._sealed, dict(uses), 1)

    def remove_sealed(self, uses: Iterable[tuple[int, int]]) -> None:
        _add(self._sealed, dict(uses), -1)

    def reset_sealed(self, sealed: Mapping[int, int]) -> None:
        """The bytes that extents use, from the catalog."""
        self._sealed = Counter(sealed)

    def sealed(self) -> dict[int, int]:
        """The bytes that extents use, as far as this object knows."""
        return dict(self._sealed)

    def of(self, segment: int) -> int:
        return self._recent[segment] + self._sealed[segment]

    def recent(self, segment: int) -> int:
        """Bytes of pages that are not sealed: those cannot be moved."""
        return self._recent[segment]

    def segments(self) -> set[int]:
        """All that are in use."""
        return {segment for counter in (self._recent, self._sealed) for segment, size in counter.items() if size}

    def unused(self, segments: Collection[int]) -> list[int]:
        """Those of the segments that may be used again."""
        if self._holds:
            return []
        return sorted(segment for segment in segments if not self.of(segment) and not self._pins[segment])

    @contextmanager
    def hold(self) -> Generator[None]:
        """While the block runs no segment is given back: the caller is about to find out what it
        has to pin.
        """
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def pin(self, segment: int) -> None:
        """Until `unpin` the segment is not given back."""
        self._pins[segment] += 1

    def unpin(self, segment: int) -> None:
        self._pins[segment] -= 1


def _add(counter: Counter[int], segments: Mapping[int, int], sign: int) -> None:
    for segment, size in segments.items():
        counter[segment] += sign * size
        assert counter[segment] >= 0, f"segment {segment:#x} is used by less than nothing"
        if not counter[segment]:
            del counter[segment]
