"""Why an incarnation, or the whole broker, has ended: in the words of the people who read it."""

from __future__ import annotations

from typing import Final

from bowstring import errors
from bowstring.broker.shortage import disk_full
from bowstring.ports.failures import DiskFull, Fenced, StorageFailed

START_AGAIN: Final = "Look after the disk, then start the broker again: it finds out what is there."


def lost_because(failure: DiskFull | Fenced) -> errors.Error:
    """The error for callers when the broker loads again by itself."""
    if isinstance(failure, DiskFull):
        return disk_full()
    return errors.Unavailable("another incarnation has taken over; loading again.")


def ended_because(failure: BaseException) -> str:
    """The sentence for callers when the broker does not go on."""
    if isinstance(failure, Fenced):
        return "another node serves this broker now."
    if isinstance(failure, (StorageFailed, OSError)):
        return f"the broker has ended: its storage has failed: {failure}."
    return f"the broker has ended: {failure!r}."
