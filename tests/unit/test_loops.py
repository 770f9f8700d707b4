"""The thread that carries out calls for others: results, errors, interruptions, and its end while somebody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from bowstring import errors
from bowstring.wire.loops import LoopThread

LIMIT_SECONDS = 30


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    running = LoopThread("under test")
    yield running
    running.stop()


async def give(value: object) -> object:
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


def test_a_thread_gets_the_result_or_the_error(thread: LoopThread):
    assert thread.run(give(7)) == 7
    with pytest.raises(ZeroDivisionError):
        thread.run(give(ZeroDivisionError()))
    assert not thread._calls


def test_whoever_gives_up_waiting_cancels_what_it_waits_for(thread: LoopThread):
    cancelled = threading.Event()

    async def last() -> None:
        try:
            await asyncio.sleep(10 * LIMIT_SECONDS)
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        thread.run(last(), timeout=0.01)
    assert cancelled.wait(LIMIT_SECONDS)


def test_the_loop_does_not_wait_for_itself(thread: LoopThread):
    async def call_again() -> object:
        return thread.run(give(7))

    with pytest.raises(errors.Conflict, match="Use another thread"):
        thread.run(call_again())


def test_whoever_waits_when_the_loop_ends_is_told():
    thread = LoopThread("under test")
    raised: list[BaseException] = []
    begun = threading.Event()

    async def last() -> None:
        begun.set()
        await asyncio.sleep(10 * LIMIT_SECONDS)

    def wait() -> None:
        try:
            thread.run(last())
        except BaseException as error:
            raised.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert begun.wait(LIMIT_SECONDS)
    thread.stop()
    waiting.join(LIMIT_SECONDS)
    assert isinstance(raised[0], errors.Unavailable)
    with pytest.raises(errors.Unavailable, match="has ended"):
        thread.run(give(7))


def test_a_close_inside_a_lock_of_its_own_thread_does_not_wait(thread: LoopThread):
    """As in a signal handler that has interrupted whoever holds the lock: the loop needs it, too."""
    lock, closed = threading.RLock(), threading.Event()

    async def close() -> None:
        with lock:
            closed.set()

    with lock:
        thread.close(close(), [lock])
        assert not closed.is_set()
    assert closed.wait(LIMIT_SECONDS)
    closed.clear()
    thread.close(close(), [lock])
    assert closed.is_set()


def test_what_such_a_close_raises_is_logged(thread: LoopThread, caplog: pytest.LogCaptureFixture):
    lock = threading.RLock()
    with lock:
        thread.close(give(errors.OutcomeUnknown("it may be stored.")), [lock])
    thread.run(give(None))
    thread.run(give(None))
    assert "has raised OutcomeUnknown: it may be stored." in caplog.text
