"""The reader of the plain kit, and rows as it reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.messages import encoding, ids
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.events import Row, fingerprint, label_in
from tests.simulation.plain_stream import messages, write

if TYPE_CHECKING:
    from tests.simulation.plain_kit import PlainKit

PAUSE_SECONDS = 0.1
CREDIT_BYTES = 64 * 1024


class PlainReader:
    """Reads partitions from their starts on; `latest` ends where the topic ended when it began."""

    def __init__(self, kit: PlainKit, topic: str, starts: dict[int, int], latest: bool) -> None:
        self._kit = kit
        self._topic = topic
        self._next = dict(starts)
        self._latest = latest
        self._ends: dict[int, int] = {}

    async def batches(self) -> AsyncIterator[list[Row]]:
        while True:
            try:
                if self._latest and not self._ends:
                    facts = await self._kit.call("DescribeTopic", pb.DescribeTopicRequest(name=self._topic), pb.Topic)
                    self._ends = {partition: facts.ranges[partition].next for partition in self._next}
                if self._ends and all(self._next[partition] >= end for partition, end in self._ends.items()):
                    return
                async for rows in self._stream():
                    yield rows
                if self._ends:  # the broker ends a stream well only when every range is read
                    return
            except errors.DeadlinePassed:
                raise
            except errors.Unavailable:
                await asyncio.sleep(PAUSE_SECONDS * self._kit.life.randomness.unit())

    async def _stream(self) -> AsyncIterator[list[Row]]:
        stream = self._kit.channel.stream("Fetch")
        wanted = [
            pb.FetchFrom(partition=partition, offset=offset, end=self._ends.get(partition, 0))
            for partition, offset in self._next.items()
            if offset < self._ends.get(partition, 1 << 60)
        ]
        opened = pb.FetchOpen(topic=self._topic, partitions=wanted)
        try:
            await write(stream, pb.FetchRequest(open=opened, credit=CREDIT_BYTES).SerializeToString())
            async for message in messages(stream, self._kit.life):
                header, data = split(message)
                answer = pb.FetchAnswer.FromString(header)
                with suppress(errors.Unavailable):  # the broker may have sent all there is, and its end; what has come is read first
                    await write(stream, pb.FetchRequest(credit=answer.stored_bytes).SerializeToString())
                rows = rows_in(answer, data)
                if rows or self._next[answer.partition]:  # else it is still to begin
                    self._next[answer.partition] = answer.next_offset
                yield rows
        finally:
            stream.cancel()

    async def close(self) -> None:
        """Nothing is held."""


def rows_in(answer: pb.FetchAnswer, data: memoryview | None) -> list[Row]:
    """The rows of an answer, of which `data` is the batch."""
    if data is None:
        return []
    batch = encoding.decode(answer.columns, data)
    offsets, arrived = places(answer)
    origins, row = list[str](), 0
    for origin in answer.origins:
        for offset in offsets[row : row + origin.rows]:
            sent = origin.first_row + offset - offsets[row]
            origins.append(ids.generated(origin.producer, origin.number, answer.partition, sent))
        row += origin.rows
    nothing = [None] * len(offsets)

    def column(name: str, otherwise: list[Any]) -> list[Any]:
        if name not in batch.schema.names:
            return otherwise
        found = batch.column(name)
        return (found.cast("int64") if name in ("due", "expires") else found).to_pylist()

    columns = [column("value", nothing), column("key", nothing), column("id", origins), [answer.partition] * len(offsets), offsets]
    groups = [origin.group for origin in answer.origins for _ in range(origin.rows)]
    columns += [column("attributes", nothing), arrived, column("due", nothing), column("expires", nothing), groups]
    return [read_row(*fields) for fields in zip(*columns, strict=True)]


def places(answer: pb.FetchAnswer) -> tuple[list[int], list[int]]:
    """The offset of each row of an answer, and its arrival."""
    if not answer.HasField("scattered"):
        offsets = [run.offset + at for run in answer.runs for at in range(run.rows)]
        return offsets, [run.arrived or answer.arrived for run in answer.runs for _ in range(run.rows)]
    told = answer.scattered
    runs = zip(accumulate(told.offsets), told.rows or [1] * len(told.offsets), strict=True)
    offsets = [offset + at for offset, rows in runs for at in range(rows)]
    arrived = [moment for moment, rows in zip(told.arrived, told.arrived_rows, strict=True) for _ in range(rows)]
    return offsets, arrived or [answer.arrived] * len(offsets)


def read_row(
    value: Any, key: Any, message_id: str, partition: int, offset: int, attributes: Any, arrived: int, due: Any, expires: Any, group: str
) -> Row:
    """A row in the words of a history."""
    name, text = label_in(value), dict(attributes or ()).get("a", "")
    place = {"partition": partition, "offset": offset, "arrived": arrived}
    more = {"due": due or 0, "expires": expires or 0, "attributes": text, "group": group}
    return Row(name, message_id, (key or b"").decode(), fingerprint(value), **place, **more)
