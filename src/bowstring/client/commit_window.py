"""Flow by commit: how many messages a reader may hand out before the program has to commit.

The program gets a window of messages. When it has committed the given share of it, the window is
filled up again. So there are never more uncommitted messages than the window, and a program that
commits steadily never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import ceil

import numpy as np
import numpy.typing as npt

Key = tuple[str, int]
"""Topic and partition."""


class CommitWindow:
    """The window of one reader."""

    def __init__(self, rows: int, share: float) -> None:
        self._rows = rows
        self._step = max(1, ceil(rows * share))
        """The share to commit before more messages come."""
        self._granted = rows
        self._handed = self._committed = 0
        self._uncommitted: dict[Key, deque[npt.NDArray[np.int64]]] = {}
        """The offsets that the program has, in order."""

    @property
    def room(self) -> int:
        """How many more may be handed out now."""
        return self._granted - self._handed

    def handed_out(self, topic: str, partition: int, offsets: npt.NDArray[np.int64]) -> None:
        """Notes rows that the program gets."""
        self._handed += len(offsets)
        self._uncommitted.setdefault((topic, partition), deque()).append(offsets)

    def committed(self, topic: str, position: Mapping[int, int]) -> None:
        """Notes that everything before these offsets is committed."""
        for partition, end in position.items():
            waiting = self._uncommitted.get((topic, partition), deque())
            while waiting:
                offsets = waiting.popleft()
                done = int(np.searchsorted(offsets, end))
                self._committed += done
                if done < len(offsets):
                    waiting.appendleft(offsets[done:])
                    break
        if self._granted - self._committed <= self._rows - self._step:
            self._granted = self._committed + self._rows
