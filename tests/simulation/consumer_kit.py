"""The consumers of the two kits as the workload sees them: one face, in the words of a history."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bowstring import errors, times
from bowstring.client.client import Client
from tests.history.events import Row
from tests.history.lease_events import ACK, NACK, Delivery
from tests.simulation.kit import rows_of
from tests.simulation.plain_consumer import PlainConsumer, PlainConsumerSettings, Settling
from tests.simulation.plain_kit import PlainKit
from tests.simulation.server import ADDRESS

if TYPE_CHECKING:
    from tests.simulation.consumer_log import ConsumerLog
    from tests.simulation.node import Incarnation

Held = tuple[tuple[int, int], int]
"""A row by its place and grant: a consumer may still know it by an earlier grant."""


class Wanted(NamedTuple):
    """How to consume."""

    topic: str
    subscription: str
    name: str
    credit: int | None
    """None: as the kit sees fit."""
    lease: float | None
    create: bool
    alive: bool = True
    """Whether the application says that it is alive, so that its kit makes leases longer."""


class Consumption(Protocol):
    """A consumer. What it gives and what it is told is written down by the log."""

    async def take(self, most: int, seconds: float, *, batch: bool) -> list[Delivery]:
        """The next rows, if some come in time. Raises what has ended the consumer."""
        ...

    async def settle(self, rows: list[Delivery]) -> list[Delivery]:
        """Each with its outcome; gives them with what became of each."""
        ...

    async def extend(self, rows: list[Delivery], seconds: float) -> list[Delivery]: ...

    async def peek(self, most: int, where: str) -> list[Row]:
        """What would come next."""
        ...

    async def lease(self, ids: list[str]) -> tuple[list[Delivery], list[Row]]:
        """Messages by their ids, and what was said of each."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None: ...

    async def abandon(self) -> None:
        """Ends without a word to the broker."""
        ...


async def consume(life: Incarnation, wanted: Wanted, log: ConsumerLog, *, plain: bool) -> Consumption:
    """A consumer with a connection of its own. Raises Unavailable."""
    dialer = log.dialer(life.dialer)
    if plain:
        kit = PlainKit(life, ADDRESS, dialer)
        await kit.hello()
        return PlainConsumption(kit, wanted, log)
    client = await Client([ADDRESS], dialer=dialer, clock=life.clock, randomness=life.randomness, name=life.name).open()
    return RealConsumption(client, wanted, log)


class PlainConsumption:
    """`plain_consumer`."""

    def __init__(self, kit: PlainKit, wanted: Wanted, log: ConsumerLog) -> None:
        self._kit, self._log = kit, log
        self._credit = wanted.credit or 10
        lease = round(wanted.lease * 1e6) if wanted.lease else 0
        settings = PlainConsumerSettings(wanted.topic, wanted.subscription, wanted.name, self._credit, lease, wanted.create)
        self._consumer = PlainConsumer(kit, settings)

    async def take(self, most: int, seconds: float, *, batch: bool) -> list[Delivery]:
        taken = await self._consumer.take(most if batch else 1, seconds)
        if taken:
            self._log.handed(taken)
        return taken

    async def settle(self, rows: list[Delivery]) -> list[Delivery]:
        return await self._answers(rows, self._consumer.settle(rows))

    async def extend(self, rows: list[Delivery], seconds: float) -> list[Delivery]:
        return await self._answers(rows, self._consumer.extend(rows, round(seconds * 1e6)))

    async def peek(self, most: int, where: str) -> list[Row]:
        """It does not know how."""
        return []

    async def lease(self, ids: list[str]) -> tuple[list[Delivery], list[Row]]:
        return [], []

    async def _answers(self, rows: list[Delivery], requests: list[Settling]) -> list[Delivery]:
        answers = {(row.place, row.grant): row for request in requests for row in await request.answer}
        if any(row.error == "outcome-unknown" for row in answers.values()):
            raise errors.OutcomeUnknown("there was no answer.")
        return [row._replace(error=answers[row.place, row.grant].error) for row in rows]

    def pause(self) -> None:
        self._consumer.ask_for(0)

    def resume(self) -> None:
        self._consumer.ask_for(self._credit)

    async def close(self) -> None:
        await self._consumer.close()
        await self._kit.close()

    async def abandon(self) -> None:
        self._consumer.abandon()
        await self._kit.close()


class RealConsumption:
    """`bowstring.aio.Consumer`."""

    def __init__(self, client: Client, wanted: Wanted, log: ConsumerLog) -> None:
        self._client, self._log = client, log
        self._alive = wanted.alive
        self._consumer: Any = client.consumer(  # type: ignore[attr-defined]
            wanted.topic,
            wanted.subscription,
            name=wanted.name,
            credit=wanted.credit,
            lease=wanted.lease,
            create=wanted.create,
            alive=lambda: self._alive,
        )
        self._batches: Any = None
        self._tokens: dict[tuple[tuple[int, int], int], tuple[Any, int]] = {}
        """The batch of a row and its number there, or its message, by place and grant."""

    async def take(self, most: int, seconds: float, *, batch: bool) -> list[Delivery]:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await (self._take_batch(most) if batch else self._take_message())
        return []

    async def _take_message(self) -> list[Delivery]:
        message = await anext(self._consumer)
        until = times.moment(message.lease_end, "lease_end")
        row = Delivery(message._page.lease.partition, message.offset, message._page.lease.grant, until, message.retry_count)
        self._tokens[row.place, row.grant] = message, -1
        self._log.handed([row])
        return [row]

    async def _take_batch(self, most: int) -> list[Delivery]:
        batch = await self._consumer._next_batch(most, 0.001)
        if batch is None:
            raise errors.Conflict("the consumer is closed.")
        return self._rows_of(batch)

    def _rows_of(self, batch: Any) -> list[Delivery]:
        columns = [batch.column(name).to_pylist() for name in ("offset", "retry_count")]
        ends = batch.column("lease_end").cast("int64").to_pylist()
        leases = [chunk.page.lease for chunk in batch._chunks for _ in range(chunk.rows)]
        facts = zip(*columns, leases, ends, strict=True)
        rows = [Delivery(lease.partition, offset, lease.grant, until, retries) for offset, retries, lease, until in facts]
        self._tokens.update(((row.place, row.grant), (batch, at)) for at, row in enumerate(rows))
        self._log.handed(rows)
        return rows

    async def peek(self, most: int, where: str) -> list[Row]:
        return rows_of(await self._consumer.peek(most, where or None))

    async def lease(self, ids: list[str]) -> tuple[list[Delivery], list[Row]]:
        batch = await self._consumer.lease(ids)
        deliveries = self._rows_of(batch) if len(batch) else []
        named = zip(batch.column("id").to_pylist() if deliveries else [], deliveries, strict=True)
        told = [Row("", id, partition=row.partition, offset=row.offset) for id, row in named]
        return deliveries, told + [Row("", id, error=error.kind) for id, error in batch.refused.items()]

    async def settle(self, rows: list[Delivery]) -> list[Delivery]:
        return await self._decide(rows, _settle_one, _settle_batch)

    async def extend(self, rows: list[Delivery], seconds: float) -> list[Delivery]:
        def one(message: Any, outcome: str, later: int) -> Any:
            return message.extend(seconds)

        def many(batch: Any, outcome: str, mask: list[int], later: int) -> Any:
            return batch.extend(mask, lease=seconds)

        return await self._decide(rows, one, many)

    async def _decide(self, rows: list[Delivery], one: Any, many: Any) -> list[Delivery]:
        """Messages one by one, rows of a batch by masks."""
        told: dict[Held, str] = {}
        receipts: list[tuple[Any, dict[int, Delivery]]] = []
        masks: dict[tuple[int, str, int], tuple[Any, dict[int, Delivery]]] = {}
        for row in rows:
            token, at = self._tokens[row.place, row.grant]
            if at < 0:
                try:
                    receipts.append((one(token, row.outcome, row.later), {at: row}))
                except errors.LeaseLost as error:
                    told[row.place, row.grant] = error.kind
            else:
                masks.setdefault((id(token), row.outcome, row.later), (token, {}))[1][at] = row
        for (_, outcome, later), (batch, named) in masks.items():
            receipts.append((many(batch, outcome, sorted(named), later), named))
        for receipt, named in receipts:
            told.update(await _told(receipt, named))
        return [row._replace(error=told[row.place, row.grant]) for row in rows]

    def pause(self) -> None:
        self._consumer.pause()

    def resume(self) -> None:
        self._consumer.resume()

    async def close(self) -> None:
        """What was refused and nobody has looked at is raised here; this application looks at
        everything.
        """
        with suppress(errors.Error):
            await self._consumer.close()
        await self._client.close()

    async def abandon(self) -> None:
        """Without waiting for any answer."""
        await self._consumer._abandon()
        await self._client.close()


def _when(later: int) -> dict[str, Any]:
    """The time of a nack as arguments."""
    if not later:
        return {}
    return {"at": times.to_datetime(later)} if later > 0 else {"delay": timedelta(microseconds=-later)}


def _settle_one(message: Any, outcome: str, later: int) -> Any:
    if outcome == ACK:
        return message.ack()
    return message.nack(**_when(later)) if outcome == NACK else message.reject("no reason")


def _settle_batch(batch: Any, outcome: str, mask: list[int], later: int) -> Any:
    if outcome == ACK:
        return batch.ack(mask)
    return batch.nack(mask, **_when(later)) if outcome == NACK else batch.reject(mask, "no reason")


async def _told(receipt: Any, named: dict[int, Delivery]) -> dict[Held, str]:
    """What a receipt says of each row: of a batch by its number, of a single message by what it
    raises. A row that was settled by an earlier call has no answer.
    """
    try:
        answers = await receipt
    except errors.LeaseLost as error:
        return {(row.place, row.grant): error.kind for row in named.values()}
    if -1 in named:
        return {(named[-1].place, named[-1].grant): ""}
    known = answers.ok.to_pylist()
    return {
        (row.place, row.grant): answers.refused[at].kind if at in answers.refused else "" if known[at] else "settled before"
        for at, row in named.items()
    }
