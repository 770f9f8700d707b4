"""What becomes of a message that a handler of `consumer.run` has worked on."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from bowstring import errors
from bowstring.client.lease_marks import ACK, NACK, REJECT
from bowstring.client.leased_message import LeasedMessage, fitted_reason, reason_of
from bowstring.client.reader_settings import rows_limit

_log = logging.getLogger("bowstring.client.consumer")


class Reject(Exception):
    """Raise it in a handler of `consumer.run` to reject the message: it cannot be processed, now or
    later. Its text is the reason; it may be another exception, and is cut if it is too long.
    """

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = fitted_reason(reason) if reason else "rejected by its handler"


def settle(message: LeasedMessage, error: BaseException | None) -> None:
    """Acks what a handler has done, and gives back what it has failed at. A message that the handler
    has settled itself is left alone. Errors of the program are logged, not raised: other messages
    wait.
    """
    try:
        if error is None:
            _finish(message, ACK)
        elif isinstance(error, Reject):
            _finish(message, REJECT, error.reason)
        else:
            _finish(message, NACK, reason_of(error))
            if isinstance(error, Exception):
                _log.error("a handler has failed at %r, which is given back", message, exc_info=error)
    except errors.LeaseLost as lost:
        _log.warning("a message was worked on for nothing: %s", lost)


def _finish(message: LeasedMessage, code: int, reason: str = "") -> None:
    message._finish(code, reason)  # pyright: ignore[reportPrivateUsage]


def check(handler: Any, concurrency: Any) -> None:
    """Refuses what cannot be run."""
    if not callable(handler):
        raise errors.InvalidArgument(f"handler={handler!r} cannot be called.", hint="Use a function of a message.")
    rows_limit(concurrency, "concurrency")


async def asked(alive: Callable[[], Any]) -> Any:
    """Asks `alive` in the loop itself: it is the program's own."""
    answer = alive()
    return await answer if inspect.isawaitable(answer) else answer
