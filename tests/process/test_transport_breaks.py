"""Both transports when the broker's process dies, or hangs: noticed, told, and connected again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bowstring import errors
from bowstring.ports.transport import Channel
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.serving import serving

Dial = Callable[[str], Channel]

BOTH = pytest.mark.parametrize("dial", [lambda address: NativeDialer().dial(address), lambda address: GrpcDialer().dial(address)])


@BOTH
async def test_a_broker_that_is_killed_is_noticed_at_once_and_met_again(tmp_path: Path, dial: Dial):
    with serving("--data", str(tmp_path)) as served:
        channel = dial(served.address)
        await wire.create(channel, "orders")
        stream = await wire.open_fetch(channel, "orders", (0, 1, 0))
        waiting = asyncio.create_task(stream.read())
        await channel.call("ListTopics", b"", 5)
        served.end(signal.SIGKILL)
        await wire.refused(waiting, errors.Unavailable)
    with serving("--data", str(tmp_path), "--listen", served.address):
        async with asyncio.timeout(30):
            while not await _lists_topics(channel):
                continue
    await channel.close()


async def _lists_topics(channel: Channel) -> bool:
    try:
        return b"orders" in await channel.call("ListTopics", b"", 5)
    except errors.Unavailable:
        return False


async def test_a_broker_that_hangs_is_noticed_while_calls_are_open_and_while_none_is(tmp_path: Path):
    """Pings go unanswered, and the connection counts as broken."""
    with serving("--data", str(tmp_path)) as served:
        with_call, idle = (NativeDialer(silent_seconds=0.2, patient_seconds=0.2).dial(served.address) for _ in range(2))
        await idle.call("ListTopics", b"", 5)
        await wire.create(with_call, "orders")
        stream = await wire.open_fetch(with_call, "orders", (0, 1, 0))
        waiting = asyncio.create_task(stream.read())
        await with_call.call("ListTopics", b"", 5)
        served.process.send_signal(signal.SIGSTOP)
        await wire.refused(waiting, errors.Unavailable, "the connection broke")
        await wire.refused(idle.call("ListTopics", b"", 30), errors.Unavailable, "does not answer|broke")
        served.process.send_signal(signal.SIGCONT)
        await asyncio.gather(with_call.close(), idle.close())


@pytest.mark.long
@BOTH
async def test_a_broker_that_hangs_is_noticed_after_fifteen_seconds(tmp_path: Path, dial: Dial):
    with serving("--data", str(tmp_path)) as served:
        channel = dial(served.address)
        await channel.call("ListTopics", b"", 5)
        waiting = asyncio.create_task(channel.stream("Fetch").read())
        served.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(40):
            await wire.refused(waiting, errors.Unavailable)
        served.process.send_signal(signal.SIGCONT)
        await channel.close()
