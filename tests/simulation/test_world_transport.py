"""The simulated transport: messages in order, back-pressure, errors that cross as themselves, calls that are given up."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bowstring import errors
from bowstring.ports.transport import Channel
from tests.simulation.echo import ADDRESS, DEAF, ECHO, ECHOES, FAIL, REFUSE, REFUSES, SLOW, run
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import ProductBug, World

# ---- calls and streams ------------------------------------------------------------------------------------------------


def test_a_call_is_answered_and_an_error_crosses_as_itself():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        assert await channel.call(ECHO, b"hello", 5.0) == b"hello!"
        with pytest.raises(errors.TopicNotFound) as raised:
            await channel.call(REFUSE, b"", 5.0)
        assert (raised.value.message, raised.value.hint, raised.value.details) == ("there is no such topic.", "Make it.", {"topic": "t"})

    run(steps)


def test_a_handler_is_told_who_calls_and_until_when():
    arrived: list[float] = []

    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        await channel.call(ECHO, b"hello", 5.0)
        arrived.append(world.loop.time())
        stream = channel.stream(ECHOES)
        await stream.end()
        await stream.read()

    _, echo = run(steps)
    of_call, of_stream = echo.callers
    assert (of_call.who, of_call.address, of_call.transport) == ("", "client.1:40001", "native")
    assert of_call.deadline is not None
    assert 0 < arrived[0] + 5.0 - of_call.deadline < 1.0
    assert of_stream.deadline is None


def test_an_unforeseen_error_of_a_handler_is_told_without_its_insides_and_fails_the_seed():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        with pytest.raises(errors.Error, match="nobody foresaw") as raised:
            await channel.call(FAIL, b"", 5.0)
        assert type(raised.value) is errors.Error

    with pytest.raises(ProductBug, match="unforeseen"):
        run(steps)


def test_a_stream_keeps_its_order_and_ends_well():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        sent = [b"%d" % number for number in range(200)]

        async def write() -> None:
            for message in sent:
                await stream.write(memoryview(message))
            await stream.end()

        writing = asyncio.create_task(write())
        received = []
        while (message := await stream.read()) is not None:
            received.append(message)
        await writing
        assert received == sent
        with pytest.raises(errors.Error, match="ended here"):
            await stream.write(b"too late")

    for seed in range(5):
        _, echo = run(steps, Options(delay_seconds=0.05), seed)
        assert echo.told == ["stream ended"]


def test_a_stream_that_is_refused_raises_for_readers_and_writers():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(REFUSES)
        await stream.write(b"x")
        with pytest.raises(errors.OutOfRange):
            await stream.read()
        with pytest.raises(errors.OutOfRange):
            await stream.write(b"y")

    run(steps)


def test_a_sender_waits_while_its_receiver_takes_nothing():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(DEAF)
        sent: list[int] = []

        async def write() -> None:
            for number in range(100):
                await stream.write(bytes(1 << 20))
                sent.append(number)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write(), 60.0)
        assert len(sent) == 2, "one was taken, and one fits into the window"
        assert world.reached["sender waited for credit"]

    run(steps)


def test_one_message_larger_than_the_window_still_passes():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(bytes(16 << 20))
        assert await stream.read() == bytes(16 << 20)

    run(steps)


def test_a_cancelled_stream_cancels_its_handler_a_little_later():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(b"x")
        await stream.read()
        stream.cancel()
        with pytest.raises(errors.Unavailable):
            await stream.read()
        await asyncio.sleep(1.0)

    assert run(steps)[1].told in (["stream cancelled"], ["stream broken"])


def test_giving_up_a_read_cancels_the_whole_call_as_in_grpc():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await stream.read()
        with pytest.raises(errors.Unavailable):
            await stream.write(b"x")

    run(steps)


def test_a_call_without_an_answer_in_time_is_unavailable_or_of_unknown_outcome():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        with pytest.raises(errors.Unavailable):
            await channel.call(SLOW, b"", 1.0)
        await asyncio.sleep(1.0)
        world.network.link("client", ADDRESS).clog(20.0)
        with pytest.raises(errors.OutcomeUnknown):
            await channel.call("CreateTopic", b"", 1.0)
        await asyncio.sleep(60.0)

    outcomes: Counter[str] = Counter()
    for seed in range(10):
        world, echo = run(steps, seed=seed)
        assert world.faults == {"clog": 1}
        outcomes.update(echo.told)
    assert outcomes[f"{SLOW} cancelled"] == 10, "the broker works no longer than the caller waits"
