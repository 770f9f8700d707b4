"""Threads that run blocking calls while the loop goes on.

A submitted call runs to its end, whatever happens to its caller: a half-done sync cannot be undone,
and its outcome must not get lost. So a cancelled caller stops waiting, and nothing else. That rules
out `loop.run_in_executor`: it drops a call that has not begun when its caller is cancelled.

A flush waits for two switches between threads, and pays for them. So there is nothing between the
loop and a thread but a queue: an executor's locks, semaphore and second future cost as much again
as the switch (decision 0041).

A process that forks has only one thread in its child, and a lock that another thread held at that
moment stays held there for ever: SQLite's own, for example, which every new catalog would need. So
a fork waits until no call is in the middle of something, though not for long.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

FORK_SECONDS: Final = 2.0
"""So long a fork waits for one thread's call."""


class _Submitted(NamedTuple):
    """A call, and who waits for its outcome."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    outcome: asyncio.Future[Any]


class Threads:
    """A few threads. Calls begin in the order of their submission."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self.calling: list[threading.Lock] = []
        """For each thread a lock that it holds while it runs a call."""
        self._calls: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._ended = False
        self._leaving = False
        """The process ends: nothing more is carried out or answered."""

    async def run(self, call: Callable[[], T]) -> T:
        """Runs the call on one of the threads; returns what it returns, raises what it raises."""
        return await self.begin(call)

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Submits the call at once. The future may be cancelled, the call may not."""
        if self._ended:
            raise RuntimeError(f"the threads '{self._name}' have ended")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        if self._leaving:
            return outcome
        if not self._threads:
            self._start()
        self._calls.put(_Submitted(call, loop, outcome))
        return outcome

    def _start(self) -> None:
        """The threads are daemons that are joined at the exit of the process: a program that
        forgets to close them ends, but not before their calls do.
        """
        names = [f"{self._name}_{number}" for number in range(self._count)]
        self.calling = [threading.Lock() for _ in names]
        self._threads = [
            threading.Thread(target=_work, args=(self._calls, calling), name=name, daemon=True)
            for name, calling in zip(names, self.calling, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        _all.add(self)
        atexit.register(self._leave)

    def _leave(self) -> None:
        """A broker that its program has forgotten may still run when the process ends: to it, this
        is the moment of a kill.
        """
        self._leaving = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    async def close(self) -> None:
        """Waits for the submitted calls, then ends the threads, without blocking the loop."""
        closing = Threads(1, "closing")
        await closing.run(self.join)
        closing.end()

    def join(self) -> None:
        """As `close`, but blocks."""
        self.end()
        for thread in self._threads:
            thread.join()

    def end(self) -> None:
        """The threads end by themselves once they have no more calls."""
        if not self._ended:
            self._ended = True
            atexit.unregister(self._leave)
            for _ in self._threads:
                self._calls.put(None)


class ThreadWorker(Threads):
    """A `Worker`: one thread, so calls run one after the other."""

    def __init__(self, name: str = "worker") -> None:
        super().__init__(1, name)


_all: weakref.WeakSet[Threads] = weakref.WeakSet()
_held: list[threading.Lock] = []
"""The locks that a fork under way has taken."""


def _before_fork() -> None:
    for threads in tuple(_all):
        _held.extend([calling for calling in threads.calling if calling.acquire(timeout=FORK_SECONDS)])


def _after_fork() -> None:
    while _held:
        _held.pop().release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _work(calls: SimpleQueue[_Submitted | None], calling: threading.Lock) -> None:
    """What a thread does, until it finds the mark of the end."""
    while (submitted := calls.get()) is not None:
        with calling:
            _run(*submitted)
        del submitted  # what the call holds goes when it is done, not when the next one comes


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
