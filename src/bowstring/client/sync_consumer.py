"""A consumer for programs without asyncio (`sync_hand`): the program's own threads settle messages,
by a byte each; the rest happens on the loop (`sync`).

**At the end of a program** that has closed nothing, consumers are closed: what was settled gets a
moment to be answered, and the rest is given back. **In a forked child** consumers and messages of the
parent refuse (`wire.forks`); the parent goes on.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final

from bowstring import errors
from bowstring.client import consumer as asynchronous_consumer
from bowstring.client import handling
from bowstring.client.arguments import Span
from bowstring.client.batch import Batch
from bowstring.client.key_order import KeyGate
from bowstring.client.lease_receipts import MarkReceipt, MarksReceipt, OneExtension
from bowstring.client.leased_batch import LeasedBatch
from bowstring.client.leased_message import LeasedMessage
from bowstring.client.receipts import Answers
from bowstring.client.statistics import ConsumerStatistics
from bowstring.client.sync_hand import SyncHand
from bowstring.client.sync_wait import wait
from bowstring.wire import forks
from bowstring.wire.loops import LoopThread

# This module is the other face of these classes, and uses what they keep from programs.
# pyright: reportPrivateUsage=false

_NO_LOCK: Final = nullcontext()
EXIT_SECONDS: Final = 5.0
"""How long consumers may take to be closed when the program ends without having closed them."""

_log = logging.getLogger("bowstring.client")


class LeaseReceipt(MarkReceipt, eq=False, gc=False):
    """The receipt of an ack, a nack or a reject. Ask for its `result` to know that it is durable, or
    ignore it: `flush` raises what was refused.
    """

    def result(self, timeout: Span | None = None) -> None:
        """Waits until the broker has answered; raises `LeaseLost` if the consumer did not hold the
        message any more. After `timeout` only the waiting ends, with `TimeoutError`.
        """
        while not self.done():
            wait(self._when_settled, timeout)
        self._result()


class LeaseBatchReceipt(MarksReceipt):
    """The receipt of a call about a batch. Its `result` is `Answers`, one per row of the batch; rows
    that the call has left alone have none.
    """

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> Answers:
        """Waits until the broker has answered for every row. After `timeout` only the waiting ends,
        with `TimeoutError`.
        """
        while not self.done():
            wait(self._when_settled, timeout)
        return self._result()


class ExtendReceipt(OneExtension):
    """The receipt of an `extend`. Its `result` is the new end of the lease."""

    __slots__ = ()

    def result(self, timeout: Span | None = None) -> datetime:
        """Waits until the broker has answered, and returns the new end of the lease; raises
        `LeaseLost`. After `timeout` only the waiting ends, with `TimeoutError`.
        """
        while not self.done():
            wait(self._extension.when_settled, timeout)
        return self._result()


class RunThreads:
    """The threads in which handlers of `run` are at work. For `LoopThread.close` it is like a lock: a
    signal handler that has interrupted one of them must not wait for it.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()

    def add(self) -> None:
        """This thread is one of them."""
        self._threads.add(threading.get_ident())

    def discard(self) -> None:
        """This thread is not any more."""
        self._threads.discard(threading.get_ident())

    def _is_owned(self) -> bool:
        return threading.get_ident() in self._threads


class Consumer(SyncHand[LeasedMessage, LeasedBatch]):
    """Consumes a subscription. `for message in consumer`, or `batches()`, or `run()`."""

    def __init__(self, consumer: asynchronous_consumer.Consumer, thread: LoopThread) -> None:
        super().__init__(consumer, thread)
        self.topic = consumer.topic
        self.subscription = consumer.subscription
        self.name = consumer.name
        self._consumer = consumer
        _open[:] = [other for other in _open if other._consumer._open]
        _open.append(self)

    def batches(self, max_rows: int = 1000, max_wait: Span = 0.05) -> Iterator[LeasedBatch]:
        """Batches of up to `max_rows`, or of about a MiB; one that is not full waits `max_wait` for
        more rows, unless the consumer holds as much as it may.
        """
        return self._batches(max_rows, max_wait)

    def peek(self, limit: int = 20, where: str | None = None) -> Batch:
        """Looks at up to `limit` messages that would come next, to any consumer of the subscription,
        without taking them: a batch without leases. `where` is a filter.
        """
        return self._thread.run(self._consumer.peek(limit, where))

    def lease(self, ids: Iterable[str]) -> LeasedBatch:
        """Leases messages that wait, by their ids, whatever the credit. `refused` of the batch says
        by id why others are not leased: `LeaseTaken`, with the consumer that holds it;
        `MessageNotFound`; `Conflict` if it is settled, not due, or left out by the filter.
        """
        return self._thread.run(self._consumer.lease(ids))

    def run(self, handler: Callable[[LeasedMessage], Any], concurrency: int = 1) -> None:
        """Calls the handler with each message until the consumer is closed, in `concurrency` threads,
        of which the calling one is the first. When it returns the message is acked, an exception
        nacks it and is logged, and `raise bowstring.Reject(reason)` rejects it. Messages that it has
        settled itself are left alone. Close the consumer from any thread, from a signal handler, or
        from the handler: messages that are worked on are finished first.
        """
        handling.check(handler, concurrency)
        self._consumer._connection.check_process()
        loop, failures = self._thread.loop, list[BaseException]()
        threads = [
            threading.Thread(target=self._work_beside, args=(handler, failures), name=f"{self.name}-{number}", daemon=True)
            for number in range(1, concurrency)
        ]
        loop.call_soon_threadsafe(self._consumer._began, concurrency)
        try:
            for thread in threads:
                thread.start()
            try:
                self._work(handler)
            except errors.Error as error:  # what ends the consumer ends the other threads, too
                failures.append(error)
            for thread in threads:
                thread.join()
        except BaseException:
            self._consumer._stop()
            loop.call_soon_threadsafe(self._consumer._read_ahead.close)
            raise
        finally:
            loop.call_soon_threadsafe(self._consumer._ended, concurrency)
        if failures:
            raise failures[0]
        self._thread.run(self._consumer.close())

    def _work_beside(self, handler: Callable[[LeasedMessage], Any], failures: list[BaseException]) -> None:
        """Works in a thread beside the calling one. What ends the consumer, ends that one too."""
        try:
            self._work(handler)
        except BaseException as error:
            failures.append(error)

    def _work(self, handler: Callable[[LeasedMessage], Any]) -> None:
        threads = self._consumer._threads
        threads.add()
        try:
            messages = iter(self)
            while (following := self._next_to_handle(messages)) is not None:
                while following is not None:
                    try:
                        _handle(handler, following)
                    except BaseException:
                        self._consumer._gate.fail(following)
                        raise
                    following = self._consumer._next_of_key(following)
        finally:
            threads.discard()

    def _next_to_handle(self, messages: Iterator[LeasedMessage]) -> LeasedMessage | None:
        """The next message whose key no thread works on; None at the end. Threads take messages of a
        key-shared subscription one after the other: else the second of a key could come first.
        """
        while True:
            with self._consumer._gate.taking if self._consumer._may_be_keyed else _NO_LOCK:
                message = next(messages, None)
                if message is None or self._consumer._enters(message):
                    return message

    def pause(self) -> None:
        """Gets no more messages until `resume`. What has come and was not handed out is given back,
        uncounted; what the program has stays with it.
        """
        self._consumer.pause()

    def resume(self) -> None:
        """Gets messages again."""
        self._consumer.resume()

    def flush(self, timeout: Span | None = None) -> None:
        """Waits until everything that was settled so far is answered, and raises refusals that
        the program has not seen. After `timeout` only the waiting ends, with `Unavailable`.
        """
        self._thread.run(self._consumer.flush(timeout))

    def statistics(self) -> ConsumerStatistics:
        """How much this consumer has consumed."""
        return self._consumer.statistics()

    def close(self) -> None:
        """Ends the consumer: iteration ends, messages that were not handed out are given back
        uncounted, and those that the program has not settled are nacked. Waits for the answers, as
        long as a call may take, and raises refusals that the program has not seen. Closing again
        does nothing. Call it from any thread, and from a signal handler.
        """
        if not self._consumer._is_left and (self._consumer._open or self._consumer._closing is None):
            self._consumer._stop()
            self._thread.close(self._consumer.close(), [self._taking, self._consumer._threads])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self.close()
        except errors.Error as failure:
            if error is None:
                raise
            error.add_note(f"Closing the consumer also raised {type(failure).__name__}: {failure}")


def _handle(handler: Callable[[LeasedMessage], Any], message: LeasedMessage) -> None:
    failure: BaseException | None = None
    try:
        handler(message)
    except Exception as error:
        failure = error
    except BaseException as error:
        handling.settle(message, error)
        raise
    handling.settle(message, failure)


def prepared(consumer: asynchronous_consumer.Consumer, thread: LoopThread) -> asynchronous_consumer.Consumer:
    """Prepares a consumer for threads, before a message can come."""
    settlements = consumer._consumption.settlements
    settlements.receipt, settlements.batch_receipt, settlements.extend_receipt = LeaseReceipt, LeaseBatchReceipt, ExtendReceipt
    settlements.wake = thread.loop.call_soon_threadsafe
    consumer._threads = RunThreads()
    consumer._gate = KeyGate(threading.Lock(), threading.Lock())
    consumer._ask_alive = _ask_in_thread
    return consumer


async def _ask_in_thread(alive: Callable[[], Any]) -> Any:
    """Asks beside the loop, which serves all clients of the process. A question that is never
    answered ends with the process.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def ask() -> None:
        found: Any = None
        failure: Exception | None = None
        try:
            found = alive()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, found, failure)

    def tell(found: Any, failure: Exception | None) -> None:
        if answer.done():
            return
        if failure is None:
            answer.set_result(found)
        else:
            answer.set_exception(failure)

    threading.Thread(target=ask, name="bowstring-alive", daemon=True).start()
    return await answer


_open: list[Consumer] = []
"""Consumers that were made, until they are closed."""


def _at_exit() -> None:
    """The program ends."""
    for consumer in _open:
        if consumer._consumer._open:
            with suppress(errors.Error):
                consumer._consumer._stop()
                try:
                    consumer._thread.run(consumer._consumer.close(), timeout=EXIT_SECONDS)
                except TimeoutError:
                    _log.warning("consumer %r was not closed, and not all that it settled is known to be done", consumer.name)


atexit.register(_at_exit)
forks.in_forked_child(_open.clear)
