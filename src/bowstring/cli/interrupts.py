"""Delays Ctrl-C to a safe moment."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Ctrl-C during a batch takes effect when the batch is complete; a second Ctrl-C takes effect
    at once.
    """

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
        """Delays Ctrl-C while this block runs."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._asked:
            raise KeyboardInterrupt
