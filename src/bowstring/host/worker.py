"""Threads that run blocking calls while the loop goes on.

A submitted call runs to its end, whatever happens to its caller: a half-done sync cannot be undone,
and its outcome must not get lost. So a cancelled caller stops waiting, and nothing else. That rules
out `loop.run_in_executor`: it drops a call that has not begun when its caller is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """A few threads. Calls begin in the order of their submission."""

    def __init__(self, count: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, call: Callable[[], T]) -> T:
        """Runs the call on one of the threads; returns what it returns, raises what it raises."""
        return await self.begin(call)

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Submits the call at once. The future may be cancelled, the call may not."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._executor.submit(_run, call, loop, outcome)
        return outcome

    async def close(self) -> None:
        """Waits for the submitted calls, then ends the threads, without blocking the loop."""
        closing = Threads(1, "closing")
        await closing.run(self.join)
        closing.end()

    def join(self) -> None:
        """As `close`, but blocks."""
        self._executor.shutdown(wait=True)

    def end(self) -> None:
        """The threads end by themselves once they have no more calls."""
        self._executor.shutdown(wait=False)


class ThreadWorker(Threads):
    """A `Worker`: one thread, so calls run one after the other."""

    def __init__(self, name: str = "worker") -> None:
        super().__init__(1, name)


def _run(call: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T]) -> None:
    """Runs on the thread. Returns the outcome to the loop; if the loop is closed, no caller waits
    any more.
    """
    try:
        result = call()
    except StopIteration as error:
        _deliver(loop, _fail, outcome, RuntimeError(f"the call raised StopIteration({error})"))  # no future takes that one
    except BaseException as error:
        _deliver(loop, _fail, outcome, error)
    else:
        _deliver(loop, _succeed, outcome, result)


def _deliver(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *arguments: object) -> None:
    try:
        loop.call_soon_threadsafe(settle, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _succeed(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)
