"""The promises of `ports.transport` about many messages and large ones: `each` and `try_write`, sizes, back-pressure, limits, fairness."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from bowstring import errors
from bowstring.ports.transport import Buffer, Channel, Stream
from bowstring.wire.stream_limits import message_bytes_max
from tests.contract.transport_contract import TransportFixture
from tests.contract.wires import BATCH_BYTES_MAX, FLOOD, STREAMS_MAX, Echo, Wire
from tests.process.wire_calls import refused

KIB, MIB = 1 << 10, 1 << 20
EDGES = [edge + more for edge in (8 * KIB, 16 * KIB, 64 * KIB) for more in (-13, -12, -1, 0, 1)]
SIZES = [0, 1, *EDGES, MIB, message_bytes_max(BATCH_BYTES_MAX)]
BOTH_FORMS = pytest.mark.parametrize("method", ["Publish", "Fetch"])


class TransportFlowContract(TransportFixture):
    """Many messages and large ones."""

    @BOTH_FORMS
    async def test_messages_of_all_sizes_come_back_as_they_were(self, channel: Channel, method: str):
        stream = channel.stream(method)
        for number, size in enumerate(SIZES):
            message = bytes([number % 251 + 1]) * size
            await stream.write((message[:7], memoryview(message)[7:], b""))
            assert await stream.read() == message
            assert await channel.call("Find", message[: MIB - 100], 20) == b"Find " + message[: MIB - 100]
        stream.cancel()

    async def test_a_message_that_is_too_large_ends_its_call_and_no_other(self, channel: Channel):
        beside = channel.stream("Publish")
        for size in (message_bytes_max(BATCH_BYTES_MAX) + 1, 17 * MIB):
            stream = channel.stream("Publish")
            await refused(_exchange(stream, bytes(size)), errors.TooLarge)
            await refused(channel.call("Find", bytes(size), 20), errors.TooLarge)
        await beside.write(b"unharmed")
        assert await beside.read() == b"unharmed"
        beside.cancel()

    @BOTH_FORMS
    async def test_each_takes_all_messages_in_order(self, channel: Channel, method: str):
        stream = channel.stream(method)
        taken: list[bytes] = []
        taking = asyncio.create_task(stream.each(lambda message: taken.append(bytes(message))))
        for number in range(3000):
            if not stream.try_write(b"%d" % number):
                await stream.write(b"%d" % number)
        await stream.end()
        await taking
        assert taken == [*(b"%d" % number for number in range(3000)), b"bye"]

    async def test_each_hands_over_what_came_before_it_was_called(self, channel: Channel):
        stream = channel.stream("Publish")
        for number in range(10):
            await stream.write(b"%d" % number)
        await stream.end()
        assert await stream.read() == b"0"
        await channel.call("Hello", b"", 5)
        taken: list[bytes] = []
        await stream.each(lambda message: taken.append(bytes(message)))
        assert taken == [*(b"%d" % number for number in range(1, 10)), b"bye"]

    async def test_each_waits_for_what_take_returns(self, channel: Channel):
        stream = channel.stream("Publish")
        under_way: list[int] = []
        taken: list[bytes] = []

        async def slow(message: bytes) -> None:
            under_way.append(1)
            assert len(under_way) == 1
            await channel.call("Hello", b"", 20)
            taken.append(message)
            under_way.pop()

        def take(message: Buffer) -> Awaitable[None] | None:
            assert not under_way
            if int(bytes(message)) % 3:
                return slow(bytes(message))
            taken.append(bytes(message))
            return None

        taking = asyncio.create_task(stream.each(take))
        for number in range(30):
            await stream.write(b"%d" % number)
        await stream.write(b"count and fail 30")
        await refused(taking, errors.OutOfRange)
        assert taken == [b"%d" % number for number in range(30)] * 2

    async def test_each_raises_the_error_after_the_messages_before_it(self, channel: Channel):
        stream = channel.stream("Publish")
        taken: list[bytes] = []
        await stream.write(b"count and fail 500")
        await refused(stream.each(lambda message: taken.append(bytes(message))), errors.OutOfRange)
        assert taken == [b"%d" % number for number in range(500)]

    @pytest.mark.parametrize("waits", [False, True])
    async def test_each_raises_what_take_raises_and_takes_no_more(self, channel: Channel, waits: bool):
        stream = channel.stream("Publish")
        taken: list[bytes] = []

        async def fail() -> None:
            await channel.call("Hello", b"", 20)
            raise KeyError("of take")

        def take(message: Buffer) -> Awaitable[None] | None:
            taken.append(bytes(message))
            if message == b"2":
                if waits:
                    return fail()
                raise KeyError("of take")
            return None

        await stream.write(b"count and fail 10")
        with pytest.raises(KeyError, match="of take"):
            await stream.each(take)
        assert taken == [b"0", b"1", b"2"]
        stream.cancel()

    async def test_cancelling_a_task_in_each_cancels_the_call(self, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        began = asyncio.Event()
        taking = asyncio.create_task(stream.each(lambda _message: began.set()))
        await stream.write(b"a")
        await began.wait()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        await handler.cancelled.wait()

    async def test_a_handler_that_does_not_read_stops_its_caller_and_no_other(self, wire: Wire, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        await stream.write(b"hold")
        await handler.held.wait()
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(640):
                await stream.write(FLOOD)
                sent += len(FLOOD)
            await stream.end()

        sending = asyncio.create_task(send())
        for _ in range(100):
            await channel.call("Hello", b"", 20)
        assert 0 < sent <= wire.ahead_bytes
        assert not sending.done()
        assert not stream.try_write(FLOOD) or wire.transport == "grpc"
        handler.release.set()
        assert await stream.read() == b"hold"
        for _ in range(640):
            assert await stream.read() == FLOOD
        assert await stream.read() == b"bye"
        await sending

    async def test_a_caller_that_does_not_read_stops_its_handler_and_no_other(self, wire: Wire, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        await stream.write(b"flood 640")
        for _ in range(100):
            await channel.call("Hello", b"", 20)
        assert 0 < handler.flooded <= wire.back_bytes
        for _ in range(640):
            assert await stream.read() == FLOOD
        assert await stream.read() == b"flood 640"
        stream.cancel()

    async def test_cancelling_a_task_that_waits_to_write_cancels_the_call(self, wire: Wire, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        await stream.write(b"hold")
        await handler.held.wait()

        async def send() -> None:
            while True:
                await stream.write(FLOOD)

        sending = asyncio.create_task(send())
        for _ in range(20):
            await channel.call("Hello", b"", 20)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await handler.cancelled.wait()
        await refused(stream.write(b"more"), errors.Unavailable)

    async def test_streams_beyond_the_limit_are_refused_until_others_end(self, wire: Wire, channel: Channel):
        streams = [channel.stream("Publish") for _ in range(STREAMS_MAX)]
        for stream in streams:
            await stream.write(b"a")
            assert await stream.read() == b"a"
        await refused(channel.stream("Publish").read(), errors.Unavailable, "connection.streams-max")
        streams[0].cancel()
        await _settled(wire, channel, STREAMS_MAX - 1)
        again = channel.stream("Publish")
        await again.write(b"b")
        assert await again.read() == b"b"
        for stream in (*streams, again):
            stream.cancel()
        await _settled(wire, channel, 0)

    async def test_streams_that_are_cancelled_at_once_leave_nothing_behind(self, wire: Wire, channel: Channel):
        await channel.call("Hello", b"", 20)
        for _ in range(50):
            for _ in range(STREAMS_MAX // 2):
                channel.stream("Publish").cancel()
            await _settled(wire, channel, 0)

    async def test_a_flood_does_not_starve_the_calls_beside_it(self, channel: Channel):
        flood = channel.stream("Publish")
        await flood.write(b"flood 1000000")
        reading = asyncio.create_task(flood.each(lambda _message: None))
        for number in range(100):
            assert await channel.call("Find", b"%d" % number, 60) == b"Find %d" % number
        assert not reading.done()
        flood.cancel()
        await refused(reading, errors.Unavailable)


async def _exchange(stream: Stream, message: bytes) -> None:
    await stream.write(message)
    await stream.read()


async def _settled(wire: Wire, channel: Channel, streams: int) -> None:
    """Until the server serves so many streams."""
    async with asyncio.timeout(20):
        while wire.limits.streams != streams:
            await channel.call("Hello", b"", 20)
