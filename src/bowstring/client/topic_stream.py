"""The loop's half of a reader, for one topic: a stream of pages from each broker that serves its
partitions, and their successors.

`routes` says which broker serves a partition. A broker that does not (any more) ends the stream
with the address to ask instead, and the reader opens its streams anew. After any break the new
streams begin where the last page that came in ended: no gap, nothing twice. `fetch_credit` bounds
what lies here unread.

**Threads.** Pages are taken on the loop or in a thread of the program (`sync`), by one at a time.
So every count has one writer: what came in is counted by the loop, what was taken by the taker, and
what is ahead is a difference.

A deleted topic ends the reader, and the rows that have come are not handed out. A topic that was
made again under the name is another topic: its offsets mean other messages.

Beside pages the broker sends notices: which of the rows that it has sent were deleted, and how long
the topic keeps messages (`freshness`). So a stream stays open at its end until everything that came
was handed out. A new stream tells from where on rows are held here, and so learns what it has
missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from bowstring import errors
from bowstring.client import ranges
from bowstring.client.connection import HANDSHAKE_SECONDS, Connection
from bowstring.client.fetch_credit import FetchCredit
from bowstring.client.freshness import Freshness
from bowstring.client.pages import NEVER, Chunk, FetchedPage
from bowstring.client.ranges import Moment, OpenRange
from bowstring.client.reader_settings import WantedTopic
from bowstring.client.routes import asks_elsewhere
from bowstring.client.topic_questions import TopicQuestions
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Stream
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb

CREDIT_BYTES: Final = 8 * 1024 * 1024
"""The bytes that the brokers may send ahead of the program, over all topics of a reader."""


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
        self.questions = TopicQuestions(connection, wanted.topic, lambda: came(None))
        self._wanted = wanted
        self._credit = credit
        self._came = came
        """Called with each page, and with None for any other change."""
        self._doubted = doubted
        """Called when the rows in hand may have to be checked again."""
        self.topic_id = 0
        self.freshness = Freshness(connection.broker_time)
        self._received: dict[int, int] = {}
        """The offset behind everything that has come: the next stream begins there."""
        self._rows_end: dict[int, int] = {}
        """The offset behind the last row that has come."""
        self._whole: frozenset[int] = frozenset()
        """Partitions that are read from their beginning."""
        self._beginning: set[int] = set()
        """Those of them of which nothing has come yet: they begin wherever that is by then."""
        self._ends: dict[int, int] = {}
        self._until = wanted.end.microseconds if isinstance(wanted.end, Moment) else 0
        self._complete: set[int] = set()
        """Partitions of which everything up to the end has come in."""
        self._ended = False
        self._is_over = False
        """Whether notices are not needed any more, either."""
        self._taken: dict[int, int] = {}
        """The program's position: behind the rows that were handed out."""
        self._taken_before: dict[int, int] = {}
        """The position before the last rows that it took: some may not be handed out yet."""
        self._bytes_came = self._bytes_taken = 0
        self._others: dict[str, Connection] = {}
        """Connections to brokers that were named, by address."""
        self._credits: dict[str | None, FetchCredit] = {}
        """The brokers' credit, by address; None is the broker of the connection."""
        self.error: BaseException | None = None
        self.bytes = self.batches = self.connections = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"bowstring reader of {wanted.topic}")

    # ---- for the reader

    @property
    def position(self) -> dict[int, int]:
        """The next offset of each partition. If every row that came was taken, it is also behind
        offsets that the broker has passed over."""
        taken, received = dict(self._taken), dict(self._received)  # before `_rows_end`, which is written before `_received`
        return {number: received[number] if offset == self._rows_end[number] else offset for number, offset in taken.items()}

    def finished(self) -> bool:
        """Whether everything up to the end has come in."""
        return self._ended

    def taken(self, chunk: Chunk, *, last_of_page: bool) -> None:
        """Notes that the program has these rows."""
        if last_of_page:
            self._bytes_taken += chunk.page.header.stored_bytes
            if chunk.page.credit is not None:
                chunk.page.credit.taken(chunk.page.header.stored_bytes)
        partition = chunk.page.partition
        self._taken_before[partition] = self._taken[partition]
        self._taken[partition] = chunk.next_offset

    @property
    def bytes_ahead(self) -> int:
        """The bytes that have come in and were not taken."""
        return self._bytes_came - self._bytes_taken

    def owes(self) -> bool:
        """Whether there is credit to give back for taken pages: by `grant`, on the loop."""
        return any(credit.owes() for credit in tuple(self._credits.values()))

    def grant(self) -> None:
        """Gives credit back for taken pages, once it is worth a request."""
        for credit in self._credits.values():
            credit.grant()

    def release(self) -> None:
        """Everything that has come was handed out, and nothing more comes: ends the streams, which
        would only bring notices."""
        self._is_over = True
        for credit in self._credits.values():
            credit.wanted.set()

    async def close(self) -> None:
        """Ends the streams and the connections."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for connection in (self._connection, *self._others.values()):
            await connection.close()

    @property
    def away_since(self) -> float | None:
        """Since when no broker has answered; None while one does."""
        return self.questions.away_since

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
                    self.questions.unanswered(self._clock.monotonic())
                    await self.questions.pauses.wait()
                    await self._check_topic()
                except errors.OutOfRange as error:
                    if not self._begins_later(error):
                        raise
        except errors.Error as error:
            self.error = error
        except Exception as error:
            self.error = error
            raise
        finally:
            self._doubted()
            self._came(None)

    async def _place(self) -> None:
        topic, (_, start, end, partitions, name, _) = await self.questions.describe(), self._wanted
        self.topic_id = topic.id
        self.kept_for(topic.retention)
        numbers = ranges.wanted(topic, start, partitions)
        committed = await self.questions.committed(name, numbers)
        starts = await ranges.resolve(self.questions.offsets, topic, start, numbers) if len(committed) < len(numbers) else {}
        starts = {number: committed.get(number, starts.get(number, 0)) for number in numbers}
        for number in numbers:
            starts[number] = starts[number] or topic.ranges[number].first
        if end is not None and not isinstance(end, Moment):
            self._ends = await ranges.resolve(self.questions.offsets, topic, end, numbers)
        self._beginning = set(numbers) - committed.keys() if start in (None, "beginning") else set()
        self._whole = frozenset(self._beginning)
        self._rows_end, self._received, self._taken = dict(starts), dict(starts), dict(starts)
        self._ended = self._is_over = not self._open_ranges()
        self._came(None)

    async def _check_topic(self) -> None:
        topic = await self.questions.describe()
        if topic.id != self.topic_id:
            raise errors.TopicNotFound(
                f"'{self._wanted.topic}' was deleted and made again while it was read: it is another topic now.",
                hint="Make another reader to read the new one.",
                details={"topic": self._wanted.topic},
            )

    def _open_ranges(self) -> list[OpenRange]:
        """What is still to come. When everything has come: an empty range of each partition whose
        rows are held here, for notices."""
        if self._ended:
            return [(number, offset, offset) for number, offset in self._received.items() if self._held(number)]
        parts = ((number, offset, self._ends.get(number, 0)) for number, offset in self._received.items())
        return [(number, offset, end) for number, offset, end in parts if number not in self._complete and (not end or offset < end)]

    def _held(self, number: int) -> int:
        """The first offset of a partition that may be here and was not handed out; 0 if there is
        none."""
        first = self._passed(number)
        return first if first < self._received[number] else 0

    def _passed(self, number: int) -> int:
        return self._taken_before.get(number, self._taken.get(number, 0))

    def _by_broker(self) -> dict[str | None, list[OpenRange]]:
        """What is still to come, by the address of the broker that serves it; None is the broker of
        the connection."""
        found: dict[str | None, list[OpenRange]] = {}
        for each in self._open_ranges():
            found.setdefault(self._connection.routes.address(self._wanted.topic, each[0]), []).append(each)
        return found

    def _opening(self, parts: list[OpenRange], credit: int) -> bytes:
        until = 0 if self._ended else self._until
        wanted = pb.FetchOpen(
            topic=self._wanted.topic, until=until, where=self._wanted.selection.where, notices=True, topic_id=self.topic_id
        )
        if self._wanted.selection.mask is not None:
            wanted.columns = self._wanted.selection.mask
        for number, offset, end in parts:
            begins = number in self._beginning and not self._ended
            wanted.partitions.add(partition=number, offset=0 if begins else offset, end=end, held=self._held(number))
        return pb.FetchRequest(open=wanted, credit=credit).SerializeToString()

    async def _serve(self) -> None:
        """Reads from all brokers until every stream has ended well; the first that breaks ends the
        others. After a break there may be nothing left to ask for: all rows have come, and the program
        has them."""
        groups = self._by_broker()
        if not groups:
            self._ended = self._is_over = True
            return
        share = self._credit // len(groups)
        fetches = [asyncio.create_task(self._fetch(address, parts, share)) for address, parts in groups.items()]
        try:
            done, _ = await asyncio.wait(fetches, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for fetch in fetches:
                fetch.cancel()
            await asyncio.gather(*fetches, return_exceptions=True)
        for fetch in done:
            fetch.result()
        self._ended = self._is_over = True

    def _begins_later(self, error: errors.OutOfRange) -> bool:
        """All that came of a partition has expired here before the program had any of it. A program that
        reads from the beginning was not overtaken: the partition begins later by now."""
        number, first = int(error.details.get("partition", -1)), int(error.details.get("first", 0))
        if number not in self._whole or number in self._taken_before or first <= self._received[number]:
            return False
        self._received[number] = first
        return True

    async def _fetch(self, address: str | None, parts: list[OpenRange], share: int) -> None:
        """Reads some partitions from the broker that serves them."""
        try:
            await self._fetch_from(await self._reached(address), self._credits.setdefault(address, FetchCredit()), parts, share)
        except errors.Unavailable as error:
            named = asks_elsewhere(error)
            if named is not None:
                self._connection.routes.learn(self._wanted.topic, int(error.details.get("partition", parts[0][0])), named)
            elif address is not None:
                self._connection.routes.forget(address)
            raise

    async def _reached(self, address: str | None) -> Connection:
        if address is None:
            return self._connection
        connection = self._others.get(address) or self._others.setdefault(address, self._connection.to(address))
        await connection.hello()
        return connection

    async def _fetch_from(self, connection: Connection, credit: FetchCredit, parts: list[OpenRange], share: int) -> None:
        self.connections += 1
        stream = connection.channel.stream("Fetch")
        beside = [asyncio.create_task(self._write_grants(stream, credit, self._opening(parts, credit.opening(share))))]
        if self._patience is not None:
            beside.append(asyncio.create_task(self._watch(connection, stream, self._patience)))
        try:
            await self._read(stream, credit, parts)
        finally:
            stream.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _watch(self, connection: Connection, stream: Stream, patience: float) -> None:
        """Asks a silent broker whether it is there, so that a program that waits for an end does
        not wait for a broker that hangs."""
        while True:
            batches, since = self.batches, self._clock.monotonic()
            await self._clock.sleep(patience / 2)
            if self.batches == batches:
                try:
                    await connection.hello(min(HANDSHAKE_SECONDS, patience / 2))
                except errors.Unavailable:
                    self.questions.unanswered(since)
                    stream.cancel()
                    return

    async def _write_grants(self, stream: Stream, credit: FetchCredit, opening: bytes) -> None:
        await stream.write(opening)
        while True:
            credit.wanted.clear()
            await credit.wanted.wait()
            if self._is_over:
                return await stream.end()
            await stream.write(pb.FetchRequest(credit=credit.next_grant()).SerializeToString())

    async def _read(self, stream: Stream, credit: FetchCredit, parts: list[OpenRange]) -> None:
        await stream.each(lambda message: self._answered(message, credit, parts))
        if not self._until and any(not end for _, _, end in parts):
            raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")
        self._all_came(parts)  # a good end: nothing is left

    def _answered(self, message: Buffer, credit: FetchCredit, parts: list[OpenRange]) -> None:
        """Takes one answer, in the step in which it arrives."""
        header_bytes, data = codec.split(message)
        header = pb.FetchAnswer.FromString(header_bytes)
        self.questions.pauses.reset()
        self._connection.broker_time.heard_keeping(header.now, self._clock.monotonic())
        if header.HasField("notice"):
            self._noticed(header.notice)
            if header.notice.done:
                self._all_came(parts)
                self._came(None)
            return
        self.batches += 1
        self.bytes += len(message)
        if header.rows or self._wanted.selection.where:  # what a filter has passed over was read, too
            self._beginning.discard(header.partition)
        if header.rows:
            self._came(self._chunk(header, data, credit))
        else:
            self._received[header.partition] = header.next_offset
            credit.return_unused(header.stored_bytes)
            self._came(None)

    def _chunk(self, header: pb.FetchAnswer, data: memoryview | None, credit: FetchCredit) -> Chunk:
        page = FetchedPage(self._wanted.topic, header, data, self._wanted.selection)
        page.credit = credit
        credit.came(header.stored_bytes)
        self._bytes_came += header.stored_bytes
        self._rows_end[header.partition] = header.next_offset
        self._received[header.partition] = header.next_offset
        return Chunk(page, 0, header.rows)

    def _all_came(self, parts: list[OpenRange]) -> None:
        """Everything of these partitions is here."""
        for number, _, end in parts:
            self._received[number] = max(end, self._received[number])
            self._complete.add(number)
        self._ended = self._ended or not self._open_ranges()

    # ---- what becomes of rows that have come

    def _noticed(self, notice: pb.FetchNotice) -> None:
        if notice.retention:
            self.kept_for(notice.retention)
        if notice.deleted:
            self.deleted(notice.partition, [(run.offset, run.rows) for run in notice.deleted])

    def kept_for(self, retention: int) -> None:
        """The topic keeps messages for so many microseconds."""
        if retention and retention != self.freshness.retention:
            self.freshness.retention = min(retention, NEVER)
            self._doubted()

    def deleted(self, partition: int, runs: Iterable[tuple[int, int]]) -> None:
        """These rows were deleted."""
        self.freshness.deleted(partition, runs, self._passed(partition))
        self._doubted()

    def fail(self, error: errors.Error) -> None:
        """Ends the stream with this error."""
        self.error = self.error or error
        self._task.cancel()
        self._doubted()
        self._came(None)
