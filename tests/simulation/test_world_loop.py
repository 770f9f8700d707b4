"""The seeded loop: virtual time, an order drawn from the seed, and dead processes that never speak again."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator

import pytest

from tests.simulation.loop import Stuck
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import ProductBug, World


def test_time_passes_only_when_nothing_else_is_to_do():
    async def main(world: World) -> list[float]:
        started = world.loop.time()
        await asyncio.gather(asyncio.sleep(3600.0), asyncio.sleep(1800.0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60.0):
                await asyncio.Event().wait()
        return [world.loop.time() - started]

    assert World(1, seconds_max=1e6).run(main) == [pytest.approx(3660.0, abs=0.001)]


def test_somebody_who_polls_gets_on():
    async def main(world: World) -> None:
        deadline, turns = world.loop.time() + 0.01, 0
        while world.loop.time() < deadline:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1000

    World(1).run(main)


def order(seed: int, *, priorities: bool) -> str:
    """The order in which five tasks of three steps each take them."""
    taken: list[str] = []

    async def walk(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            taken.append(name)

    async def main(world: World) -> None:
        await asyncio.gather(*(walk(name) for name in "abcde"))

    World(seed, Options(priorities=priorities)).run(main)
    return "".join(taken)


@pytest.mark.parametrize("priorities", [False, True])
def test_the_order_is_the_seeds(priorities):
    orders = [order(seed, priorities=priorities) for seed in range(20)]
    assert orders == [order(seed, priorities=priorities) for seed in range(20)]
    assert len(set(orders)) > 15


def test_with_priorities_one_task_can_race_ahead_of_all_others():
    runs = [order(seed, priorities=True) for seed in range(20)]
    assert any(run[0] * 3 == run[:3] for run in runs)


def test_what_waits_for_nothing_is_told_task_by_task():
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        world.node("server", disk=False).start(lambda life: forgotten())
        await forgotten()

    with pytest.raises(Stuck) as told:
        World(1).run(main)
    assert "nothing can happen any more" in str(told.value)
    assert "server.1: server.1 main waits in Incarnation.run" in str(told.value)
    assert "forgotten" in str(told.value)
    assert "Event.wait" in str(told.value)


def test_a_run_without_end_is_stuck():
    async def main(world: World) -> None:
        for _ in itertools.count():
            await asyncio.sleep(1.0)

    with pytest.raises(Stuck, match="100 virtual seconds"):
        World(1, seconds_max=100.0).run(main)
    with pytest.raises(Stuck, match="1000 steps"):
        World(1, steps_max=1000).run(main)


@pytest.mark.parametrize("kind", ["crash", "power_cut"])
def test_nothing_of_a_dead_process_ever_runs(kind):
    told: list[str] = []

    async def ticking() -> AsyncIterator[int]:
        try:
            while True:
                await asyncio.sleep(0.1)
                yield 1
        finally:
            told.append("the generator's end")

    async def live(life: Incarnation) -> None:
        async def child() -> None:
            try:
                async for _ in ticking():
                    told.append("tick")
            finally:
                told.append("the child's end")

        task = asyncio.create_task(child())
        task.add_done_callback(lambda _: told.append("the callback"))
        asyncio.get_running_loop().call_later(5.0, told.append, "the timer")
        try:
            async with asyncio.timeout(8.0):
                await task
        finally:
            told.append("the process's end")

    async def main(world: World) -> None:
        node = world.node("server")
        node.start(live)
        await asyncio.sleep(0.25)
        getattr(node, kind)()
        await asyncio.sleep(100.0)

    World(1).run(main)
    gc.collect()
    assert told == ["tick", "tick"]


def test_a_process_ends_with_its_main_function_and_takes_its_tasks_along():
    ticks: list[int] = []

    async def live(life: Incarnation) -> None:
        async def tick() -> None:
            while True:
                await asyncio.sleep(1.0)
                ticks.append(life.number)

        life.spawn(tick())
        await asyncio.sleep(2.5)

    async def main(world: World) -> None:
        node = world.node("server", disk=False)
        assert await node.start(live).ended == "exit"
        assert await node.restart().ended == "exit"
        await asyncio.sleep(10.0)

    World(1).run(main)
    assert ticks == [1, 1, 2, 2]


def test_an_error_that_nobody_handles_fails_the_run():
    async def wrong() -> None:
        raise ValueError("unforeseen")

    async def in_a_task(life: Incarnation) -> None:
        asyncio.create_task(wrong())  # noqa: RUF006
        await asyncio.sleep(1.0)

    async def in_the_process(life: Incarnation) -> None:
        await wrong()

    for live in (in_a_task, in_the_process):

        async def main(world: World, live=live) -> None:
            world.node("server", disk=False).start(live)
            await asyncio.sleep(0.5)

        with pytest.raises(ProductBug, match="unforeseen"):
            World(1).run(main)


def test_an_error_by_design_ends_the_process_and_is_no_bug():
    async def live(life: Incarnation) -> None:
        raise OSError("the disk is gone")

    async def main(world: World) -> None:
        life = world.node("server", may_raise=(OSError,)).start(live)
        await life.ended
        assert isinstance(life.failure, OSError)

    World(1).run(main)


def test_threads_are_refused():
    async def main(world: World) -> None:
        with pytest.raises(AssertionError, match="worker port"):
            await asyncio.to_thread(print)

    World(1).run(main)


def test_a_worker_keeps_the_order_runs_what_nobody_waits_for_and_raises_what_the_call_raised():
    asked: list[int] = []
    done: list[int] = []

    async def live(life: Incarnation) -> None:
        worker = life.worker()

        async def ask(number: int) -> None:
            asked.append(number)
            await worker.run(lambda: done.append(number))

        calls = [asyncio.create_task(ask(number)) for number in range(6)]
        await asyncio.sleep(1e-5)
        calls[5].cancel()
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        await asyncio.gather(*calls[:5])
        await worker.close()

    async def main(world: World) -> None:
        await world.node("server").start(live).ended

    World(1).run(main)
    assert done == asked
    assert len(done) == 6


def test_clocks_jump_and_the_monotonic_one_does_not():
    async def main(world: World) -> None:
        seen: list[tuple[int, float]] = []

        async def live(life: Incarnation) -> None:
            while len(seen) < 4:
                seen.append((life.clock.now(), life.clock.monotonic()))
                await life.clock.sleep(1.0)

        node = world.node("server", disk=False)
        life = node.start(live)
        await asyncio.sleep(1.5)
        node.wall.jump(-3600.0)
        assert not world.faults, "a jump that nobody has seen is no fault"
        await life.ended
        (first, _), (second, _), (third, _), _ = seen
        assert second - first == pytest.approx(1e6, abs=100)
        assert third - second == pytest.approx(1e6 - 3600e6, abs=100)
        assert [b[1] - a[1] for a, b in itertools.pairwise(seen)] == [pytest.approx(1.0, abs=1e-4)] * 3
        assert world.faults == {"clock-jump": 1}
        ids = [life.randomness.unique() for _ in range(100)]
        assert len(set(ids)) == 100
        assert {(id[6] >> 4, id[8] >> 6, len(id)) for id in ids} == {(7, 2, 16)}

    World(1).run(main)
