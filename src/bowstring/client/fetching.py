"""The loop's half of a reader: a stream of pages, and whatever replaces it.

The reader grants bytes and the broker sends as long as there are some, so what lies here unread is bounded; more is granted as pages are
handed out. After a break a new stream begins where the last page that came in ended: no gap, nothing twice.

**Threads.** Pages are taken on the loop or in a thread of the program (`sync`), by one at a time. So every count has one writer: what
came in and what was granted are the loop's, what was taken is the taker's, and what is ahead or owed is a difference.

A topic that was deleted and made again is another one: its offsets mean other messages, so the reader fails instead of going on there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from bowstring import errors
from bowstring.client.connection import Connection, Pauses
from bowstring.client.pages import Chunk, Page
from bowstring.client.ranges import resolve
from bowstring.ports.transport import Stream
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb

CREDIT_BYTES: Final = 8 * 1024 * 1024
"""What the broker may send ahead of the program."""
GRANT_BYTES: Final = 2 * 1024 * 1024
"""Credit is given back in steps of about this."""
FILL_BYTES: Final = CREDIT_BYTES // 2
"""More than this is never waited for, because it might not come before some of it is taken."""
DESCRIBE_SECONDS: Final = 5.0


class Fetching:
    """Pages of a topic from given places on."""

    def __init__(self, connection: Connection, topic: str, start: Any, end: Any, partitions: tuple[int, ...] | None) -> None:
        self._connection = connection
        self._topic = topic
        self._start, self._end = start, end
        self._partitions = partitions
        self._pauses = Pauses(connection.world)
        self._topic_id = 0
        self._received: dict[int, int] = {}
        """Where the next stream begins."""
        self._beginning: set[int] = set()
        """Partitions that are read from their beginning, wherever that is by then: nothing of them has come yet."""
        self._ends: dict[int, int] = {}
        self.position: dict[int, int] = {}
        """Where the program is: behind what was handed out."""
        self._pages: deque[Chunk] = deque()
        self._rows_came = self._bytes_came = self._bytes_taken = self._bytes_granted = 0
        self._grants = asyncio.Event()
        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self.messages = self.bytes = self.batches = self.connections = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"bowstring reader of {topic}")

    # ---- for the reader

    async def placed(self) -> None:
        """Waits until it is known where the reader begins."""
        while not self.position and self._error is None:
            await self._wait()
        if not self.position:
            self._raise()

    async def available(self) -> bool:
        """Waits until there are rows; False when the end is reached. Raises what ended the stream for good, after the last row."""
        while not self._pages:
            if self.finished():
                return False
            if self._error is not None:
                self._raise()
            await self._wait()
        return True

    def finished(self) -> bool:
        """Whether everything up to the end has come in."""
        return bool(self._received) and not self._open_ranges()

    def take(self, rows_max: int | None) -> Chunk | None:
        """The next rows, all of one page; None if there are none now."""
        if not self._pages:
            return None
        chunk = self._pages.popleft()
        if rows_max is not None and chunk.rows > rows_max:
            self._pages.appendleft(Chunk(chunk.page, chunk.first + rows_max, chunk.rows - rows_max))
            chunk = Chunk(chunk.page, chunk.first, rows_max)
        else:
            self._bytes_taken += chunk.page.header.stored_bytes
        self.position[chunk.page.partition] = chunk.next_offset
        self.messages += chunk.rows
        return chunk

    @property
    def bytes_ahead(self) -> int:
        """What has come in and was not taken."""
        return self._bytes_came - self._bytes_taken

    def holds(self, rows: int, size: int) -> bool:
        """Whether so many rows, or so many bytes of them, can be taken now."""
        return self._rows_came - self.messages >= rows or self.bytes_ahead >= size

    async def filled(self, rows: int) -> None:
        """Waits until there is so much that a program is busy for a while, or no more to come."""
        while not self.holds(rows, FILL_BYTES) and not self.finished() and self._error is None:
            await self._wait()

    def next_size(self) -> int:
        """The bytes of the rows that `take` gives next; 0 if there are none now."""
        return self._pages[0].size if self._pages else 0

    def owes(self) -> bool:
        """Whether credit is to be given back for what was taken: by `grant`, on the loop."""
        return self._bytes_taken - self._bytes_granted >= GRANT_BYTES

    def grant(self) -> None:
        """Gives credit back for what was taken, once it is worth while."""
        if self.owes():
            self._grants.set()

    async def close(self) -> None:
        """Ends the stream and the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def describe(self) -> pb.Topic:
        """The topic as it is now; repeated until a broker answers."""
        while True:
            try:
                request = pb.DescribeTopicRequest(name=self._topic).SerializeToString()
                await self._connection.hello()
                return pb.Topic.FromString(await self._connection.channel.call("DescribeTopic", request, DESCRIBE_SECONDS))
            except errors.Unavailable:
                await self._pauses.wait()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _raise(self) -> None:
        error = self._error
        assert error is not None
        if isinstance(error, errors.Error):
            raise type(error)(error.message, hint=error.hint, details=error.details) from error.__cause__
        raise error

    # ---- the stream

    async def _run(self) -> None:
        try:
            await self._place()
            while self._open_ranges():
                try:
                    await self._serve()
                except errors.Unavailable:
                    await self._pauses.wait()
                    await self._check_topic()
        except errors.Error as error:
            self._error = error
        except Exception as error:
            self._error = error
            raise
        finally:
            self._changed.set()

    async def _place(self) -> None:
        topic = await self.describe()
        self._topic_id = topic.id
        starts, self._ends = resolve(topic, self._start, self._end, self._partitions)
        self._received = dict(starts)
        self._beginning = set(starts) if self._start in (None, "beginning") else set()
        self.position = dict(starts)
        self._changed.set()

    async def _check_topic(self) -> None:
        topic = await self.describe()
        if topic.id != self._topic_id:
            raise errors.Conflict(f"'{self._topic}' was deleted and made again while it was read.", hint="Make another reader.")

    def _open_ranges(self) -> list[tuple[int, int, int]]:
        """What is still to come, as (partition, offset, end)."""
        ranges = ((number, offset, self._ends.get(number, 0)) for number, offset in self._received.items())
        return [(number, offset, end) for number, offset, end in ranges if not end or offset < end]

    async def _serve(self) -> None:
        self.connections += 1
        stream = self._connection.channel.stream("Fetch")
        self._bytes_granted = self._bytes_taken
        ahead = self._bytes_came - self._bytes_granted
        opening = pb.FetchRequest(open=pb.FetchOpen(topic=self._topic), credit=max(1, CREDIT_BYTES - ahead))
        for number, offset, end in self._open_ranges():
            opening.open.partitions.add(partition=number, offset=0 if number in self._beginning else offset, end=end)
        granting = asyncio.create_task(self._write_grants(stream, opening.SerializeToString()))
        try:
            await self._read(stream)
        finally:
            stream.cancel()
            granting.cancel()
            await asyncio.gather(granting, return_exceptions=True)

    async def _write_grants(self, stream: Stream, opening: bytes) -> None:
        await stream.write(opening)
        while True:
            self._grants.clear()
            await self._grants.wait()
            taken = self._bytes_taken
            credit, self._bytes_granted = taken - self._bytes_granted, taken
            await stream.write(pb.FetchRequest(credit=credit).SerializeToString())

    async def _read(self, stream: Stream) -> None:
        while (message := await stream.read()) is not None:
            header_bytes, data = codec.split(message)
            header = pb.FetchAnswer.FromString(header_bytes)
            self._received[header.partition] = header.next_offset
            self._pauses.reset()
            self.batches += 1
            self.bytes += len(message)
            if data is not None and header.rows:
                self._beginning.discard(header.partition)
                self._rows_came += header.rows
                self._bytes_came += header.stored_bytes
                self._pages.append(Chunk(Page(self._topic, header, data), 0, header.rows))
            else:
                self._bytes_granted -= header.stored_bytes  # there is nothing to take, so it is owed at once
                self.grant()
            self._changed.set()
        self._received |= {number: end for number, _, end in self._open_ranges() if end}  # a good end: nothing is left of them
        if self._open_ranges():
            raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")
