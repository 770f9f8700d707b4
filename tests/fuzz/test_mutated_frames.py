"""Wrong sequences of native frames against a server: it stays up and small, serves others meanwhile, and forgets them.

Most run without sockets, many connections at a time: 50,000 in `make test`, a million in the long part. A share goes over real sockets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import psutil
import pytest

from bowstring.wire.front_door import FrontDoor
from bowstring.wire.native_client import NativeDialer
from bowstring.wire.native_frames import LAST, MESSAGE, opening
from bowstring.wire.native_server import NativeServer
from bowstring.wire.stream_limits import StreamLimits
from tests.contract.wires import Echo
from tests.fuzz.frame_sequences import mutants
from tests.unit.memory_transport import Peer, message

TOGETHER = 50
GROWTH_MAX = 64 * 2**20
SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "13"))


@pytest.fixture
def no_bug_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither a handler nor a callback has failed in a way that nobody foresaw."""
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("no_bug_is_logged")
@pytest.mark.parametrize("sequences", [50_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
async def test_wrong_sequences_of_frames_do_no_harm(sequences: int):
    source = random.Random(SEED)
    limits = StreamLimits(streams_max=TOGETHER * 4, connection_streams_max=8)
    handler = Echo()
    server = NativeServer(handler, limits, batch_bytes_max=1 << 16, connections_max=TOGETHER + 1)
    honest = Peer(server)
    wrong = mutants(source)
    memory = psutil.Process().memory_info
    await _round(server, source, list(islice(wrong, TOGETHER)))
    before = memory().rss
    for number in range(1, sequences // TOGETHER + 1):
        await _round(server, source, list(islice(wrong, TOGETHER)))
        honest.send(opening(number, "Hello", 0), message(number, b"there?", last=True))
        assert (MESSAGE, number, LAST, b"Hello there?") in await honest.answers(), f"seed {SEED}, round {number}"
        handler.callers.clear()
        assert (len(server.connections), len(server.tasks), limits.streams) == (1, 0, 0), f"seed {SEED}, round {number}"
    grown = memory().rss - before
    print(f"the process has grown by {grown / 2**20:.1f} MiB")
    assert grown < GROWTH_MAX
    await server.stop(0)


async def _round(server: NativeServer, source: random.Random, sequences: list[bytes]) -> None:
    """Each sequence over a connection of its own, all in turns, in reads of any length."""
    peers = [Peer(server, greets=False) for _ in sequences]
    left = [memoryview(sequence) for sequence in sequences]
    while any(left):
        for number, peer in enumerate(peers):
            length = source.choice((1, 7, 12, 40, 1000, 100_000))
            peer.send(bytes(left[number][:length]))
            left[number] = left[number][length:] if not peer.transport.is_closed else left[number][:0]
        await asyncio.sleep(0)
    for peer in peers:
        peer.end()
    await peers[0].answers()


@pytest.mark.usefixtures("no_bug_is_logged")
@pytest.mark.parametrize("sequences", [500, pytest.param(20_000, marks=pytest.mark.long)])
async def test_wrong_sequences_over_sockets_do_no_harm(sequences: int):
    limits = StreamLimits(streams_max=100, connection_streams_max=8)
    door = FrontDoor(Echo(), limits, listen="127.0.0.1:0", batch_bytes_max=1 << 16)
    door.bind()
    await door.start()
    honest = NativeDialer().dial(door.address)
    for number, sequence in enumerate(islice(mutants(random.Random(SEED)), sequences)):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(sequence)
        writer.write_eof()
        with suppress(ConnectionError):  # a connection that is refused may be reset
            await reader.read()
        writer.close()
        if number % 50 == 0:
            assert await honest.call("Hello", b"there?", 20) == b"Hello there?"
    async with asyncio.timeout(30):
        while limits.streams:
            await honest.call("Hello", b"", 20)
    await honest.close()
    await door.stop(0)
