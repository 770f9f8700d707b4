"""A seeded asyncio event loop with virtual time.

Time stands still while something is ready to run (except for a microsecond per step, so that a task
that polls makes progress) and jumps to the next timer when nothing is. Which of the ready handles
runs next is drawn from the seed: uniformly, or by priorities of tasks that now and then change
(after PCT, "A randomized scheduler with probabilistic guarantees of finding bugs"), which keeps one
task back for long while the others race ahead. asyncio itself promises that callbacks run in the
order in which they were asked for; nothing in the product may rest on that, because threads,
sockets and other loops give no such order.

Every handle belongs to a life, the incarnation of a node, through a context variable that tasks and
callbacks inherit. When a life has ended its handles are not run any more; they go to the graveyard,
and so do its tasks. The graveyard is never freed, not even at the end of the program: a coroutine
that were garbage collected would run its `finally` blocks, which is what a process without power
cannot do.

Nothing here goes by `id()` or by the order of a set: the same seed gives the same order.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import random
import types
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

STEP_SECONDS = 1e-6
TIMERS_COMPACT = 256
TASKS_PRUNE = 64

# Of priorities: how often the running task falls behind all others, and how often the choice is
# uniform, so that no task starves.
FALL_BEHIND = 0.02
UNIFORM = 0.05


class PowerCut(BaseException):
    """The process that made this call is dead. Code that still runs while this exception unwinds
    the stack has no effect on the world.
    """


class Stuck(Exception):
    """Nothing can happen any more, or too much has happened: the message lists what every task
    waits for.
    """


class Life:
    """The owner of handles. It keeps the tasks so that none is collected while it waits, and drops
    finished ones now and then.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        """Stopped as by SIGSTOP: what becomes ready meanwhile is held."""
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._prune_at = TASKS_PRUNE

    def record(self, task: asyncio.Task[Any]) -> None:
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at and not self.dead:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._prune_at = TASKS_PRUNE + 2 * len(self.tasks)


LIFE: ContextVar[Life] = ContextVar("life")
PRIORITY: ContextVar[list[float]] = ContextVar("priority")


def for_ever(kept: object) -> None:
    """Takes a reference that is never given back, so that not even the end of the interpreter frees
    the object and what it refers to.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


class SeededLoop(asyncio.BaseEventLoop):
    """The loop. `failures` are unhandled exceptions in a living life; the world takes them for bugs
    of the product.
    """

    def __init__(self, seed: str, *, priorities: bool = False, seconds_max: float = 3_600.0, steps_max: int = 20_000_000) -> None:
        super().__init__()
        self.random = random.Random(f"{seed}/loop")
        self.seconds_max = seconds_max
        self.steps_max = steps_max
        self.steps = 0
        self.world = Life("world")
        self.outside = Context()
        self.lives: list[Life] = []
        self.graveyard: list[object] = []
        self.failures: list[tuple[Life, str, BaseException | None]] = []
        self._now = 0.0
        self._priorities = priorities
        self._pick = self._pick_by_priority if priorities else self._pick_uniformly
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self._timers_cancelled = 0

    # ---- time and timers -------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        timer._scheduled = True
        return timer

    def outside_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """A timer of the world itself: it fires whether or not a process has died."""
        return self.call_at(when, callback, *args, context=self.outside)

    def outside_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self._now + seconds, callback, *args, context=self.outside)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > TIMERS_COMPACT and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def _collect(self) -> None:
        """Makes ready what is due."""
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            handle._scheduled = False
            if handle._cancelled:
                self._timers_cancelled -= 1
            else:
                self._ready.append(handle)

    def _advance(self) -> None:
        """Nothing is ready: jumps to the next timer of a living process."""
        timers = self._timers
        while timers:
            when, _, handle = timers[0]
            if handle._cancelled:
                self._timers_cancelled -= 1
            elif self._is_dead(handle):
                self.graveyard.append(handle)
            else:
                break
            heapq.heappop(timers)
        else:
            self._stuck("nothing can happen any more: nothing is ready, and nobody waits for a moment")
        if when > self._now:
            self._now = when
        if self._now > self.seconds_max:
            self._stuck(f"{self.seconds_max:g} virtual seconds have passed")
        self._collect()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # ---- running ---------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        ready, pick = self._ready, self._pick
        if not ready:
            self._advance()
        while ready and not self._stopping:
            handle = pick()
            if handle._cancelled:
                continue
            life = handle._context.get(LIFE)
            if life is not None and life.dead:
                self.graveyard.append(handle)
                continue
            if life is not None and life.paused:
                life.held.append(handle)
                continue
            self.steps += 1
            if self.steps > self.steps_max:
                self._stuck(f"{self.steps_max} steps were taken")
            self._now += STEP_SECONDS
            handle._run()
            if self._timers and self._timers[0][0] <= self._now:
                self._collect()

    def pause(self, life: Life, seconds: float) -> None:
        """Nothing of the process runs for so long."""
        life.paused = True
        self.outside_later(seconds, self._resume, life)

    def _resume(self, life: Life) -> None:
        life.paused = False
        held, life.held = life.held, []
        self._ready += held

    def _is_dead(self, handle: asyncio.Handle) -> bool:
        life = handle._context.get(LIFE)
        return life is not None and life.dead

    def _pick_uniformly(self) -> asyncio.Handle:
        ready = self._ready
        if len(ready) > 1:
            chosen = int(self.random.random() * len(ready))
            ready[chosen], ready[-1] = ready[-1], ready[chosen]
        return ready.pop()

    def _pick_by_priority(self) -> asyncio.Handle:
        ready = self._ready
        if len(ready) == 1 or self.random.random() < UNIFORM:
            return self._pick_uniformly()
        best, chosen = -1.0, 0
        for index, handle in enumerate(ready):
            priority = handle._context.get(PRIORITY)
            if (value := priority[0] if priority else 0.5) > best:
                best, chosen = value, index
        handle = ready.pop(chosen)
        if self.random.random() < FALL_BEHIND and (priority := handle._context.get(PRIORITY)):
            priority[0] = self.random.random() * 1e-3
        return handle

    # ---- tasks and what goes wrong in them -------------------------------------------------------------------------

    def create_task(self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None) -> asyncio.Task[T]:
        if context is None:
            context = copy_context()
        if self._priorities:
            context.run(PRIORITY.set, [self.random.random()])
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        context.get(LIFE, self.world).record(task)
        return task

    async def never(self) -> NoReturn:
        """What the dead wait for."""
        await self.create_future()
        raise AssertionError("a future that nobody has was resolved")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        handle: asyncio.Handle | None = context.get("handle")
        life = handle._context.get(LIFE, self.world) if handle is not None else LIFE.get(self.world)
        if not isinstance(error, PowerCut) and not life.dead:
            self.failures.append((life, context.get("message", ""), error))

    def unretrieved(self) -> None:
        """At the end of a run: exceptions of finished tasks that no code has retrieved count as
        unhandled, without waiting for `__del__`.
        """
        for life in [self.world, *self.lives]:
            for task in life.tasks if not life.dead else ():
                if task.done() and not task.cancelled() and task._log_traceback:
                    task._log_traceback = False
                    if not isinstance(task.exception(), PowerCut):
                        self.failures.append((life, f"the exception of {task.get_name()} was never retrieved", task.exception()))

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> NoReturn:
        raise AssertionError("a thread was asked for; blocking calls go through the worker port")

    # ---- the end ---------------------------------------------------------------------------------------------------

    def _process_events(self, event_list: object) -> None:
        raise AssertionError("this loop has no selector")

    def _write_to_self(self) -> None:
        """There are no other threads to be woken by."""

    def bury(self) -> None:
        """Ends every life and the loop, and keeps all that was left waiting for ever."""
        for life in [self.world, *self.lives]:
            life.dead = True
            self.graveyard.append(life)
        self.graveyard += self._ready
        self.graveyard += [timer for _, _, timer in self._timers]
        self._ready.clear()
        self._timers.clear()
        for_ever(self.graveyard)
        for_ever(self)
        self.close()

    def _stuck(self, why: str) -> NoReturn:
        lines = [f"{life.name}: {line}" for life in [self.world, *self.lives] if not life.dead for line in waiting(life)]
        raise Stuck(f"{why} (at {self._now:.6f} s, after {self.steps} steps)\n  " + "\n  ".join(lines or ["no task is left"]))


def waiting(life: Life) -> list[str]:
    """What each unfinished task of a life waits for: from its coroutine inwards to where it stands
    still.
    """
    return [f"{task.get_name()} waits in {_where(task.get_coro())}" for task in life.tasks if not task.done()]


def _where(waiter: object) -> str:
    places: list[str] = []
    while isinstance(waiter, types.CoroutineType | types.AsyncGeneratorType | types.GeneratorType) or hasattr(waiter, "cr_await"):
        frame = getattr(waiter, "cr_frame", None) or getattr(waiter, "gi_frame", None) or getattr(waiter, "ag_frame", None)
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname} ({frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno})")
        waiter = getattr(waiter, "cr_await", None) or getattr(waiter, "gi_yieldfrom", None) or getattr(waiter, "ag_await", None)
    return " > ".join(places) or "nothing that can be seen"
