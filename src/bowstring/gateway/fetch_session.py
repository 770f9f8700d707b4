"""A reader's session: credit in, rows out.

The reader grants bytes; the session sends answers as long as there is credit, and a batch may
overdraw it, so that a large one always gets through. Where there is nothing to send, the broker
wakes the session when rows arrive: nothing polls. The session takes a bounded number of bytes from
the broker at once, whatever the credit, and a slow connection holds back all but the next round. To
a reader that follows it sends new rows in the step in which the broker tells their commit, if the
transport takes them without waiting (`room`, `take`).

The session ends well when every partition has reached its end, and when the reader has ended its
side and used up its credit.

A reader that asks for notices (`broker.reading.notices`) learns at once, whatever its credit, which
of the messages that it was sent are deleted. Its session stays open at the end of its ranges,
because the reader may hold messages for long; it ends when the reader ends its side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

from bowstring import errors
from bowstring.broker.broker import Broker
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.fetcher import Fetcher
from bowstring.broker.reading.notices import Notice, Notices
from bowstring.broker.reading.selection import Selection
from bowstring.gateway.value_stream import ValueStream
from bowstring.messages import filters, schema

T = TypeVar("T")

ROUND_BYTES_MAX: Final = 2 * 1024 * 1024
"""About how many bytes a session takes from the broker at once."""
AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""About how many bytes a session sends in the step in which a commit makes them visible. The flusher
waits for that step."""
CREDIT_MAX: Final = 2**60


class FetchOpening(NamedTuple):
    """The first request of a session."""

    topic: str
    ranges: list[tuple[int, int, int]]
    """Partition, first offset wanted, first offset not wanted any more; see `Broker.fetcher`."""
    until: int
    """Only rows that arrive before this moment; 0 for all."""
    columns: int | None
    """A mask of the wanted columns; None for all."""
    where: str
    """A filter; empty for none."""
    held: dict[int, int] | None
    """From where on the reader holds messages, by partition; None if it wants no notices."""
    topic_id: int
    """0 for whichever topic has the name."""
    credit: int


class MoreCredit(NamedTuple):
    """A later request: so many bytes more."""

    credit: int


class FetchedRows(NamedTuple):
    """Rows, and the broker's keeping time when the session took them."""

    fetched: Fetched
    now: int


class FetchNotice(NamedTuple):
    """News of messages that the reader was sent before, and the keeping time."""

    notice: Notice
    now: int
    done: bool = False
    """Every range is read."""


class FetchSession:
    """One session of one reader, from its first request to its end."""

    def __init__(self, broker: Broker, stream: ValueStream[FetchOpening | MoreCredit, FetchedRows | FetchNotice]) -> None:
        self._broker = broker
        self._stream = stream
        self._credit = 0
        self._no_more_credit = False
        self._granted = asyncio.Event()
        self._writing = asyncio.Lock()
        self._keeping_time: Callable[[], int] = int
        self._held: dict[int, int] | None = None
        """From where on a reader that wants notices holds messages, by partition; None if it wants
        none."""
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds the error that ends the session from outside, or from reading, while it waits for
        something else."""

    async def run(self) -> None:
        """Serves the session to its end. Raises what it ends with, if it does not end well."""
        try:
            fetcher = await self._unless_ending(self._open())
            if fetcher is not None:
                await self._serve(fetcher)
        finally:
            if not self._ending.cancel():
                self._ending.exception()

    def end(self, error: BaseException) -> None:
        """Ends the session with this error."""
        if not self._ending.done():
            self._ending.set_exception(error)

    async def _open(self) -> Fetcher | None:
        """Opens the session with the first request.
        Gives None if there is none: the caller has left."""
        opening = await self._stream.read()
        if opening is None:
            return None
        if not isinstance(opening, FetchOpening):
            raise errors.InvalidArgument("the first request of a fetch stream has to open it.", hint="Send `open` in it.")
        self._credit = min(opening.credit, CREDIT_MAX)
        where = filters.parse(opening.where, self._broker.clock.now()) if opening.where else None
        selection = Selection(where, None if opening.columns is None else opening.columns & schema.ALL)
        self._held = opening.held
        return self._broker.fetcher(opening.topic, opening.ranges, selection, until=max(0, opening.until), topic_id=opening.topic_id)

    async def _serve(self, fetcher: Fetcher) -> None:
        """Sends until there is an end, or until reading fails."""
        self._keeping_time = fetcher.keeping_time
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
        """Waits for a coroutine, unless the session is ended before."""
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
            await self._stream.each(self._grant)
        except Exception as error:
            self.end(error)
        self._no_more_credit = True
        self._granted.set()

    def _grant(self, request: FetchOpening | MoreCredit) -> None:
        if isinstance(request, FetchOpening):
            raise errors.InvalidArgument("this fetch stream is open already.", hint="A stream is opened by its first request only.")
        self._credit = min(self._credit + request.credit, CREDIT_MAX)
        self._granted.set()

    async def _notify(self, fetcher: Fetcher, notices: Notices, held: dict[int, int]) -> None:
        """Sends notices as they come."""
        try:
            await notices.begin(held)
            while True:
                for notice in await notices.next():
                    await self._write(FetchNotice(notice, fetcher.keeping_time()))
        except Exception as error:
            self.end(error)

    async def _stay(self, fetcher: Fetcher) -> None:
        """Stays for notices when everything is sent, until the reader ends its side."""
        await self._write(FetchNotice(Notice(), fetcher.keeping_time(), done=True))
        while not self._no_more_credit:
            self._granted.clear()
            await self._granted.wait()

    async def _write(self, answer: FetchedRows | FetchNotice) -> None:
        async with self._writing:
            await self._stream.write(answer)

    async def _send(self, fetcher: Fetcher) -> bool:
        """Sends round after round.
        Behind a large one there is probably more, so the session reads the next one while it writes
        this one. Says whether everything was sent; otherwise the reader gives no more credit."""
        ahead: asyncio.Task[list[Fetched]] | None = None
        try:
            while ahead is not None or await self._has_credit():
                answers = await (ahead or fetcher.next(min(self._credit, ROUND_BYTES_MAX), self))
                ahead = None
                if not answers:
                    if fetcher.done:
                        return True
                    continue  # the credit was used up in the step of a commit
                size = sum(fetched.size for fetched in answers)
                self._credit -= size
                if size > ROUND_BYTES_MAX // 2 and self._credit > 0:
                    ahead = asyncio.create_task(fetcher.next(min(self._credit, ROUND_BYTES_MAX)))
                now = self._keeping_time()
                for fetched in answers:
                    await self._write(FetchedRows(fetched, now))
            return False
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    # ---- in the step of a commit

    def room(self) -> int:
        """How many bytes the session sends without waiting; see `Receiver`."""
        return 0 if self._writing.locked() else min(self._credit, AT_ONCE_BYTES_MAX)

    def take(self, answers: list[Fetched]) -> list[Fetched]:
        """Sends answers, and gives back those for which it has to wait; see `Receiver`."""
        for number, fetched in enumerate(answers):
            if not self._stream.try_write(FetchedRows(fetched, self._keeping_time())):
                return answers[number:]
            self._credit -= fetched.size
        return []

    async def _has_credit(self) -> bool:
        """Waits for credit; False when there is none and none comes any more."""
        while self._credit <= 0:
            if self._no_more_credit:
                return False
            self._granted.clear()
            await self._granted.wait()
        return True
