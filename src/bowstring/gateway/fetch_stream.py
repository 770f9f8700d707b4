"""A reader's stream: credit in, batches out.

The reader grants bytes; answers are sent as long as there is credit, and a batch may overdraw it,
so that a large one always gets through. If there is nothing to send, the broker wakes the stream
when rows arrive: nothing polls. One round takes a bounded number of bytes from the broker, whatever
the credit, and a slow connection holds back all but the next round.

The stream ends well when every partition has reached its end, and when the reader has said that no
more credit comes and has used what it had.

A reader that asks for notices (`broker.reading.notices`) learns at once, whatever its credit, which
of its messages are deleted. Its stream stays open at the end of its ranges, because it may hold
messages for long; it ends when the reader ends its side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.fetcher import Fetcher
from bowstring.broker.reading.notices import Notice, Notices
from bowstring.broker.reading.selection import Selection
from bowstring.messages import filters, schema
from bowstring.ports.transport import Inbound
from bowstring.wire.codec import join
from bowstring.wire.generated import bowstring_pb2 as pb

T = TypeVar("T")

ROUND_BYTES_MAX: Final = 2 * 1024 * 1024
"""About how many bytes one round takes from the broker for one reader."""
REQUEST_BYTES_MAX: Final = 1024 * 1024
"""A reader may name all the partitions of a large topic."""
CREDIT_MAX: Final = 2**60


class FetchStream:
    """One stream of one reader, from its first request to its end."""

    def __init__(self, broker: Broker, inbound: Inbound) -> None:
        self._broker = broker
        self._inbound = inbound
        self._credit = 0
        self._no_more_credit = False
        self._granted = asyncio.Event()
        self._writing = asyncio.Lock()
        self._held: dict[int, int] | None = None
        """The first offset that a reader with notices holds, by partition."""
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds the error that ends the stream from outside, or from reading, while the stream
        waits for something else.
        """

    async def run(self) -> None:
        """Serves the stream to its end; raises what it ends with, if it does not end well."""
        try:
            fetcher = await self._unless_ending(self._open())
            if fetcher is not None:
                await self._serve(fetcher)
        finally:
            if not self._ending.cancel():
                self._ending.exception()

    def end(self, error: BaseException) -> None:
        """Ends the stream with this error."""
        if not self._ending.done():
            self._ending.set_exception(error)

    async def _open(self) -> Fetcher | None:
        """Reads the first request, which opens the stream. None if the caller has left without one."""
        message = await self._inbound.read()
        if message is None:
            return None
        request = _parsed(message)
        if not request.HasField("open"):
            raise errors.InvalidArgument("the first request of a fetch stream has to open it.", hint="Send `open` in it.")
        self._credit = min(request.credit, CREDIT_MAX)
        opening = request.open
        froms = [(wanted.partition, wanted.offset, wanted.end) for wanted in opening.partitions]
        where = filters.parse(opening.where, self._broker.clock.now()) if opening.where else None
        selection = Selection(where, opening.columns & schema.ALL if opening.HasField("columns") else None)
        if opening.notices:
            self._held = {wanted.partition: wanted.held for wanted in opening.partitions if wanted.held}
        return self._broker.fetcher(opening.topic, froms, selection, until=max(0, opening.until), topic_id=opening.topic_id)

    async def _serve(self, fetcher: Fetcher) -> None:
        """Sends until there is an end, or until reading fails."""
        beside = [asyncio.create_task(self._read())]
        if self._held is not None:
            beside.append(asyncio.create_task(self._notify(fetcher, Notices(fetcher, self.end), self._held)))
        try:
            if await self._unless_ending(self._send(fetcher)) and self._held is not None:
                await self._unless_ending(self._stay(fetcher))
        finally:
            fetcher.close()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _unless_ending(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Waits for it, unless the stream is ended before."""
        task = asyncio.create_task(coroutine)
        try:
            await asyncio.wait((task, self._ending), return_when=asyncio.FIRST_COMPLETED)
            if self._ending.done():
                self._ending.result()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _read(self) -> None:
        """Adds credit as it is granted."""
        try:
            while (message := await self._inbound.read()) is not None:
                request = _parsed(message)
                if request.HasField("open"):
                    raise errors.InvalidArgument("this fetch stream is open already.", hint="A stream is opened by its first request only.")
                self._credit = min(self._credit + request.credit, CREDIT_MAX)
                self._granted.set()
        except Exception as error:
            self.end(error)
        self._no_more_credit = True
        self._granted.set()

    async def _notify(self, fetcher: Fetcher, notices: Notices, held: dict[int, int]) -> None:
        """Sends notices as there are some."""
        try:
            await notices.begin(held)
            while True:
                for notice in await notices.next():
                    await self._write(notice_answer(notice, fetcher.keeping_time()))
        except Exception as error:
            self.end(error)

    async def _stay(self, fetcher: Fetcher) -> None:
        """Everything is sent: notices go on until the reader has ended its side."""
        done = pb.FetchAnswer(now=fetcher.keeping_time(), notice=pb.FetchNotice(done=True))
        await self._write(done.SerializeToString())
        while not self._no_more_credit:
            self._granted.clear()
            await self._granted.wait()

    async def _write(self, answer: bytes) -> None:
        async with self._writing:
            await self._inbound.write(answer)

    async def _send(self, fetcher: Fetcher) -> bool:
        """Sends round after round. After a large round there is probably more, so the next one is
        read while this one is written. Returns whether everything was sent; otherwise the reader
        gives no more credit.
        """
        ahead: asyncio.Task[list[Fetched]] | None = None
        try:
            while ahead is not None or await self._has_credit():
                answers = await (ahead or fetcher.next(min(self._credit, ROUND_BYTES_MAX)))
                ahead = None
                if not answers:
                    return True
                size = sum(fetched.size for fetched in answers)
                self._credit -= size
                if size > ROUND_BYTES_MAX // 2 and self._credit > 0:
                    ahead = asyncio.create_task(fetcher.next(min(self._credit, ROUND_BYTES_MAX)))
                now = fetcher.keeping_time()
                for fetched in answers:
                    await self._write(fetch_answer(fetched, now))
            return False
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def _has_credit(self) -> bool:
        """Waits for credit; False when there is none and none comes any more."""
        while self._credit <= 0:
            if self._no_more_credit:
                return False
            self._granted.clear()
            await self._granted.wait()
        return True


def notice_answer(notice: Notice, now: int) -> bytes:
    """The message of a notice."""
    deleted = [pb.Run(offset=offset, rows=rows) for offset, rows in notice.deleted]
    told = pb.FetchNotice(retention=notice.retention, partition=notice.partition, deleted=deleted)
    return pb.FetchAnswer(now=now, notice=told).SerializeToString()


def fetch_answer(fetched: Fetched, now: int) -> bytes:
    """The message of a piece of a partition: its header, and behind it the batch as the broker
    holds it.
    """
    header = pb.FetchAnswer(
        partition=fetched.partition,
        next_offset=fetched.next_offset,
        arrived=fetched.arrived,
        schema=fetched.schema,
        columns=fetched.columns,
        rows=fetched.rows,
        stored_bytes=fetched.size,
        now=now,
    )
    for offset, rows, arrived in fetched.runs:
        header.runs.add(offset=offset, rows=rows, arrived=0 if arrived == fetched.arrived else arrived)
    for origin in fetched.origins:
        header.origins.add(rows=origin.rows, producer=origin.producer, number=origin.number, first_row=origin.first_row, group=origin.group)
    serialised = header.SerializeToString()
    return serialised if fetched.data is None else join(serialised, fetched.data)


def _parsed(message: bytes) -> pb.FetchRequest:
    if len(message) > REQUEST_BYTES_MAX:
        raise errors.InvalidArgument(f"a fetch request has {len(message)} bytes.", hint=f"The maximum is {REQUEST_BYTES_MAX}.")
    try:
        return pb.FetchRequest.FromString(message)
    except DecodeError:
        raise errors.InvalidArgument("this is not a fetch request.", hint="The schema is in proto/bowstring/v1.") from None
