"""What all transports of a broker have in common: how many streams it serves at the same time, how
long a message may be, and the error of a call that has failed.
"""

from __future__ import annotations

import logging
from typing import Final

from bowstring import errors
from bowstring.ports.events import UNOBSERVED, Observer
from bowstring.ports.transport import Caller

_log: Final = logging.getLogger("bowstring.wire")

HEADER_ROOM: Final = 64 * 1024
"""The room of a message beside its batch, in bytes."""
REQUEST_BYTES: Final = 1024 * 1024
"""The maximum of a message without a batch, however small batches are."""


def message_bytes_max(batch_bytes_max: int) -> int:
    """The maximum of a message, by the maximum of its batch."""
    return max(batch_bytes_max, REQUEST_BYTES) + HEADER_ROOM


class StreamLimits:
    """Counts streams, and refuses those beyond the limits. The transports of a broker share one."""

    def __init__(self, *, streams_max: int, connection_streams_max: int, observer: Observer = UNOBSERVED) -> None:
        self.streams_max = streams_max
        self.connection_streams_max = connection_streams_max
        self.observer = observer
        self.streams = 0
        """The number of open streams."""
        self.refused = 0
        """The number of streams that a limit has refused."""

    def begin(self, method: str, caller: Caller, of_connection: int) -> None:
        """Counts a stream whose connection has so many others. Raises Unavailable beyond a limit."""
        if of_connection >= self.connection_streams_max:
            self._refuse("connection.streams-max", of_connection, caller)
            raise errors.Unavailable(
                f"this connection has {of_connection} streams already, which is the limit (connection.streams-max).",
                hint="Open another connection, or raise the limit.",
            )
        if self.streams >= self.streams_max:
            self._refuse("connections.max", self.streams, caller)
            raise errors.Unavailable(
                f"this broker serves {self.streams} streams already, which is its limit (connections.max).",
                hint="Close some producers and readers, or raise the limit.",
            )
        self.streams += 1
        self.observer.note("stream-opened", call=method, client=caller.address, streams=self.streams)

    def end(self, method: str, caller: Caller) -> None:
        """A stream that was counted has ended."""
        self.streams -= 1
        self.observer.note("stream-closed", call=method, client=caller.address, streams=self.streams)

    def _refuse(self, limit: str, streams: int, caller: Caller) -> None:
        self.refused += 1
        self.observer.note("client-refused", limit=limit, streams=streams, client=caller.address)

    def failure(self, method: str, caller: Caller, error: Exception) -> errors.Error:
        """The error that the caller of a failed call gets. Anything but an error of the product is a
        bug: it is logged, and the caller learns no more than that.
        """
        if isinstance(error, errors.Error):
            self.observer.note("call-refused", call=method, client=caller.address, problem=str(error))
            return error
        _log.error("%s from %s failed in a way that nobody foresaw", method, caller.address, exc_info=error)
        return errors.Error("the broker failed at this call in a way that nobody foresaw.", hint="Its log says more.")
