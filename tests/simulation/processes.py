"""One process for each seed.

A run leaves the remains of its dead behind, which must not be freed as long as anything runs; and a run that hangs or takes the
interpreter down must not take others along. So each seed is run by a forked child that ends by `os._exit`, without cleaning up, and tells
its result through a pipe. The parent only waits, and so has no threads that a fork could surprise.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

IDLE = 10


class Outcome(NamedTuple):
    """What became of a seed: a value, or the text of an error."""

    seed: int
    value: Any
    error: str


class _Child(NamedTuple):
    seed: int
    process: int
    pipe: int
    received: bytearray


def each(seeds: Iterable[int], run: Callable[[int], Any], *, jobs: int = 1, seconds_max: float = 300.0) -> Iterator[Outcome]:
    """Runs the seeds, `jobs` at a time, and gives their outcomes as they come. A child that takes too long prints where it is, and ends:
    after so many seconds of work, on a machine however busy, or ten times as long if it does not even work."""
    waiting = iter(seeds)
    children: dict[int, _Child] = {}
    try:
        while True:
            while len(children) < jobs and (seed := next(waiting, None)) is not None:
                child = _start(seed, run, seconds_max)
                children[child.pipe] = child
            if not children:
                return
            for pipe in select.select(list(children), [], [])[0]:
                child = children[pipe]
                if part := os.read(pipe, 1 << 20):
                    child.received.extend(part)
                else:
                    del children[pipe]
                    yield _finish(child)
    finally:
        for child in children.values():
            os.kill(child.process, signal.SIGKILL)
            _finish(child)


def _start(seed: int, run: Callable[[int], Any], seconds_max: float) -> _Child:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return _Child(seed, process, reading, bytearray())
    status = 1
    try:
        os.close(reading)
        gc.freeze()  # what other tests have left behind is not ours to finalise: gRPC's queues would wait for threads that are not here
        faulthandler.register(signal.SIGXCPU, chain=True)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds_max), math.ceil(seconds_max) + 5))
        faulthandler.dump_traceback_later(seconds_max * IDLE, exit=True)
        _send(writing, _outcome(seed, run))
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _outcome(seed: int, run: Callable[[int], Any]) -> Outcome:
    try:
        return Outcome(seed, run(seed), "")
    except BaseException:
        return Outcome(seed, None, traceback.format_exc())


def _send(pipe: int, outcome: Outcome) -> None:
    left = memoryview(pickle.dumps(outcome))
    while left:
        left = left[os.write(pipe, left) :]


def _finish(child: _Child) -> Outcome:
    os.close(child.pipe)
    _, status = os.waitpid(child.process, 0)
    if status != 0:
        return Outcome(child.seed, None, f"the process of seed {child.seed} ended with {os.waitstatus_to_exitcode(status)}")
    return pickle.loads(bytes(child.received))
