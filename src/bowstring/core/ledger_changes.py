"""The changes of a ledger: what happened to the rows of one partition for one subscription.

They are part of the vocabulary of `changes`, and closed in the same way: `LedgerChange` names every
kind. A topic's subscriptions are nothing but these: to create one is a `Subscribe` in each of the
topic's partitions, all in one flush.

They are small, because every delivery writes two of them. A grant of new rows names no row: it is
as many as the cursor passes. A consumer is a number, which its `Join` gave it. A grant's moment is
a difference to the moment before. Rows that a change does name are `Spans`.

Every change says which rows it means, by itself or by a grant that the head of the state at rest
has. Nothing that is replayed depends on a chunk, which may be newer than the head.

Moments at which rows come again stand in the change too, also those of a backoff: how often a row
was delivered is in a chunk.

Room: fields are added at the end, with a default. A hold is a change of its own.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from bowstring.core.addresses import Address, PartitionAddress, Spans
from bowstring.core.subscription_settings import SubscriptionSettings


class Settlement(enum.IntEnum):
    """What a consumer says of a row that it holds."""

    ACK = 1
    """Done: the subscription never delivers it again."""
    NACK = 2
    """Failed: it comes again, and its retry count rises."""
    REJECT = 3
    """It can never succeed: it is condemned. In older journals it stands for a nack."""
    RELEASE = 4
    """The application has not seen it: it comes again, and its retry count stays."""
    CONDEMN = 5
    """It becomes a dead letter. Only the broker says so: of rows that a consumer rejects, and of
    those that were delivered as often as they may be.
    """

    @property
    def is_counted(self) -> bool:
        """Whether it gives the row back and raises its retry count."""
        return self in (Settlement.NACK, Settlement.REJECT)


class SetAsideReason(enum.IntEnum):
    """Why a row counts as settled though no consumer got it."""

    EXPIRED = 1
    """It had expired, or was too old, when it was to be delivered."""
    DAMAGED = 2
    """Its page cannot be read."""
    LEFT_OUT = 3
    """The filter leaves it out: its page could not be read when it was looked at, and can now."""
    OVERTAKEN = 4
    """It was too old when it was to be delivered, and becomes a dead letter: it is condemned."""


class SettledPart(NamedTuple):
    """Rows of one grant with one outcome; without rows, all that the grant still has."""

    grant: int
    outcome: Settlement
    rows: Spans = ()
    moment: int = 0
    """When rows that are given back come again, by the time of leases; 0: at once."""


class GrantPart(NamedTuple):
    """Rows of one grant; without rows, all that the grant still has."""

    grant: int
    rows: Spans = ()


class LaterPart(NamedTuple):
    """Rows that come again at a moment."""

    moment: int
    rows: Spans


class LedgerStruct(msgspec.Struct, array_like=True, gc=False):
    """What all changes of a ledger begin with."""

    topic: int
    partition: int
    subscription: int

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


class Grant(LedgerStruct, tag=6, array_like=True, gc=False):
    """A consumer holds rows by a lease from here on."""

    number: int
    """The next one: never used before, and never again."""
    consumer: int
    after: int
    """Microseconds since the last moment that the ledger knows."""
    passed: int
    """How far the cursor moves."""
    rows: Spans = ()
    """The rows, if they are not just those that the cursor passes."""
    skipped: Spans = ()
    """Rows that the cursor passes and that the subscription's filter leaves out: they are settled.
    Other rows that it passes are returned.
    """
    apart: bool = False
    """The consumer holds nothing else, in no partition: its rows have expired before."""


class Settle(LedgerStruct, tag=7, array_like=True, gc=False):
    """A request of a consumer that settles rows was carried out."""

    consumer: int
    request: int
    """Its number. Those of one consumer rise."""
    parts: tuple[SettledPart, ...]
    refused: tuple[GrantPart, ...] = ()
    """Rows that the consumer did not hold any more, for the answer to a repeat."""
    answered: int = 0
    """The consumer has the answers to its requests up to this number."""
    reasons: tuple[str, ...] = ()
    """Of each part that condemns its rows, in order."""
    moment: int = 0
    """When, if rows are condemned."""


class GiveBack(LedgerStruct, tag=8, array_like=True, gc=False):
    """Rows are given back without a request of their consumer, uncounted."""

    parts: tuple[GrantPart, ...]


class Extend(LedgerStruct, tag=9, array_like=True, gc=False):
    """Leases last until the moment, or longer if they did already."""

    until: int
    parts: tuple[GrantPart, ...]


class Expire(LedgerStruct, tag=10, array_like=True, gc=False):
    """All leases that last until the moment at most have ended."""

    moment: int
    later: tuple[LaterPart, ...] = ()
    """Rows of these leases that come again later, because the subscription has a backoff."""
    condemned: Spans = ()
    """Those of the rows that do not come again: each was alone with its consumer, and was delivered
    as often as it may be.
    """
    revoked: tuple[GrantPart, ...] = ()
    """Rows that are given back before, uncounted: those behind others of their key that end."""


class Reset(LedgerStruct, tag=11, array_like=True, gc=False):
    """The subscription goes on at the offset: rows before it count as settled, no row from there on
    does. All leases end.
    """

    offset: int
    gone: Spans = ()
    """Rows from the offset on that are deleted, or that retention has taken."""


class Join(LedgerStruct, tag=12, array_like=True, gc=False):
    """A consumer has a number, and a span for its leases."""

    consumer: int
    name: str
    lease: int
    moment: int


class Subscribe(LedgerStruct, tag=13, array_like=True, gc=False):
    """The partition has a ledger for the subscription from here on."""

    name: str
    settings: SubscriptionSettings
    created: int
    offset: int
    """The first row that it delivers."""
    floor: int = 1
    """How far retention has come."""
    gone: Spans = ()
    """Rows from the offset on that are deleted, or that retention has taken."""
    lane: bool = False
    """It delivers only what is redriven."""


class Unsubscribe(LedgerStruct, tag=14, array_like=True, gc=False):
    """The ledger is gone."""


class AlterSubscription(LedgerStruct, tag=15, array_like=True, gc=False):
    """The subscription has other settings from here on."""

    settings: SubscriptionSettings


class SetAside(LedgerStruct, tag=16, array_like=True, gc=False):
    """Rows of grants count as settled without a delivery, or are condemned."""

    parts: tuple[GrantPart, ...]
    reason: SetAsideReason
    moment: int = 0
    """When, if they are condemned."""


class PassBy(LedgerStruct, tag=17, array_like=True, gc=False):
    """The cursor moves without a grant, because some of the rows that it passes are not due."""

    passed: int
    """How far the cursor moves."""
    later: Spans
    """The rows that are not due. Other rows that it passes are returned."""
    skipped: Spans = ()
    """Rows that the subscription's filter leaves out: they are settled."""


class Condemn(LedgerStruct, tag=20, array_like=True, gc=False):
    """Rows that no consumer holds are going to be dead letters: retention has reached them. The cursor
    passes them. Whether other rows that it passes are due is looked up again.
    """

    rows: Spans
    reason: str
    moment: int


class Bury(LedgerStruct, tag=21, array_like=True, gc=False):
    """Condemned rows are settled: the same flush has their dead letters."""

    rows: Spans
    lost: Spans = ()
    """Those of the rows that cannot be read: they have no dead letter."""
    others: Spans = ()
    """Those that have none because they have expired by a time of their own, or because the filter leaves
    them out: retention has condemned them without a look.
    """


class Redrive(LedgerStruct, tag=22, array_like=True, gc=False):
    """Dead letters are delivered again, by the lane that they are in."""

    rows: Spans


class Overtake(LedgerStruct, tag=23, array_like=True, gc=False):
    """Retention takes rows that are not settled."""

    count: int
    rows: Spans = ()
    """Those of them that stay in the log, because another subscription needs them: they are settled."""


LetterChange = Condemn | Bury | Redrive | Overtake
"""What concerns dead letters."""


class Skip(LedgerStruct, tag=26, array_like=True, gc=False):
    """The cursor moves without a grant: the subscription's filter leaves out all the rows that it
    passes, and they are settled.
    """

    passed: int
    """How far the cursor moves."""


OneLedgerChange = Grant | Settle | GiveBack | Extend | Expire | Reset | Join | AlterSubscription | SetAside | Skip | PassBy | LetterChange
"""What changes a ledger."""

LedgerChange = OneLedgerChange | Subscribe | Unsubscribe
"""What changes the ledgers of a partition."""
