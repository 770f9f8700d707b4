"""Ctrl-C at moments that can bear it."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Ctrl-C while a batch is under way counts when that is whole, or at once when it comes a second time."""

    def __init__(self) -> None:
        self._busy = self._asked = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, number: int, frame: object) -> None:
        if not self._busy or self._asked:
            raise KeyboardInterrupt
        self._asked = True

    @contextmanager
    def held(self) -> Generator[None]:
        """While this block runs."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._asked:
            raise KeyboardInterrupt
