"""A thread waits for an outcome that the loop decides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from bowstring import times
from bowstring.client.arguments import Span


def wait(when_settled: Callable[[Callable[[], object]], object], timeout: Span | None) -> None:
    """Waits until something is decided whose `when_settled` this is. After `timeout` only the
    waiting ends, with `TimeoutError`.
    """
    undecided = threading.Lock()  # and no Event, whose lock the loop would take, too: see `wire.loops`
    undecided.acquire()

    def decide() -> None:
        with suppress(RuntimeError):  # it may be called twice
            undecided.release()

    when_settled(decide)
    if not undecided.acquire(timeout=-1 if timeout is None else times.span(timeout, "timeout")):
        raise TimeoutError(f"it is not decided after {timeout}; the request goes on")
