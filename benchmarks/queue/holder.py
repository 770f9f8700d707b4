"""`python -m benchmarks.queue.holder ADDRESS SUBSCRIPTION --consumers N --count COUNT`: consumers
that hold every message that they get.

They take all the credit that they need at once, and settle nothing until they are told to. The
process tells on standard output when they are ready, and when they hold so many messages together.
A line `nack` on standard input has them nack every tenth message and ack the others, while they
pause, so that nothing comes again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import uvloop

import bowstring
from benchmarks.clients import ROOT

TOPIC = "held"
CREDIT_BYTES = 1 << 30
MAX_ROWS = 1 << 20
NACKED_EACH = 10


async def hold(options: argparse.Namespace) -> None:
    held: list[Any] = []
    rows, all_held = 0, asyncio.Event()

    async def take(consumer: Any) -> None:
        nonlocal rows
        async for batch in consumer.batches(max_rows=MAX_ROWS):
            held.append(batch)
            rows += len(batch)
            if rows >= options.count:
                all_held.set()

    async with bowstring.aio.connect(options.server) as client, contextlib.AsyncExitStack() as stack:
        each = -(-options.count // options.consumers)
        made = [
            client.consumer(TOPIC, options.subscription, lease=options.lease, credit=each, credit_bytes=CREDIT_BYTES)
            for _ in range(options.consumers)
        ]
        consumers = [await stack.enter_async_context(one) for one in made]
        tasks = [asyncio.create_task(take(consumer)) for consumer in consumers]
        print("ready", flush=True)
        await all_held.wait()
        print("held", flush=True)
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        if line.strip() == "nack":
            for consumer in consumers:
                consumer.pause()
            for batch in held:
                nacked = np.asarray(batch.column("offset")) % NACKED_EACH == 0
                batch.nack(nacked)
                batch.ack(~nacked)
            await asyncio.gather(*(consumer.flush() for consumer in consumers))
            print("nacked", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Holder:
    """That process, from outside."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait_for(self, word: str) -> None:
        assert self._process.stdout is not None
        if (line := self._process.stdout.readline().decode().strip()) != word:
            raise RuntimeError(f"the consumers were to be {word}, they said {line!r}")

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def holding(server: str, subscription: str, *, consumers: int, count: int, lease: float) -> Generator[Holder]:
    """Consumers that hold so many messages together. They die at the end."""
    command = [sys.executable, "-m", "benchmarks.queue.holder", server, subscription]
    command += [f"--consumers={consumers}", f"--count={count}", f"--lease={lease}"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        holder = Holder(process)
        try:
            yield holder
        finally:
            holder.kill()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.holder", description=__doc__)
    parser.add_argument("server")
    parser.add_argument("subscription")
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--lease", type=float, default=60.0)
    uvloop.run(hold(parser.parse_args()))


if __name__ == "__main__":
    main()
