"""The consumers: each workload is a process of its own that prints one JSON line.

The clock runs from the moment when the consumer is made until `flush` says that every settlement is
durable. The credit is the kit's own, which starts at one message, but where the program holds
messages back on purpose: then it says how many. At the end the subscription must have no backlog.

Nothing is taken on trust. The loop over messages looks at each value's length; a batch has every
byte of its values in an exclusive or, which has to be that of what was sent.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import numpy as np
import pyarrow.compute as pc
import uvloop

import bowstring
from benchmarks.queue import plain
from benchmarks.worker import TOPIC, arguments, bytes_of, chunks, meter, xor_expected, xor_words

HELD = 1_000
"""So many messages a program holds back to settle them out of order."""
HELD_CREDIT = 50_000
BATCH_ROWS = 65_536
BATCHES_HELD = 4
NACKED_EACH = 10
"""Of so many messages one is nacked the first time."""

Figures = dict[str, Any]


def _checked(options: argparse.Namespace, backlog: int, count: int, total: int) -> None:
    if (count, total) != (options.count, options.count * options.size):
        raise SystemExit(f"{options.count} messages are stored, {count} of {total} bytes were acked")
    if backlog:
        raise SystemExit(f"every message was acked, and the subscription still has {backlog}")


def _consumed(options: argparse.Namespace, work: Callable[[Any], tuple[int, int]], credit: int | None = None) -> Figures:
    """Runs the work with a consumer. It gives how many messages it has acked, and their bytes."""
    with bowstring.connect(options.server) as client:
        client.create_subscription(TOPIC, options.subscription, exists_ok=True)
        clock = meter(options)
        clock.start()
        with client.consumer(TOPIC, options.subscription, credit=credit) as consumer:
            count, total = work(consumer)
            consumer.flush()
            figures = clock.stop(count, total)
            told = consumer.statistics()
        _checked(options, client.subscription(TOPIC, options.subscription).backlog, count, total)
    return {**figures, "pushes": told.batches, "credit": told.credit}


# ---- one by one


def messages(options: argparse.Namespace) -> Figures:
    """`for message in consumer: message.ack()`."""

    def work(consumer: Iterable[Any]) -> tuple[int, int]:
        count = total = 0
        for message in consumer:
            total += len(message.value)
            message.ack()
            count += 1
            if count == options.count:
                break
        return count, total

    return _consumed(options, work)


def blocks(options: argparse.Namespace) -> Figures:
    """The same with `with message:`."""

    def work(consumer: Iterable[Any]) -> tuple[int, int]:
        count = total = 0
        for message in consumer:
            with message:
                total += len(message.value)
            count += 1
            if count == options.count:
                break
        return count, total

    return _consumed(options, work)


def in_asyncio(options: argparse.Namespace) -> Figures:
    """The same in asyncio: `async for message in consumer: message.ack()`."""
    return uvloop.run(_in_asyncio(options))


async def _in_asyncio(options: argparse.Namespace) -> Figures:
    async with bowstring.aio.connect(options.server) as client:
        await client.create_subscription(TOPIC, options.subscription, exists_ok=True)
        clock = meter(options)
        clock.start()
        async with client.consumer(TOPIC, options.subscription) as consumer:
            count, total = await _acked(consumer, options.count)
            await consumer.flush()
            figures = clock.stop(count, total)
        _checked(options, (await client.subscription(TOPIC, options.subscription)).backlog, count, total)
    return figures


async def _acked(consumer: AsyncIterator[Any], wanted: int) -> tuple[int, int]:
    count = total = 0
    async for message in consumer:
        total += len(message.value)
        message.ack()
        count += 1
        if count == wanted:
            break
    return count, total


def nacked_messages(options: argparse.Namespace) -> Figures:
    """A tenth is nacked the first time, and a thousand at a time are settled in any order. The
    figures count messages that are acked.
    """
    orders = [random.Random(seed).sample(range(HELD), HELD) for seed in range(16)]

    def work(consumer: Iterable[Any]) -> tuple[int, int]:
        count = total = turn = 0
        held: list[Any] = []
        for message in consumer:
            held.append(message)
            if len(held) == HELD or len(held) == options.count - count:
                order = orders[turn % 16] if len(held) == HELD else reversed(range(len(held)))
                turn += 1
                for place in order:
                    message = held[place]
                    if message.offset % NACKED_EACH or message.retry_count:
                        total += len(message.value)
                        count += 1
                        message.ack()
                    else:
                        message.nack()
                held.clear()
                if count == options.count:
                    break
        return count, total

    return _consumed(options, work, HELD_CREDIT)


def backed_off_messages(options: argparse.Namespace) -> Figures:
    """A tenth is nacked the first time, in order, and comes again when the subscription's backoff
    says. The figures count messages that are acked.
    """

    def work(consumer: Iterable[Any]) -> tuple[int, int]:
        count = total = 0
        for message in consumer:
            if message.offset % NACKED_EACH or message.retry_count:
                total += len(message.value)
                message.ack()
                count += 1
                if count == options.count:
                    break
            else:
                message.nack()
        return count, total

    return _consumed(options, work)


# ---- as Arrow


def rows(options: argparse.Namespace) -> Figures:
    """As Arrow: lengths summed by Arrow, and the whole batch acked. The topic may have more messages
    than pass a filter.
    """

    def work(consumer: Any) -> tuple[int, int]:
        count = total = 0
        for batch in consumer.batches(max_rows=BATCH_ROWS):
            total += pc.sum(pc.binary_length(batch.column("value"))).as_py()
            count += len(batch)
            batch.ack()
            if count == options.count:
                break
        return count, total

    return _consumed(options, work)


def backed_off_batches(options: argparse.Namespace) -> Figures:
    """With masks: a tenth of each batch is nacked the first time, and comes again when the
    subscription's backoff says.
    """

    def work(consumer: Any) -> tuple[int, int]:
        count = total = 0
        for batch in consumer.batches(max_rows=BATCH_ROWS):
            acked, size = _settle_masked(batch)
            count += acked
            total += size
            if count == options.count:
                break
        return count, total

    return _consumed(options, work)


def batches(options: argparse.Namespace) -> Figures:
    """As Arrow: every byte of every value is read, and the whole batch acked."""
    check = 0

    def work(consumer: Any) -> tuple[int, int]:
        nonlocal check
        count = total = 0
        for batch in consumer.batches(max_rows=BATCH_ROWS):
            for value in chunks(batch.column("value")):
                total += pc.sum(pc.binary_length(value)).as_py()
                check ^= xor_words(bytes_of(value))
            count += len(batch)
            batch.ack()
            if count == options.count:
                break
        return count, total

    figures = _consumed(options, work)
    if check != xor_expected(options.size, options.count):
        raise SystemExit("the bytes that were consumed are not those that were sent")
    return figures


def nacked_batches(options: argparse.Namespace) -> Figures:
    """The same with masks: a tenth of each batch is nacked the first time, and a few batches at a
    time are settled in any order.
    """
    source = random.Random(1)

    def work(consumer: Any) -> tuple[int, int]:
        count = total = rows = 0
        held: list[Any] = []
        for batch in consumer.batches(max_rows=BATCH_ROWS // BATCHES_HELD):
            held.append(batch)
            rows += len(batch)
            if len(held) == BATCHES_HELD or rows == options.count - count:
                source.shuffle(held)
                for one in held:
                    acked, size = _settle_masked(one)
                    count += acked
                    total += size
                rows = 0
                held.clear()
                if count == options.count:
                    break
        return count, total

    return _consumed(options, work, HELD_CREDIT)


def _settle_masked(batch: Any) -> tuple[int, int]:
    """Nacks a tenth of what comes the first time and acks the rest. Gives how many were acked, and
    the bytes of their values.
    """
    offsets, retries = (np.asarray(batch.column(name)) for name in ("offset", "retry_count"))
    nacked = (offsets % NACKED_EACH == 0) & (retries == 0)
    lengths = np.concatenate([np.asarray(pc.binary_length(value)) for value in chunks(batch.column("value"))])
    batch.nack(nacked)
    batch.ack(~nacked)
    return len(batch) - int(nacked.sum()), int(lengths[~nacked].sum())


WORK: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "consume-messages": messages,
    "consume-blocks": blocks,
    "consume-asyncio": in_asyncio,
    "consume-nacked": nacked_messages,
    "consume-backoff": backed_off_messages,
    "consume-rows": rows,
    "consume-backoff-rows": backed_off_batches,
    "consume-batches": batches,
    "consume-nacked-batches": nacked_batches,
    "consume-plain": plain.consume,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue.worker", description=__doc__)
    arguments(parser, WORK)
    parser.add_argument("--subscription", default="bench")
    options = parser.parse_args()
    print(json.dumps(WORK[options.work](options)))


if __name__ == "__main__":
    main()
