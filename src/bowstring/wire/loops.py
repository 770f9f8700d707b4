"""The event loop, and a thread that runs one.

uvloop needs less CPU than asyncio's own loop, so it is used when it is installed. `bowstring
serve` runs it in its main thread, an embedded broker and the kit's sync face each in a thread of
their own. Nothing changes the loop of an application that runs its own.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

from bowstring import errors
from bowstring.wire import forks

T = TypeVar("T")

HALT_SECONDS: Final = 1.0
"""So long a program that ends waits for a loop that is in the middle of something."""

LOOK_SECONDS: Final = 0.5
"""So often a thread that waits at a bell looks whether a signal has come."""

_log = logging.getLogger("bowstring.client")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop if it is installed, else asyncio's own loop."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """A thread that runs a loop, and gives other threads the results of coroutines that run on it.

    The thread is a daemon: a program that forgets to stop it still ends. But a loop that runs while
    the interpreter takes itself apart may write into memory that is gone, so it halts before that.
    What a program still asks for then, in an `atexit` function of its own, runs in its own thread.
    """

    def __init__(self, name: str) -> None:
        self._process = os.getpid()
        self.loop = new_event_loop()
        self.loop.set_exception_handler(_tell)
        self._calls: set[_Call[Any]] = set()
        """The calls that have not ended."""
        self._bells: set[Bell] = set()
        """The bells at which threads wait."""
        self._halted = False
        """The interpreter is about to end: the thread runs the loop no more."""
        self._still = threading.Event()
        """Set when it has halted."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _threads.add(self)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs it on the loop and waits. An interrupt while waiting cancels it. Raises Conflict in
        a forked child, which has no such thread, and in the loop's own thread, which would wait for
        itself.
        """
        if self._halted and os.getpid() == self._process:
            return self.loop.run_until_complete(asyncio.wait_for(coroutine, timeout))
        call = self._begun(coroutine)
        try:
            return call.wait(timeout)
        except BaseException:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(call.cancel)
            raise

    def close(self, closing: Coroutine[Any, Any, object], locks: Iterable[Any]) -> None:
        """Runs a coroutine that closes something, and waits for it. It does not wait in a signal
        handler that has interrupted its thread while that holds one of these locks, because the
        loop may need the lock; then it logs errors instead of raising them.
        """
        if any(getattr(lock, "_is_owned", bool)() for lock in locks):
            self._begun(_logged(closing))
        else:
            self.run(closing)

    @contextmanager
    def bell(self) -> Generator[Bell]:
        """A bell at which this thread can wait for something that happens on the loop. It rings
        when the loop ends, too. Raises Conflict where `run` does.
        """
        self._check_thread()
        bell = Bell()
        self._bells.add(bell)
        try:
            if self.loop.is_closed():
                bell.ring()
            yield bell
        finally:
            self._bells.discard(bell)

    def _check_thread(self) -> None:
        if os.getpid() != self._process:
            raise forks.forked()
        if threading.get_ident() == self._thread.ident:
            raise errors.Conflict("this thread carries out the calls of clients, and cannot wait for one.", hint="Use another thread.")

    def _begun(self, coroutine: Coroutine[Any, Any, T]) -> _Call[T]:
        try:
            self._check_thread()
        except errors.Conflict:
            coroutine.close()
            raise
        call = _Call(coroutine, self._calls.discard)
        self._calls.add(call)
        try:
            self.loop.call_soon_threadsafe(call.start)
        except RuntimeError:
            call.abandon()
        return call

    def stop(self) -> None:
        """Cancels running calls, ends the loop and waits for the thread. Calling it again does
        nothing.
        """
        if os.getpid() == self._process and self._thread.is_alive() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def halt(self) -> None:
        """Has the thread stand still, and leaves everything as it is."""
        if os.getpid() == self._process and self._thread.is_alive() and not self.loop.is_closed():
            self._halted = True
            self.loop.set_exception_handler(lambda loop, context: None)  # tasks that never end are no news any more
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._still.wait(HALT_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            if self._halted:
                # Stands still for good. Its frame keeps the loop and what hangs on it: coroutines
                # that were collected now would run their endings.
                self._still.set()
                threading.Event().wait()
            self._end()

    def _end(self) -> None:
        self.loop.run_until_complete(self._finish())
        self.loop.close()
        for call in tuple(self._calls):
            call.abandon()
        for bell in tuple(self._bells):
            bell.ring()

    async def _finish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loop.shutdown_asyncgens()


_threads: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _halt_all() -> None:
    for thread in tuple(_threads):
        thread.halt()


class Bell:
    """Wakes the one thread that waits at it. Ringing takes no lock, so it may come from a signal
    handler; a bell that has rung stays so.
    """

    def __init__(self) -> None:
        self._rung = threading.Lock()
        self._rung.acquire()

    def ring(self) -> None:
        """Wakes the thread, now or when it begins to wait."""
        with suppress(RuntimeError):  # it has rung before
            self._rung.release()

    def wait(self) -> None:
        """Waits until it rings. An interrupt ends the wait.

        A signal that arrives just before the thread goes to sleep does not wake it, and its handler
        would wait as long as the thread does. So the thread looks from time to time.
        """
        while not self._rung.acquire(timeout=LOOK_SECONDS):
            pass


class _Call(Generic[T]):
    """A coroutine that runs on a loop for a thread.

    The thread waits at a bare lock, which the loop only ever releases. A signal handler runs in the
    middle of whatever its thread does, and may wait for a call of its own; with a lock that both
    sides take, as that of a `concurrent.futures.Future`, the loop would wait for the interrupted
    thread then, and the thread for the loop.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], ended: Callable[[_Call[T]], object]) -> None:
        self._coroutine = coroutine
        self._ended = ended
        self._done = threading.Lock()
        self._done.acquire()
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        """Starts the coroutine. Runs on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, _task: asyncio.Task[T]) -> None:
        self._ended(self)
        self._done.release()

    def cancel(self) -> None:
        """Cancels the coroutine. Runs on the loop, after `start`."""
        if self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """The loop that should run it has ended."""
        if self._task is None:
            self._coroutine.close()
            self._ended(self)
            self._done.release()

    def wait(self, timeout: float | None) -> T:
        """Waits for the result and gives it."""
        if not self._done.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError
        task = self._task
        try:
            if task is None or task.cancelled():
                raise errors.Unavailable("the thread that carries out the calls has ended.", hint="Start it again, or connect again.")
            return task.result()
        finally:
            del task, self  # the raised error refers to this frame


async def _logged(closing: Coroutine[Any, Any, object]) -> None:
    try:
        await closing
    except errors.Error as error:
        _log.warning("closing in a signal handler has raised %s: %s", type(error).__name__, error)


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs uncaught errors, except those of a program that ends while its loop still has work."""
    error = context.get("exception")
    if not (isinstance(error, RuntimeError) and "interpreter shutdown" in str(error)):
        loop.default_exception_handler(context)
