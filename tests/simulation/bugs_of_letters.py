"""Planted bugs of dead letters, and of suspects of a crash."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import letter_writer, redriving, subscriptions
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.letter_requests import BuryRows, RedriveLetters
from bowstring.core import settling
from bowstring.core.condemned import LastDelivery
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Redrive
from bowstring.core.row_set import RowSet
from tests.simulation.planting import CALM, CUTS, POWER, QUEUE, bug

HOLDING = QUEUE.only(seconds=12.0, consumers=2, holds=0.6, nacks=0.3, named_consumers=1.0, plain_consumers=1.0, lease_seconds=2.0)
REJECTING = QUEUE.only(rejects=0.3, nacks=0.1)
REDRIVING = QUEUE.only(rejects=0.3, nacks=0.2, redrive_every=0.2, subscriptions=2)


@bug(CALM, REJECTING)
def the_dead_letter_and_the_settlement_are_two_flushes() -> Generator[None]:
    """The rows are settled when their letters are durable."""
    together = PartitionActor.ask_together

    class Apart(PartitionActor):
        @staticmethod
        def ask_together(asked: Any) -> Any:
            bury = [pair for pair in asked if isinstance(pair[1], BuryRows)]
            letters = together([pair for pair in asked if not isinstance(pair[1], BuryRows)])
            letters.add_done_callback(lambda done: None if done.cancelled() or done.exception() else together(bury))
            return letters

    with patch.object(letter_writer, "PartitionActor", Apart):
        yield


@bug(CALM, REJECTING)
def a_condemned_row_is_granted_again() -> Generator[None]:
    """It waits for its dead letter, and for its next delivery."""
    condemn = Ledger._condemn  # pyright: ignore[reportPrivateUsage]

    def wrong(self: Ledger, rows: RowSet, last: LastDelivery) -> None:
        condemn(self, rows, last)
        self.returned.put(rows)

    with patch.object(Ledger, "_condemn", wrong):
        yield


@bug(CALM, QUEUE.only(holds=0.6, nacks=0.0, consumers=2, credit_max=30, lease_seconds=1.0, own_leases=0.0, abandons=0.8))
def suspects_stand_beside_rows_of_other_partitions() -> Generator[None]:
    """A consumer that was chosen for suspects gets other rows too."""

    def has_room(self: LiveConsumer) -> bool:
        return self.is_ready and self.ended is None and self.holdings.has_room

    with patch.object(LiveConsumer, "has_room", property(has_room)):
        yield


@bug(POWER, HOLDING)
def suspects_come_to_a_consumer_that_is_not_ready() -> Generator[None]:
    """One that comes back gets others when it has settled those that it had, and again with its old leases."""
    with patch.object(LiveConsumer, "may_be_apart", property(lambda self: self.ended is None)):
        yield


@bug(CUTS, REDRIVING)
def a_letter_is_redriven_twice() -> Generator[None]:
    """A request that names a letter again sends it back again, also when it was settled meanwhile."""

    def redrive(ledger: Ledger, rows: RowSet) -> Redrive | None:
        rows = rows - ledger.leases.rows()
        return Redrive(*ledger.place, rows.spans()) if rows else None

    with patch.object(settling, "redrive", redrive):
        yield


@bug(CALM, REDRIVING)
def a_redrive_reaches_the_other_subscriptions() -> Generator[None]:
    """The letters at the same places of other subscriptions of the topic are sent back, too."""
    ask = redriving._ask  # pyright: ignore[reportPrivateUsage]

    async def wrong(queues: Any, asked: Any, wanted: Any) -> Any:
        done = await ask(queues, asked, wanted)
        mine = subscriptions.find(queues, wanted.topic, wanted.subscription)
        for other in queues.of(mine.topic) if asked and isinstance(asked[0][1], RedriveLetters) else ():
            if other is not mine and other.companion is not None:
                actors = [(other.companion.actors[number], rows) for number, rows in wanted.letters.items()]
                await PartitionActor.ask_together([(actor, RedriveLetters(other.lane, rows)) for actor, rows in actors])
        return done

    with patch.object(redriving, "_ask", wrong):
        yield
