"""A real broker and peers that behave badly in great numbers; single offences are in tests/unit/test_native_abuse.py. Figures are printed
as in `test_load`."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import bowstring.aio
from bowstring.wire import native_frames as frames
from tests.process.load import KIB, MIB, tell
from tests.process.serving import Served, complaints, serving
from tests.unit.memory_transport import message

EACH_BYTES_MAX = 40 * KIB
"""So much an idle connection may cost the broker."""


def memory(served: Served) -> int:
    return psutil.Process(served.process.pid).memory_info().rss


def connect(served: Served, *first: bytes) -> socket.socket:
    host, port = served.address.rsplit(":", 1)
    connected = socket.create_connection((host, int(port)), timeout=30)
    connected.sendall(b"".join(first))
    return connected


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_idle_connections_cost_little(tmp_path: Path, count: int):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = min(count + 500, hard)
    if soft < count + 500:
        pytest.skip(f"this process may open {hard} files: raise the limit with `ulimit -Hn {count + 500}`")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], soft), hard))
    idle: list[socket.socket] = []
    try:
        with serving("--data", str(tmp_path), "--http", "off", "--connections-max", str(count)) as served:
            idle += [greeted(served) for _ in range(10)]
            empty = memory(served)
            idle += [greeted(served) for _ in range(count)]
            grown = memory(served) - empty
            tell(connections=count, grown=f"{grown / MIB:.1f} MiB", each=f"{grown / KIB / count:.1f} KiB")
            assert grown <= count * EACH_BYTES_MAX
            with bowstring.connect(served.address) as client:
                client.create_topic("orders")
                client.producer("orders").send(b"served").result(30)
            _, said = served.end()
            assert complaints(said) == []
    finally:
        for connected in idle:
            connected.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def greeted(served: Served) -> socket.socket:
    connected = connect(served, frames.PREFACE)
    assert connected.recv(len(frames.PREFACE), socket.MSG_WAITALL) == frames.PREFACE
    return connected


async def test_floods_are_bounded_and_do_not_starve_an_honest_client(tmp_path: Path):
    """Peers that open and cancel, ping, open without an end, and lie about lengths, as fast as they can."""
    reset = b"".join(
        frames.opening(number, "Publish", 0) + frames.opening(number + 1, "Hello", 0) + message(number + 1, last=True)
        + frames.frame(frames.CANCEL, number) + frames.frame(frames.CANCEL, number + 1)
        for number in range(1, 2000, 2)
    )  # fmt: skip
    opens = b"".join(frames.opening(number, "Hello", 0) for number in range(1, 5000))
    pings = frames.frame(frames.PING, 0, bytes(8)) * 5000
    lies = frames.opening(1, "Publish", 0) + frames.HEADER.pack(15 * MIB, 1, frames.MESSAGE, 0, 0) + bytes(100)
    floods = [*(frames.PREFACE + flood for flood in (reset, opens, pings, lies)), b"GET / HTTP/1.1\r\n\r\n" * 100, bytes(1000)]
    with serving("--data", str(tmp_path), "--http", "off") as served:
        over = asyncio.Event()
        async with bowstring.aio.connect(served.address) as client:
            await client.create_topic("orders")
            producer = client.producer("orders")
            await producer.send(b"before")
            empty = memory(served)
            flooding = [asyncio.create_task(asyncio.to_thread(send_again, served, sent, over)) for sent in floods]
            for number in range(200):
                await producer.send(b"%d" % number)
            most = memory(served)
            over.set()
            rounds = await asyncio.gather(*flooding)
            assert min(rounds) > 0
            found = [message_.value async for message_ in client.reader("orders", end="latest")]
        assert found == [b"before", *(b"%d" % number for number in range(200))]
        tell(rounds=rounds, memory=f"{empty / MIB:.0f} MiB", most=f"{most / MIB:.0f} MiB")
        assert most - empty < 64 * MIB
        code, said = served.end()
        assert code == 0
        assert "Traceback" not in said


def send_again(served: Served, sent: bytes, over: asyncio.Event) -> int:
    """Connects and sends until it is told to stop; gives how often."""
    rounds = 0
    while not over.is_set():
        with suppress(OSError), connect(served) as connected:  # a connection that is refused may be reset
            connected.sendall(sent)
            connected.shutdown(socket.SHUT_WR)
            while connected.recv(1 << 20):
                pass
        rounds += 1
    return rounds
