"""What the clients of a seed do, on the real kit, and what they write down about it.

Every client is a process of its own and writes the history: before a call what it is about to do, after it what came of it. Producers are
in `producing`. Readers follow the log from the beginning or from somewhere in it. One administrator deletes topics and makes them anew, and
changes how long others keep what they have.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bowstring import errors
from tests.history.events import ALTER, CREATE, DELETE, FINAL, OK, PUBLISH, History, Row, Settings, fingerprint, label
from tests.history.violations import Violation
from tests.simulation.consuming import ConsumerClient
from tests.simulation.dawdling import SlowReader, overhear
from tests.simulation.draining import Drain
from tests.simulation.kit import Kit, RealReading, Sender, connected
from tests.simulation.load import Load
from tests.simulation.observing import PositionObserver
from tests.simulation.producing import ProducerClient
from tests.simulation.reading import NamedReader
from tests.simulation.redriving import LetterOperator
from tests.simulation.subscribing import Queues
from tests.simulation.topics import Topics

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

RETRY_SECONDS = 0.3
ATTEMPTS_MAX = 20


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

        self.oldest: dict[tuple[str, int], int] = {}
        """The offset that a reader from the beginning of a partition got first, the last time."""
        self.names: dict[tuple[str, str], int] = {}
        """How many names of positions a client has given up, by client and topic."""
        self.setting: set[tuple[str, str]] = set()
        """Clients and topics of which nobody knows whether a position was set or deleted."""
        self.arrivals: dict[str, list[int]] = {}
        """Moments at which messages of a topic have arrived, for readers to start from."""
        self.violations: list[Violation] = []
        """Promises that a client saw broken by itself."""
        self.failed_probes: list[tuple[str, str]] = []
        """What was wrong, and the error."""
        self.queues = Queues(self)

    def saw(self, topic: str, partition: int, offset: int) -> None:
        self.ends[topic, partition] = max(offset, self.ends.get((topic, partition), 0))

    def note_arrivals(self, topic: str, rows: list[Row]) -> None:
        known = self.arrivals.setdefault(topic, [])
        known += [row.arrived for row in rows[:1]]
        del known[:-50]

    async def pause(self, life: Incarnation, mean: float) -> None:
        await asyncio.sleep(mean * (0.1 + 1.8 * life.randomness.unit()))

    # ---- the administrator -----------------------------------------------------------------------------------------

    async def administrate(self, life: Incarnation) -> None:
        """Makes the topics, then deletes and makes anew the mortal ones."""
        kit = await self.connect(life)
        source = self.world.source(f"{life.name}/administrator")
        for name in self.topics.all:
            await self._create(life, kit, name)
        self.made.set()
        altering = asyncio.create_task(self._alter(life, kit, source))
        while self.topics.mortal and not self.over:
            await asyncio.sleep(source.expovariate(1.0 / self.load.mortal_seconds))
            name = source.choice(self.topics.mortal)
            if self.over:
                break
            await self._until_done(life, DELETE, name, lambda n=name: kit.delete_topic(n), errors.TopicNotFound)
            await asyncio.sleep(source.random() * self.load.mortal_seconds / 4)
            for known in (self.ends, self.oldest):
                for key in [key for key in known if key[0] == name]:
                    del known[key]
            self.arrivals.pop(name, None)
            await self._create(life, kit, name)
            self.world.sometimes("topic made anew")
        await altering
        await kit.close()

    async def _create(self, life: Incarnation, kit: Kit, name: str) -> None:
        settings = self.topics.settings[name]
        await self._until_done(life, CREATE, name, lambda: kit.create_topic(name, settings), errors.TopicExists, settings)

    async def _alter(self, life: Incarnation, kit: Kit, source: random.Random) -> None:
        """Changes settings of topics that last, now and then."""
        names = sorted(set(self.topics.all) - set(self.topics.mortal))
        while self.load.alter_every and names and not self.over:
            await asyncio.sleep(source.expovariate(1.0 / self.load.alter_every))
            name = source.choice(names)
            settings = self.topics.altered(source, name)
            await self._until_done(life, ALTER, name, lambda n=name, s=settings: kit.alter_topic(n, s), errors.TopicExists, settings)
            self.world.sometimes("topic altered")

    async def _until_done(
        self,
        life: Incarnation,
        operation: str,
        topic: str,
        act: Callable[[], Awaitable[Any]],
        done: type[errors.Error],
        settings: Settings = Settings(),  # noqa: B008
    ) -> None:
        """Repeats until it is done; `done` is the error that says that an attempt before has done it. One call in the history."""
        call = self.history.invoke(life.name, operation, topic, settings=settings)
        while True:
            try:
                await act()
                break
            except done:
                break
            except (errors.Unavailable, errors.OutcomeUnknown, errors.Full):
                await self.pause(life, RETRY_SECONDS)
        self.history.ended(OK, life.name, call, operation, topic)

    # ---- producers -------------------------------------------------------------------------------------------------

    async def produce(self, life: Incarnation) -> None:
        await ProducerClient(self, life).run()

    # ---- consumers -------------------------------------------------------------------------------------------------

    async def consume(self, life: Incarnation) -> None:
        await ConsumerClient(self, life).run()

    async def operate(self, life: Incarnation) -> None:
        await self.queues.operate(life)

    async def redrive(self, life: Incarnation) -> None:
        await LetterOperator(self, life).run()

    async def drain(self, life: Incarnation) -> None:
        await Drain(self, life).run()

    # ---- readers ---------------------------------------------------------------------------------------------------

    async def read_slowly(self, life: Incarnation) -> None:
        await SlowReader(self, life).run()

    async def read_by_name(self, life: Incarnation) -> None:
        await NamedReader(self, life).run()

    async def observe(self, life: Incarnation) -> None:
        await PositionObserver(self, life).run()

    async def read(self, life: Incarnation) -> None:
        """Sessions one after the other, each from somewhere, for some time."""
        kit = await self.connect(life)
        source = self.world.source(f"{life.name}/reader")
        brink = self.world.source(f"{life.name}/brink")
        await self.made.wait()
        number = 0
        while not self.over:
            number += 1
            topic = source.choice(sorted(self.topics.all))
            beginning = source.random() < 0.5
            partitions = range(self.topics.all[topic])
            starts = {partition: 0 if beginning else self._start(source, topic, partition) for partition in partitions}
            if brink.random() < self.load.brink:
                starts = {partition: self._oldest(topic, partition, brink.randint(0, 3)) for partition in partitions}
            follow = source.expovariate(1.0 / 5.0)
            await self._session(life, kit, f"{life.name}.{number}", topic, starts, follow)
            await self.pause(life, 0.1)
        await kit.close()

    def _start(self, source: random.Random, topic: str, partition: int) -> int:
        """Somewhere, the later the likelier: what is long gone says nothing."""
        end = self.ends.get((topic, partition), 0)
        return 1 if not end else max(source.randint(1, end), source.randint(1, end))

    def _oldest(self, topic: str, partition: int, behind: int) -> int:
        """So many behind what retention takes next, and not beyond the end."""
        return min(self.oldest.get((topic, partition), 1) + behind, max(1, self.ends.get((topic, partition), 0)))

    async def _session(self, life: Incarnation, kit: Kit, session: str, topic: str, starts: dict[int, int], follow: float) -> None:
        reader = kit.reader(topic, starts)
        self.history.opened(life.name, session, topic, starts, reads_ahead=isinstance(reader, RealReading))
        if isinstance(reader, RealReading):
            overhear(reader.reader, self.history, life.name, session, topic)
        begun: set[int] = set()
        try:
            async with asyncio.timeout(follow):
                async for rows in reader.batches():
                    for row in rows if not any(starts.values()) else []:
                        if row.partition not in begun:
                            begun.add(row.partition)
                            self.oldest[topic, row.partition] = row.offset
                    self._note(life, session, topic, rows)
        except TimeoutError:
            pass
        except errors.Corrupt:
            self.world.sometimes("reader was told of damaged bytes")
        except (errors.Unavailable, errors.TopicNotFound, errors.InvalidArgument, errors.Conflict) as error:
            if topic not in self.topics.mortal and not isinstance(error, errors.Unavailable):
                raise
            self.world.sometimes(f"reader was told {error.kind}")
        except errors.OutOfRange as error:
            self.world.sometimes("reader was overtaken")
            self.history.overtaken(life.name, session, topic, error.kind)
        finally:
            await reader.close()

    def _note(self, life: Incarnation, session: str, topic: str, rows: list[Row]) -> None:
        if rows:
            self.history.read(life.name, session, topic, rows)
            self.note_arrivals(topic, rows)
        for row in rows:
            self.saw(topic, row.partition, row.offset)

    async def read_all(self, life: Incarnation, name: str) -> None:
        """Every topic from its beginning to its end, by a fresh client."""
        kit = await self.connect(life)
        for topic, partitions in self.topics.all.items():
            for partition in range(partitions):
                session = f"{name}-{topic}-{partition}"
                await self._read_whole(life, kit, session, topic, partition)
        await kit.close()

    async def _read_whole(self, life: Incarnation, kit: Kit, session: str, topic: str, partition: int) -> None:
        """One partition to its end. Where retention is quicker than the reader it begins again: what is there then has to be read."""
        for attempt in range(ATTEMPTS_MAX):
            name = f"{session}-{attempt}" if attempt else session
            reader = kit.reader(topic, {partition: 0}, latest=True)
            self.history.opened(life.name, name, topic, {partition: 0}, reads_ahead=isinstance(reader, RealReading))
            if isinstance(reader, RealReading):
                overhear(reader.reader, self.history, life.name, name, topic)
            try:
                async for rows in reader.batches():
                    self.history.read(life.name, name, topic, rows)
                return
            except errors.OutOfRange as error:
                self.history.overtaken(life.name, name, topic, error.kind)
            finally:
                await reader.close()
        raise AssertionError(f"{session} was overtaken {ATTEMPTS_MAX} times")

    async def probe(self, life: Incarnation) -> None:
        """After healing everything works: new ids, the same ids once more, and messages behind them are all acknowledged."""
        kit = await connected(life, plain=False)
        for topic, partitions in self.topics.all.items():
            producer = kit.producer(topic, partitions, timeout=20.0, compression=None)
            for number, prefix in enumerate(("probe", "probe", "", "probe")):
                names = [label(life.name, topic, number, at) for at in range(3)]
                rows = [
                    Row(name, prefix and f"{prefix}-{at}", "", fingerprint(name.encode()), natural=bool(prefix), group=producer.group)
                    for at, name in enumerate(names)
                ]
                call = self.history.invoke(life.name, PUBLISH, topic, rows, producer=f"{life.name}-{topic}", sequence=number)
                answers = await producer.outcome(producer.send(rows, [name.encode() for name in names], None), rows)
                self.history.ended(OK, life.name, call, PUBLISH, topic, answers)
                for attempt in range(ATTEMPTS_MAX):  # only retention makes room on a disk of fixed size
                    if not any(row.error == "full" for row in answers) or not self.world.options.disk_bytes:
                        break
                    names = [label(life.name, topic, number, at, attempt) for at in range(3)]
                    answers = await self._probe_again(life, producer, topic, names, rows)
                self.failed_probes += [(f"{topic}: {row.label} was answered {row.error}", row.error) for row in answers if row.error]
            await producer.close()
        await kit.close()

    async def _probe_again(self, life: Incarnation, producer: Sender, topic: str, names: list[str], rows: list[Row]) -> list[Row]:
        await asyncio.sleep(1.0)
        rows = [row._replace(label=name, value=fingerprint(name.encode())) for row, name in zip(rows, names, strict=True)]
        call = self.history.invoke(life.name, PUBLISH, topic, rows)
        answers = await producer.outcome(producer.send(rows, [name.encode() for name in names], None), rows)
        self.history.ended(OK, life.name, call, PUBLISH, topic, answers)
        return answers

    async def read_finally(self, life: Incarnation) -> None:
        await self.read_all(life, FINAL)

    async def connect(self, life: Incarnation) -> Kit:
        plain = self.world.source(f"{life.name}/kit").random() < self.load.plain
        while True:
            try:
                return await connected(life, plain=plain)
            except errors.Unavailable:
                await self.pause(life, RETRY_SECONDS)
