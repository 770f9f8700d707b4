"""A process that consumes with one of the kits, and records what happens.

It has consumers one after the other, under its machine's name (so that one that was killed comes
back under it), under a name of its own, or under one that others have too. What it takes it acks,
nacks, rejects, makes longer, or keeps until its lease is over, one by one or as a mask over a batch.
It pauses, closes, or ends without a word. Now and then it tries to delete what it holds.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from bowstring import errors
from tests.history.events import ERASE, OK, UNKNOWN, Row
from tests.history.filtering import FILTERS
from tests.history.lease_events import ACK, BY_ID, LONGER, NACK, PEEK, REJECT, Delivery
from tests.simulation.clock import START
from tests.simulation.consumer_kit import Consumption, Wanted, consume
from tests.simulation.consumer_log import ConsumerLog
from tests.simulation.kit import RealSender, open_client

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

TAKE_SECONDS = 0.3
PAUSE_SECONDS = 0.5
TASKS_MAX = 20
IDS_MAX = 30
GONE = (errors.NotFound, errors.Conflict)
"""The subscription or its topic is deleted, or the name is another's."""


class ConsumerClient:
    """One client process."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._life, self._load = workload, life, workload.load
        self._world = workload.world
        self._random = workload.world.source(f"{life.name}/consumer")
        self._owner = life.name.rpartition(".")[0]
        self._sessions = 0

    async def run(self) -> None:
        """Consumers one after the other."""
        await self._workload.queues.made.wait()
        while not self._workload.over:
            self._sessions += 1
            try:
                await self._consume()
            except errors.Unavailable:
                pass
            except GONE as error:
                self._world.sometimes(f"consumer was told {error.kind}")
            await self._workload.pause(self._life, 0.1)

    async def _consume(self) -> None:
        """One consumer, from its beginning to its end."""
        wanted = self._wanted()
        log = ConsumerLog(self._workload, self._life, f"{self._life.name}.q{self._sessions}", wanted.topic)
        plain = self._random.random() < self._load.plain_consumers
        consumption = await consume(self._life, wanted, log, plain=plain)
        session = ConsumerSession(self, consumption, log, wanted)
        try:
            async with asyncio.timeout(self._random.expovariate(1.0 / self._load.consume_seconds)):
                await session.run()
        except TimeoutError:
            pass
        finally:
            await session.end()

    def _wanted(self) -> Wanted:
        load, source = self._load, self._random
        topic, subscription = source.choice(self._workload.queues.names())
        name = f"{self._life.name}.{self._sessions}"
        if source.random() < load.collisions:
            name = "everybody"
        elif source.random() < load.named_consumers:
            name = self._owner
        lease = source.choice((1.0, 3.0)) if source.random() < load.own_leases else None
        credit = source.choice((None, source.randint(1, load.credit_max)))
        mortal = topic in self._workload.topics.mortal
        return Wanted(topic, subscription, name, credit, lease, create=mortal, alive=source.random() >= load.holds)

    # ---- for its sessions

    @property
    def workload(self) -> Workload:
        return self._workload

    @property
    def life(self) -> Incarnation:
        return self._life


class ConsumerSession:
    """What an application does with one consumer."""

    def __init__(self, client: ConsumerClient, consumption: Consumption, log: ConsumerLog, wanted: Wanted) -> None:
        self._workload, self._life = client.workload, client.life
        self._load, self._world, self._history = client.workload.load, client.workload.world, client.workload.history
        self._random = client._random
        self._putting_off = client.workload.world.source(f"{client.life.name}/later/{wanted.name}")
        self._looking = client.workload.world.source(f"{client.life.name}/looking/{wanted.name}")
        self._consumption, self._log, self._wanted = consumption, log, wanted
        self._held: list[tuple[float, Delivery]] = []
        """Rows that it keeps, and until when."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_dead = False
        """A message has let it crash."""

    async def run(self) -> None:
        """Takes and settles, until its time is over."""
        source, load = self._random, self._load
        while not self._workload.over:
            batch = source.random() < load.masks
            rows = await self._consumption.take(source.choice((1, 4, 50)), TAKE_SECONDS, batch=batch)
            if any(self._is_poison(row) for row in rows):
                self._world.sometimes("consumer died of a message")
                self._is_dead = True
                return
            if rows:
                self._world.sometimes("rows were handed out", len(rows))
                self._note_ids(rows)
                self._handle(rows)
            self._settle_held()
            if self._looking.random() < load.peeks:
                await self._look()
            if source.random() < load.pauses:
                await self._pause()
            if rows and source.random() < load.delete_held:
                await self._delete(source.choice(rows))
            if load.work_seconds:
                await self._workload.pause(self._life, load.work_seconds)
            while len(self._tasks) >= TASKS_MAX:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def _note_ids(self, rows: list[Delivery]) -> None:
        """For consumers who ask for messages by their ids."""
        known = self._workload.queues.handed.setdefault((self._wanted.topic, self._wanted.subscription), [])
        known += [message.id for row in rows if (message := self._log.messages.get(row.place)) is not None]
        del known[:-IDS_MAX]

    async def _look(self) -> None:
        """Looks at what would come next, and asks for some of it by id, and for what consumers have got lately."""
        source = self._looking
        where = source.choice(["", *FILTERS])
        call = self._log.asks(PEEK, (), where)
        try:
            seen = await self._consumption.peek(source.choice((1, 5, 30)), where)
        except errors.Unavailable as error:
            self._log.told(call, PEEK, [], error.kind)
            return
        self._log.told(call, PEEK, seen)
        others = self._workload.queues.handed.setdefault((self._wanted.topic, self._wanted.subscription), [])
        known = sorted({row.id for row in seen} | set(others if source.random() < 0.7 else ()))
        if known and source.random() < self._load.ids_leased:
            await self._lease(source.sample(known, min(len(known), source.choice((1, 3, 10)))))

    async def _lease(self, ids: list[str]) -> None:
        call = self._log.asks(BY_ID, [Row("", id) for id in ids])
        try:
            rows, told = await self._consumption.lease(ids)
        except errors.Unavailable as error:
            self._log.told(call, BY_ID, [], error.kind)
            return
        self._log.told(call, BY_ID, told)
        if rows:
            self._handle(rows)

    def _is_poison(self, row: Delivery) -> bool:
        """The same messages are for all consumers, until the world is to be left in order."""
        place = f"{self._wanted.topic}/{row.partition}@{row.offset}".encode()
        return zlib.crc32(place) % 10_000 < self._load.poison * 10_000 and not self._workload.over

    def _handle(self, rows: list[Delivery]) -> None:
        """Decides on each row; those that are settled now are settled together."""
        now = self._world.loop.time()
        decided: list[Delivery] = []
        for row in rows:
            fate, load = self._random.random(), self._load
            if fate < load.holds and self._random.random() < load.late_extends:
                self._start(self._extend_late(row))
            elif fate < load.holds:
                self._held.append((now + self._random.choice((0.3, 2.0)) * load.lease_seconds, row))
            elif fate < load.holds + (1 - load.holds) * load.nacks:
                decided.append(row._replace(outcome=NACK, later=self._later(row)))
            elif self._random.random() < load.rejects:
                decided.append(row._replace(outcome=REJECT))
            else:
                decided.append(row._replace(outcome=ACK))
        if decided and self._random.random() < self._load.extends:
            self._start(self._extend([row._replace(outcome=LONGER) for row in decided], decided))
        elif decided:
            self._start(self._settle(decided))

    def _later(self, row: Delivery) -> int:
        """When a nacked row is to come again: a span, a moment, at once, or as the subscription says. Only messages that are kept long
        enough are put off; others would be refused.
        """
        message = self._log.messages.get(row.place)
        if self._putting_off.random() >= self._load.timed_nacks or message is None or message.expires:
            return 0
        if self._wanted.topic.startswith("brief"):
            return 0
        span = self._putting_off.choice((1, 200_000, 1_000_000, 3_000_000))
        self._world.sometimes("row nacked for later")
        return -span if self._putting_off.random() < 0.5 else START + round(self._world.loop.time() * 1e6) + span

    def _settle_held(self) -> None:
        now = self._world.loop.time()
        due = [row for until, row in self._held if until <= now]
        self._held = [(until, row) for until, row in self._held if until > now]
        if due:
            self._start(self._settle([row._replace(outcome=ACK) for row in due]))

    def _start(self, steps: object) -> None:
        task = asyncio.create_task(steps)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, rows: list[Delivery]) -> None:
        call = self._log.decides(rows)
        try:
            told = await self._consumption.settle(rows)
        except errors.Error as error:
            self._log.decided(call, UNKNOWN, rows, error.kind)
        else:
            self._log.decided(call, OK, told)

    async def _extend(self, longer: list[Delivery], decided: list[Delivery]) -> None:
        """Makes leases longer, waits, and settles: what could not be made longer is settled all the
        same, to be refused.
        """
        call = self._log.decides(longer)
        try:
            told = await self._consumption.extend(longer, self._load.lease_seconds * 2)
        except errors.Error as error:
            self._log.decided(call, UNKNOWN, longer, error.kind)
            return
        self._log.decided(call, OK, told)
        await asyncio.sleep(self._random.random() * self._load.lease_seconds * 1.5)
        await self._settle(decided)

    async def _extend_late(self, row: Delivery) -> None:
        """Asks for more time when the lease is just over."""
        await asyncio.sleep(max(0.0, self._log.left(row) + 0.3 * self._random.random()))
        await self._extend([row._replace(outcome=LONGER)], [row._replace(outcome=ACK)])

    async def _pause(self) -> None:
        self._consumption.pause()
        self._world.sometimes("consumer paused")
        await self._workload.pause(self._life, PAUSE_SECONDS)
        self._consumption.resume()

    async def _delete(self, row: Delivery) -> None:
        """Tries to delete what it holds: that is refused while the lease is valid."""
        message = self._log.messages.get(row.place)
        if message is None or not message.group:
            return
        topic, wanted = self._wanted.topic, [Row(message.label, message.id, group=message.group)]
        client = await open_client(self._life, lambda: self._workload.pause(self._life, 0.3))
        async with client, client.producer(topic, group=message.group) as producer:
            call = self._history.invoke(self._life.name, ERASE, topic, wanted)
            try:
                answers = await RealSender(producer).delete(wanted)
            except errors.Error as error:
                self._history.ended(UNKNOWN, self._life.name, call, ERASE, topic, error=error.kind)
            else:
                self._history.ended(OK, self._life.name, call, ERASE, topic, answers)
                self._world.sometimes(f"delete of a held row answered {answers[0].error or 'done'}")

    async def end(self) -> None:
        """Closes, or ends without a word."""
        if self._is_dead or (self._random.random() < self._load.abandons and not self._workload.over):
            self._world.sometimes("consumer ended without a word")
            await self._consumption.abandon()
        else:
            await self._consumption.close()
            self._log.closed()
            self._world.sometimes("consumer closed")
        if self._tasks:
            await asyncio.wait(self._tasks)
