"""Messages that are published for later, at random moments: over one day, and all within one minute.

**A day**: the messages are published in batches of 50,000, with due times from a little later on. What
the broker grows by is its largest resident set of all, beside that of an empty one. It is killed and
started again; a start ends with the first message that a consumer gets. What became due meanwhile is
worked off. Then a consumer is looked at for a while: how late each message comes by the clock that all
share, and what the broker burns. With fewer messages the day is shorter, so as many a second are due.

**A minute**: a consumer is there before the messages are due, so the queue passes them by and comes
back to them. It is measured twice. Once the consumer takes them as they become due. Once it pauses
until all are due, and the clock runs from then until `flush` returns: that rate is held against the
rate of the same messages without due times, with the same consumer.

The consumer is a process of its own on uvloop. It takes batches and acks them, and notes how late each
row is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import uvloop

import bowstring
from benchmarks import processes
from benchmarks.clients import ROOT
from benchmarks.server import Server, running
from benchmarks.turns import Setting, say, take_turns
from benchmarks.years.starting import timed_start
from benchmarks.years.tables import Tables, publish

TOPIC = SUBSCRIPTION = "scheduled"
ROWS = 50_000
SIZE = 100
DAY_COUNT, DAY_SECONDS = 20_000_000, 86_400.0
FIRST_DUE_SECONDS = 5.0
WINDOW_SECONDS, QUICK_SECONDS = 60.0, 10.0
SETTLED_SECONDS = 5.0
MINUTE_COUNT, MINUTE_SECONDS = 2_000_000, 60.0
PUBLISHED_PER_SECOND = 100_000
"""Publishing and passing by are over by then, so the minute begins when all rows wait."""
LIMIT_SECONDS = 300.0
PAUSE_SECONDS = 1.0
MAX_ROWS = 65_536
BATCH_WAIT = 0.05
MICROSECONDS = 1_000_000

Figures = dict[str, Any]


def dated(count: int, first: float = 0.0, seconds: float = 0.0) -> Iterator[pa.Table]:
    """Tables of so many rows, due at random within so many seconds from a moment on, if one is given."""
    tables, source = Tables(size=SIZE, rows=ROWS), np.random.default_rng(1)
    for start in range(0, count, ROWS):
        table = tables.plain().slice(0, min(ROWS, count - start))
        if not first:
            yield table
            continue
        dues = ((first + source.random(len(table)) * seconds) * MICROSECONDS).astype(np.int64)
        yield table.append_column("due", pa.array(dues).cast(pa.timestamp("us", tz="UTC")))


# ---- a day


def day(setting: Setting) -> Figures:
    """Memory, a start, and delivery at the rate of the schedule."""
    count = setting.amount(DAY_COUNT)
    seconds = DAY_SECONDS * count / DAY_COUNT
    with running(setting.folder) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
            client.create_subscription(TOPIC, SUBSCRIPTION)
            empty = processes.resident_bytes(broker.pid)
            first = time.time() + FIRST_DUE_SECONDS
            taken = publish(client, TOPIC, dated(count, first, seconds))
        published = processes.peak_bytes(broker.pid)
        say(f"  {count:,} scheduled in {taken:.0f} s, {(published - empty) / 1e6:.0f} MB")
        time.sleep(max(0.0, first - time.time()) + PAUSE_SECONDS)  # something is due then
        broker.kill()
        os.sync()
        started = {**timed_start(broker), **_first_message(broker)}
        say(f"  start {started['seconds']:.2f} s, first message after {started['first_message']:.2f} s")
        with consuming(broker.address, wait=0) as consumer:
            _worked_off(consumer)
            watched = _watched(broker, consumer, QUICK_SECONDS if setting.quick else WINDOW_SECONDS)
        return {
            "count": count,
            "publish_seconds": round(taken, 1),
            "empty_bytes": empty,
            "published_peak_bytes": published,
            "delivering_peak_bytes": processes.peak_bytes(broker.pid),
            "delivering_bytes": processes.resident_bytes(broker.pid),
            "start": started,
            "window": watched,
        }


def _first_message(broker: Server) -> dict[str, float]:
    """Seconds from the exec of the broker to the first message that a consumer has."""
    with bowstring.connect(broker.address) as client, client.consumer(TOPIC, SUBSCRIPTION, credit=1) as consumer:
        next(iter(consumer)).ack()
        return {"first_message": round(time.time() - broker.born, 3)}


def _worked_off(consumer: Consumer) -> None:
    """Returns when the consumer has got what became due before it was there, and nothing comes late."""
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        consumer.late()
        time.sleep(SETTLED_SECONDS)
        late = consumer.late()
        if late["rows"] and late["most_ms"] < 1e3 * SETTLED_SECONDS:
            return
    raise RuntimeError(f"what was due had not come after {LIMIT_SECONDS:.0f} s")


def _watched(broker: Server, consumer: Consumer, seconds: float) -> Figures:
    """What comes in so many seconds, how late, and what the broker burns for it."""
    consumer.late()
    burnt, begun = processes.cpu_seconds(broker.pid), time.perf_counter()
    time.sleep(seconds)
    taken = time.perf_counter() - begun
    burnt = processes.cpu_seconds(broker.pid) - burnt
    found = consumer.late()
    return {**found, "seconds": round(taken, 1), "per_second": round(found["rows"] / taken, 1), "cpu_share": round(burnt / taken, 4)}


# ---- a minute


def minute(setting: Setting) -> Figures:
    """The rates with and without due times, and how late what is due within a minute comes."""
    count, span = setting.amount(MINUTE_COUNT), MINUTE_SECONDS / (10 if setting.quick else 1)
    turns = {"shared": partial(_shared, setting, count), "due": partial(_due, setting, count, span)}
    return {"count": count, "seconds": span, "rates": take_turns(setting.rounds, turns), "live": _live(setting, count, span)}


def _shared(setting: Setting, count: int) -> Figures:
    """How fast a consumer that has paused works off what is there."""
    with _broker(setting) as broker, consuming(broker.address) as consumer:
        consumer.tell("pause")
        _publish(broker, dated(count))
        return _drained(broker, consumer, count)


def _due(setting: Setting, count: int, span: float) -> Figures:
    """The same of rows that the queue has passed by, and that all are due."""
    with _broker(setting) as broker, consuming(broker.address) as consumer:
        first = _published_for_later(broker, count, span)
        time.sleep(first - time.time() - PAUSE_SECONDS)
        consumer.tell("pause")
        time.sleep(span + 2 * PAUSE_SECONDS)
        return _drained(broker, consumer, count)


def _live(setting: Setting, count: int, span: float) -> Figures:
    """How late the rows come to a consumer that takes them as they become due, and when all have
    come.
    """
    with _broker(setting) as broker, consuming(broker.address) as consumer:
        end = _published_for_later(broker, count, span) + span
        found = consumer.all_of(count)
        say(f"  as they become due: {found['p99_ms']:.0f} ms late at most but for one in 100")
        return {**found, "after_seconds": round(time.time() - end, 2), "peak_bytes": processes.peak_bytes(broker.pid)}


def _published_for_later(broker: Server, count: int, span: float) -> float:
    """Gives when the first is due. The queue has passed all by then."""
    first = time.time() + 2 * PAUSE_SECONDS + count / PUBLISHED_PER_SECOND
    taken = _publish(broker, dated(count, first, span))
    if time.time() + 2 * PAUSE_SECONDS > first:
        raise RuntimeError(f"publishing {count:,} messages has taken {taken:.0f} s, so that some were due before")
    return first


def _publish(broker: Server, tables: Iterator[pa.Table]) -> float:
    with bowstring.connect(broker.address) as client:
        return publish(client, TOPIC, tables)


def _drained(broker: Server, consumer: Consumer, count: int) -> Figures:
    burnt, begun = processes.cpu_seconds(broker.pid), time.perf_counter()
    consumer.tell("resume")
    found = consumer.all_of(count)
    taken = time.perf_counter() - begun
    burnt = processes.cpu_seconds(broker.pid) - burnt
    return {
        "messages_per_second": round(count / taken),
        "seconds": round(taken, 2),
        "early": found["early"],
        "server_cpu_per_million": round(burnt / count * 1e6, 3),
        "peak_bytes": processes.peak_bytes(broker.pid),
    }


@contextlib.contextmanager
def _broker(setting: Setting) -> Generator[Server]:
    with running(setting.folder) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
            client.create_subscription(TOPIC, SUBSCRIPTION)
        yield broker


# ---- the consumer


class Consumer:
    """The consumer's process, from outside."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def tell(self, word: str) -> Figures:
        """Has it do something, and gives what it says."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word.encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the consumer has ended when it was told '{word}'")
        return json.loads(answer)

    def late(self) -> Figures:
        """How many rows have come since this was asked before, and how late."""
        return self.tell("late")

    def all_of(self, count: int) -> Figures:
        """The same of all that have come so far, as soon as they are so many and their acks are
        answered.
        """
        return self.tell(f"all {count}")


@contextlib.contextmanager
def consuming(address: str, wait: float = BATCH_WAIT) -> Generator[Consumer]:
    """A consumer, which dies at the end. Its batches wait so long for more rows."""
    command = [sys.executable, "-m", "benchmarks.queue.scheduled", address, str(wait)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            consumer = Consumer(process)
            consumer.tell("late")  # it is there
            yield consumer
        finally:
            process.kill()


class Lateness:
    """How late rows have come: seconds, of each batch an array. Rows without a due time count as in
    time.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._seconds: list[np.ndarray] = []

    def note(self, dues: pa.ChunkedArray, now: float) -> None:
        moments = np.asarray(dues.fill_null(0).cast(pa.int64()))
        self.rows += len(moments)
        self._seconds.append(np.where(moments > 0, now - moments / MICROSECONDS, 0.0))

    def told(self) -> Figures:
        """What there is since this was asked before."""
        found = np.concatenate([np.zeros(0), *self._seconds])
        self._seconds.clear()
        if not len(found):
            return {"rows": 0, "early": 0, "median_ms": 0.0, "p99_ms": 0.0, "most_ms": 0.0}
        median, late, most = (round(float(value) * 1e3, 2) for value in np.quantile(found, (0.5, 0.99, 1.0)))
        return {"rows": len(found), "early": int((found < 0).sum()), "median_ms": median, "p99_ms": late, "most_ms": most}


async def consume(address: str, wait: float) -> None:
    """Consumes until it is killed, and does what it is told."""
    lateness, arrived = Lateness(), asyncio.Event()
    async with bowstring.aio.connect(address) as client, client.consumer(TOPIC, SUBSCRIPTION) as consumer:

        async def take() -> None:
            async for batch in consumer.batches(max_rows=MAX_ROWS, max_wait=wait):
                lateness.note(batch.column("due"), time.time())
                batch.ack()
                arrived.set()

        async def all_of(count: int) -> None:
            while lateness.rows < count:
                arrived.clear()
                await arrived.wait()
            await consumer.flush()

        taking = asyncio.create_task(take())
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            word, _, count = line.strip().partition(" ")
            if word == "all":
                await all_of(int(count))
            elif word in ("pause", "resume"):
                (consumer.pause if word == "pause" else consumer.resume)()
            print(json.dumps(lateness.told()), flush=True)
        taking.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.scheduled", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("wait", type=float)
    options = parser.parse_args()
    uvloop.run(consume(options.address, options.wait))


if __name__ == "__main__":
    main()
