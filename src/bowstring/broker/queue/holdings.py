"""What a consumer holds, over all partitions, and what it may hold.

Its credit is a limit and not a balance, so nothing drifts: what it holds is what the ledgers say.
The counts here are sums over them, brought up to date grant by grant whenever a ledger has changed.
Bytes are not in a ledger. Those of a grant are estimated until its rows are sent, and shrink with
its rows.
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring.broker.log.actor import PartitionActor


class ConsumerCredit(NamedTuple):
    """What a consumer may hold."""

    messages: int
    """0 pauses."""
    bytes: int
    """A single message may overdraw it."""


FULL_SHARE = 32
"""A consumer is full, too, when less than this part of its bytes is free: a flush for so little costs
more than it is worth."""
NO_CREDIT = ConsumerCredit(0, 0)
MARGIN = 1.05
"""Messages are taken to be so much larger than their mean: what does not fit has to be given back."""


class HeldGrant:
    """The rows of one grant that a consumer holds."""

    __slots__ = ("bytes", "estimate", "rows", "unsent")

    def __init__(self, estimate: int) -> None:
        self.rows = 0
        self.bytes = 0
        self.unsent = 0
        """How many of the rows were not sent to it yet."""
        self.estimate = estimate
        """The bytes that each of these counts."""


class Holdings:
    """The grants of one consumer."""

    def __init__(self) -> None:
        self.credit = NO_CREDIT
        self.rows = 0
        self.unsent = 0
        """Those of the rows that were not sent to it yet."""
        self.bytes = 0
        self.is_stalled = False
        """The next message has more bytes than there is room for: until something is settled it
        gets nothing.
        """
        self.is_behind = False
        """Grants of scattered rows wait for pages to be read (`Delivery`). What waits to be granted meanwhile
        is one grant then, which has each page read once.
        """
        self._grants: dict[PartitionActor, dict[int, HeldGrant]] = {}
        self.apart: set[tuple[PartitionActor, int]] = set()
        """Grants of suspects: beside one of them it holds nothing."""

    def limit(self, credit: ConsumerCredit) -> None:
        """From here on it may hold this."""
        self.credit = credit
        self.is_stalled = False

    @property
    def has_room(self) -> bool:
        """Whether it may get at least one more message, as far as is known."""
        if self.is_behind or self.rows >= self.credit.messages:
            return False
        return not self.rows or (self.bytes <= self.credit.bytes * (1 - 1 / FULL_SHARE) and not self.is_stalled)

    def room(self, mean: float) -> int:
        """How many more messages of this mean size it may get."""
        if not self.has_room:
            return 0
        fitting = int((self.credit.bytes - self.bytes) / (mean * MARGIN))
        if fitting < 1:
            return 0 if self.rows else 1
        return min(fitting, self.credit.messages - self.rows)

    # What the ledgers say

    def update(self, actor: PartitionActor, grant: int, rows: int, mean: float, *, apart: bool = False) -> None:
        """Of this grant it holds so many rows; of one that is new here, of about this size."""
        if apart and rows:
            self.apart.add((actor, grant))
        elif self.apart:
            self.apart.discard((actor, grant))
        grants = self._grants.get(actor)
        if grants is None:
            grants = self._grants[actor] = {}
        held = grants.get(grant)
        if held is None:
            held = grants[grant] = HeldGrant(max(1, int(mean)))
            size, unsent = rows * held.estimate, rows
        else:
            size, unsent = held.bytes * rows // held.rows, min(held.unsent, rows)
            self.is_stalled = self.is_stalled and rows >= held.rows
        self.rows += rows - held.rows
        self.bytes += size - held.bytes
        self.unsent += unsent - held.unsent
        held.rows, held.bytes, held.unsent = rows, size, unsent
        if not rows:
            del grants[grant]
            if not grants:
                del self._grants[actor]

    def grants_in(self, actor: PartitionActor) -> list[int]:
        """The grants that it holds in a partition."""
        return list(self._grants.get(actor, ()))

    # What is sent

    @property
    def sendable(self) -> int:
        """How many rows may be sent to it."""
        return self.credit.messages - self.rows + self.unsent

    def spare(self, actor: PartitionActor, grant: int) -> int:
        """How many bytes the rows of a grant may have that were not sent yet."""
        held = self._grants.get(actor, {}).get(grant)
        estimated = 0 if held is None else held.unsent * held.estimate
        return self.credit.bytes - self.bytes + estimated

    def sent(self, actor: PartitionActor, grant: int, rows: int, size: int) -> None:
        """So many rows of a grant were sent, and had this size in place of the estimate."""
        held = self._grants.get(actor, {}).get(grant)
        if held is not None:
            more = max(size - rows * held.estimate, -held.bytes)
            rows = min(rows, held.unsent)
            held.bytes += more
            held.unsent -= rows
            self.bytes += more
            self.unsent -= rows

    def has(self, actor: PartitionActor, grant: int) -> None:
        """It has all rows of a grant since before it came."""
        held = self._grants.get(actor, {}).get(grant)
        if held is not None:
            self.unsent -= held.unsent
            held.unsent = 0
