"""The requests and replies of a consumer's session, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bowstring.broker.queue.holdings import ConsumerCredit
from bowstring.broker.queue.lease_by_id import IdsLeased
from bowstring.broker.queue.opening import ConsumerOpening
from bowstring.broker.queue.pushes import Grants, PushedRows
from bowstring.broker.queue.settlement import NamedRows
from bowstring.core.settling import GrantRows, LostRows


class Settling(NamedTuple):
    """What became of messages of one partition."""

    partition: int
    number: int
    answered: int
    named: NamedRows
    outcomes: Sequence[int]
    moments: Sequence[int] = ()
    """Of each part when its messages come again, by the broker's clock; 0: none is given."""
    delays: Sequence[int] = ()
    """Of each part after how long they do; 0: none is given."""
    reasons: Sequence[str] = ()
    """Of each part why its messages failed."""


class Extending(NamedTuple):
    """Messages of one partition that are to be held for longer."""

    partition: int
    number: int
    lease: int
    """Microseconds; 0 for as long as the consumer's leases last."""
    named: NamedRows


class LeasingIds(NamedTuple):
    """Messages that the consumer wants, by their ids."""

    number: int
    ids: Sequence[str]


class ConsumeCall(NamedTuple):
    """A request: what is given counts in the order of the fields."""

    opening: ConsumerOpening | None
    credit: ConsumerCredit | None
    settle: Sequence[Settling]
    extend: Sequence[Extending]
    ready: bool
    pong: int
    leaving: bool = False
    lease: Sequence[LeasingIds] = ()


class ConsumeOpened(NamedTuple):
    """The stream is open."""

    now: int
    topic_id: int
    subscription_id: int
    mode: str
    lease: int
    created: bool
    retention: int
    """How long the topic keeps messages, in microseconds."""
    numbers_from: int
    """The consumer's requests are numbered upwards from this."""


class ConsumePush(NamedTuple):
    """Rows for the consumer."""

    now: int
    pushed: PushedRows


class RowsAnswer(NamedTuple):
    """The answer to one settlement or extension."""

    partition: int
    number: int
    refused: Sequence[LostRows]
    until: int = 0


class ConsumeAnswers(NamedTuple):
    """The answers to the settlements and extensions of one request."""

    now: int
    settled: list[RowsAnswer]
    extended: list[RowsAnswer]


class ConsumeLost(NamedTuple):
    """Leases that the consumer does not have any more."""

    now: int
    grants: Grants
    standing: str


class ConsumeRevoked(NamedTuple):
    """Rows that the consumer does not hold any more."""

    now: int
    partition: int
    parts: Sequence[GrantRows]


class ConsumePing(NamedTuple):
    """The consumer is to answer at once."""

    now: int
    number: int


class ConsumeLeased(NamedTuple):
    """The answer to a request for messages by their ids."""

    now: int
    number: int
    leased: IdsLeased


ConsumeReply = ConsumeOpened | ConsumePush | ConsumeAnswers | ConsumeLost | ConsumeRevoked | ConsumePing | ConsumeLeased
