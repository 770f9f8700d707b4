"""Readers that take their time: most of what they read was sent ahead, long before they ask for it.

They read message by message, in batches and by polling, with pauses in between, while messages
expire, grow too old, are deleted, and topics are deleted. Now and then they delete by themselves
what they are about to read. The history has the rows that arrived and the notices about them, so
the checkers know what a reader had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bowstring import errors, times
from bowstring.client.client import Client
from bowstring.client.message import Message
from bowstring.client.pages import Chunk
from bowstring.client.reader import Reader
from tests.history.events import ERASE, OK, UNKNOWN, History, Row, label_in, places
from tests.simulation.kit import RealSender, open_client, rows_of
from tests.simulation.plain_reader import read_row

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

PAUSE_SECONDS = 0.25
SESSION_SECONDS = 6.0
ENDS_A_SESSION = (errors.Unavailable, errors.InvalidArgument, errors.Conflict, errors.Corrupt, TimeoutError)


class SlowReader:
    """One client process."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._life = workload, life
        self._world, self._history = workload.world, workload.history
        self._random = workload.world.source(f"{life.name}/slow reader")
        self._sessions = 0

    async def run(self) -> None:
        """Sessions one after the other."""
        client = await open_client(self._life, lambda: self._workload.pause(self._life, 0.3))
        await self._workload.made.wait()
        while not self._workload.over:
            self._sessions += 1
            topic = self._random.choice(sorted(self._workload.topics.all))
            session = f"{self._life.name}.s{self._sessions}"
            try:
                async with asyncio.timeout(self._random.expovariate(1.0 / SESSION_SECONDS)):
                    await self._session(client, topic, session)
            except errors.TopicNotFound:
                self._world.sometimes("slow reader was told that its topic is gone")
            except ENDS_A_SESSION as error:
                if isinstance(error, errors.InvalidArgument | errors.Conflict) and topic not in self._workload.topics.mortal:
                    raise
            except errors.OutOfRange as error:
                self._world.sometimes("slow reader was overtaken")
                self._history.overtaken(self._life.name, session, topic, error.kind)
            await self._workload.pause(self._life, 0.1)
        await client.close()

    async def _session(self, client: Client, topic: str, session: str) -> None:
        end = self._random.choice((None, "latest"))
        partitions = range(self._workload.topics.all[topic])
        self._history.opened(self._life.name, session, topic, dict.fromkeys(partitions, 0), reads_ahead=True)
        reader = client.reader(topic, end=end)
        overhear(reader, self._history, self._life.name, session, topic)
        try:
            while rows := await self._next(reader):
                self._history.read(self._life.name, session, topic, rows)
                await self._workload.pause(self._life, PAUSE_SECONDS)
                if self._random.random() < self._workload.load.deletes / 2:
                    await self._delete(client, reader, topic)
        finally:
            self._world.sometimes("row that had come was dropped", reader._read_ahead.dropped)
            await reader.close()

    async def _next(self, reader: Reader) -> list[Row]:
        """What it hands out next, in any of its ways; nothing at the end."""
        way = self._random.random()
        if way < 0.5:
            try:
                return [_row(await anext(reader))]
            except StopAsyncIteration:
                return []
        if way < 0.8:
            batch = await reader._next_batch(self._random.choice((1, 5, 30)), 0.001)
            return [] if batch is None else rows_of(batch)
        while not (batch := await reader.poll(0.5, self._random.choice((1, 5, 30)))):
            if all(stream.finished() for stream in reader._read_ahead._streams.values()):
                return []
        return rows_of(batch)

    async def _delete(self, client: Client, reader: Reader, topic: str) -> None:
        """Deletes some of what has come and is to be read: its own readers do not hand it out when
        that is answered.
        """
        in_hand = reader._ahead()
        ahead = [*reader._read_ahead._pages, *([] if in_hand is None else [in_hand])]
        if not ahead:
            return
        chunk = self._random.choice(ahead)
        at = self._random.randrange(chunk.first, chunk.first + chunk.rows)
        value, message_id, group = (chunk.page.entries(name)[at] for name in ("value", "id", "producer_group"))
        wanted = [Row(label_in(value), message_id, group=group)]
        async with client.producer(topic, group=group) as producer:
            call = self._history.invoke(self._life.name, ERASE, topic, wanted)
            try:
                answers = await RealSender(producer).delete(wanted)
            except errors.Error as error:
                self._history.ended(UNKNOWN, self._life.name, call, ERASE, topic, error=error.kind)
            else:
                self._history.ended(OK, self._life.name, call, ERASE, topic, answers)
                self._world.sometimes("reader's client deleted what it had", not answers[0].error)


def overhear(reader: Any, history: History, client: str, session: str, topic: str) -> None:
    """Writes down what comes to a reader of the real kit: rows that can grow too old before they
    are read, and news of deletions.
    """
    stream = reader._read_ahead._streams[topic]
    came, deleted = stream._came, stream.deleted

    def page_came(chunk: Chunk | None) -> None:
        if chunk is not None and topic.startswith("brief"):
            history.came(client, session, topic, _places(chunk.page.partition, chunk.offsets.tolist()))
        came(chunk)

    def told(partition: int, runs: Iterable[tuple[int, int]]) -> None:
        runs = list(runs)
        deleted(partition, runs)
        history.noticed(client, session, topic, _places(partition, [o for offset, rows in runs for o in range(offset, offset + rows)]))

    stream._came, stream.deleted = page_came, told


def _places(partition: int, offsets: list[int]) -> list[Row]:
    return [row for offset in offsets for row in places({partition: offset})]


def _row(message: Message) -> Row:
    moments = [moment and times.moment(moment, "moment") for moment in (message.arrived, message.due, message.expires)]
    fields: list[Any] = [message.value, message.key, message.id, message.partition, message.offset, message.attributes, *moments]
    return read_row(*fields, message.producer_group)
