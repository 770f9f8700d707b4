"""An operator who looks at the dead letters of subscriptions and sends some back: those of some ids,
those that pass a filter, or all. Some calls are dry runs, and some are two at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring import errors
from tests.history.events import FAIL, OK, UNKNOWN, Row, fingerprint, label_in
from tests.history.filtering import FILTERS
from tests.history.lease_events import DRY_REDRIVE, LIST, REDRIVE, Consuming, Delivery
from tests.simulation.kit import open_client
from tests.simulation.options import after

if TYPE_CHECKING:
    from bowstring.client.client import Client
    from bowstring.client.message import Message
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

NOT_DONE = (errors.NotFound, errors.InvalidArgument)
"""The first step of a redrive or the broker has refused it."""
RETRY_SECONDS = 0.3


class LetterOperator:
    """One client process."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._life, self._load = workload, life, workload.load
        self._world, self._history = workload.world, workload.history
        self._random = workload.world.source(f"{life.name}/letters")

    async def run(self) -> None:
        await self._workload.queues.made.wait()
        client = await self._connected()
        while not self._workload.over:
            await asyncio.sleep(after(self._random, self._load.redrive_every))
            topic, name = self._random.choice(self._workload.queues.names())
            letters = await self._list(client, topic, name)
            if letters:
                times = 2 if self._random.random() < 0.3 else 1
                await asyncio.gather(*(self._redrive(client, topic, name, letters) for _ in range(times)))
        await client.close()

    async def list_all(self, names: Sequence[tuple[str, str]]) -> None:
        """The dead letters of all these, when nothing happens any more."""
        client = await self._connected()
        for topic, name in names:
            while await self._list(client, topic, name) is None:
                await self._workload.pause(self._life, RETRY_SECONDS)
        await client.close()

    async def _connected(self) -> Client:
        return await open_client(self._life, lambda: self._workload.pause(self._life, RETRY_SECONDS))

    async def _list(self, client: Client, topic: str, name: str) -> list[Row] | None:
        """The dead letters; None if there was no answer."""
        call = self._history.invoke(self._life.name, LIST, topic, queue=Consuming(name))
        try:
            found = [message async for message in client.dead_letters(topic, name)]
        except errors.Error as error:
            self._history.ended(FAIL, self._life.name, call, LIST, topic, error=error.kind, queue=Consuming(name))
            return [] if isinstance(error, (*NOT_DONE, errors.Corrupt)) else None
        rows = [_row(message) for message in found]
        origins = tuple(_origin(message) for message in found)
        self._history.ended(OK, self._life.name, call, LIST, topic, rows, queue=Consuming(name, rows=origins))
        self._world.sometimes("dead letter was listed", len(rows))
        return rows

    async def _redrive(self, client: Client, topic: str, name: str, letters: list[Row]) -> None:
        """Some of the letters, or what is dead when it is asked."""
        ids, where = None, None
        choice = self._random.random()
        if choice < 0.5:
            ids = sorted({row.id for row in self._random.sample(letters, self._random.randint(1, min(5, len(letters))))})
        elif choice < 0.7:
            where = self._random.choice(list(FILTERS))
        operation = DRY_REDRIVE if self._random.random() < 0.15 else REDRIVE
        asked, about = [Row("", id) for id in ids or ()], Consuming(name, where=where or "")
        call = self._history.invoke(self._life.name, operation, topic, asked, queue=about)
        try:
            answers = await client.redrive(topic, name, ids=ids, where=where, dry_run=operation == DRY_REDRIVE)
        except errors.Error as error:
            kind = FAIL if isinstance(error, NOT_DONE) else UNKNOWN
            self._history.ended(kind, self._life.name, call, operation, topic, error=error.kind, queue=about)
            self._world.sometimes(f"{operation} was answered {error.kind}")
            return
        places = zip(answers.partitions.to_pylist(), answers.offsets.to_pylist(), strict=True)
        rows = [
            Row("", error=answers.refused[at].kind) if at in answers.refused else Row("", partition=place[0], offset=place[1])
            for at, place in enumerate(places)
        ]
        self._history.ended(OK, self._life.name, call, operation, topic, rows, queue=about)
        for row in rows:
            self._world.sometimes(f"{operation} of a letter was answered {row.error or 'done'}")


def _row(message: Message) -> Row:
    """A dead letter, where it lies."""
    value, text, group = message.value, message.attributes.get("a", ""), message.producer_group
    row = Row(label_in(value), message.id, (message.key or b"").decode(), fingerprint(value), attributes=text, group=group)
    return row._replace(partition=message.partition, offset=message.offset)


def _origin(message: Message) -> Delivery:
    """The place of the topic that a dead letter came from."""
    told = message.attributes
    return Delivery(int(told["bowstring-partition"]), int(told["bowstring-offset"]), home=message.partition)
