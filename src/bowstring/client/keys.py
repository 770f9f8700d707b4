"""Where a key of a key-shared subscription stands, as a value, and the call of a client about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.client.arguments import shown
from bowstring.client.connection import Connection
from bowstring.client.consumer_settings import checked_name
from bowstring.wire.generated import bowstring_pb2 as pb

FAR_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True)
class KeyReport:
    """Who holds a key of a key-shared subscription, since when, and what it waits for."""

    topic: str
    subscription: str
    key: bytes
    partition: int
    consumer: str | None
    """Who holds messages of the key; None if no consumer does."""
    since: datetime | None
    """When the consumer got them."""
    until: datetime | None
    """When their lease ends, if it is not extended; of a key that waits for a message that comes back
    later, when that is.
    """
    left: timedelta | None
    """How long it was until then when it was asked for."""
    held: int
    """How many messages it holds."""
    waiting: int
    """How many messages wait, as far as the broker has looked."""
    first: int | None
    """The offset of the first one that waits."""
    later: int | None
    """The offset of a message that comes back later, and that the others wait for."""
    preferred: str | None
    """The consumer that gets the key when it is free."""
    looked: int
    """The broker has looked at the messages before this offset."""
    stopped: bool
    """Whether it looks no further, because too many messages wait for their keys."""
    suspect: int | None
    """The offset of a message whose leases expired twice, and that the others wait for: it comes apart
    from messages that did not let consumers crash.
    """
    reason: str
    """What the key waits for, in words."""


def from_wire(told: pb.KeyStanding, answer: pb.ExplainKeyAnswer, topic: str, subscription: str, key: bytes) -> KeyReport:
    """A report as the broker tells it."""
    is_held = bool(told.consumer)
    return KeyReport(
        topic=topic,
        subscription=subscription,
        key=key,
        partition=told.partition,
        consumer=told.consumer or None,
        since=times.to_datetime(told.since) if is_held else None,
        until=times.to_datetime(told.until) if told.until else None,
        left=timedelta(microseconds=max(0, told.until - answer.now)) if told.until else None,
        held=told.held,
        waiting=told.waiting,
        first=told.first or None,
        later=told.later or None,
        preferred=told.preferred or None,
        looked=told.looked,
        stopped=told.stopped,
        suspect=told.suspect or None,
        reason=_reason(told, answer, f"{topic}/{told.partition}"),
    )


def _reason(told: pb.KeyStanding, answer: pb.ExplainKeyAnswer, partition: str) -> str:
    said: list[str] = []
    if told.consumer:
        seconds = max(0, answer.now - told.since) / 1e6
        left = max(0, told.until - answer.now) / 1e6
        said.append(f"'{told.consumer}' holds {_messages(told.held)} of it for {seconds:.1f} s. Its lease ends in {left:.1f} s.")
        if told.waiting:
            said.append(f"{_messages(told.waiting)} of it {_wait(told.waiting)} until that is settled.")
    elif told.later:
        said.append(f"{partition}@{told.later} was given back, and comes again {_again(told, answer.now)}.{_behind(told)}")
    elif told.suspect and answer.consumers:
        what = f"{partition}@{told.suspect} waits for a consumer that holds nothing else: its leases expired twice."
        said.append(f"{what} The others of its key wait for it.")
    elif not answer.consumers:
        said.append(f"{_messages(told.waiting)} of it {_wait(told.waiting)}: no consumer is connected.")
    elif told.preferred:
        said.append(f"{_messages(told.waiting)} of it {_wait(told.waiting)} until '{told.preferred}' has room.")
    if told.stopped:
        said.append(f"The broker looks at no message from {partition}@{told.looked} on: too many wait. Settle what holds them up.")
    return " ".join(said)


def _behind(told: pb.KeyStanding) -> str:
    """What waits for a message that comes back."""
    return f" {_messages(told.waiting)} of its key {_wait(told.waiting)} for it." if told.waiting else ""


def _again(told: pb.KeyStanding, now: int) -> str:
    """When a message comes back: the seconds until then, or the moment if that is far away."""
    seconds = max(0, told.until - now) / 1e6
    if not told.until:
        return "later"
    return f"in {seconds:.1f} s" if seconds < FAR_SECONDS else f"at {times.to_text(told.until)[:16]}Z"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"


class KeyCalls:
    """The call of a client about keys."""

    _connection: Connection
    _timeout: float

    async def explain(self, topic: str, subscription: str, key: bytes | str) -> KeyReport:
        """Says who holds a key of a key-shared subscription, since when, and what it waits for.
        Raises `NotFound` if no message of the key waits or is held, and
        `Conflict` if the subscription is not key-shared.
        """
        names = arguments.topic_name(topic), checked_name(subscription, "subscription")
        if not isinstance(key, bytes | str):
            raise errors.InvalidArgument(f"key={shown(key)} is not a key.", hint="Use bytes or text.")
        data = arguments.utf8(key, "key") if isinstance(key, str) else key
        request = pb.ExplainKeyRequest(topic=names[0], subscription=names[1], key=data)
        answer = pb.ExplainKeyAnswer.FromString(await self._connection.call("ExplainKey", request.SerializeToString(), self._timeout))
        return from_wire(answer.standings[0], answer, topic, subscription, data)
