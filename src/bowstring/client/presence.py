"""Logs once when the broker of a client goes away and once when it comes back, however many streams
notice it.

A stream that breaks and is opened again at once is not logged. The broker is away when a handshake
has failed at every seed, and back with the first one that succeeds. The logger is
`bowstring.client.connection`; nothing is printed unless the program sets up `logging`.
"""

from __future__ import annotations

import logging
from typing import Final

from bowstring import errors
from bowstring.ports.clock import Clock

SETTLING_SECONDS: Final = 1.5
"""For this long after one connection has reached the broker, another may still fail: a channel that
could not connect waits before it tries again.
"""

_log = logging.getLogger("bowstring.client.connection")
_log.addHandler(logging.NullHandler())


class Presence:
    """What all connections of a client know about their broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._met_at: float | None = None
        self._missed_since: float | None = None
        self._told = False
        self.reason = ""
        """Why the last handshake failed; empty if it succeeded."""

    def met(self, address: str) -> None:
        """A handshake has succeeded."""
        now = self._clock.monotonic()
        if self._told and self._missed_since is not None:
            _log.warning("the broker is back at %s, after %.1f s", address, now - self._missed_since)
        self._met_at, self._missed_since, self._told, self.reason = now, None, False, ""

    def missed(self, reason: str, since: float) -> None:
        """Notes a failed handshake that began then. Before the first success, `connect` reports the
        failure.
        """
        self.reason = reason
        if self._missed_since is None:
            self._missed_since = since
        if self._met_at is not None and since - self._met_at >= SETTLING_SECONDS and not self._told:
            self._told = True
            _log.warning("the broker is away (%s); it is looked for until it is back", reason)


def unanswered(seeds: list[str], seconds: float, reason: str, error: errors.Error | None = None) -> errors.Unavailable:
    """The error of a call that was tried for this long."""
    given = error or errors.Unavailable("", hint="Wait and repeat.")
    message = f"no broker could do this within {seconds:g} s at {', '.join(seeds)}: {reason.rstrip('.')}."
    return errors.Unavailable(message, hint=given.hint, details={**given.details, "reason": reason})
