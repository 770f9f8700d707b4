"""Two fresh consumers take what is left of every subscription after healing: one on the product's kit
and one on the plain one, side by side. They nack a few rows once, and ack everything.

They are done when the broker says that nothing is left but what is due later. What should have come and did not is for the
checkers to find; that something is left and does not come is found here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.events import OK, UNKNOWN
from tests.history.lease_events import ACK, BEGINNING, DRAIN, NACK, Delivery
from tests.history.violations import Violation
from tests.simulation.consumer_kit import Consumption, Wanted, consume
from tests.simulation.consumer_log import ConsumerLog
from tests.simulation.plain_kit import PlainKit
from tests.simulation.redriving import LetterOperator
from tests.simulation.server import ADDRESS

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

DRAIN_SECONDS = 50.0
"""Everything that waits has come by then: leases of the dead are over long before."""
LETTERS_SECONDS = 15.0
"""For so long it waits for dead letters that were sent back: some of them come later, and the broker does not say which."""
LOOK_SECONDS = 0.5
BACKOFFS = 10
"""A backoff lasts nine times the first one at most. For longer than that nothing may be left, because rows that wait for
its end are due later, too.
"""
CREDIT = 40


class Drain:
    """One time at which everything is taken."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._world, self._life = workload, workload.world, life
        self._random = workload.world.source(f"{life.name}/drain")
        self._over = False

    async def run(self) -> None:
        kit = PlainKit(self._life, ADDRESS)
        for topic, name in self._workload.queues.lasting():
            await self._drain(kit, topic, name)
        await kit.close()
        if self._workload.load.redrive_every:
            await LetterOperator(self._workload, self._life).list_all(self._workload.queues.lasting())

    async def _drain(self, kit: PlainKit, topic: str, name: str) -> None:
        self._over = False
        if (topic, name) in self._workload.queues.sought:
            await self._workload.queues.seek(self._life, kit, topic, name, BEGINNING)
        consumers = [asyncio.create_task(self._consume(topic, name, plain=plain)) for plain in (False, True)]
        time, backoff = self._world.loop.time, BACKOFFS * self._workload.load.backoff_seconds
        deadline, patience, rest = time() + DRAIN_SECONDS, time() + LETTERS_SECONDS, time() + backoff
        left, letters = 1, 0
        while ((left or time() < rest) and time() < deadline) or (letters and time() < patience):
            await asyncio.sleep(LOOK_SECONDS)
            facts = await kit.call("DescribeSubscription", pb.DescribeSubscriptionRequest(topic=topic, name=name), pb.Subscription)
            left = facts.backlog - sum(partition.later for partition in facts.partitions)
            rest = time() + backoff if left else rest
            letters = facts.redriven if self._workload.load.redrive_every else 0
        if left:
            case = f"{topic}/{name} has {left} messages left after {DRAIN_SECONDS:g} virtual seconds, {facts.leased} of them leased"
            self._workload.violations.append(Violation("everything_left_comes", case))
        self._over = True
        await asyncio.wait(consumers)
        for consumer in consumers:
            consumer.result()
        self._world.sometimes("subscription drained", not left)

    async def _consume(self, topic: str, name: str, *, plain: bool) -> None:
        consumer = f"{DRAIN}-{self._life.name}-{'plain' if plain else 'kit'}"
        log = ConsumerLog(self._workload, self._life, f"{consumer}-{topic}-{name}", topic)
        wanted = Wanted(topic, name, consumer, CREDIT, None, create=False)
        consumption = await consume(self._life, wanted, log, plain=plain)
        while not self._over:
            rows = await consumption.take(20, LOOK_SECONDS, batch=self._random.random() < 0.5)
            if rows:
                await self._settle(consumption, log, rows)
        await consumption.close()
        log.closed()

    async def _settle(self, consumption: Consumption, log: ConsumerLog, rows: list[Delivery]) -> None:
        """Acks; one in ten rows that come for the first time is nacked."""
        nacks = [not row.retries and self._random.random() < 0.1 for row in rows]
        decided = [row._replace(outcome=NACK if nack else ACK) for row, nack in zip(rows, nacks, strict=True)]
        call = log.decides(decided)
        try:
            log.decided(call, OK, await consumption.settle(decided))
        except errors.Error as error:
            log.decided(call, UNKNOWN, decided, error.kind)
