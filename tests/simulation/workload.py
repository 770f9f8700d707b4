"""What the clients of a seed do, on the real kit, and what they write down about it.

Every client is a process of its own and writes the history: before a call what it is about to do, after it what came of it. Producers send
single messages and batches, pipelined, with ids of a small pool (so the same id comes again, from others too, and after an unknown
outcome) or with generated ones, which they give back when the outcome was unknown. Readers follow the log from the beginning or from
somewhere in it. One administrator deletes topics and makes them anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bowstring import errors
from tests.history.events import (
    CREATE,
    DELETE,
    FAIL,
    FINAL,
    FIND,
    OK,
    OPEN,
    PUBLISH,
    UNKNOWN,
    History,
    Row,
    fingerprint,
    label,
    label_in,
    value_of,
)
from tests.history.facts import UNCERTAIN
from tests.simulation.kit import Kit, Sender, connected
from tests.simulation.load import Load

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

RETRY_SECONDS = 0.3


class Topics:
    """The topics of a seed, by name, with their partitions."""

    def __init__(self, source: random.Random, load: Load) -> None:
        self.lasting = {f"topic-{number}": source.randint(1, load.partitions_max) for number in range(load.topics)}
        self.mortal = {f"mortal-{number}": source.randint(1, load.partitions_max) for number in range(load.mortal_topics)}

    @property
    def all(self) -> dict[str, int]:
        return self.lasting | self.mortal


class Workload:
    """All clients of a seed."""

    def __init__(self, world: World, load: Load) -> None:
        self.world = world
        self.load = load
        self.topics = Topics(world.source("topics"), load)
        self.history = History(world.loop.time, lambda event: world.digest.note(f"history {event}"))
        self.made: asyncio.Event = asyncio.Event()
        """The lasting topics are there."""
        self.over = False
        """No new calls from here on."""
        self.ends: dict[tuple[str, int], int] = {}
        """The largest offset of a partition that any client has seen, for readers to start from."""

        self.failed_probes: list[str] = []

    def saw(self, topic: str, partition: int, offset: int) -> None:
        self.ends[topic, partition] = max(offset, self.ends.get((topic, partition), 0))

    async def pause(self, life: Incarnation, mean: float) -> None:
        await asyncio.sleep(mean * (0.1 + 1.8 * life.randomness.unit()))

    # ---- the administrator -----------------------------------------------------------------------------------------

    async def administrate(self, life: Incarnation) -> None:
        """Makes the topics, then deletes and makes anew the mortal ones."""
        kit = await self._connect(life)
        source = self.world.source(f"{life.name}/administrator")
        for name, partitions in self.topics.all.items():
            await self._until_done(life, CREATE, name, lambda n=name, p=partitions: kit.create_topic(n, p), errors.TopicExists)
        self.made.set()
        while self.topics.mortal and not self.over:
            await asyncio.sleep(source.expovariate(1.0 / self.load.mortal_seconds))
            name = source.choice(sorted(self.topics.mortal))
            if self.over:
                break
            await self._until_done(life, DELETE, name, lambda n=name: kit.delete_topic(n), errors.TopicNotFound)
            await asyncio.sleep(source.random() * self.load.mortal_seconds / 4)
            partitions = self.topics.mortal[name]
            for key in [key for key in self.ends if key[0] == name]:
                del self.ends[key]
            await self._until_done(life, CREATE, name, lambda n=name, p=partitions: kit.create_topic(n, p), errors.TopicExists)
            self.world.sometimes("topic made anew")
        await kit.close()

    async def _until_done(
        self, life: Incarnation, operation: str, topic: str, act: Callable[[], Awaitable[Any]], done: type[errors.Error]
    ) -> None:
        """Repeats until it is done; `done` is the error that says that an attempt before has done it. One call in the history."""
        call = self.history.invoke(life.name, operation, topic)
        while True:
            try:
                await act()
                break
            except done:
                break
            except (errors.Unavailable, errors.OutcomeUnknown):
                await self.pause(life, RETRY_SECONDS)
        self.history.ended(OK, life.name, call, operation, topic)

    # ---- producers -------------------------------------------------------------------------------------------------

    async def produce(self, life: Incarnation) -> None:
        await ProducerClient(self, life).run()

    # ---- readers ---------------------------------------------------------------------------------------------------

    async def read(self, life: Incarnation) -> None:
        """Sessions one after the other, each from somewhere, for some time."""
        kit = await self._connect(life)
        source = self.world.source(f"{life.name}/reader")
        await self.made.wait()
        number = 0
        while not self.over:
            number += 1
            topic = source.choice(sorted(self.topics.all))
            starts = {partition: self._start(source, topic, partition) for partition in range(self.topics.all[topic])}
            follow = source.expovariate(1.0 / 5.0)
            await self._session(life, kit, f"{life.name}.{number}", topic, starts, follow)
            await self.pause(life, 0.1)
        await kit.close()

    def _start(self, source: random.Random, topic: str, partition: int) -> int:
        end = self.ends.get((topic, partition), 0)
        return 1 if source.random() < 0.5 or not end else source.randint(1, end)

    async def _session(self, life: Incarnation, kit: Kit, session: str, topic: str, starts: dict[int, int], follow: float) -> None:
        self.history.opened(life.name, session, topic, starts)
        reader = kit.reader(topic, starts)
        try:
            async with asyncio.timeout(follow):
                async for rows in reader.batches():
                    self._note(life, session, topic, rows)
        except TimeoutError:
            pass
        except errors.Corrupt:
            self.world.sometimes("reader was told of damaged bytes")
        except (errors.Unavailable, errors.TopicNotFound, errors.InvalidArgument, errors.Conflict) as error:
            if topic in self.topics.lasting and not isinstance(error, errors.Unavailable):
                raise
            self.world.sometimes(f"reader was told {error.kind}")
        except errors.OutOfRange as error:
            self.history.ended(
                FAIL, life.name, 0, OPEN, topic, [Row("", partition=p, offset=o) for p, o in starts.items()], error=error.kind
            )
        finally:
            await reader.close()

    def _note(self, life: Incarnation, session: str, topic: str, rows: list[Row]) -> None:
        if rows:
            self.history.read(life.name, session, topic, rows)
        for row in rows:
            self.saw(topic, row.partition, row.offset)

    async def read_all(self, life: Incarnation, name: str) -> None:
        """Every topic from its beginning to its end, by a fresh client."""
        kit = await self._connect(life)
        for topic, partitions in self.topics.all.items():
            for partition in range(partitions):
                session = f"{name}-{topic}-{partition}"
                self.history.opened(life.name, session, topic, {partition: 1})
                reader = kit.reader(topic, {partition: 1}, latest=True)
                async for rows in reader.batches():
                    self.history.read(life.name, session, topic, rows)
                await reader.close()
        await kit.close()

    async def probe(self, life: Incarnation) -> None:
        """After healing everything works: new ids, the same ids once more, and messages behind them are all acknowledged."""
        kit = await connected(life, plain=False)
        for topic, partitions in self.topics.all.items():
            producer = kit.producer(topic, partitions, timeout=20.0, compression=None)
            for number, prefix in enumerate(("probe", "probe", "", "probe")):
                names = [label(life.name, topic, number, at) for at in range(3)]
                rows = [
                    Row(name, prefix and f"{prefix}-{at}", "", fingerprint(name.encode()), natural=bool(prefix))
                    for at, name in enumerate(names)
                ]
                call = self.history.invoke(life.name, PUBLISH, topic, rows, producer=f"{life.name}-{topic}", sequence=number)
                answers = await producer.outcome(producer.send(rows, [name.encode() for name in names], None), rows)
                self.history.ended(OK, life.name, call, PUBLISH, topic, answers)
                self.failed_probes += [f"{topic}: {row.label} was answered {row.error}" for row in answers if row.error]
            await producer.close()
        await kit.close()

    async def read_finally(self, life: Incarnation) -> None:
        await self.read_all(life, FINAL)

    async def _connect(self, life: Incarnation) -> Kit:
        plain = self.world.source(f"{life.name}/kit").random() < self.load.plain
        while True:
            try:
                return await connected(life, plain=plain)
            except errors.Unavailable:
                await self.pause(life, RETRY_SECONDS)


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
        """Messages whose outcome is not known, as (topic, id, key): to be repeated, or asked for."""

    async def run(self) -> None:
        workload = self._workload
        self._kit = await workload._connect(self._life)
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
        for _ in range(self._random.randint(1, 60)):
            if self._workload.over:
                break
            await self._workload.pause(self._life, self._load.pause_seconds)
            await self._send(producer, topic, name, mine)
            if self._again and self._random.random() < 0.3:
                await self._find(producer, topic)
            while len(self._under_way) >= self._load.under_way_max:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        if mine:
            await asyncio.wait(mine)
        await producer.close()

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _row(self, natural: bool) -> tuple[Row, bytes]:
        """A new message, and its value."""
        self._labels += 1
        name = label(self._life.name, self._labels)
        large = self._random.random() < self._load.large
        size = self._random.randint(1, self._load.large_bytes if large else self._load.value_bytes)
        value = value_of(name, size)
        if natural:
            number = self._random.randrange(self._load.ids)
            key = f"k{number % 7}" if number % 100 < self._load.keyed * 100 else ""
            return Row(name, f"id-{number}", key, fingerprint(value), natural=True), value
        key = f"k{self._random.randrange(7)}" if self._random.random() < self._load.keyed else ""
        return Row(name, "", key, fingerprint(value)), value

    def _repeated(self, topic: str) -> tuple[Row, bytes] | None:
        """A message that failed before, under the same id and key; its label is new."""
        mine = [entry for entry in self._again if entry[0] == topic]
        if not mine or self._random.random() >= self._load.repeats:
            return None
        entry = self._random.choice(mine)
        self._again.remove(entry)
        row, value = self._row(natural=False)
        return row._replace(id=entry[1], key=entry[2], natural=True), value

    async def _send(self, producer: Sender, topic: str, name: str, mine: set[asyncio.Task[None]]) -> None:
        natural = self._random.random() < self._load.natural
        repeated = self._repeated(topic)
        count = self._random.randint(1, self._load.batch_rows_max) if self._random.random() < self._load.batches else 1
        messages = [self._row(natural or repeated is not None) for _ in range(count - (repeated is not None))]
        if repeated is not None:
            messages.insert(self._random.randrange(len(messages) + 1), repeated)
        tight = self._random.random() < self._load.tight
        timeout = self._load.tight_seconds * (0.2 + 1.6 * self._random.random()) if tight else None
        self._sequence += 1
        rows = [row for row, _ in messages]
        call = self._history.invoke(self._life.name, PUBLISH, topic, rows, producer=name, sequence=self._sequence)
        try:
            sent = producer.send(rows, [value for _, value in messages], timeout)
        except errors.Full as error:
            self._world.sometimes("kit had no room")
            self._history.ended(FAIL, self._life.name, call, PUBLISH, topic, error=f"{error.kind}-at-once")
            await producer.ready()
            return
        task = asyncio.create_task(self._outcome(producer, sent, call, topic, rows))
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
                if row.duplicate:
                    self._world.sometimes("message answered as a duplicate")
            else:
                self._world.sometimes(f"message answered {row.error}")
                if row.id and (row.error in UNCERTAIN or self._random.random() < 0.5):
                    self._again.append((topic, row.id, row.key))

    async def _find(self, producer: Sender, topic: str) -> None:
        """Asks where a message is whose outcome is not known."""
        mine = [entry for entry in self._again if entry[0] == topic]
        if not mine:
            return
        _, message_id, _ = self._random.choice(mine)
        call = self._history.invoke(self._life.name, FIND, topic, [Row("", message_id)])
        try:
            found = await producer.find(message_id)
        except errors.Error as error:
            self._history.ended(UNKNOWN, self._life.name, call, FIND, topic, error=error.kind)
            return
        rows = [] if found is None else [Row("", message_id, partition=found.partition, offset=found.offset)]
        self._world.sometimes("unknown outcome: it was stored" if rows else "unknown outcome: it was not stored")
        self._history.ended(OK, self._life.name, call, FIND, topic, rows)


__all__ = ["Workload", "label_in"]
