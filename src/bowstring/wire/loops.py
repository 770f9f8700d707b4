"""The event loop, and a thread to run one in.

grpc.aio spends 15 to 20 % less CPU on uvloop (FINDINGS.md), so it is taken where it is there. Who runs the loop decides: `bowstring
serve` in its main thread, an embedded broker and the kit's sync face each in a thread of their own. Nothing changes the loop of an
application that runs its own.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from bowstring.wire import grpc_library

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop where there is one, else asyncio's own."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """A thread that runs a loop, and gives other threads the results of coroutines that run on it.

    The thread is a daemon: a program that forgets to stop it ends all the same.
    """

    def __init__(self, name: str) -> None:
        self._process = os.getpid()
        self.loop = new_event_loop()
        self.loop.set_exception_handler(_tell)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs it on the loop and waits. Whoever is interrupted while waiting cancels it. Raises Conflict in a forked child, which has
        no such thread."""
        if os.getpid() != self._process:
            coroutine.close()
            raise grpc_library.forked()
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancels what still runs, ends the loop and waits for the thread. Calling it again does nothing."""
        if os.getpid() == self._process and self._thread.is_alive() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self._finish())
            self.loop.close()

    async def _finish(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loop.shutdown_asyncgens()


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what nobody caught. That a program ends while its loop still has work, and no thread takes it any more, is no news."""
    error = context.get("exception")
    if not (isinstance(error, RuntimeError) and "interpreter shutdown" in str(error)):
        loop.default_exception_handler(context)
