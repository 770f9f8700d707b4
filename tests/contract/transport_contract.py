"""The promises of `ports.transport`: bytes, errors, ends, breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from bowstring import errors
from bowstring.ports.transport import Channel, Stream
from tests.contract.wires import Echo, Served, Wire
from tests.process.wire_calls import refused


class TransportFixture:
    """A test class gives the fixture `wire`."""

    @pytest.fixture
    def handler(self) -> Echo:
        return Echo()

    @pytest.fixture
    async def server(self, wire: Wire, handler: Echo) -> AsyncIterator[Served]:
        started = await wire.serve(handler)
        yield started
        await started.stop(0.0)

    @pytest.fixture
    async def channel(self, wire: Wire, server: Served) -> AsyncIterator[Channel]:
        dialled = wire.dial(server.address)
        yield dialled
        await dialled.close()


class TransportContract(TransportFixture):
    """Calls, errors and ends."""

    async def test_calls_and_streams_carry_bytes(self, channel: Channel):
        assert await channel.call("Hello", b"\x00\xff", 5) == b"Hello \x00\xff"
        stream = channel.stream("Publish")
        for message in (b"a", b"", memoryview(b"view"), bytearray(b"array")):
            await stream.write(message)
            assert await stream.read() == bytes(message)
        await stream.end()
        assert await stream.read() == b"bye"
        assert await stream.read() is None
        assert await stream.read() is None

    async def test_calls_under_way_together_get_their_own_answers(self, channel: Channel):
        answers = await asyncio.gather(*(channel.call("Find", b"%d" % number, 20) for number in range(90)))
        assert answers == [b"Find %d" % number for number in range(90)]

    async def test_a_handler_is_told_who_calls_and_until_when(self, wire: Wire, handler: Echo, channel: Channel):
        time = asyncio.get_running_loop().time
        asked = time()
        await channel.call("Hello", b"", 5)
        answered = time()
        stream = channel.stream("Publish")
        await stream.write(b"end")
        assert await stream.read() == b"bye"
        of_call, of_stream = handler.callers
        assert of_call.who == ""
        assert of_call.address.startswith(wire.host)
        assert of_call.transport == wire.transport
        assert of_call.deadline is not None
        assert asked < of_call.deadline <= answered + 5.1  # gRPC rounds up
        assert of_stream == of_call._replace(deadline=None)

    async def test_errors_cross_as_themselves(self, channel: Channel):
        error = await refused(channel.call("Hello", b"refuse", 5), errors.TopicNotFound)
        assert (error.message, error.hint, error.details) == ("there is none.", "Make one.", {"topic": "orders"})
        stream = channel.stream("Publish")
        await stream.write(b"refuse")
        await refused(stream.read(), errors.TopicNotFound)
        await refused(stream.write(b"more"), errors.TopicNotFound)
        assert not stream.try_write(b"more")
        await refused(stream.read(), errors.TopicNotFound)

    async def test_an_error_comes_after_the_messages_before_it(self, channel: Channel):
        stream = channel.stream("Publish")
        await stream.write(b"count and fail 100")
        assert [await stream.read() for _ in range(100)] == [b"%d" % number for number in range(100)]
        await refused(stream.read(), errors.OutOfRange, "beyond the end")

    async def test_a_bug_is_logged_here_and_not_told_there(self, channel: Channel, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.ERROR, "bowstring.wire"):
            error = await refused(channel.call("Hello", b"bug", 5), errors.Error, "nobody foresaw")
            assert error.kind == "error"
            assert "secret" not in str(error)
            stream = channel.stream("Publish")
            await stream.write(b"bug")
            await refused(stream.read(), errors.Error, "nobody foresaw")
        assert caplog.text.count("ZeroDivisionError: secret insides") == 2

    async def test_a_call_without_an_answer_in_time_is_given_up_on_both_sides(self, channel: Channel, handler: Echo):
        await refused(channel.call("DescribeTopic", b"wait", 0.1), errors.Unavailable, "no answer")
        await handler.cancelled.wait()
        await refused(channel.call("CreateTopic", b"wait", 0.1), errors.OutcomeUnknown, "may or may not")
        await refused(channel.call("Hello", b"wait", -1), errors.Unavailable)
        assert await channel.call("Hello", b"again", 20) == b"Hello again"

    async def test_a_call_whose_task_is_cancelled_ends_its_handler(self, channel: Channel, handler: Echo):
        calling = asyncio.create_task(channel.call("Find", b"hold", 60))
        await handler.held.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await handler.cancelled.wait()

    async def test_an_unknown_call_is_refused_and_the_next_one_answered(self, channel: Channel):
        await refused(channel.call("Dance", b"", 5), errors.NotSupported, "not know")
        await refused(channel.stream("Dance").read(), errors.NotSupported, "not know")
        assert await channel.call("Hello", b"", 5) == b"Hello "

    async def test_a_stream_that_the_server_ends_well(self, channel: Channel):
        stream = channel.stream("Publish")
        await stream.write(b"end")
        assert await stream.read() == b"bye"
        assert await stream.read() is None
        await refused(stream.write(b"more"), errors.Unavailable, "has ended this stream")
        assert not stream.try_write(b"more")

    async def test_an_error_arrives_though_the_first_write_was_cancelled(self, channel: Channel):
        stream = channel.stream("Publish")
        await stream.write(b"fail beside a write")
        assert await stream.read() == b"a notice"
        await refused(stream.read(), errors.Corrupt, "this is damaged")

    async def test_nothing_is_written_after_the_end(self, channel: Channel):
        stream = channel.stream("Publish")
        await stream.end()
        await refused(stream.write(b"more"), errors.Error, "was ended here")
        assert not stream.try_write(b"more")
        assert await stream.read() == b"bye"

    async def test_cancelling_a_stream_ends_the_handler_and_its_waiters(self, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        await stream.write(b"a")
        await stream.read()
        waiting = asyncio.create_task(stream.read())
        stream.cancel()
        await refused(waiting, errors.Unavailable, "was cancelled here")
        await refused(stream.read(), errors.Unavailable)
        await refused(stream.write(b"b"), errors.Unavailable)
        await handler.cancelled.wait()

    async def test_cancelling_a_task_is_not_mistaken_for_an_error(self, channel: Channel, handler: Echo):
        stream = channel.stream("Publish")
        await stream.write(b"a")
        await stream.read()
        waiting = asyncio.create_task(stream.read())
        await channel.call("Hello", b"", 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await handler.cancelled.wait()  # the whole call is cancelled: a read that was given up could lose a message

    async def test_a_stopping_server_lets_calls_finish_and_takes_no_new_ones(
        self, wire: Wire, server: Served, channel: Channel, handler: Echo
    ):
        stream = channel.stream("Publish")
        await stream.write(b"a")
        await stream.read()
        under_way = asyncio.create_task(channel.call("Find", b"hold", 30.0))
        await handler.held.wait()
        stopping = asyncio.create_task(server.stop(grace=30.0))
        other = wire.dial(server.address)
        await refused(other.call("Find", b"late", 5.0), errors.Unavailable)
        assert not under_way.done()
        await stream.write(b"still served")
        assert await stream.read() == b"still served"
        await stream.end()
        handler.release.set()
        assert await under_way == b"Find hold"
        await stopping
        await other.close()

    async def test_what_does_not_finish_in_time_is_cancelled_by_a_stopping_server(self, server: Served, channel: Channel, handler: Echo):
        finding = asyncio.create_task(channel.call("Find", b"wait", 60))
        creating = asyncio.create_task(channel.call("CreateTopic", b"hold", 60))
        stream = channel.stream("Publish")
        await handler.held.wait()
        await stream.write(b"a")
        await stream.read()
        await server.stop(grace=0.05)
        await refused(finding, errors.Unavailable)
        await refused(creating, errors.OutcomeUnknown)
        await refused(stream.read(), errors.Unavailable)

    async def test_a_closed_channel(self, wire: Wire, server: Served):
        channel = wire.dial(server.address)
        stream = channel.stream("Publish")
        await stream.write(b"a")
        await stream.read()
        waiting = asyncio.create_task(stream.read())
        await channel.call("Hello", b"", 5)
        calling = asyncio.create_task(channel.call("Hello", b"wait", 5))
        await channel.call("Hello", b"", 5)
        await channel.close()
        await refused(waiting, errors.Unavailable, "cancelled here|is closed")
        await refused(calling, errors.Unavailable, "is closed")
        await refused(channel.call("Hello", b"", 5), errors.Unavailable, "is closed")
        with pytest.raises(errors.Unavailable, match="is closed"):
            channel.stream("Publish")

    async def test_nobody_is_there_and_then_somebody_is(self, wire: Wire, handler: Echo):
        server = await wire.serve(handler)
        channel = wire.dial(server.address)
        stream = channel.stream("Publish")
        await stream.write(b"a")
        await server.stop(0.0)
        await refused(_take_all(stream), errors.Unavailable)
        await refused(channel.call("Hello", b"", 5), errors.Unavailable, "cannot be reached")
        await refused(channel.stream("Publish").read(), errors.Unavailable)
        again = await wire.serve(handler, server.address)
        async with asyncio.timeout(20):
            while not await _is_there(channel):
                continue
        await channel.close()
        await again.stop(0.0)


async def _is_there(channel: Channel) -> bool:
    try:
        return await channel.call("Hello", b"there", 5) == b"Hello there"
    except errors.Unavailable:
        return False


async def _take_all(stream: Stream) -> None:
    while await stream.read() is not None:
        pass
