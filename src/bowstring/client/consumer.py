"""A consumer of a subscription, for asyncio: it holds messages by leases until the program has
settled them. `hand` says how tasks and threads share it, `consumption` is the loop's half.

**Closing** hands out nothing more, gives back what the program has not seen, waits for handlers of
`run` that are at work, nacks what the program has and has not settled, and waits for the answers,
all within a bounded time.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Any, ClassVar

from bowstring import errors, times
from bowstring.client import handling, lease_asks
from bowstring.client.arguments import Span
from bowstring.client.batch import Batch, messages
from bowstring.client.connection import Connection
from bowstring.client.consumer_settings import ConsumerSettings
from bowstring.client.consumption import Consumption, LeaseHand, release
from bowstring.client.deliveries import Deliveries
from bowstring.client.hand import Hand
from bowstring.client.key_order import KeyGate
from bowstring.client.lease_marks import ABANDONED, ACK, LOST, NACK, REJECT, RELEASE
from bowstring.client.leased_batch import LeasedBatch
from bowstring.client.leased_message import LeasedMessage
from bowstring.client.leased_page import LeasedPage
from bowstring.client.pages import Chunk
from bowstring.client.peek import peek
from bowstring.client.statistics import ConsumerStatistics

_log = logging.getLogger("bowstring.client.consumer")


class Consumer(Hand[Deliveries, LeasedMessage, LeasedBatch]):
    """Consumes a subscription. `async for message in consumer`, or `batches()`, or `run()`."""

    _hand_rows: ClassVar[int | None] = 1024
    """Between two takings the clock is looked at: a program that stood still does not hand out more
    than this many rows whose lease has ended meanwhile."""

    def __init__(
        self,
        connection: Connection,
        settings: ConsumerSettings,
        *,
        call_seconds: float = 10.0,
        closed: Callable[[Consumer], object] = id,
    ) -> None:
        self.topic = settings.topic
        self.subscription = settings.subscription
        self.name = settings.name or f"consumer-{connection.world.randomness.unique().hex()}"
        self._settings = settings
        self._call_seconds = call_seconds
        self._closed = closed
        self._is_left = False
        """Whether this is a forked child, in which closing does nothing."""
        self._leftovers: list[Chunk] = []
        """Rows that were in hand when it was stopped."""
        self._closing: asyncio.Task[None] | None = None
        self._workers: set[asyncio.Task[None]] = set()
        """The tasks of `run`."""
        self._running = 0
        """How many handlers of `run` may be at work."""
        self._rested = asyncio.Event()
        """Set when none is any more."""
        self._threads: Any = None
        """The threads of `run` (`sync_consumer`)."""
        self._gate = KeyGate(nullcontext(), nullcontext())
        """Shares keys among the workers of `run`."""
        self._ask_alive: Callable[[Callable[[], Any]], Awaitable[Any]] = handling.asked
        hand = LeaseHand(self._doubted, self._seen, self._give_back, self._alive)
        self._consumption = Consumption(connection, settings, self.name, hand)
        super().__init__(connection, self._consumption.deliveries)

    def _made(self, chunk: Chunk) -> Iterator[LeasedMessage]:
        return messages(chunk, LeasedMessage)

    def _batch_of(self, chunks: list[Chunk]) -> LeasedBatch:
        return LeasedBatch(chunks)

    # ---- for the program

    async def batches(self, max_rows: int = 1000, max_wait: Span = 0.05) -> AsyncIterator[LeasedBatch]:
        """Returns batches of up to `max_rows`, or of about a MiB; one that is not full waits
        `max_wait` for more rows, unless the consumer holds as much as it may.
        """
        while (batch := await self._next_batch(max_rows, max_wait)) is not None:
            yield batch

    async def peek(self, limit: int = 20, where: str | None = None) -> Batch:
        """Looks at up to `limit` messages that would come next, to any consumer of the subscription,
        without taking them: a batch without leases. `where` is a filter.
        """
        self._check_open()
        await self._begun()
        return await peek(self._connection, self.topic, self.subscription, limit, where, (), self._call_seconds)

    async def lease(self, ids: Iterable[str]) -> LeasedBatch:
        """Leases messages that wait, by their ids, whatever the credit. `refused` of the batch says
        by id why others are not leased: `LeaseTaken`, with the consumer that holds it;
        `MessageNotFound`; `Conflict` if it is settled, not due, or left out by the filter.
        """
        self._check_open()
        wanted = lease_asks.checked_ids(ids)
        await self._begun()
        ask = await self._consumption.asks.ask(wanted, self._call_seconds)
        with self._taking:
            if ask.own and (rest := self._rest()) is not None:
                self._read_ahead.put_back(rest)
            own = self._read_ahead.pick(lease_asks.held_rows(ask.own, self._consumption.pages())) if ask.own else []
            self._read_ahead.handed_out(ask.chunks)
        ask.refuse_others(own, self.topic, self.name)
        return LeasedBatch([*own, *ask.chunks], refused=ask.refused)

    async def run(self, handler: Callable[[LeasedMessage], Any], concurrency: int = 1) -> None:
        """Calls the handler with each message until the consumer is closed; `concurrency` messages
        at the same time. When it returns the message is acked, an exception nacks it and is logged,
        and `raise bowstring.Reject(reason)` rejects it. The handler is a coroutine function or a plain
        one. Messages that it has settled itself are left alone.
        """
        handling.check(handler, concurrency)
        self._connection.check_process()
        workers = {asyncio.create_task(self._work(handler), name=f"bowstring handler of {self.name}") for _ in range(concurrency)}
        self._workers |= workers
        self._began(concurrency)
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
            self._workers -= workers
            self._ended(concurrency)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end
        if self._closing is not None:
            await asyncio.shield(self._closing)

    @property
    def _may_be_keyed(self) -> bool:
        """Whether the subscription is key-shared, as far as is known."""
        return self._consumption.settlements.is_keyed or not self._consumption.opened.is_set()

    def _enters(self, message: LeasedMessage) -> bool:
        """Whether a worker of `run` is to work on a message now. In any thread."""
        page: Any = message._page  # pyright: ignore[reportPrivateUsage]
        return not page.is_keyed or self._gate.enter(message)

    def _next_of_key(self, message: LeasedMessage) -> LeasedMessage | None:
        """The next message of the key of one that is done, if it may be handed out. In any thread."""
        page: Any = message._page  # pyright: ignore[reportPrivateUsage]
        if not page.is_keyed:
            return None
        following = self._gate.leave(message)
        while following is not None:
            page, row = following._page, following._row  # pyright: ignore[reportPrivateUsage]
            if not page.marks[row] and self._may_hand_out(following):
                return following
            following = self._gate.leave(following)
        return None

    async def _work(self, handler: Callable[[LeasedMessage], Any]) -> None:
        async for message in self:
            if not self._enters(message):
                continue
            following: LeasedMessage | None = message
            while following is not None:
                try:
                    await self._handle(handler, following)
                except BaseException:
                    self._gate.fail(following)
                    raise
                following = self._next_of_key(following)
            del message, following

    async def _handle(self, handler: Callable[[LeasedMessage], Any], message: LeasedMessage) -> None:
        failure: BaseException | None = None
        try:
            result = handler(message)
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            failure = error
        except BaseException as error:
            handling.settle(message, error)
            raise
        handling.settle(message, failure)

    def _began(self, handlers: int) -> None:
        """So many handlers may be at work. On the loop."""
        self._running += handlers
        self._rested.clear()

    def _ended(self, handlers: int) -> None:
        """So many are done. On the loop."""
        self._running -= handlers
        if self._running <= 0:
            self._rested.set()

    def pause(self) -> None:
        """Gets no more messages until `resume`. What has come and was not handed out is given back,
        uncounted; what the program has stays with it.
        """
        self._check_open()
        self._consumption.credit.paused = True
        with self._taking:
            chunks = self._read_ahead.take_all()
            if (rest := self._rest()) is not None:
                self._read_ahead.untake(rest)
                chunks.append(rest)
            release(chunks)
        self._on_loop(self._consumption.send_credit)

    def resume(self) -> None:
        """Gets messages again."""
        self._check_open()
        self._consumption.credit.paused = False
        self._on_loop(self._consumption.send_credit)

    async def flush(self, timeout: Span | None = None) -> None:
        """Waits until everything that was settled so far is answered, and raises refusals that
        the program has not seen. After `timeout` only the waiting ends, with `Unavailable`.
        """
        self._connection.check_process()
        seconds = None if timeout is None else times.span(timeout, "timeout")
        if not await self._flushed(seconds):
            message = f"not all that was settled of '{self.topic}' is answered after {seconds:g} s; the kit goes on asking."
            raise errors.Unavailable(message, hint="Wait and flush again.")
        self._raise_refused()

    async def _flushed(self, seconds: float | None) -> bool:
        """Whether everything is answered within this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._consumption.flush()
                while self._closing is not None and not self._consumption.settlements.is_settled():
                    await self._consumption.flush()  # what has come meanwhile is given back, too
        except TimeoutError:
            return False
        return True

    def _raise_refused(self) -> None:
        error = self._consumption.settlements.raised()
        if error is not None:
            raise error

    def statistics(self) -> ConsumerStatistics:
        """How much this consumer has consumed."""
        told, counts, ahead = self._consumption, self._consumption.settlements.counts, self._ahead()
        in_hand = 0 if ahead is None or not self._open else ahead.rows
        return ConsumerStatistics(
            messages=self._read_ahead.messages - in_hand,
            bytes=told.bytes,
            batches=told.batches,
            acked=counts[ACK],
            nacked=counts[NACK] + counts[ABANDONED],
            rejected=counts[REJECT],
            released=counts[RELEASE],
            lost=counts[LOST],
            held=max(0, told.credit.held),
            ahead=self._read_ahead.rows_ahead + in_hand,
            credit=told.credit.messages,
            connections=told.connections,
        )

    # ---- what the loop asks

    def _seen(self, page: LeasedPage) -> int:
        """How many rows of a page the program has got."""
        ahead = self._ahead()
        return page.taken - (ahead.rows if ahead is not None and ahead.page is page else 0)

    def _give_back(self, pages: list[LeasedPage]) -> None:
        """Gives the rows of pages back that the program has not seen."""
        with self._taking:
            chunks = self._read_ahead.take_away(pages)
            rest = self._rest()
            if rest is not None and rest.page in pages:
                self._read_ahead.untake(rest)
                chunks.append(rest)
            elif rest is not None:
                self._in_hand(rest)
            release(chunks)

    async def _alive(self) -> bool:
        """Whether the program says that it is alive."""
        if self._settings.alive is None:
            return True
        try:
            return bool(await self._ask_alive(self._settings.alive))
        except Exception:
            _log.exception("alive() of consumer %r has failed: its leases are not extended", self.name)
            return False

    # ---- the end

    async def close(self) -> None:
        """Ends the consumer: iteration ends, messages that were not handed out are given back
        uncounted, and those that the program has not settled are nacked. Waits for the answers, as
        long as a call may take, and raises refusals that the program has not seen. Closing again
        does nothing.
        """
        self._stop()
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._finish(), name=f"bowstring end of {self.name}")
        elif self._closing.done():
            return
        if asyncio.current_task() not in self._workers:  # else `run` waits for the rest, when this handler has returned
            await asyncio.shield(self._closing)

    async def _abandon(self) -> None:
        """Ends the consumer without waiting for anything. What it holds is given back, if the broker
        still hears it."""
        self._stop()
        self._call_seconds = 0.0
        with suppress(errors.Error):
            await self.close()

    async def _finish(self) -> None:
        self._read_ahead.close()
        self._consumption.credit.paused = True  # what comes from here on is given back
        self._consumption.send_credit()
        try:
            self._release_unseen()
            if self._running > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._call_seconds):
                        await self._rested.wait()
            said = not self._consumption.settlements.is_settled()
            self._consumption.abandon()
            answered = not (said or self._consumption.is_open) or await self._flushed(self._call_seconds)
        finally:
            await self._consumption.close(min(1.0, self._call_seconds))
            self._closed(self)
        if said and not answered:
            message = f"not all that was settled of '{self.topic}' was answered within {self._call_seconds:g} s."
            raise errors.Unavailable(message, hint="Messages that are not settled come again when their lease ends.")
        if self._read_ahead.is_told:
            self._consumption.settlements.failure_told()
        self._raise_refused()

    def _release_unseen(self) -> None:
        """Gives everything back that the program has not seen."""
        with self._taking:
            release(self._read_ahead.take_all())
            release(self._leftovers)
            self._consumption.asks.fail(lease_asks.closed_consumer())
        self._gate.close()

    def _left_unread(self, rest: Chunk) -> None:
        self._read_ahead.untake(rest)
        self._leftovers.append(rest)

    def _leave_to_parent(self) -> None:
        super()._leave_to_parent()
        self._is_left = True
        for page in self._consumption.pages():
            page.leave_to_parent()

    def _check_open(self) -> None:
        self._connection.check_process()
        if not self._open:
            raise lease_asks.closed_consumer()

    async def _begun(self) -> None:
        """Waits until the broker knows the consumer, so that a subscription that begins at "latest"
        has what is sent afterwards. Errors go to the program that consumes.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._call_seconds):
                await self._consumption.opened.wait()

    async def __aenter__(self) -> Consumer:
        await self._begun()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            await self.close()
        except errors.Error as failure:
            if error is None:
                raise
            error.add_note(f"Closing the consumer also raised {type(failure).__name__}: {failure}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.topic!r}, subscription {self.subscription!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("A consumer cannot be pickled. Connect in the other process: bowstring.connect(…).consumer(…).")
