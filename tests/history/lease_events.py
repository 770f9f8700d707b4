"""The events of a queue: subscriptions, what a consumer's kit received and wrote, and what its
application was given.

A history keeps two layers apart. Below is the stream between kit and broker, as it passes the kit's
own end: `consume` (a stream was opened, or refused), `credit`, `ready`, `pushed`, `settle` and
`extend` (invoke when it is written, ok when the answer comes), `lost`, `leave` (it says that it has settled
all that it had), `revoked` (rows that the broker has given back because an earlier one of their key
was). Above is the application:
`handed` rows, `decide` (it settles or extends rows: invoke, then what it was told for each row), and
`close`; it looks at what would come next (`peek`), and asks for messages by their ids (`lease-by-id`: invoke,
then each with its place or its error). A row that was pushed and never handed out is one that the application has not seen.

A subscription is created (`subscribe`), altered (`amend`) and deleted (`unsubscribe`); an operator
takes leases away (`take-away`), and sets it to another place (`seek`). An operator lists its dead letters
(`list-letters`: each with the place in the topic that it came from), sends some back (`redrive`), or asks
what that would do (`dry-redrive`).

Moments of leases are microseconds of the clock that leases run by, as the broker told them. No event
is written by the broker.
"""

from __future__ import annotations

from typing import NamedTuple

SUBSCRIBE, AMEND, UNSUBSCRIBE, TAKE_AWAY, SEEK = "subscribe", "amend", "unsubscribe", "take-away", "seek"
CONSUME, CREDIT, READY, PUSHED, LOST, LEAVE = "consume", "credit", "ready", "pushed", "lost", "leave"
LIST, REDRIVE, DRY_REDRIVE = "list-letters", "redrive", "dry-redrive"
SETTLE, EXTEND, REVOKED = "settle", "extend", "revoked"
PEEK, BY_ID = "peek", "lease-by-id"
HANDED, DECIDE, CLOSE = "handed", "decide", "close"
ACK, NACK, REJECT, RELEASE, LONGER = "ack", "nack", "reject", "release", "longer"
"""What becomes of a row; `longer` is an extension."""

OUTCOMES = {1: ACK, 2: NACK, 3: REJECT, 4: RELEASE}
"""As the schema numbers them."""
BEGINNING, LATEST = "beginning", "latest"
KEY_SHARED = "key_shared"

DRAIN = "drain"
"""Consumers whose name begins with this take everything that is left after healing."""


class Delivery(NamedTuple):
    """A row under a lease: as it was pushed, handed out, asked about, or answered."""

    partition: int
    offset: int = 0
    """0 for all rows of the grant: those that the request means, or those that were lost."""
    grant: int = 0
    until: int = 0
    retries: int = 0
    again: bool = False
    """Pushed again after a reconnect."""
    outcome: str = ""
    error: str = ""
    """Why it was refused, empty where it is done."""
    later: int = 0
    """When a nacked row is to come again: a moment, or a span if it is negative; 0 if none was given."""
    home: int = -1
    """The partition that a redriven dead letter lies in, in its own topic; -1 for a row of the
    subscription's topic."""
    asked: bool = False
    """It was pushed because the consumer has asked for it by its id."""

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class Consuming(NamedTuple):
    """What an event of a queue is about."""

    subscription: str = ""
    consumer: str = ""
    identity: str = ""
    """The ids of topic and subscription: one that is made anew under its name is another."""
    rows: tuple[Delivery, ...] = ()
    now: int = 0
    """The moment that the broker told with this."""
    span: int = 0
    """How long leases last: those of the subscription, or the consumer's own."""
    credit: int = 0
    start: str = ""
    """Where a subscription begins."""
    stream: int = 0
    """The running number of the consumer's stream."""
    request: int = 0
    """The number of a settlement or an extension."""
    where: str = ""
    """The filter of a subscription."""
    backoff: tuple[int, float, int] = (0, 1.0, 0)
    """That of a subscription: the first wait, by what it grows, and the longest; of zeros for none."""
    mode: str = ""
    """How it shares messages out; empty for any consumer."""
    unsettled: str = ""
    """What becomes of rows that retention reaches before a subscription has settled them."""
    keep_max: int = 0
    """For how long it keeps them; 0 for until they are settled."""


NOTHING = Consuming()
