"""What readers with a name do: go on where their position is, commit it, set it back, delete it,
try what they may not; with filters and windows.

A name belongs to one client, which does one thing after the other, so that the history says where
its position has to be. Where that is not known any more (setting it was not answered, or retention
has taken what it points at) the client takes a new name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.client.client import Client
from bowstring.client.ranges import Moment
from bowstring.client.reader import Reader
from bowstring.times import to_datetime
from tests.history.events import COMMIT, FAIL, FORGET, OK, SET, UNKNOWN, Row, places
from tests.history.filtering import FILTERS
from tests.history.violations import Violation
from tests.simulation.dawdling import overhear
from tests.simulation.kit import open_client, rows_of

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

CLOSING_SECONDS = 1.0
"""Within this time, every call that waits for a closed reader has ended."""
UNANSWERED = (errors.Unavailable, errors.OutcomeUnknown, TimeoutError)
ENDS_A_SESSION = (errors.Unavailable, errors.TopicNotFound, errors.InvalidArgument, errors.Conflict, errors.Corrupt, TimeoutError)


class NamedReader:
    """One client process."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._life, self._load = workload, life, workload.load
        self._world, self._history = workload.world, workload.history
        self._random = workload.world.source(f"{life.name}/named reader")
        self._forgetting = workload.world.source(f"{life.name}/forgetting")
        self._owner = life.name.rpartition(".")[0]
        """Names belong to the machine: a process that was started again goes on with them."""
        self._sessions = 0

    async def run(self) -> None:
        """Sessions one after the other."""
        client = await connected_client(self._workload, self._life)
        await self._workload.made.wait()
        while not self._workload.over:
            self._sessions += 1
            topic = self._random.choice(sorted(self._workload.topics.all))
            try:
                await self._session(client, topic, self._random.expovariate(1.0 / 1.5))
            except ENDS_A_SESSION as error:
                if isinstance(error, errors.InvalidArgument | errors.Conflict) and topic not in self._workload.topics.mortal:
                    raise
            except errors.OutOfRange:
                self._world.sometimes("position was overtaken")
                self._take_new_name(topic)
            await self._workload.pause(self._life, 0.1)
        await client.close()

    # ---- names

    def _name(self, topic: str) -> str:
        return f"{self._owner}.{topic}.{self._workload.names.get((self._owner, topic), 0)}"

    def _take_new_name(self, topic: str) -> None:
        key = self._owner, topic
        self._workload.names[key] = self._workload.names.get(key, 0) + 1

    # ---- a session

    async def _session(self, client: Client, topic: str, seconds: float) -> None:
        if (self._owner, topic) in self._workload.setting:  # it was not answered, or the process has died meanwhile
            self._workload.setting.discard((self._owner, topic))
            self._take_new_name(topic)
        by_time = self._random.random() < 0.2 and bool(self._workload.arrivals.get(topic))
        where = self._random.choice(sorted(FILTERS)) if self._random.random() < self._load.filtered else ""
        if by_time:
            await self._read_since(client, topic, where, seconds)
            return
        async with asyncio.timeout(seconds):
            await self._go_on(client, topic, where)

    async def _go_on(self, client: Client, topic: str, where: str) -> None:
        if self._random.random() < 0.2 and topic not in self._workload.topics.mortal:
            await self._set_back(client, topic)
        if self._forgetting.random() < self._load.forgets and topic not in self._workload.topics.mortal:
            await self._forget(client, topic)
        window = self._random.choice((None, 3, 20))
        reader = client.reader(topic, name=self._name(topic), where=where or None, window=window)
        session = f"{self._life.name}.n{self._sessions}"
        overhear(reader, self._history, self._life.name, session, topic)
        try:
            starts = await self._placed(reader, topic)
            self._history.opened(self._life.name, session, topic, starts, name=self._name(topic), where=where, reads_ahead=True)
            self._world.sometimes("reader went on at its position", any(starts.values()))
            await self._follow(client, reader, topic, session, window)
        finally:
            await reader.close()

    async def _placed(self, reader: Any, topic: str) -> dict[int, int]:
        """Where it begins; 0 for the beginning, wherever that is by then."""
        await reader._read_ahead.placed()
        return {
            number: 0 if number in reader._read_ahead._streams[topic]._beginning else at for number, at in _offsets(reader, topic).items()
        }

    async def _read_since(self, client: Client, topic: str, where: str, seconds: float) -> None:
        """Its time ends with the reader being closed, whatever it waits for then."""
        moment = self._random.choice(self._workload.arrivals[topic]) + self._random.choice((0, 0, 1, 500_000))
        asked = self._world.loop.time()
        try:
            reader = client.reader(topic, start=to_datetime(moment), where=where or None)
        except errors.InvalidArgument:
            return  # by this client's clock it is still to come
        reading = asyncio.create_task(self._read_all(reader, topic, where, asked))
        await asyncio.wait([reading], timeout=seconds)
        waited = not reading.done()
        await reader.close()
        await asyncio.wait([reading], timeout=CLOSING_SECONDS)
        if not reading.done():
            self._workload.violations.append(Violation("closing_ends_iteration", f"{self._life.name} still reads {topic}"))
            reading.cancel()
        self._world.sometimes("reader was closed while it waited", waited)
        with suppress(errors.Conflict):  # it was closed before it knew where to begin
            await reading

    async def _read_all(self, reader: Reader, topic: str, where: str, asked: float) -> None:
        session = f"{self._life.name}.n{self._sessions}"
        overhear(reader, self._history, self._life.name, session, topic)
        place = reader._settings.starts[topic]
        assert isinstance(place, Moment)
        await reader._read_ahead.placed()
        starts, since = _offsets(reader, topic), place.microseconds
        self._history.opened(self._life.name, session, topic, starts, where=where, since=since, asked=asked, reads_ahead=True)
        self._world.sometimes("reader began by time")
        async for batch in reader.batches(max_wait=0.001):
            self._history.read(self._life.name, session, topic, rows_of(batch))

    async def _follow(self, client: Client, reader: Any, topic: str, session: str, window: int | None) -> None:
        uncommitted: list[Row] = []
        async for batch in reader.batches(max_rows=self._random.choice((1, 7, 1000)), max_wait=0.001):
            rows = rows_of(batch)
            self._history.read(self._life.name, session, topic, rows)
            self._workload.note_arrivals(topic, rows)
            uncommitted += rows
            if window is not None and len(uncommitted) > window:
                case = f"{session} had {len(uncommitted)} messages of {topic} uncommitted, its window is {window}"
                self._workload.violations.append(Violation("no_more_than_the_window", case))
            if self._random.random() < 0.1:
                earlier = await self._try_backwards(reader, topic)
                uncommitted = [row for row in uncommitted if row.offset >= earlier.get(row.partition, 0)]
            if self._random.random() < 0.2:
                await self._look(client, topic)
            if self._random.random() < 0.3 or (window is not None and len(uncommitted) >= window / 2):
                offsets = _offsets(reader, topic)
                if not await self._move(COMMIT, topic, offsets, reader.commit(offsets), session):
                    return
                uncommitted = [row for row in uncommitted if row.offset >= offsets[row.partition]]

    async def _look(self, client: Client, topic: str) -> None:
        with suppress(errors.NotFound, *UNANSWERED):
            found = await client.position(self._name(topic), topic)
            self._history.looked(self._life.name, topic, found.name, found.offsets)

    async def _try_backwards(self, reader: Any, topic: str) -> dict[int, int]:
        """Commits an offset that it has long passed, or that it has not committed yet."""
        partition, offset = self._random.choice(sorted(_offsets(reader, topic).items()))
        earlier = {partition: self._random.randint(1, offset)}
        await self._move(COMMIT, topic, earlier, reader.commit(earlier))
        return earlier

    async def _set_back(self, client: Client, topic: str) -> None:
        """Somewhere in each partition, where anything is known of it; a name that does not know
        where it is any more is given up.
        """
        ends = {number: self._workload.ends.get((topic, number), 0) for number in range(self._workload.topics.all[topic])}
        offsets = {number: self._random.randint(max(1, end - 30), end) for number, end in ends.items() if end}
        if not offsets:
            return
        await self._surely(SET, topic, offsets, client.set_position(self._name(topic), topic, offsets))

    async def _forget(self, client: Client, topic: str) -> None:
        """Deletes the position, if there is one: the reader begins anew."""
        await self._surely(FORGET, topic, {}, client.delete_position(self._name(topic), topic))

    async def _surely(self, operation: str, topic: str, offsets: dict[int, int], call: Awaitable[Any]) -> None:
        """Makes a change after which the client has to know where its position is; if it does not,
        the name is given up.
        """
        key = self._owner, topic
        self._workload.setting.add(key)
        if await self._move(operation, topic, offsets, call):
            self._workload.setting.discard(key)

    async def _move(self, operation: str, topic: str, offsets: dict[int, int], call: Awaitable[Any], session: str = "") -> bool:
        """Moves the position and writes down what came of it. Says whether that is known."""
        name = self._name(topic)
        number = self._history.invoke(self._life.name, operation, topic, places(offsets), producer=name, session=session)
        try:
            await call
        except UNANSWERED as error:
            self._history.ended(UNKNOWN, self._life.name, number, operation, topic, error=getattr(error, "kind", "timeout"))
            return False
        except errors.Error as error:
            self._world.sometimes(f"position was refused as {error.kind}")
            self._history.ended(FAIL, self._life.name, number, operation, topic, error=error.kind)
            return True
        self._world.sometimes(f"position {operation}")
        self._history.ended(OK, self._life.name, number, operation, topic)
        return True


def _offsets(reader: Any, topic: str) -> dict[int, int]:
    found = reader.position
    return dict(found.get(topic, found))


async def connected_client(workload: Workload, life: Incarnation) -> Client:
    """The product's own client, as soon as a broker answers."""
    return await open_client(life, lambda: workload.pause(life, 0.3))
