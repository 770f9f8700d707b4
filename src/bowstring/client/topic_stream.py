"""The loop's half of a reader, for one topic: a stream of pages, and the streams that replace it.

The reader grants bytes and the broker sends as long as there are some, so the unread pages here are
bounded; the reader grants more as pages are handed out. After a break a new stream begins where the
last page ended: no gap, nothing twice.

**Threads.** Pages are taken on the loop or in a thread of the program (`sync`), by one at a time.
So every count has one writer: the loop counts arrived and granted bytes, the taker counts taken
ones, and the bytes ahead or owed are a difference.

A deleted topic ends the reader, and its arrived messages are not handed out. A topic that was
created again under its name is another topic: its offsets mean other messages.

In addition to pages the broker sends notices: the deleted ones among the rows that it has sent, and
how long the topic keeps messages (`freshness`). So the stream stays open at its end until every row
was handed out; a new stream says from which offset on rows are held here, and so learns of
deletions that it has missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from bowstring import errors
from bowstring.client import ranges
from bowstring.client.connection import HANDSHAKE_SECONDS, Connection, Pauses
from bowstring.client.freshness import Freshness
from bowstring.client.pages import NEVER, Chunk, FetchedPage, ReaderSelection
from bowstring.client.ranges import Moment
from bowstring.ports.transport import Stream
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb

CREDIT_BYTES: Final = 8 * 1024 * 1024
"""Bytes that the broker may send ahead of the program, over all topics of a reader."""
GRANT_SHARE: Final = 4
"""Credit is given back in steps of about this part."""
CALL_SECONDS: Final = 5.0


class WantedTopic(NamedTuple):
    """The part of one topic that a reader wants."""

    topic: str
    start: Any
    end: Any
    partitions: tuple[int, ...] | None
    name: str | None
    """The name of the position at which the reader continues; None to begin at the start."""
    selection: ReaderSelection


class TopicStream:
    """Pages of a topic from given places on."""

    def __init__(
        self,
        connection: Connection,
        wanted: WantedTopic,
        credit: int,
        came: Callable[[Chunk | None], object],
        doubted: Callable[[], object],
        patience: float | None = None,
    ) -> None:
        self._connection = connection
        self._clock = connection.world.clock
        self._patience = patience
        """How long a silent broker counts as present, in seconds; None for ever."""
        self.away_since: float | None = self._clock.monotonic()
        """Since when no broker has answered; None while one does."""
        self._wanted = wanted
        self._credit = credit
        self._came = came
        """Called for each page, and for any other change."""
        self._doubted = doubted
        """Called when taken rows may have to be checked again."""
        self._pauses = Pauses(connection.world)
        self.topic_id = 0
        self.freshness = Freshness(connection.broker_time)
        self._received: dict[int, int] = {}
        """Where the next stream begins."""
        self._rows_end: dict[int, int] = {}
        """Where the last page that had rows ended."""
        self._beginning: set[int] = set()
        """Partitions that are read from their beginning and of which nothing has arrived yet."""
        self._ends: dict[int, int] = {}
        self._until = wanted.end.microseconds if isinstance(wanted.end, Moment) else 0
        self._ended = False
        self._is_over = False
        """Whether the stream needs no more notices either."""
        self._taken: dict[int, int] = {}
        """The program's position: behind the rows that were handed out."""
        self._taken_before: dict[int, int] = {}
        """The position before the rows that were taken last, some of which may not be handed out
        yet.
        """
        self._bytes_came = self._bytes_taken = self._bytes_granted = 0
        self._grants = asyncio.Event()
        self.error: BaseException | None = None
        self.bytes = self.batches = self.connections = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"bowstring reader of {wanted.topic}")

    # ---- for the reader

    @property
    def position(self) -> dict[int, int]:
        """The next offset of each partition. If every arrived row was taken, it is also behind the
        rows that were passed over.
        """
        taken, received = dict(self._taken), dict(self._received)  # before `_rows_end`, which is written before `_received`
        return {number: received[number] if offset == self._rows_end[number] else offset for number, offset in taken.items()}

    def finished(self) -> bool:
        """Whether everything up to the end has come in."""
        return self._ended

    def taken(self, chunk: Chunk, *, last_of_page: bool) -> None:
        """Notes rows that the program gets."""
        if last_of_page:
            self._bytes_taken += chunk.page.header.stored_bytes
        partition = chunk.page.partition
        self._taken_before[partition] = self._taken[partition]
        self._taken[partition] = chunk.next_offset

    @property
    def bytes_ahead(self) -> int:
        """The bytes that have arrived and were not taken."""
        return self._bytes_came - self._bytes_taken

    def owes(self) -> bool:
        """Whether credit is to be given back for what was taken: by `grant`, on the loop."""
        return self._bytes_taken - self._bytes_granted >= self._credit // GRANT_SHARE

    def grant(self) -> None:
        """Gives credit back for taken rows, once it is worth a message."""
        if self.owes():
            self._grants.set()

    def release(self) -> None:
        """Everything was handed out, and nothing more comes: the stream needs no more notices."""
        self._is_over = True
        self._grants.set()

    async def close(self) -> None:
        """Ends the stream and the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def describe(self) -> pb.Topic:
        """The topic as it is now; repeated until a broker answers."""
        return pb.Topic.FromString(await self._ask("DescribeTopic", pb.DescribeTopicRequest(name=self._wanted.topic)))

    async def _ask(self, method: str, request: Any) -> bytes:
        while True:
            try:
                await self._connection.hello()
                answer = await self._connection.channel.call(method, request.SerializeToString(), CALL_SECONDS)
            except errors.Unavailable as error:
                if (ended := self._connection.given_up(error)) is not None:
                    raise ended from None
                self._lost(self._clock.monotonic())
                await self._pauses.wait()
            else:
                self.away_since = None
                return answer

    def _lost(self, since: float) -> None:
        if self.away_since is None:
            self.away_since = since
            self._came(None)

    # ---- the stream

    async def _run(self) -> None:
        try:
            await self._place()
            while not self._is_over:
                try:
                    await self._serve()
                except errors.Unavailable as error:
                    if (ended := self._connection.given_up(error)) is not None:
                        raise ended from None
                    self._lost(self._clock.monotonic())
                    await self._pauses.wait()
                    await self._check_topic()
        except errors.Error as error:
            self.error = error
        except Exception as error:
            self.error = error
            raise
        finally:
            self._doubted()
            self._came(None)

    async def _place(self) -> None:
        topic, (_, start, end, partitions, name, _) = await self.describe(), self._wanted
        self.topic_id = topic.id
        self.kept_for(topic.retention)
        numbers = ranges.wanted(topic, start, partitions)
        committed = await self._committed(name, numbers)
        starts = await ranges.resolve(self._offsets, topic, start, numbers) if len(committed) < len(numbers) else {}
        starts = {number: committed.get(number, starts.get(number, 0)) for number in numbers}
        for number in numbers:
            starts[number] = starts[number] or topic.ranges[number].first
        if end is not None and not isinstance(end, Moment):
            self._ends = await ranges.resolve(self._offsets, topic, end, numbers)
        self._beginning = set(numbers) - committed.keys() if start in (None, "beginning") else set()
        self._rows_end, self._received, self._taken = dict(starts), dict(starts), dict(starts)
        self._ended = self._is_over = not self._open_ranges()
        self._came(None)

    async def _committed(self, name: str | None, numbers: tuple[int, ...]) -> dict[int, int]:
        if name is None:
            return {}
        try:
            answer = await self._ask("DescribePosition", pb.DescribePositionRequest(topic=self._wanted.topic, name=name))
        except errors.TopicNotFound:
            raise
        except errors.NotFound:
            return {}
        return {each.partition: each.offset for each in pb.Position.FromString(answer).offsets if each.partition in numbers}

    async def _offsets(self, request: pb.OffsetsRequest) -> pb.OffsetsAnswer:
        return pb.OffsetsAnswer.FromString(await self._ask("Offsets", request))

    async def _check_topic(self) -> None:
        topic = await self.describe()
        if topic.id != self.topic_id:
            raise errors.TopicNotFound(
                f"'{self._wanted.topic}' was deleted and made again while it was read: it is another topic now.",
                hint="Make another reader to read the new one.",
                details={"topic": self._wanted.topic},
            )

    def _open_ranges(self) -> list[tuple[int, int, int]]:
        """The ranges that are still to come, as (partition, offset, end). When everything has
        arrived: an empty range of each partition whose rows are held here, for notices.
        """
        if self._ended:
            return [(number, offset, offset) for number, offset in self._received.items() if self._held(number)]
        parts = ((number, offset, self._ends.get(number, 0)) for number, offset in self._received.items())
        return [(number, offset, end) for number, offset, end in parts if not end or offset < end]

    def _held(self, number: int) -> int:
        """The first offset of a partition whose row may be held here; 0 if there is none."""
        first = self._passed(number)
        return first if first < self._received[number] else 0

    def _passed(self, number: int) -> int:
        return self._taken_before.get(number, self._taken.get(number, 0))

    def _opening(self) -> bytes:
        self._bytes_granted = self._bytes_taken
        ahead = self._bytes_came - self._bytes_granted
        until = 0 if self._ended else self._until
        wanted = pb.FetchOpen(
            topic=self._wanted.topic, until=until, where=self._wanted.selection.where, notices=True, topic_id=self.topic_id
        )
        if self._wanted.selection.mask is not None:
            wanted.columns = self._wanted.selection.mask
        for number, offset, end in self._open_ranges():
            begins = number in self._beginning and not self._ended
            wanted.partitions.add(partition=number, offset=0 if begins else offset, end=end, held=self._held(number))
        return pb.FetchRequest(open=wanted, credit=max(1, self._credit - ahead)).SerializeToString()

    async def _serve(self) -> None:
        self.connections += 1
        stream = self._connection.channel.stream("Fetch")
        beside = [asyncio.create_task(self._write_grants(stream, self._opening()))]
        if self._patience is not None:
            beside.append(asyncio.create_task(self._watch(stream, self._patience)))
        try:
            await self._read(stream)
        finally:
            stream.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _watch(self, stream: Stream, patience: float) -> None:
        """A reader with an end must not wait for a broker that hangs: this asks a silent broker
        whether it is there.
        """
        while True:
            batches, since = self.batches, self._clock.monotonic()
            await self._clock.sleep(patience / 2)
            if self.batches == batches:
                try:
                    await self._connection.hello(min(HANDSHAKE_SECONDS, patience / 2))
                except errors.Unavailable:
                    self._lost(since)
                    stream.cancel()
                    return

    async def _write_grants(self, stream: Stream, opening: bytes) -> None:
        await stream.write(opening)
        while True:
            self._grants.clear()
            await self._grants.wait()
            if self._is_over:
                return await stream.end()
            taken = self._bytes_taken
            credit, self._bytes_granted = taken - self._bytes_granted, taken
            await stream.write(pb.FetchRequest(credit=credit).SerializeToString())

    async def _read(self, stream: Stream) -> None:
        while (message := await stream.read()) is not None:
            header_bytes, data = codec.split(message)
            header = pb.FetchAnswer.FromString(header_bytes)
            self._pauses.reset()
            self._connection.broker_time.heard_keeping(header.now, self._connection.world.clock.monotonic())
            if header.HasField("notice"):
                self._noticed(header.notice)
                continue
            self.batches += 1
            self.bytes += len(message)
            if header.rows or self._wanted.selection.where:  # rows that a filter has passed over count as read
                self._beginning.discard(header.partition)
            if header.rows:
                self._bytes_came += header.stored_bytes
                self._rows_end[header.partition] = header.next_offset
                self._received[header.partition] = header.next_offset
                self._came(Chunk(FetchedPage(self._wanted.topic, header, data, self._wanted.selection), 0, header.rows))
            else:
                self._received[header.partition] = header.next_offset
                self._bytes_granted -= header.stored_bytes  # there is nothing to take, so it is owed at once
                self.grant()
                self._came(None)
        if not self._until and any(not end for _, _, end in self._open_ranges()):
            raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")
        self._all_came()  # a good end: nothing is left
        self._is_over = True

    def _all_came(self) -> None:
        for number, _, end in self._open_ranges():
            self._received[number] = max(end, self._received[number])
        self._ended = True

    # ---- what becomes of rows that have come

    def _noticed(self, notice: pb.FetchNotice) -> None:
        if notice.retention:
            self.kept_for(notice.retention)
        if notice.deleted:
            self.deleted(notice.partition, [(run.offset, run.rows) for run in notice.deleted])
        if notice.done:
            self._all_came()
            self._came(None)

    def kept_for(self, retention: int) -> None:
        """Notes the topic's retention in microseconds."""
        if retention and retention != self.freshness.retention:
            self.freshness.retention = min(retention, NEVER)
            self._doubted()

    def deleted(self, partition: int, runs: Iterable[tuple[int, int]]) -> None:
        """Notes deleted rows."""
        self.freshness.deleted(partition, runs, self._passed(partition))
        self._doubted()

    def fail(self, error: errors.Error) -> None:
        """Ends the stream with this error."""
        self.error = self.error or error
        self._task.cancel()
        self._doubted()
        self._came(None)
