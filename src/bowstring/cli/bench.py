"""`bowstring bench`: measures a broker from here, on a topic that it creates and deletes
afterwards.

Three things are measured, each for --seconds. **publish**: producers send batches as fast as the
broker makes them durable, each with a few under way; the latency runs from sending a batch to its
receipt. **read**: each consumer reads the published messages from the beginning, over and over.
**delivery**: producers send single messages at a steady pace to readers that follow; the latency
runs from sending a message to receiving it in a reader.

Everything runs in this one process, so the figures show the broker or one Python client, whichever
is slower.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from bowstring import errors, settings
from bowstring.cli import connecting
from bowstring.cli.connecting import Context, Server, Timeout
from bowstring.cli.options import TIMEOUT
from bowstring.cli.output import Output, Printer, note, progress, size

if TYPE_CHECKING:
    from bowstring.client.client import Client
    from bowstring.client.producer import Producer

HELP = """Measures a broker from here: publishing, reading, delivery, with percentiles.

It makes a topic, and deletes it afterwards. Each of the three takes --seconds.

Examples:

\b
  bowstring bench
  bowstring bench --size 1KiB --batch 100 --producers 4
  bowstring bench --batch 1 --producers 64     single messages of many
  bowstring bench --consumers 8                read by each of eight
  bowstring bench --seconds 30 -o json | jq
"""
UNDER_WAY: Final = 4
"""Batches that a producer has under way."""
DELIVERIES_A_SECOND: Final = 200
DELIVERED_SECONDS: Final = 5.0
"""How long the last messages may take to reach the reader."""
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


class Measured(NamedTuple):
    """The result of one of the three measurements."""

    work: str
    messages: int
    seconds: float
    bytes: int
    latencies: list[float]
    """In seconds; none for reading."""

    def row(self) -> dict[str, Any]:
        told = {
            "work": self.work,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.messages / self.seconds, 1),
            "bytes_per_second": round(self.bytes / self.seconds),
        }
        return told | {f"{name.replace('.', '')}_ms": value for name, value in self.percentiles().items()}

    def percentiles(self) -> dict[str, float | None]:
        """Milliseconds. Shows a percentile only if there are enough samples to tell it from the
        largest.
        """
        ordered = sorted(self.latencies)
        found: dict[str, float | None] = {}
        for name, share in PERCENTILES.items():
            enough = ordered and (share == 1.0 or len(ordered) * (1 - share) >= 1)
            found[name] = round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 3) if enough else None
        return found


class Plan(NamedTuple):
    """What was asked for."""

    size: int
    batch: int
    seconds: float
    producers: int
    consumers: int
    partitions: int


def add_to(app: typer.Typer) -> None:
    app.command("bench", help=HELP)(bench)


def bench(
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Bytes of a message's value.")] = "100",
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=1_000_000, help="Messages of a batch.")] = 1000,
    seconds: Annotated[str, typer.Option("--seconds", metavar="SPAN", help="How long each of the three takes.")] = "5",
    producers: Annotated[int, typer.Option("--producers", metavar="N", min=1, max=1000, help="Producers at the same time.")] = 1,
    consumers: Annotated[int, typer.Option("--consumers", metavar="N", min=1, max=1000, help="Readers at the same time.")] = 1,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", min=1, max=1000, help="Partitions of the topic.")] = 4,
    output: Output = None,
    server: Server = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    from bowstring.wire import loops

    printer = Printer(output)
    plan = Plan(_size(size), batch, connecting.span(seconds, "--seconds"), producers, consumers, partitions)
    if plan.seconds < 0.1:
        raise errors.InvalidArgument(f'--seconds = "{seconds}" is too short to measure anything.', hint='Use "5".')
    loop = loops.new_event_loop()
    try:
        measured = loop.run_until_complete(_measure(connecting.connecting(server, context, timeout), plan))
    finally:
        loop.close()
    _print(printer, measured, plan)


def _size(text: str) -> int:
    found = settings.size_from_text(text, "--size")
    if found > 8 * settings.MIB:
        raise errors.InvalidArgument(f'--size = "{text}" is too large for a benchmark.', hint='The maximum is "8MiB".')
    return found


async def _measure(connecting: Any, plan: Plan) -> list[Measured]:
    async with connecting as client:
        topic = f"bowstring-bench-{os.urandom(4).hex()}"
        await client.create_topic(topic, partitions=plan.partitions)
        try:
            published = await _publish(client, topic, plan)
            return [published, await _read(client, topic, plan), await _deliver(client, topic, plan)]
        finally:
            await client.delete_topic(topic, missing_ok=True)


@contextmanager
def _shown(work: str, seconds: float) -> Generator[Callable[[], bool]]:
    """Shows a bar that fills in this time. Yields a function that says whether time is left."""
    end = time.perf_counter() + seconds
    with progress(f"{work:9}", of="time") as told:

        def goes_on() -> bool:
            left = end - time.perf_counter()
            told(int((seconds - max(left, 0.0)) * 1000), int(seconds * 1000))
            return left > 0

        yield goes_on


async def _publish(client: Client, topic: str, plan: Plan) -> Measured:
    import pyarrow as pa

    values = [os.urandom(plan.size // 2 + 1).hex()[: plan.size].encode() for _ in range(plan.batch)]
    table = pa.table({"value": pa.array(values, pa.binary()), "key": pa.array([f"key-{n % 100}" for n in range(plan.batch)])})
    latencies: list[float] = []

    async def send(producer: Producer) -> None:
        begun = time.perf_counter()
        if plan.batch == 1:
            await producer.send(values[0])
        else:
            (await producer.send_batch(table)).raise_for_refused()
        latencies.append(time.perf_counter() - begun)

    async def produce(producer: Producer, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            await send(producer)

    producers = [client.producer(topic) for _ in range(plan.producers)]
    await asyncio.gather(*(send(producer) for producer in producers))
    latencies.clear()
    begun = time.perf_counter()
    lanes = 1 if plan.batch == 1 else UNDER_WAY
    with _shown("publish", plan.seconds) as goes_on:
        await asyncio.gather(*(produce(producer, goes_on) for producer in producers for _ in range(lanes)))
    took = time.perf_counter() - begun
    for producer in producers:
        await producer.close()
    messages = len(latencies) * plan.batch
    return Measured("publish", messages, took, messages * plan.size, latencies)


async def _read(client: Client, topic: str, plan: Plan) -> Measured:
    messages = 0

    async def read(goes_on: Callable[[], bool]) -> None:
        nonlocal messages
        while goes_on():
            async with client.reader(topic, end="latest") as reader:
                async for batch in reader.batches():
                    messages += len(batch)
                    if not goes_on():
                        break

    begun = time.perf_counter()
    with _shown("read", plan.seconds) as goes_on:
        await asyncio.gather(*(read(goes_on) for _ in range(plan.consumers)))
    return Measured("read", messages, time.perf_counter() - begun, messages * plan.size, [])


async def _deliver(client: Client, topic: str, plan: Plan) -> Measured:
    """The readers follow the topic's end; a message carries its number."""
    latencies: list[float] = []
    sent: list[float] = []
    flushed = asyncio.Event()
    value = b"x" * max(plan.size, 1)

    async def follow(reader: Any) -> None:
        async for message in reader:
            if message.key is not None and message.key.isdigit():
                latencies.append(time.perf_counter() - sent[int(message.key)])
            if flushed.is_set() and len(latencies) == len(sent) * plan.consumers:
                return

    async with AsyncExitStack() as opened:
        producer = await opened.enter_async_context(client.producer(topic))
        readers = [await opened.enter_async_context(client.reader(topic, start="latest")) for _ in range(plan.consumers)]
        following = [asyncio.create_task(follow(reader)) for reader in readers]
        begun = time.perf_counter()
        with _shown("delivery", plan.seconds) as goes_on:
            while goes_on():
                await asyncio.sleep(max(0.0, begun + len(sent) / DELIVERIES_A_SECOND - time.perf_counter()))
                sent.append(time.perf_counter())
                producer.send(value, key=str(len(sent) - 1))
            await producer.flush()
            flushed.set()
            if len(latencies) < len(sent) * plan.consumers:
                await asyncio.wait(following, timeout=DELIVERED_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        took = time.perf_counter() - begun
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    if (missing := len(sent) * plan.consumers - len(latencies)) > 0:
        note(f"{missing:,} of {len(sent) * plan.consumers:,} messages did not reach their reader in time.")
    return Measured("delivery", len(latencies), took, len(latencies) * plan.size, latencies)


def _print(printer: Printer, measured: list[Measured], plan: Plan) -> None:
    if printer.is_data:
        return printer.objects([each.row() for each in measured])
    columns = {"work": "left", "messages": "right", "per second": "right", "bytes/s": "right"}
    columns |= {name: "right" for name in PERCENTILES}
    rows: list[tuple[object, ...]] = []
    for each in measured:
        rate, volume = each.messages / each.seconds, size(int(each.bytes / each.seconds))
        rows.append((each.work, f"{each.messages:,}", f"{rate:,.0f}", volume, *map(_milliseconds, each.percentiles().values())))
    printer.table(columns, rows)
    many = "1 producer" if plan.producers == 1 else f"{plan.producers:,} producers"
    many += "" if plan.consumers == 1 else f", {plan.consumers:,} readers"
    batches = "single messages" if plan.batch == 1 else f"batches of {plan.batch:,}"
    return note(f"{many}, {batches}, {plan.size:,} bytes each. Milliseconds until it is durable, and until a reader has it.")


def _milliseconds(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"
