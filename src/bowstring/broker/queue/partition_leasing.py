"""Messages of one partition that a consumer has asked for by their ids (`lease_by_id`)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.delivery import AskedGrant
from bowstring.broker.queue.keyed_partition import NamedKeys
from bowstring.broker.queue.known_rows import RowsAhead
from bowstring.broker.queue.lease_refusals import PlaceRefusals
from bowstring.broker.queue.named_grant import GrantNamed
from bowstring.broker.queue.queues import Queues
from bowstring.core.granting import Granted
from bowstring.core.ledger import Ledger
from bowstring.core.row_set import NO_ROWS, RowSet


class OwnLease(NamedTuple):
    """A message that the consumer holds already."""

    row: int
    """The place of its id in the request."""
    partition: int
    grant: int
    offset: int


class PartitionLeasing:
    """What a request asks of one partition."""

    def __init__(self, queues: Queues, consumer: LiveConsumer, actor: PartitionActor, rows: dict[int, list[int]]) -> None:
        self._clock = queues.clock
        self._consumer = consumer
        self._subscription = consumer.subscription
        self._actor = actor
        self._rows = rows
        """By offset the places of ids in the request."""
        self._named = RowSet.of_offsets(np.array(list(rows), np.int64))
        self._granted = NO_ROWS
        self._request: GrantNamed | None = None
        self._ahead = RowsAhead(consumer.subscription, actor, queues.clock)
        self._refusals = PlaceRefusals(queues, consumer, actor)
        self.own: list[OwnLease] = []
        self.refused: dict[int, errors.Error] = {}
        """By the place of an id in the request."""

    def _ledger(self) -> Ledger | None:
        """None when there is nothing to grant any more."""
        gone = self._consumer.ended is not None or self._actor.closed is not None
        return None if gone else self._subscription.ledger(self._actor)

    async def until_known(self) -> None:
        """Waits until it is known of the rows whether they can be granted, or as long as that may
        take.
        """
        await self._ahead.until_known(self._named, self._ledger)

    # Granting

    def grant(self, number: int) -> asyncio.Future[RowSet] | None:
        """Grants in one step what can be granted. The future settles with the rows that were sent;
        None if none are.
        """
        consumer, ledger = self._consumer, self._ledger()
        if ledger is None:
            return None
        if consumer.holdings.apart:
            return self._refuse(self._named, self._refusals.apart())
        if consumer.delivery is not None:
            consumer.delivery.give_up(self._actor, self._named)
        known, keys = self._ahead.known(ledger), self._pick(ledger)
        if keys is not None:
            known = known._replace(free=RowSet.of_offsets(keys.picked.offsets))
        future: asyncio.Future[RowSet] = asyncio.get_running_loop().create_future()

        def told(granted: Granted | Exception | None) -> None:
            if isinstance(granted, Granted) and consumer.delivery is not None:
                consumer.delivery.add_asked(self._actor, granted.number, AskedGrant(number, future))
            elif not future.done():
                future.set_result(NO_ROWS)

        self._request = request = GrantNamed(
            self._subscription.number, self._clock.now, told, consumer.name, consumer.lease, self._named, known
        )
        self._actor.receive(request)
        granted = request.granted
        if keys is not None and self._subscription.keys is not None:
            self._subscription.keys.partition(self._actor).keep(keys, None if granted is None else granted.number)
        if granted is None:
            if request.choice is not None and request.choice.chosen.rows:
                self._refuse(request.choice.chosen.rows, self._refusals.full())
            return None
        self._granted = granted.rows
        return future

    def _pick(self, ledger: Ledger) -> NamedKeys | None:
        """The rows whose keys are free, if keys count."""
        if self._subscription.keys is None:
            return None
        named = self._subscription.keys.partition(self._actor).pick(ledger, self._named, self._clock.now())
        for offset, grant in named.busy.items():
            self._refuse_one(offset, self._refusals.busy(offset, ledger, grant))
        for offset in named.behind:
            self._refuse_one(offset, self._refusals.behind(offset))
        return named

    # Refusing

    def _refuse(self, rows: RowSet, error: errors.Error) -> None:
        for offset in rows.offsets().tolist():
            self._refuse_one(offset, error)

    def _refuse_one(self, offset: int, error: errors.Error) -> None:
        for row in self._rows[offset]:
            self.refused.setdefault(row, error)

    async def tell_why(self) -> None:
        """Says why rows were not granted."""
        ledger, refusals = self._ledger(), self._refusals
        choice = None if self._request is None else self._request.choice
        if choice is None or ledger is None:
            return
        for lease, held in list(ledger.leases.over(choice.leased - self._granted)):
            holder = ledger.consumers[lease.consumer].name
            for offset in held.offsets().tolist():
                if holder == self._consumer.name:
                    self.own += [OwnLease(row, self._actor.partition.number, lease.number, offset) for row in self._rows[offset]]
                else:
                    self._refuse_one(offset, refusals.taken(offset, holder, lease.until))
        for rows, why in ((choice.settled, refusals.settled), (choice.condemned, refusals.condemned), (choice.left_out, refusals.left_out)):
            for offset in rows.offsets().tolist():
                self._refuse_one(offset, why(offset))
        for offset in choice.unknown.offsets().tolist():
            self._refuse_one(offset, refusals.unknown(offset))
        moments = await refusals.due_times(ledger, choice.later) if choice.later else {}
        for offset in choice.later.offsets().tolist():
            self._refuse_one(offset, refusals.later(offset, moments.get(offset)))

    def tell_unsent(self, sent: RowSet) -> None:
        """Says why rows were granted and not sent."""
        ledger = self._ledger()
        unsent = self._granted - sent
        gone = unsent if ledger is None else ledger.settled.of(unsent)
        for offset in gone.offsets().tolist():
            self._refuse_one(offset, self._refusals.gone(offset))
        self._refuse(unsent - gone, self._refusals.full())
