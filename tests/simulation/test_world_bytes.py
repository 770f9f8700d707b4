"""The simulated byte streams: the same bytes in the same order, however they are split, and no more
of them on the way than fit.
"""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Channel
from bowstring.wire.native_call import NativeCall
from tests.simulation.echo import ADDRESS, DEAF, ECHO, ECHOES, Echo, run
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import World

BYTES = bytes(range(256)) * 200


class Collector(asyncio.BufferedProtocol):
    """Takes what comes, and remembers in which pieces."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.simulated: Any = None
        self.calls: dict[int, Any] = {}
        self.pieces: list[bytes] = []
        self.pauses: list[str] = []
        self.ended: list[object] = []
        self._buffer = bytearray(10_000)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.pieces.append(bytes(self._buffer[:nbytes]))

    def pause_writing(self) -> None:
        self.pauses.append("pause")

    def resume_writing(self) -> None:
        self.pauses.append("resume")

    def eof_received(self) -> bool:
        self.ended.append("eof")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)


def meet(options: Options, seed: int, act: Any) -> tuple[Collector, Collector, World]:
    """Two processes with a plain protocol each, connected; `act` gets the client's and the server's."""
    near, far = Collector(), Collector()

    async def main(world: World) -> None:
        async def serve(life: Incarnation) -> None:
            listener = life.listen(ADDRESS, Echo())
            listener.native.connection = lambda: far  # type: ignore[method-assign,assignment,return-value]
            await asyncio.Event().wait()

        async def ask(life: Incarnation) -> None:
            await world.network.connect(life, lambda: near, ADDRESS)
            await asyncio.sleep(1.0)
            await act(world, near, far)

        world.node("server").start(serve)
        await asyncio.sleep(0.01)
        await world.node("client", disk=False).start(ask).ended

    world = World(seed, options)
    world.run(main)
    return near, far, world


@pytest.mark.parametrize("split_rate", [0.0, 0.5, 1.0])
def test_bytes_arrive_in_order_split_anywhere(split_rate):
    async def act(world: World, near: Collector, far: Collector) -> None:
        near.transport.write(BYTES[:100])
        near.transport.writelines([BYTES[100:200], memoryview(BYTES)[200:]])
        await asyncio.sleep(60.0)

    sizes: set[int] = set()
    for seed in range(3):
        _, far, _ = meet(Options(split_rate=split_rate), seed, act)
        assert b"".join(far.pieces) == BYTES
        sizes.update(len(piece) for piece in far.pieces)
    assert len(sizes) > (3 if split_rate else 1)


def test_a_protocol_is_paused_while_its_bytes_do_not_fit_and_resumed_when_they_do():
    async def act(world: World, near: Collector, far: Collector) -> None:
        far.transport.pause_reading()
        near.transport.set_write_buffer_limits(20_000, 5_000)
        near.transport.write(BYTES)
        assert near.pauses == ["pause"]
        await asyncio.sleep(10.0)
        assert near.transport.get_write_buffer_size() == len(BYTES) - 16_384
        assert far.pieces == []
        far.transport.resume_reading()
        await asyncio.sleep(10.0)
        assert near.pauses == ["pause", "resume"]

    _, far, _ = meet(Options(pipe_bytes=16_384), 1, act)
    assert b"".join(far.pieces) == BYTES


def test_a_closed_end_sends_what_it_has_and_the_other_learns_it():
    async def act(world: World, near: Collector, far: Collector) -> None:
        near.transport.write(BYTES)
        near.transport.close()
        assert near.transport.is_closing()
        await asyncio.sleep(60.0)

    ends: set[str] = set()
    for seed in range(20):
        near, far, _ = meet(Options(pipe_bytes=4096), seed, act)
        assert near.ended == [None]
        assert BYTES.startswith(b"".join(far.pieces))
        ends.add(repr(far.ended))
        if far.ended == ["eof", None]:
            assert b"".join(far.pieces) == BYTES
    assert "['eof', None]" in ends
    assert any("reset" in end for end in ends), "a kernel may also reset"


def test_a_connection_breaks_at_any_byte_and_nothing_arrives_behind_it():
    async def act(world: World, near: Collector, far: Collector) -> None:
        for at in range(0, len(BYTES), 100):
            near.transport.write(BYTES[at : at + 100])
            await asyncio.sleep(0.001)
        await asyncio.sleep(60.0)

    lengths: set[int] = set()
    for seed in range(20):
        near, far, _ = meet(Options(cut_rate=0.02, delay_seconds=0.02), seed, act)
        came = b"".join(far.pieces)
        assert BYTES.startswith(came)
        assert len(near.ended) == len(far.ended) == 1
        lengths.add(len(came))
    assert any(length % 100 for length in lengths)
    assert any(length % 100 in range(1, 12) for length in lengths)


def test_a_slow_way_takes_its_time():
    async def act(world: World, near: Collector, far: Collector) -> None:
        near.transport.write(BYTES)
        await asyncio.sleep(4.0)
        assert len(b"".join(far.pieces)) < len(BYTES)
        await asyncio.sleep(10.0)

    _, far, _ = meet(Options(bytes_a_second=10_000.0, pipe_bytes=10_000), 1, act)
    assert b"".join(far.pieces) == BYTES


def test_calls_over_tiny_pieces_wait_for_credit_and_for_the_kernel_and_lose_nothing():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        sent = [bytes([number % 251]) * (number * 37 % 5_000) for number in range(300)]

        async def write() -> None:
            for message in sent:
                await stream.write((memoryview(message)[:10], message[10:]))
            await stream.end()

        writing = asyncio.create_task(write())
        received: list[bytes] = []
        await stream.each(lambda message: received.append(bytes(message)))
        await writing
        assert received == sent
        assert await channel.call(ECHO, b"y", 60.0) == b"y!"

    for seed, gathers in ((1, False), (2, True)):
        sizes = Options(split_rate=0.5, pipe_bytes=2048, to_broker_bytes=4096, to_caller_bytes=4096, unsent_bytes=1024, large_bytes=500)
        world, _ = run(steps, sizes.only(gathers=gathers), seed)
        assert not world.network.violations
        for state in ("sender waited for credit", "sender waited for the kernel", "large message received into its own memory in pieces"):
            assert world.reached[state], state


def test_a_process_that_never_reads_a_stream_holds_no_more_than_its_window():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(DEAF)

        async def write() -> None:
            while True:
                await stream.write(bytes(1000))

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write(), 60.0)

    def received(call: NativeCall, message: Buffer, last: bool) -> bool:
        accepted = original(call, message, last)
        held.append(sum(map(len, call._inbox)))
        return accepted

    held: list[int] = []
    original = NativeCall.received

    with patch.object(NativeCall, "received", received):
        world, _ = run(steps, Options(to_broker_bytes=8 * 1024))
    assert 6 * 1000 <= max(held) <= 9 * 1000
    assert not world.network.violations
