"""A second client, written from the protocol (`proto/bowstring/v1`) and nothing else: what a kit in another language would be.

It is as simple as can be: a stream per producer, one fetch stream per reader; after a break every unanswered batch is sent again, in any
order, because each names the one that it follows on, and the broker says from where on to repeat. It runs
beside the real kit in the simulation, because a broker that is right only for one client's habits is not right.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring import errors
from bowstring.messages import encoding, ids
from bowstring.messages.hashing import partition_of
from bowstring.ports.calls import CALLS
from bowstring.ports.transport import Dialer, Stream
from bowstring.wire.codec import join
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.events import Row, Settings
from tests.simulation.plain_reader import PlainReader
from tests.simulation.plain_stream import messages, write

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation

CALL_SECONDS = 5.0
GRACE_SECONDS = 1.0
ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.1


class Place(NamedTuple):
    partition: int
    offset: int


class PlainKit:
    """A connection and what can be done over it."""

    def __init__(self, life: Incarnation, address: str, dialer: Dialer | None = None) -> None:
        self.life = life
        self.channel = (dialer or life.dialer).dial(address)
        self.ahead = 0

    async def call(self, method: str, request: Any, answer: Any) -> Any:
        """Asks, and asks again where there is no answer. If the repeat of a call finds its work done, the call before has done it."""
        lost = False
        for attempt in range(ATTEMPTS_MAX):
            try:
                return answer.FromString(await self.channel.call(method, request.SerializeToString(), CALL_SECONDS))
            except (errors.Unavailable, errors.OutcomeUnknown):
                if attempt == ATTEMPTS_MAX - 1:
                    raise
            except errors.Error as error:
                if not lost or type(error) is not CALLS[method].done:
                    raise
                return answer()
            lost = True
            await asyncio.sleep(PAUSE_SECONDS * self.life.randomness.unit())

    async def hello(self) -> None:
        """Measures the broker's clock."""
        asked = self.life.clock.monotonic()
        answer = await self.call("Hello", pb.HelloRequest(software="plain", protocol=1, protocol_min=1), pb.HelloAnswer)
        self.ahead = answer.broker_time - round((asked + self.life.clock.monotonic()) / 2 * 1e6)

    def broker_now(self) -> int:
        return round(self.life.clock.monotonic() * 1e6) + self.ahead

    async def create_topic(self, name: str, settings: Settings) -> None:
        request = pb.CreateTopicRequest(
            name=name,
            partitions=settings.partitions,
            retention=round(settings.retention * 1e6),
            retention_bytes=settings.retention_bytes,
            deduplication=round(settings.deduplication * 1e6),
        )
        await self.call("CreateTopic", request, pb.Topic)

    async def alter_topic(self, name: str, settings: Settings) -> None:
        await self.call("AlterTopic", alteration(name, settings), pb.Topic)

    async def delete_topic(self, name: str) -> None:
        await self.call("DeleteTopic", pb.DeleteTopicRequest(name=name), pb.DeleteTopicAnswer)

    def producer(self, topic: str, partitions: int, *, timeout: float, compression: str | None) -> PlainProducer:
        return PlainProducer(self, topic, partitions, timeout, compression)

    def reader(self, topic: str, starts: dict[int, int], *, latest: bool = False) -> PlainReader:
        return PlainReader(self, topic, starts, latest)

    async def close(self) -> None:
        await self.channel.close()


class Batch:
    """Rows of one partition on their way."""

    def __init__(self, number: int, partition: int, rows: list[Row], data: encoding.Encoded, sent: int, timeout: float) -> None:
        self.number = number
        self.partition = partition
        self.rows = rows
        self.data = data
        self.sent = sent
        self.timeout = timeout
        self.written = False
        self.answer: asyncio.Future[list[Row]] = asyncio.get_running_loop().create_future()


class PlainProducer:
    """One producer: numbers, a stream, and what is not answered yet by partition."""

    group = "plain"

    def __init__(self, kit: PlainKit, topic: str, partitions: int, timeout: float, compression: str | None) -> None:
        self._kit = kit
        self._topic = topic
        self._partitions = partitions
        self._timeout = timeout
        self._compression = compression
        self._id = kit.life.randomness.unique()
        self._number = 0
        self._streams = 0
        self._turn = 0
        self._open: dict[int, list[Batch]] = {}
        self._taken: dict[int, list[int]] = {}
        """The batches of a partition that are stored, or may be."""
        self._to_write: list[Batch] = []
        self._stream: Stream | None = None
        """Open for batches."""
        self._sent: list[Batch] = []
        """Since the last flush."""
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def send(self, rows: list[Row], values: list[bytes], timeout: float | None) -> list[tuple[list[int], Batch]]:
        """Takes rows, which are divided by partition."""
        self._turn += 1
        homes: dict[int, list[int]] = {}
        for at, row in enumerate(rows):
            homes.setdefault(self._home(row), []).append(at)
        parts: list[tuple[list[int], Batch]] = []
        for partition, places in homes.items():
            self._number += 1
            mine = [rows[at] for at in places]
            keys = [row.key.encode() or None for row in mine]
            data = encoding.encode_columns(
                len(mine),
                values=[values[at] for at in places],
                keys=keys if any(keys) else None,
                attributes=[{"a": row.attributes} if row.attributes else None for row in mine] if any(r.attributes for r in mine) else None,
                due=[row.due or None for row in mine] if any(row.due for row in mine) else None,
                expires=[row.expires or None for row in mine] if any(row.expires for row in mine) else None,
                ids=[row.id for row in mine] if mine[0].natural else None,
                compression=self._compression,
            )
            batch = Batch(self._number, partition, mine, data, self._kit.broker_now(), timeout or self._timeout)
            self._open.setdefault(partition, []).append(batch)
            self._write_or_keep(batch)
            self._sent.append(batch)
            asyncio.get_running_loop().call_later(batch.timeout + GRACE_SECONDS, self._give_up, batch)
            parts.append((places, batch))
        self._wake.set()
        return parts

    def _write_or_keep(self, batch: Batch) -> None:
        """Writes a batch at once if nothing waits before it."""
        if self._to_write or not self._write_now(batch):
            self._to_write.append(batch)

    def _write_now(self, batch: Batch) -> bool:
        """Writes a batch if that needs no waiting, or if it needs not be written any more."""
        if batch.answer.done():
            return True
        written = self._stream is not None and self._stream.try_write(self._request(batch))
        batch.written |= written
        return written

    def _home(self, row: Row) -> int:
        if row.key:
            return partition_of(row.key.encode(), self._partitions)
        given = ids.parse(row.id) if row.natural else None
        if given is not None and given.partition < self._partitions:
            return given.partition
        return partition_of(row.id.encode(), self._partitions) if row.natural else self._turn % self._partitions

    def _give_up(self, batch: Batch) -> None:
        if not batch.answer.done():
            self._settle(batch, batch.rows, "outcome-unknown" if batch.written else "deadline-passed")

    def _settle(self, batch: Batch, rows: list[Row], error: str) -> None:
        if batch in self._open[batch.partition]:
            self._open[batch.partition].remove(batch)
        if not error or error == "outcome-unknown":
            self._taken.setdefault(batch.partition, []).append(batch.number)
        if not batch.answer.done():
            generated = [ids.generated(self._id, batch.number, batch.partition, at) for at in range(len(rows))]
            batch.answer.set_result([row._replace(error=error, id=row.id or given) for row, given in zip(rows, generated, strict=True)])

    # ---- the stream ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._kit.hello()
                await self._serve()
            except errors.NotFound as error:
                self._to_write = []
                for batch in [batch for lane in self._open.values() for batch in lane]:
                    self._settle(batch, batch.rows, "outcome-unknown" if batch.written else error.kind)
            except errors.Unavailable:
                pass
            await asyncio.sleep(PAUSE_SECONDS * self._kit.life.randomness.unit())

    async def _serve(self) -> None:
        """One stream, from its opening to its end."""
        self._streams += 1
        stream = self._kit.channel.stream("Publish")
        opened = pb.PublishOpen(topic=self._topic, producer=self._id, stream=self._streams, group=self.group)
        await stream.write(pb.PublishRequest(open=opened).SerializeToString())
        again = [batch for lane in self._open.values() for batch in lane]
        self._to_write = sorted(again, key=lambda _: self._kit.life.randomness.unit())
        self._stream = stream
        writing = asyncio.create_task(self._write(stream))
        try:
            async for message in messages(stream, self._kit.life):
                self._answered(pb.PublishAnswer.FromString(bytes(message)))
        finally:
            self._stream = None
            writing.cancel()
            await asyncio.wait([writing])
            if not writing.cancelled():
                writing.exception()
            stream.cancel()

    async def _write(self, stream: Stream) -> None:
        while True:
            self._wake.clear()
            while self._to_write:
                batch = self._to_write.pop(0)
                if not batch.answer.done():
                    batch.written = True
                    await write(stream, self._request(batch))
            await self._wake.wait()

    def _request(self, batch: Batch) -> bytes:
        open_ones = [other.number for other in self._open[batch.partition]]
        before = [number for number in (*open_ones, *self._taken.get(batch.partition, ())) if number < batch.number]
        header = pb.PublishRequest(
            partition=batch.partition,
            number=batch.number,
            previous=max(before, default=0),
            sent=batch.sent,
            timeout=round(batch.timeout * 1e6),
            schema=1,
            columns=batch.data.mask,
            rows=len(batch.rows),
        )
        return join(header.SerializeToString(), batch.data.data)

    def _answered(self, answer: pb.PublishAnswer) -> None:
        batch = next((each for each in self._open.get(answer.partition, ()) if each.number == answer.number), None)
        if answer.WhichOneof("outcome") == "resend_after":
            self._taken[answer.partition] = [answer.resend_after]
            again = [each for each in self._open.get(answer.partition, ()) if each.number > answer.resend_after]
            self._to_write += [each for each in again if each not in self._to_write]
            self._wake.set()
        elif batch is not None and answer.WhichOneof("outcome") == "refused":
            self._settle(batch, batch.rows, answer.refused.kind)
        elif batch is not None:
            self._settle(batch, _placed(batch, answer.stored), "")
        while self._to_write and self._write_now(self._to_write[0]):
            self._to_write.pop(0)

    async def outcome(self, sent: list[tuple[list[int], Batch]], rows: list[Row]) -> list[Row]:
        """The rows with what became of each."""
        answers = list(rows)
        for places, batch in sent:
            for at, row in zip(places, await batch.answer, strict=True):
                answers[at] = row
        return answers

    async def find(self, message_id: str) -> Place | None:
        answer = await self._kit.call("Find", pb.FindRequest(topic=self._topic, id=message_id), pb.FindAnswer)
        return Place(answer.partition, answer.offset) if answer.found else None

    async def delete(self, rows: list[Row]) -> list[Row]:
        return await self._ask(rows, "DeleteMessages", pb.DeleteMessagesRequest(), pb.DeleteMessagesAnswer)

    async def cancel(self, rows: list[Row]) -> list[Row]:
        return await self._ask(rows, "CancelMessages", pb.DeleteMessagesRequest(), pb.DeleteMessagesAnswer)

    async def move(self, rows: list[Row]) -> list[Row]:
        return await self._ask(rows, "MoveMessages", pb.MoveMessagesRequest(due=rows[0].due), pb.MoveMessagesAnswer)

    async def _ask(self, rows: list[Row], call: str, request: Any, answers: Any) -> list[Row]:
        request.topic, request.group = self._topic, self.group
        request.ids.extend(row.id for row in rows)
        answer = await self._kit.call(call, request, answers)
        return [
            row._replace(partition=each.partition, offset=each.offset, error=each.refused.kind)
            for row, each in zip(rows, answer.messages, strict=True)
        ]

    async def ready(self) -> None:
        """There is always room."""

    async def flush(self) -> str:
        """Waits for all answers, and gives the first error among them."""
        sent, self._sent = self._sent, []
        errors_told = [row.error for batch in sent for row in await batch.answer if row.error]
        return errors_told[0] if errors_told else ""

    async def close(self) -> str:
        raised = await self.flush()
        self._task.cancel()
        await asyncio.wait([self._task])
        return raised


def _placed(batch: Batch, stored: pb.Stored) -> list[Row]:
    """The rows with their offsets."""
    repeated = {repeat.row + at: repeat.offset + at for repeat in stored.repeats for at in range(repeat.rows)}
    placed: list[Row] = []
    offset = stored.first_offset
    for at, row in enumerate(batch.rows):
        mine = repeated.get(at, offset)
        offset += at not in repeated
        placed.append(row._replace(partition=batch.partition, offset=mine, duplicate=at in repeated))
    return placed


def alteration(name: str, settings: Settings) -> pb.AlterTopicRequest:
    return pb.AlterTopicRequest(
        name=name,
        retention=round(settings.retention * 1e6),
        retention_bytes=settings.retention_bytes,
        deduplication=round(settings.deduplication * 1e6),
    )
