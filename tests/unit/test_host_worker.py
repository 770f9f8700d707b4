"""Threads behind the worker port."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bowstring.host.worker import Threads, ThreadWorker


@pytest.fixture
async def worker():
    worker = ThreadWorker("test")
    yield worker
    await worker.close()


async def test_a_call_runs_on_another_thread_and_its_result_comes_back(worker: ThreadWorker):
    assert await worker.run(threading.get_ident) != threading.get_ident()


async def test_what_a_call_raises_is_raised_at_the_caller(worker: ThreadWorker):
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: "still there") == "still there"


async def test_a_call_that_raises_stop_iteration_does_not_leave_its_caller_waiting(worker: ThreadWorker):
    with pytest.raises(RuntimeError, match="StopIteration"):
        await worker.run(lambda: next(iter(())))


async def test_calls_run_in_the_order_in_which_they_were_handed_over(worker: ThreadWorker):
    order: list[int] = []
    await asyncio.gather(*(worker.run(lambda n=n: order.append(n)) for n in range(200)))
    assert order == list(range(200))


async def test_the_loop_goes_on_while_a_call_blocks(worker: ThreadWorker):
    release = threading.Event()
    blocked = asyncio.create_task(worker.run(release.wait))
    await asyncio.sleep(0)
    release.set()
    assert await blocked


async def test_a_cancelled_caller_stops_neither_its_call_nor_the_ones_behind_it(worker: ThreadWorker):
    release, ran = threading.Event(), []
    callers = [asyncio.create_task(worker.run(release.wait)), asyncio.create_task(worker.run(lambda: ran.append("second")))]
    await asyncio.sleep(0)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    release.set()
    await worker.run(lambda: ran.append("third"))
    assert ran == ["second", "third"]


async def test_closing_lets_what_was_handed_over_finish(worker: ThreadWorker):
    release, ran = threading.Event(), []
    callers = [asyncio.create_task(worker.run(release.wait))]
    callers += [asyncio.create_task(worker.run(lambda n=n: ran.append(n))) for n in range(3)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(worker.close())
    await asyncio.sleep(0)
    release.set()
    await closing
    assert ran == [0, 1, 2]
    await asyncio.gather(*callers)
    with pytest.raises(RuntimeError):
        await worker.run(lambda: None)


async def test_several_threads_run_calls_side_by_side():
    threads = Threads(3, "test")
    together = threading.Barrier(3, timeout=30)
    assert sorted(await asyncio.gather(*(threads.run(together.wait) for _ in range(3)))) == [0, 1, 2]
    await threads.close()


def test_a_call_that_outlives_its_loop_ends_quietly():
    worker, begun, release = ThreadWorker("test"), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        release.wait()

    async def leave() -> None:
        waiting = asyncio.create_task(worker.run(call))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        waiting.cancel()

    asyncio.run(leave())
    release.set()
    worker.join()
