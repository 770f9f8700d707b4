"""What the broker sends to a consumer, as values, and how it reaches the consumer's session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from bowstring import errors
from bowstring.broker.reading.fetched import Fetched
from bowstring.core.settling import GrantRows, RowStanding


class PushedLease(NamedTuple):
    """The lease by which a consumer holds the rows of a push."""

    grant: int
    until: int
    again: bool
    """Sent again after a reconnect."""
    retry_counts: Sequence[int]
    """Of runs of rows, how often they were delivered before; empty if none of them was."""
    retry_rows: Sequence[int]
    """Of each run, how many rows."""
    topic: str = ""
    """The topic that the rows are of, if they are dead letters that were redriven."""
    partition: int = 0
    """Their partition there."""
    asked: int = 0
    """The number of the request by which the consumer has asked for the rows; 0 if it has not."""


class PushedRows(NamedTuple):
    """Rows of one partition, and their lease."""

    fetched: Fetched
    lease: PushedLease


Grants = Mapping[int, Sequence[int]]
"""Numbers of grants by partition."""


class PushReceiver(Protocol):
    """A consumer's session, as the broker sees it. Nothing here waits or raises."""

    def room(self) -> int:
        """How many bytes it takes; 0 or less for none."""
        ...

    def push(self, pushed: PushedRows) -> None:
        """Sends rows."""
        ...

    def lost(self, grants: Grants, standing: RowStanding | None = None) -> None:
        """The consumer does not hold these any more; perhaps it is known why."""
        ...

    def revoked(self, partition: int, parts: Sequence[GrantRows]) -> None:
        """The consumer does not hold these rows any more: an earlier one of their key was given
        back.
        """
        ...

    def ping(self) -> None:
        """Asks the consumer for an answer at once."""
        ...

    def end(self, error: errors.Error) -> None:
        """Ends the session with this error."""
        ...
