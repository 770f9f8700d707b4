"""A consumer that is connected: its name, its instance, what it holds and may hold, and what waits to
be sent to it. Its session (`gateway.consume_session`) calls it.

Leases belong to the name and not to the connection. A lost connection gives nothing back; a consumer
that comes under the name again gets the leases that are still valid. An instance is one object of one
program: the same one that comes again replaces its older connection at once. Another one has to
wait whether the first still answers (`answers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bowstring import errors
from bowstring.broker.queue.holdings import ConsumerCredit, Holdings
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.lease_requests import ExtendForConsumer, GiveBackGrants, SettleForConsumer
from bowstring.broker.queue.pushes import PushReceiver
from bowstring.broker.queue.settlement import TimedOutcome
from bowstring.core.request_series import begun, next_series
from bowstring.core.settling import GrantRows, OutcomeRows, RowsDone, SettleRequest

if TYPE_CHECKING:
    from bowstring.broker.queue.delivery import Delivery
    from bowstring.broker.queue.subscription import LiveSubscription

ANSWER_SECONDS: Final = 2.0
"""A consumer that stays silent for so long when it is asked has lost its name."""

RowsTold = Callable[[RowsDone | Exception], None]


class LiveConsumer:
    """One connection of one consumer."""

    def __init__(
        self,
        subscription: LiveSubscription,
        name: str,
        instance: bytes,
        lease: int,
        address: str,
        receiver: PushReceiver,
        clock: LeaseClock,
    ) -> None:
        self.subscription = subscription
        self.name = name
        self.instance = instance
        self.lease = lease
        """How long it holds messages, in microseconds."""
        self.address = address
        """Where it is connected from, for people."""
        self.receiver = receiver
        self.holdings = Holdings()
        self.is_ready = False
        """Nothing is granted to it before it says so."""
        self.had_suspects = False
        """Whether the last that it got was suspected of a crash."""
        self.ended: errors.Error | None = None
        self.delivery: Delivery | None = None
        self._clock = clock
        self._asking: list[asyncio.Event] = []
        """Of those who want to know whether it answers."""

    @property
    def has_room(self) -> bool:
        """Whether it is to get more. One that is apart gets nothing but suspects."""
        return self.is_ready and self.ended is None and self.holdings.has_room and self not in self.subscription.apart

    @property
    def may_be_apart(self) -> bool:
        """Whether it can be chosen for suspects."""
        return self.is_ready and self.ended is None and self.holdings.credit.messages > 0

    def now(self) -> int:
        """The time by which its leases run."""
        return self._clock.now()

    # What it asks for

    def limit(self, credit: ConsumerCredit) -> None:
        """It may hold this from here on."""
        self.holdings.limit(credit)
        self.subscription.room_changed(self)
        if self.delivery is not None:
            self.delivery.go_on()

    def settle(self, partition: int, number: int, answered: int, parts: Sequence[TimedOutcome], told: RowsTold) -> None:
        """Says what became of messages. Raises InvalidArgument for a partition that is not there."""
        latest = self._clock.now() + int(self.subscription.topic.settings.retention * 1e6)
        request = SettleRequest(self.name, number, [self._with_moment(part) for part in parts], answered, latest)
        actor, keys = self.subscription.actor(partition), self.subscription.keys

        def also_revoked(outcome: RowsDone | Exception) -> None:
            if keys is not None and isinstance(outcome, RowsDone) and outcome.revoked:
                keys.revoked(partition, outcome.revoked)
            told(outcome)

        behind = None if keys is None else keys.behind(actor)
        settle = SettleForConsumer(
            self.subscription.number_in(actor), self._clock.now, told if keys is None else also_revoked, request, behind
        )
        actor.receive(settle)
        self.subscription.rates.count(acked=settle.acked, nacked=settle.nacked)

    def _with_moment(self, part: TimedOutcome) -> OutcomeRows:
        """By the time of leases."""
        rows, moment, delay = part
        if delay is not None:
            return rows._replace(moment=self._clock.now() + delay)
        return rows if moment is None else rows._replace(moment=max(1, self._clock.at(moment)))

    def extend(self, partition: int, lease: int, parts: Sequence[GrantRows], told: RowsTold) -> None:
        """Holds messages for a span from now on."""
        actor = self.subscription.actor(partition)
        actor.receive(ExtendForConsumer(self.subscription.number_in(actor), self._clock.now, told, self.name, parts, lease))

    def leases(self, held: Mapping[int, Sequence[int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Of the grants that it says it holds those that it has lost, and those that it has beside
        them; by partition.
        """
        now, lost, others = self._clock.now(), {number: list(grants) for number, grants in held.items()}, dict[int, list[int]]()
        for actor, ledger in self.subscription.ledgers():
            known = ledger.consumers.named(self.name)
            if known is None:
                continue
            number = self.subscription.place(actor)
            live = dict.fromkeys(lease.number for lease in ledger.leases.of_consumer(known.number) if lease.until > now)
            named = set(lost.pop(number, ()))
            if gone := sorted(named - live.keys()):
                lost[number] = gone
            if beside := [grant for grant in live if grant not in named]:
                others[number] = beside
        return lost, others

    def begin_series(self) -> int:
        """Begins its numbers of requests, above the one that is given: a series of their own, after those of all programs
        that have had its name.
        """
        known = (ledger.consumers.named(self.name) for _, ledger in self.subscription.ledgers())
        last = max((consumer.request for consumer in known if consumer is not None), default=0)
        self.subscription.series = next_series(self.now(), self.subscription.series, last)
        return begun(self.subscription.series)

    def ready(self) -> None:
        """It has sent everything again that was not answered: it may get messages."""
        self.is_ready = True
        self.subscription.room_changed(self)

    # Its name

    async def answers(self) -> bool:
        """Whether it answers soon when it is asked. One that has ended does not."""
        asked = asyncio.Event()
        self._asking.append(asked)
        self.receiver.ping()
        waiting = asyncio.ensure_future(asked.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(ANSWER_SECONDS))
        try:
            await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()
            self._asking.remove(asked)
        return asked.is_set() and self.ended is None

    def pong(self) -> None:
        """It has answered."""
        for asked in self._asking:
            asked.set()

    # The end

    def end(self, error: errors.Error) -> None:
        """Ends the session with this error."""
        if self.ended is None:
            self.close(error)
            self.receiver.end(error)

    def leave(self) -> None:
        """It says that it leaves: it has settled all that it had, so what it still holds was on
        its way to it. That is given back, uncounted.
        """
        if self.ended is None:
            self.close()
            for actor, ledger in self.subscription.ledgers():
                known = ledger.consumers.named(self.name)
                grants = () if known is None else sorted({lease.number for lease in ledger.leases.of_consumer(known.number)})
                if grants:
                    parts = [GrantRows(grant) for grant in grants]
                    actor.receive(GiveBackGrants(self.subscription.number_in(actor), self._clock.now, _nothing, parts))

    def close(self, error: errors.Error | None = None) -> None:
        """The session has ended."""
        if self.ended is None:
            self.ended = error or errors.Unavailable("the consumer has left.")
            self.subscription.leave(self)
            self.pong()
            if self.delivery is not None:
                self.delivery.close()


def _nothing(outcome: object) -> None:
    """For requests without a waiting caller."""
