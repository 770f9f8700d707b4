"""The credit of a call over native frames, to the byte: how much may come, when it is given back, how much may go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bowstring import errors
from bowstring.ports.transport import Caller, Inbound
from bowstring.wire import native_frames as frames
from bowstring.wire.native_call import CREDIT_MAX, MESSAGE_COST
from bowstring.wire.native_connection import TO_BROKER_BYTES, TO_CALLER_BYTES
from bowstring.wire.native_server import NativeServer
from bowstring.wire.stream_limits import StreamLimits
from tests.unit.memory_transport import Peer, credit, error_of, message

STEP = 64 * 1024
"""What the messages here cost: sixteen are a window towards the broker."""
PAYLOAD = bytes(STEP - MESSAGE_COST)


class Puppet:
    """A handler whose stream a test moves by hand."""

    def __init__(self) -> None:
        self.inbound: asyncio.Future[Inbound] = asyncio.get_running_loop().create_future()

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        raise AssertionError("not here")

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self.inbound.set_result(inbound)
        await asyncio.Event().wait()


class Scene:
    """One open stream."""

    def __init__(self) -> None:
        handler = Puppet()
        limits = StreamLimits(streams_max=10, connection_streams_max=10)
        self.server = NativeServer(handler, limits, batch_bytes_max=32 << 20, connections_max=10)
        self.peer = Peer(self.server)
        self.peer.send(frames.opening(1, "Publish", 0))
        self.opened = handler.inbound


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    await made.opened
    yield made
    await made.server.stop(0)


async def test_a_window_may_come_unread_and_one_message_that_overdraws_it(scene: Scene):
    scene.peer.send(*[message(1, PAYLOAD)] * 15, message(1, PAYLOAD[:-1]))
    assert await scene.peer.answers() == []
    scene.peer.send(message(1, bytes(1 << 20)))  # one byte of credit was left
    assert await scene.peer.answers() == []
    scene.peer.send(message(1))
    (answer,) = await scene.peer.answers()
    assert answer[1] == 1
    assert "without credit" in str(error_of(answer))


async def test_a_message_after_a_full_window_ends_its_call_and_no_other(scene: Scene):
    scene.peer.send(*[message(1, PAYLOAD)] * (TO_BROKER_BYTES // STEP))
    assert await scene.peer.answers() == []
    scene.peer.send(message(1), frames.frame(frames.PING, 0, b"8 bytes."))
    refused, pong = await scene.peer.answers()
    assert isinstance(error_of(refused), errors.InvalidArgument)
    assert pong == (frames.PONG, 0, 0, b"8 bytes.")
    assert scene.server.limits.streams == 0


async def test_credit_comes_back_when_half_a_window_was_taken(scene: Scene):
    inbound = await scene.opened
    scene.peer.send(*[message(1, PAYLOAD)] * 16)
    for _ in range(7):
        await inbound.read()
    assert await scene.peer.answers() == []
    await inbound.read()
    assert await scene.peer.answers() == [(frames.CREDIT, 1, 0, frames.NUMBER.pack(TO_BROKER_BYTES // 2))]
    scene.peer.send(*[message(1, PAYLOAD)] * 8)
    assert await scene.peer.answers() == []
    scene.peer.send(message(1))
    assert "without credit" in str(error_of((await scene.peer.answers())[0]))


async def test_empty_messages_are_not_free(scene: Scene):
    scene.peer.send(*[message(1)] * (TO_BROKER_BYTES // MESSAGE_COST))
    assert await scene.peer.answers() == []
    scene.peer.send(message(1))
    assert "without credit" in str(error_of((await scene.peer.answers())[0]))


async def test_each_gives_credit_back_as_reading_does(scene: Scene):
    inbound = await scene.opened
    held = asyncio.Event()
    taken: list[int] = []

    def take(message_: object) -> object:
        taken.append(1)
        return held.wait() if len(taken) == 8 else None

    taking = asyncio.create_task(inbound.each(take))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    scene.peer.send(*[message(1, PAYLOAD)] * 16)
    assert await scene.peer.answers() == [(frames.CREDIT, 1, 0, frames.NUMBER.pack(TO_BROKER_BYTES // 2))]
    assert len(taken) == 8
    held.set()
    assert await scene.peer.answers() == [(frames.CREDIT, 1, 0, frames.NUMBER.pack(TO_BROKER_BYTES // 2))]
    assert len(taken) == 16
    taking.cancel()


async def test_a_window_may_go_unread_and_then_nothing_until_credit_comes(scene: Scene):
    inbound = await scene.opened
    sent = 0
    while inbound.try_write(PAYLOAD):
        sent += STEP
    assert sent == TO_CALLER_BYTES
    scene.peer.send(credit(1, 1))
    assert inbound.try_write(PAYLOAD)
    assert not inbound.try_write(b"")
    scene.peer.send(credit(1, STEP - 1))
    assert not inbound.try_write(b"")
    scene.peer.send(credit(1, 1))
    assert inbound.try_write(b"")


async def test_messages_that_wait_keep_their_order_and_are_not_overtaken(scene: Scene):
    inbound = await scene.opened
    while inbound.try_write(PAYLOAD):
        pass
    await scene.peer.answers()
    writing = [asyncio.create_task(inbound.write(b"%d" % number)) for number in range(3)]
    await asyncio.sleep(0)
    scene.peer.send(credit(1, 1))
    assert not inbound.try_write(b"too early")
    assert [frame[3] for frame in await scene.peer.answers()] == [b"0"]
    scene.peer.send(credit(1, 10_000))
    assert not inbound.try_write(b"too early")
    assert [frame[3] for frame in await scene.peer.answers()] == [b"1", b"2"]
    await asyncio.gather(*writing)
    assert inbound.try_write(b"now")


@pytest.mark.parametrize("granted", [0, CREDIT_MAX - TO_CALLER_BYTES + 1, 2**32 - 1])
async def test_a_credit_of_zero_or_beyond_the_limit_ends_its_call(scene: Scene, granted: int):
    scene.peer.send(credit(1, granted))
    ((*_, number, _, _), *more) = [(kind, number, flags, payload) for kind, number, flags, payload in await scene.peer.answers()]
    assert (number, more) == (1, [])
    assert not scene.peer.transport.is_closed


async def test_a_credit_up_to_the_limit_is_taken(scene: Scene):
    scene.peer.send(credit(1, CREDIT_MAX - TO_CALLER_BYTES))
    assert await scene.peer.answers() == []
    scene.peer.send(credit(1, 1))
    assert isinstance(error_of((await scene.peer.answers())[0]), errors.InvalidArgument)


async def test_credit_for_a_call_that_is_not_open_is_nothing(scene: Scene):
    scene.peer.send(credit(99, 1000), credit(0, 0))
    assert await scene.peer.answers() == []
