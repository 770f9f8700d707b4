"""Delays Ctrl-C to a safe moment, and ends commands that wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

LOOK_SECONDS: Final = 0.5
"""How often a command that waits checks whether it is over."""


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


class Ended(BaseException):
    """The command is to end. Raised in the main thread, and only where it waits."""


class Endings:
    """Ends a command that waits for messages: on Ctrl-C, on SIGTERM, when another thread asks for
    it, or when `over` says so, which is asked twice a second.

    The end comes where the main thread waits (`waiting`), never in the middle of its work. A second
    Ctrl-C calls `again`.
    """

    def __init__(self, over: Callable[[], bool], again: Callable[[], object]) -> None:
        self.number = 0
        """The signal that asked for the end; 0 if none did."""
        self._over = over
        self._again = again
        self._asked = self._waits = False
        self._before: dict[int, Any] = {}
        self._main = threading.main_thread().ident or 0
        self._left = threading.Event()
        self._watch = threading.Thread(target=self._look, name="endings", daemon=True)

    def __enter__(self) -> Endings:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            self._before[number] = signal.signal(number, self._signalled)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._watch.join()
        for number, before in self._before.items():
            signal.signal(number, before)

    def end(self) -> None:
        """Asks for the end, from any thread."""
        signal.pthread_kill(self._main, signal.SIGUSR1)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """The main thread waits in this block. Raises `Ended` there, and before it if the end was
        asked for meanwhile.
        """
        self._waits = True
        try:
            if self._asked:
                raise Ended
            yield
        finally:
            self._waits = False

    def _signalled(self, number: int, frame: object) -> None:
        repeated = self._asked and number == signal.SIGINT
        self._asked = True
        if number != signal.SIGUSR1:
            self.number = self.number or number
        if self._waits:
            self._waits = False
            raise Ended
        if repeated:
            self._again()

    def _look(self) -> None:
        while not self._left.wait(LOOK_SECONDS):
            if not self._asked and self._over():
                self.end()
