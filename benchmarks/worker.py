"""The clients: each workload is a process of its own that prints one JSON line.

What is in the clock is what a user's program would do: from the first call to the moment when the
last message is acknowledged (and so durable), or until the last value was read. Connecting and
making the topic are outside, as they are for Kafka. The values are as in Kafka's harness: 1,024
different random ones, over and over.

Nothing is taken on trust. Publishing ends with the question how many messages the topic has;
reading as Arrow computes the number of bytes by Arrow's own `binary_length` and the exclusive or of
all the words of all the values, which has to be what the publisher computed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import uvloop

import bowstring
from benchmarks.orders import COUNTRIES, KEYS, VALUES, keys, payloads
from benchmarks.processes import Meter, percentiles

TOPIC = "bench"
CLIENTS = 64


def xor_words(buffer: Any) -> int:
    """The exclusive or of the 32-bit words of a buffer; every byte of it is read."""
    return int(np.bitwise_xor.reduce(np.frombuffer(buffer, np.uint32)))


def xor_expected(size: int, count: int) -> int:
    """The same of the first `count` values, each of which is sent as often as the round of all
    values goes.
    """
    values = payloads(size)
    rounds, rest = divmod(count, VALUES)
    every = xor_words(b"".join(values)) if rounds & 1 else 0
    return every ^ (xor_words(b"".join(values[:rest])) if rest else 0)


def meter(options: argparse.Namespace) -> Meter:
    if options.profile is None:
        return Meter(options.broker)
    from benchmarks import profiling

    return Meter(options.broker, profiling.watch(options.profile, options.broker if options.side == "broker" else os.getpid()))


def stored(client: Any, count: int) -> None:
    """Raises if the topic does not have exactly the sent messages."""
    found = client.topic(TOPIC).messages
    if found != count:
        raise SystemExit(f"{count} messages were sent and acknowledged, the topic has {found}")


# ---- publishing ------------------------------------------------------------------------------------------------------


def publish_list(options: argparse.Namespace) -> dict[str, Any]:
    """Lists of bytes, as many a call as `--rows` says: slices of a longer list, so that no two
    calls have the same one.
    """
    values = payloads(options.size) * (options.rows // VALUES + 2)
    return _publish_batches(options, lambda first, rows: values[first % VALUES : first % VALUES + rows])


def publish_arrow(options: argparse.Namespace) -> dict[str, Any]:
    """Arrow tables of one column, made before the clock starts; a table begins where the one before
    ended.
    """
    values = payloads(options.size) * (options.rows // VALUES + 2)
    firsts = {first % VALUES for first in range(0, options.count, options.rows)}
    arrays = {first: pa.array(values[first : first + options.rows], pa.binary()) for first in firsts}
    return _publish_batches(options, lambda first, rows: pa.table({"value": arrays[first % VALUES][:rows]}))


def _publish_batches(options: argparse.Namespace, batch: Callable[[int, int], Any]) -> dict[str, Any]:
    with bowstring.connect(options.server) as client:
        client.create_topic(TOPIC)
        with client.producer(TOPIC, timeout=300) as producer:
            clock = meter(options)
            clock.start()
            for first in range(0, options.count, options.rows):
                producer.send_batch(batch(first, min(options.rows, options.count - first)))
            producer.flush()
            figures = clock.stop(options.count, options.count * options.size)
        stored(client, options.count)
    return figures


def publish_send(options: argparse.Namespace) -> dict[str, Any]:
    """One call per message; receipts are not kept, `flush` raises what failed."""
    values = payloads(options.size)
    with bowstring.connect(options.server) as client:
        client.create_topic(TOPIC)
        with client.producer(TOPIC, timeout=300) as producer:
            send = producer.send
            clock = meter(options)
            clock.start()
            for number in range(options.count):
                send(values[number & 1023])
            producer.flush()
            figures = clock.stop(options.count, options.count * options.size)
        stored(client, options.count)
    return figures


def publish_keyed(options: argparse.Namespace) -> dict[str, Any]:
    """One call per message, with key and two attributes."""
    values, names, countries = payloads(options.size), keys(), COUNTRIES
    with bowstring.connect(options.server) as client:
        client.create_topic(TOPIC)
        with client.producer(TOPIC, timeout=300) as producer:
            send = producer.send
            clock = meter(options)
            clock.start()
            for number in range(options.count):
                attributes = {"country": countries[number & 7], "kind": "order"}
                send(values[number % VALUES], key=names[number % KEYS], attributes=attributes)
            producer.flush()
            figures = clock.stop(options.count, options.count * options.size)
        stored(client, options.count)
    return figures


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_arrow(options: argparse.Namespace) -> dict[str, Any]:
    """As Arrow: lengths summed by Arrow, and every byte of every value read."""
    count = total = check = 0
    with bowstring.connect(options.server) as client:
        clock = meter(options)
        clock.start()
        with client.reader(TOPIC, start="beginning", end="latest") as reader:
            for batch in reader.batches():
                for value in chunks(batch.column("value")):
                    count += len(value)
                    total += pc.sum(pc.binary_length(value)).as_py()
                    check ^= xor_words(bytes_of(value))
        figures = clock.stop(count, total)
    _check_read(options, count, total)
    if check != xor_expected(options.size, count):
        raise SystemExit("the bytes that were read are not those that were sent")
    return figures


def chunks(column: Any) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def bytes_of(value: pa.Array) -> memoryview:
    """The bytes of an array's values, without what is before and behind them in the buffer."""
    _, offsets, data = value.buffers()
    bounds = np.frombuffer(offsets, np.int32)[value.offset : value.offset + len(value) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]


def read_messages(options: argparse.Namespace) -> dict[str, Any]:
    """As messages in Python, as a user's loop does it."""
    count = total = 0
    with bowstring.connect(options.server) as client:
        clock = meter(options)
        clock.start()
        with client.reader(TOPIC, start="beginning", end="latest") as reader:
            for message in reader:
                total += len(message.value)
                count += 1
        figures = clock.stop(count, total)
    _check_read(options, count, total)
    return figures


def _check_read(options: argparse.Namespace, count: int, total: int) -> None:
    if (count, total) != (options.count, options.count * options.size):
        raise SystemExit(f"{options.count} messages are stored, {count} of {total} bytes were read")


# ---- one message at a time -------------------------------------------------------------------------------------------


def one_by_one(options: argparse.Namespace) -> dict[str, Any]:
    """Single messages (or with `--rows` batches), each awaited before the next. Gives the moments
    of sending and of the answer.
    """
    values = payloads(options.size) * (options.rows // VALUES + 1)
    windows: list[tuple[float, float]] = []
    with bowstring.connect(options.server) as client:
        client.create_topic(TOPIC, exists_ok=True)
        with client.producer(TOPIC) as producer:
            clock = meter(options)
            clock.start()
            for number in range(options.count):
                begun = time.time()
                if options.rows == 1:
                    producer.send(values[number & 1023]).result(60)
                else:
                    producer.send_batch(values[: options.rows]).result(60)
                windows.append((begun, time.time()))
            figures = clock.stop(options.count, options.count * options.rows * options.size)
    return {**figures, "windows": windows, **percentiles([answered - begun for begun, answered in windows])}


def many_clients(options: argparse.Namespace) -> dict[str, Any]:
    """64 clients with a connection each, every one with one message under way."""
    return uvloop.run(_many_clients(options))


async def _many_clients(options: argparse.Namespace) -> dict[str, Any]:
    value = os.urandom(options.size)
    each = options.count // CLIENTS
    taken: list[float] = []

    async def work(producer: Any) -> None:
        for _ in range(each):
            begun = time.perf_counter()
            await producer.send(value)
            taken.append(time.perf_counter() - begun)

    clients = [await bowstring.aio.connect(options.server).__aenter__() for _ in range(CLIENTS)]
    try:
        await clients[0].create_topic(TOPIC, exists_ok=True)
        producers = [client.producer(TOPIC) for client in clients]
        await asyncio.gather(*(producer.send(value) for producer in producers))
        clock = meter(options)
        clock.start()
        await asyncio.gather(*map(work, producers))
        figures = clock.stop(len(taken), len(taken) * options.size)
        await asyncio.gather(*(producer.close() for producer in producers))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return {**figures, **percentiles(taken)}


WORK: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "publish-list": publish_list,
    "publish-arrow": publish_arrow,
    "publish-send": publish_send,
    "publish-keyed": publish_keyed,
    "read-arrow": read_arrow,
    "read-messages": read_messages,
    "one-by-one": one_by_one,
    "many-clients": many_clients,
}


def arguments(parser: argparse.ArgumentParser, works: Iterable[str]) -> None:
    """What every worker is told."""
    parser.add_argument("work", choices=sorted(works))
    parser.add_argument("--server", required=True)
    parser.add_argument("--broker", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=10_000, help="messages a call of send_batch")
    parser.add_argument("--profile", choices=("pyinstrument", "perf"), help="print where the time goes while the clock runs")
    parser.add_argument("--side", choices=("client", "broker"), default="client", help="which process perf looks at")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    arguments(parser, WORK)
    options = parser.parse_args()
    print(json.dumps(WORK[options.work](options)))


if __name__ == "__main__":
    main()
