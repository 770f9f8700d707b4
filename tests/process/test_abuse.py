"""Clients that behave badly, or only badly timed: they get what is promised, and the others never notice. Figures are printed as in
`test_load`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import bowstring.aio
from bowstring import errors
from bowstring.ports.transport import Channel, Stream
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.load import KIB, MIB, Ledger, LoadedBroker, loaded, mib, scaled, spread, tell

pytestmark = pytest.mark.long

SHORT = scaled(400)
SMALL, SMALL_MESSAGES = 40, scaled(50)


async def test_short_connections_one_after_the_other_leave_nothing_behind(tmp_path: Path) -> None:
    """Each greets, publishes, reads and leaves; others only knock, talk nonsense and run."""
    async with loaded(tmp_path / "data") as broker:
        async with bowstring.aio.connect(broker.address) as client:
            await client.create_topic("orders")
        await _visits(broker, SHORT // 4)
        files, threads, memory = broker.files(), broker.threads(), broker.memory()
        await _visits(broker, SHORT)
        await _settled(lambda: broker.files() <= files + 2)
        grown = broker.memory() - memory
        tell(visits=SHORT, files=f"{files}, then {broker.files()}", threads=f"{threads}, then {broker.threads()}")
        tell(memory=f"{mib(memory)}, and {grown / KIB / SHORT:.1f} KiB more for each visit")
        assert broker.threads() <= threads + 4
        assert grown < 32 * MIB


async def _visits(broker: LoadedBroker, count: int) -> None:
    host, port = broker.address.rsplit(":", 1)
    for number in range(count):
        async with bowstring.aio.connect(broker.address) as client:
            await client.producer("orders").send(b"short")
            async for _ in client.reader("orders", start=-1, end="latest"):
                pass
        with socket.create_connection((host, int(port))) as rude:
            rude.send((b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(100))[number % 3])


async def _settled(true: Callable[[], bool]) -> None:
    """Waits for what comes by itself; the limit of the test ends it otherwise."""
    for _ in range(600):
        if true():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come to rest within a minute")


async def test_a_broker_may_have_more_connections_than_the_shell_lets_files_be_open(tmp_path: Path) -> None:
    """Shells give 1,024 files or fewer by default, and let a program ask for more."""
    few = ["sh", "-c", 'ulimit -Sn 100 && exec "$@"', "sh"]
    async with loaded(tmp_path / "data", before=few) as broker:
        channels = [NativeDialer().dial(broker.address) for _ in range(150)]
        await wire.create(channels[0], "orders")
        streams = [await wire.open_fetch(channel, "orders", (0, 1, 0)) for channel in channels]
        publishing = await wire.open_publish(channels[-1], "orders")
        await wire.publish(publishing, 1, [b"news"])
        for stream in streams:
            found = await wire.fetched(stream)
            assert found is not None
            assert found[1] == [b"news"]
        await asyncio.gather(*(channel.close() for channel in channels))


async def test_a_reader_that_stops_in_the_middle_for_a_while_gets_everything_in_order(tmp_path: Path) -> None:
    messages = scaled(4000)
    async with loaded(tmp_path / "data", "--memory-tail-bytes", "4MiB") as broker, bowstring.aio.connect(broker.address) as client:
        await client.create_topic("orders")
        ledger = Ledger("orders")
        producing = asyncio.create_task(ledger.produce(client, "p", size=32 * KIB, ahead=50, messages=messages))
        reader = client.reader("orders")
        offsets: list[int] = []
        async for message in reader:
            offsets.append(message.offset or 0)
            if len(offsets) == messages // 10:
                await producing  # and reads nothing meanwhile
                ahead = reader.statistics().bytes_ahead
            if len(offsets) == messages:
                break
        await reader.close()
        assert offsets == list(range(1, messages + 1))
        tell(messages=messages, bytes_that_came_unread=mib(ahead), memory=mib(broker.begun), most=mib(broker.memory_most()))
        assert ahead <= 16 * MIB
        await asyncio.to_thread(broker.killed_and_back)
        await ledger.check(broker.address)


async def test_a_client_that_opens_many_streams_is_limited_and_others_go_on(tmp_path: Path) -> None:
    async with loaded(tmp_path / "data", "--connection-streams-max", "50") as broker, bowstring.aio.connect(broker.address) as client:
        await client.create_topic("orders")
        ledger = Ledger("orders")
        others = [asyncio.create_task(ledger.produce(client, f"p{number}", size=100)) for number in range(5)]
        greedy = NativeDialer().dial(broker.address)
        streams = [await wire.open_fetch(greedy, "orders", (0, 1, 0)) for _ in range(140)]
        outcomes = await asyncio.gather(*map(_first, streams))
        served = outcomes.count("")
        assert served == 50
        assert set(outcomes) == {
            "", "this connection has 50 streams already, which is the limit (connection.streams-max). "
            "Open another connection, or raise the limit.",
        }  # fmt: skip
        before = len(ledger.places)
        await _settled(lambda: len(ledger.places) > before + scaled(500))
        for stream in streams:
            stream.cancel()
        await _settled_streams(greedy)
        ledger.over.set()
        await asyncio.gather(*others)
        tell(asked_for=len(streams), served=served, others_share=f"{ledger.slowest_share:.2f}", acknowledged=spread(ledger.waits))
        tell(memory=mib(broker.begun), most=mib(broker.memory_most()))
        await greedy.close()
        await asyncio.to_thread(broker.killed_and_back)
        await ledger.check(broker.address)


async def _first(stream: Stream) -> str:
    """What a stream is told at first: nothing if it is served."""
    try:
        assert await wire.fetched(stream) is not None
    except errors.Unavailable as error:
        return str(error)
    return ""


async def _settled_streams(channel: Channel) -> None:
    """Until the connection is served again, which it is once its streams are gone."""
    for _ in range(100):
        stream = await wire.open_fetch(channel, "orders", (0, 1, 0))
        said = await _first(stream)
        stream.cancel()
        if not said:
            return
    raise AssertionError("streams that were cancelled still count")


async def test_huge_batches_do_not_starve_the_small_ones_beside_them(tmp_path: Path) -> None:
    async with loaded(tmp_path / "data") as broker, bowstring.aio.connect(broker.address) as client:
        await client.create_topic("orders")
        await client.create_topic("films", partitions=4)
        orders, films = Ledger("orders"), Ledger("films")
        await orders.produce(client, "alone", size=200, messages=SMALL_MESSAGES)
        alone = spread(orders.waits)
        orders.waits.clear()
        huge = [asyncio.create_task(films.produce(client, f"film{number}", size=15 * MIB, ahead=2)) for number in range(4)]
        await _settled(lambda: min(films.by_producer.values(), default=0) > 0 and len(films.by_producer) == 4)
        names = [f"p{number}" for number in range(SMALL)]
        await asyncio.gather(*(orders.produce(client, name, size=200, messages=SMALL_MESSAGES) for name in names))
        films.over.set()
        await asyncio.gather(*huge)
        tell(small_alone=alone, small_beside_huge=spread(orders.waits))
        tell(huge_ones=len(films.places), slowest_of_them=f"{films.slowest_share:.2f}", acknowledged=spread(films.waits))
        tell(memory=mib(broker.begun), most=mib(broker.memory_most()))
        assert films.slowest_share > 0.2
        assert broker.memory_most() - broker.begun < 500 * MIB
        await asyncio.to_thread(broker.killed_and_back)
        await orders.check(broker.address)
        await films.check(broker.address)
