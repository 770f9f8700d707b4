"""What the stories that checkers are tried on have in common."""

from __future__ import annotations

from tests.history.events import History


class ToldByHand:
    """A history whose every step takes a second."""

    def __init__(self) -> None:
        self.time = 0.0
        self.history = History(self._tick)

    def _tick(self) -> float:
        self.time += 1.0
        return self.time
