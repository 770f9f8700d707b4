"""A process that sends with one of the kits, and records what happens.

It sends single messages and batches, pipelined, with ids of a small pool (so the same id comes
again, from others too, and after an unknown outcome) or with generated ones, which it gives back
when the outcome was unknown, and sometimes long after it was known. Some messages have a due time,
some expire; those that are not due it moves and cancels. It deletes messages, too: its own, others',
those that may not be there, and such as were deleted before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring import errors
from tests.history.events import CANCEL, ERASE, FAIL, FIND, MOVE, OK, PUBLISH, UNKNOWN, Row, fingerprint, label, value_of
from tests.history.facts import UNCERTAIN
from tests.simulation.clock import START
from tests.simulation.kit import Sender

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload


NAMES = {ERASE: "delete", CANCEL: "cancel", MOVE: "move"}
DONE = {ERASE: "deleted", CANCEL: "cancelled", MOVE: "moved"}


class Sent(NamedTuple):
    """A send on its way."""

    call: int
    rows: list[Row]
    receipt: Any


class ProducerClient:
    """A process that sends."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload = workload
        self._world = workload.world
        self._history = workload.history
        self._load = workload.load
        self._life = life
        self._random = workload.world.source(f"{life.name}/producer")
        self._under_way: set[asyncio.Task[None]] = set()
        self._labels = 0
        self._producers = 0
        self._sequence = 0
        self._again: list[tuple[str, str, str]] = []
        """Messages whose outcome is not known, and some that are stored, as (topic, id, key): to be
        repeated, or asked for.
        """
        self._stored: dict[str, list[str]] = {}
        """Ids of messages that were stored, the last ones of each topic."""
        self._was_full: set[str] = set()
        self._careless = workload.world.source(f"{life.name}/careless")
        self._hasty = workload.world.source(f"{life.name}/hasty")
        self._seeking = workload.world.source(f"{life.name}/seeking")
        self._putting_off = workload.world.source(f"{life.name}/later")
        self._scheduled: dict[str, list[str]] = {}
        """Ids of messages that were not due when they were stored, the last ones of each topic."""
        self._known: dict[str, list[str]] = {}
        """Ids of messages that were stored, some of each topic, old ones among them."""

    async def run(self) -> None:
        workload = self._workload
        self._kit = await workload.connect(self._life)
        await workload.made.wait()
        while not workload.over:
            await self._one_producer()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._kit.close()

    async def _one_producer(self) -> None:
        """A producer of the kit, for some sends."""
        topic = self._random.choice(sorted(self._workload.topics.all))
        self._producers += 1
        name = f"{self._life.name}.{self._producers}"
        compression = "lz4" if self._random.random() < self._load.compressed else None
        producer = self._kit.producer(topic, self._workload.topics.all[topic], timeout=self._load.timeout_seconds, compression=compression)
        mine: set[asyncio.Task[None]] = set()
        ignored: list[Row] = []
        """What was sent without looking at receipts, since the last flush."""
        for _ in range(self._random.randint(1, 60)):
            if self._workload.over:
                break
            await self._workload.pause(self._life, self._load.pause_seconds)
            sent = await self._send(producer, topic, name)
            if sent is not None and self._careless.random() < self._load.ignored:
                ignored += sent.rows
            elif sent is not None:
                self._await(producer, sent, topic, mine)
            if ignored and self._careless.random() < 0.1:
                self._note(topic, ignored, await producer.flush())
            if self._again and self._random.random() < 0.3:
                await self._find(producer, topic)
            if self._load.finds and self._seeking.random() < self._load.finds and self._known.get(topic):
                await self._ask_for(producer, topic, self._seeking.choice(self._known[topic]))
            if self._load.deletes and self._random.random() < self._load.deletes:
                self._under_way_now(asyncio.create_task(self._delete(producer, topic)), mine)
            self._put_off(producer, topic, mine)
            while len(self._under_way) >= self._load.under_way_max:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        if mine:
            await asyncio.wait(mine)
        self._note(topic, ignored, await producer.close())

    def _note(self, topic: str, ignored: list[Row], raised: str) -> None:
        """A flush or a close has ended: what was ignored is stored, or there was an error."""
        if ignored and not raised:
            self._history.silent(self._life.name, topic, ignored)
        if ignored:
            self._world.sometimes("ignored messages were stored" if not raised else "an ignored failure was raised")
        ignored.clear()

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _row(self, natural: bool) -> tuple[Row, bytes]:
        """A new message, and its value."""
        self._labels += 1
        name = label(self._life.name, self._labels)
        large = self._random.random() < self._load.large
        size = self._random.randint(1, self._load.large_bytes if large else self._load.value_bytes)
        value = value_of(name, size)
        row = Row(name, value=fingerprint(value), due=self._due(), expires=self._expires(), attributes=self._attributes())
        if natural:
            number = self._random.randrange(self._load.ids)
            key = f"k{number % 7}" if number % 100 < self._load.keyed * 100 else ""
            return row._replace(id=f"id-{number}", key=key, natural=True), value
        key = f"k{self._random.randrange(7)}" if self._random.random() < self._load.keyed else ""
        return row._replace(key=key), value

    def _due(self) -> int:
        """A moment by true time: past, near, or far beyond the run."""
        if not self._load.delayed or self._random.random() >= self._load.delayed:
            return 0
        return self._true_now() + self._random.choice((-5_000_000, 1_000_000, 4_000_000, 86_400_000_000))

    def _expires(self) -> int:
        if not self._load.expiring or self._random.random() >= self._load.expiring:
            return 0
        return self._true_now() + self._random.randint(300_000, 8_000_000)

    def _attributes(self) -> str:
        if not self._load.attributed or self._random.random() >= self._load.attributed:
            return ""
        return f"a{self._labels % 5}"

    def _true_now(self) -> int:
        return START + round(self._world.loop.time() * 1e6)

    def _repeated(self, topic: str) -> tuple[Row, bytes] | None:
        """A message that failed before, under the same id and key; its label is new."""
        mine = [entry for entry in self._again if entry[0] == topic]
        if not mine or self._random.random() >= self._load.repeats:
            return None
        entry = self._random.choice(mine)
        self._again.remove(entry)
        row, value = self._row(natural=False)
        if "-" in entry[1][3:]:
            self._world.sometimes("generated id given back")
        return row._replace(id=entry[1], key=entry[2], natural=True), value

    async def _send(self, producer: Sender, topic: str, name: str) -> Sent | None:
        """Sends something; None if there was no room for it."""
        natural = self._random.random() < self._load.natural
        repeated = self._repeated(topic)
        count = self._random.randint(1, self._load.batch_rows_max) if self._random.random() < self._load.batches else 1
        messages = [self._row(natural or repeated is not None) for _ in range(count - (repeated is not None))]
        if repeated is not None:
            messages.insert(self._random.randrange(len(messages) + 1), repeated)
        tight = self._random.random() < self._load.tight
        timeout = self._load.tight_seconds * (0.2 + 1.6 * self._random.random()) if tight else None
        self._sequence += 1
        rows = [row._replace(group=producer.group) for row, _ in messages]
        call = self._history.invoke(self._life.name, PUBLISH, topic, rows, producer=name, sequence=self._sequence)
        try:
            sent = producer.send(rows, [value for _, value in messages], timeout)
        except errors.Full as error:
            self._world.sometimes("kit had no room")
            self._history.ended(FAIL, self._life.name, call, PUBLISH, topic, error=f"{error.kind}-at-once")
            await producer.ready()
            return None
        return Sent(call, rows, sent)

    def _await(self, producer: Sender, sent: Sent, topic: str, mine: set[asyncio.Task[None]]) -> None:
        self._under_way_now(asyncio.create_task(self._outcome(producer, sent.receipt, sent.call, topic, sent.rows)), mine)

    def _under_way_now(self, task: asyncio.Task[None], mine: set[asyncio.Task[None]]) -> None:
        for tasks in (self._under_way, mine):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _outcome(self, producer: Sender, sent: Any, call: int, topic: str, rows: list[Row]) -> None:
        """Waits for the answer and writes it down, row by row."""
        answers = await producer.outcome(sent, rows)
        self._history.ended(OK, self._life.name, call, PUBLISH, topic, answers)
        for row in answers:
            if not row.error:
                self._workload.saw(topic, row.partition, row.offset)
                self._stored[topic] = [*self._stored.get(topic, ())[-40:], row.id]
                self._remember(topic, row.id)
                if row.due > self._true_now():
                    self._scheduled[topic] = [*self._scheduled.get(topic, ())[-20:], row.id]
                if topic in self._was_full:
                    self._was_full.discard(topic)
                    self._world.sometimes("publish refused because full, and accepted later again")
                if self._random.random() < self._load.repeats * 0.1:
                    self._again.append((topic, row.id, row.key))
                if row.duplicate:
                    self._world.sometimes("message answered as a duplicate")
            else:
                self._world.sometimes(f"message answered {row.error}")
                if row.error == "full":
                    self._was_full.add(topic)
                if row.id and (row.error in UNCERTAIN or self._random.random() < 0.5):
                    self._again.append((topic, row.id, row.key))

    async def _find(self, producer: Sender, topic: str) -> None:
        """Asks where a message is whose outcome is not known."""
        mine = [entry for entry in self._again if entry[0] == topic]
        if not mine:
            return
        await self._ask_for(producer, topic, self._random.choice(mine)[1])

    def _remember(self, topic: str, message_id: str) -> None:
        """The first hundred ids of a topic, and later ones now and then."""
        known = self._known.setdefault(topic, [])
        if self._load.finds and (len(known) < 100 or self._seeking.random() < 0.1):
            known.append(message_id)

    async def _ask_for(self, producer: Sender, topic: str, message_id: str) -> None:
        call = self._history.invoke(self._life.name, FIND, topic, [Row("", message_id)])
        try:
            found = await producer.find(message_id)
        except errors.Error as error:
            self._history.ended(UNKNOWN, self._life.name, call, FIND, topic, error=error.kind)
            return
        rows = [] if found is None else [Row("", message_id, partition=found.partition, offset=found.offset)]
        self._world.sometimes("message found by its id", len(rows))
        self._world.sometimes("unknown outcome: it was stored" if rows else "unknown outcome: it was not stored")
        self._history.ended(OK, self._life.name, call, FIND, topic, rows)

    async def _delete(self, producer: Sender, topic: str) -> None:
        """Deletes some messages of one topic, or tries to."""
        ids = [f"id-{self._random.randrange(self._load.ids)}"] if self._load.natural else []
        ids += [*self._stored.get(topic, ()), *(entry[1] for entry in self._again if entry[0] == topic)]
        if not ids:
            return
        rows = [Row("", self._random.choice(ids), group=producer.group) for _ in range(self._random.randint(1, 5))]
        while self._load.impatient and self._hasty.random() < self._load.impatient:
            if await self._delete_these(producer, topic, rows, patience=4 * self._world.options.sync_seconds * self._hasty.random()):
                return
        await self._delete_these(producer, topic, rows)

    async def _delete_these(
        self, producer: Sender, topic: str, rows: list[Row], *, patience: float | None = None, operation: str = ERASE
    ) -> bool:
        """Says whether there was an answer. A client that gives up and asks again may get an answer
        that is not durable yet.
        """
        call = self._history.invoke(self._life.name, operation, topic, rows)
        ask = {ERASE: producer.delete, CANCEL: producer.cancel, MOVE: producer.move}[operation]
        what = NAMES[operation]
        try:
            async with asyncio.timeout(patience):
                answers = await ask(rows)
        except (errors.Error, TimeoutError) as error:
            kind = getattr(error, "kind", "timeout")
            self._world.sometimes(f"{what} answered {kind}" if isinstance(error, errors.Error) else f"{what} was given up")
            self._history.ended(UNKNOWN, self._life.name, call, operation, topic, error=kind)
            return isinstance(error, errors.Error)
        for row in answers:
            self._world.sometimes(f"{what} of a message answered {row.error}" if row.error else f"message {DONE[operation]} by its owner")
        self._history.ended(OK, self._life.name, call, operation, topic, answers)
        return True

    def _put_off(self, producer: Sender, topic: str, mine: set[asyncio.Task[None]]) -> None:
        """Cancels or moves a message that may not be due yet."""
        fate, known = self._putting_off.random(), self._scheduled.get(topic)
        if not known or fate >= self._load.cancels + self._load.moves:
            return
        row = Row("", self._putting_off.choice(known), group=producer.group)
        operation = CANCEL if fate < self._load.cancels else MOVE
        if operation == MOVE:
            row = row._replace(due=self._true_now() + self._putting_off.choice((-1_000_000, 300_000, 2_000_000, 86_400_000_000)))
        self._under_way_now(asyncio.create_task(self._ask_and_note(producer, topic, row, operation)), mine)

    async def _ask_and_note(self, producer: Sender, topic: str, row: Row, operation: str) -> None:
        await self._delete_these(producer, topic, [row], operation=operation)
