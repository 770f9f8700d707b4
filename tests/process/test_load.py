"""A broker under load: many connections, readers that do not read, producers faster than the disk.
Its memory is bounded, no client starves, and everything acknowledged survives a SIGKILL. The tests
print the cost: `pytest -m long -rP tests/process/test_load.py`.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import bowstring.aio
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.load import KIB, MIB, Ledger, LoadedBroker, loaded, mib, scaled, spread, tell

pytestmark = pytest.mark.long

IDLE, BUSY = scaled(1000), scaled(200)
MESSAGES_OF_ALL = scaled(20_000)
STALLED = scaled(50)
BROKER_MEMORY = (96 + 48 + 32) * MIB
"""Batches on their way to the disk, which take half as much again as their credit says; pages kept
for followers; some room.
"""
STREAM_MEMORY = 8 * MIB
"""Of a producer with batches of 2 MiB, as found: it takes about 7, for a batch that waits for
credit, the next in the pieces in which gRPC receives it, what is sent ahead, and gaps that the
allocator keeps. So memory is bounded by the number of streams.
"""
SYNC_SECONDS = 0.5
SLOW_DISK = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", f"inject=fsync,fdatasync:delay_enter={int(SYNC_SECONDS * 1e6)}"]
NO_STRACE = pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which slows syncs down, is not on this machine")


async def test_a_thousand_idle_connections_and_two_hundred_busy_ones_are_served_together(tmp_path: Path) -> None:
    """Half of the idle ones have only shaken hands; the others follow a topic where nothing
    happens, until something does.
    """
    async with loaded(tmp_path / "data") as broker, AsyncExitStack() as stack:
        client = await stack.enter_async_context(bowstring.aio.connect(broker.address))
        await client.create_topic("orders", partitions=4)
        await client.create_topic("quiet")
        await _connected(stack, broker, IDLE // 2)
        followers = [client.reader("quiet") for _ in range(IDLE - IDLE // 2)]
        news = [asyncio.create_task(anext(aiter(follower))) for follower in followers]
        idle = broker.memory()
        ledger = Ledger("orders")
        busy = [asyncio.create_task(ledger.produce(client, f"p{number}", size=200)) for number in range(BUSY)]
        await _until(ledger, MESSAGES_OF_ALL, busy)
        share, waits, memory = ledger.slowest_share, spread(ledger.waits), broker.memory()
        await asyncio.gather(*busy)
        await client.producer("quiet").send(b"news")
        assert [message.value for message in await asyncio.gather(*news)] == [b"news"] * len(followers)
        tell(connections=f"{IDLE} idle, {BUSY} busy", files=broker.files(), threads=broker.threads())
        tell(memory_at_first=mib(broker.begun), with_all_connected=mib(idle), busy=mib(memory), most=mib(broker.memory_most()))
        tell(messages=len(ledger.places), slowest_of_the_average=f"{share:.2f}", acknowledged=waits)
        assert share > 0.2
        assert broker.memory_most() - broker.begun < 400 * MIB
        await stack.aclose()
        await asyncio.to_thread(broker.killed_and_back)
        await ledger.check(broker.address)


async def _connected(stack: AsyncExitStack, broker: LoadedBroker, count: int) -> None:
    for _ in range(count):
        await stack.enter_async_context(bowstring.aio.connect(broker.address, timeout=60))


async def _until(ledger: Ledger, messages: int, busy: list[asyncio.Task[None]]) -> None:
    """Until so many are acknowledged; a producer that fails is not waited for."""
    while len(ledger.places) < messages:
        ended, _ = await asyncio.wait(busy, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
            raise AssertionError("a producer has ended before it was told to")
    ledger.over.set()


async def test_readers_that_grant_everything_and_read_nothing_cost_little_and_hold_nobody_up(tmp_path: Path) -> None:
    async with loaded(tmp_path / "data") as broker, bowstring.aio.connect(broker.address) as client:
        await client.create_topic("orders")
        ledger = Ledger("orders")
        await ledger.produce(client, "first", size=64 * KIB, ahead=64, messages=scaled(3000))
        before = broker.memory()
        channels = [NativeDialer().dial(broker.address) for _ in range(STALLED)]
        streams = [await wire.open_fetch(channel, "orders", (0, 1, 0), credit=1 << 60) for channel in channels]
        firsts = [await wire.fetched(stream) for stream in streams]  # each is served, and then reads no more
        assert all(firsts)
        ledger.waits.clear()
        await ledger.produce(client, "then", size=64 * KIB, ahead=16, messages=scaled(1500))
        read = [len(batch) async for batch in client.reader("orders", end="latest").batches()]
        assert sum(read) == len(ledger.places)
        most = broker.memory_most()
        tell(readers_that_read_nothing=STALLED, messages=len(ledger.places), acknowledged_beside_them=spread(ledger.waits))
        tell(memory_before=mib(before), most=mib(most), a_reader=mib((most - before) / STALLED))
        assert most - before < STALLED * 8 * MIB + 64 * MIB
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*(channel.close() for channel in channels))
        await asyncio.to_thread(broker.killed_and_back)
        await ledger.check(broker.address)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=NO_STRACE)], ids=["as it is", "with slow syncs"])
@pytest.mark.parametrize(("producers", "size", "ahead"), [(20, 64 * KIB, 200), (60, 2 * MIB, 4)], ids=["64 KiB", "2 MiB"])
async def test_producers_faster_than_the_disk_are_slowed_down_and_nothing_is_lost(
    tmp_path: Path, producers: int, size: int, ahead: int, slow: bool
) -> None:
    """They offer a multiple of what the broker may hold; what it has not taken stays with them."""
    before = [*SLOW_DISK, "-o", "/dev/null"] if slow else None
    messages = scaled(1000 * MIB) // producers // size
    async with loaded(tmp_path / "data", before=before) as broker, bowstring.aio.connect(broker.address) as client:
        await client.create_topic("orders", partitions=4)
        ledger = Ledger("orders")
        names = [f"p{number}" for number in range(producers)]
        await asyncio.gather(*(ledger.produce(client, name, size=size, ahead=ahead, messages=messages) for name in names))
        tell(offered_at_once=mib(producers * size * ahead), stored=mib(len(ledger.places) * size), acknowledged=spread(ledger.waits))
        tell(memory_at_first=mib(broker.begun), most=mib(broker.memory_most()), after=mib(broker.memory()))
        assert len(ledger.places) == producers * messages
        assert broker.memory_most() - broker.begun < BROKER_MEMORY + producers * STREAM_MEMORY
        await asyncio.to_thread(broker.killed_and_back)
        await ledger.check(broker.address)
