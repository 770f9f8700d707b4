"""The transport port over real gRPC: bytes, errors, breaks, ends. The handler is a few lines, so only the transport is on trial."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bowstring import errors
from bowstring.ports.transport import Caller, Channel, Inbound, Stream
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.grpc_server import GrpcServer
from tests.process import small_server
from tests.process.serving import environment, serving
from tests.process.wire_calls import refused


class Echo:
    """Sends back what it gets; some words do something else."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.cancelled = asyncio.Event()
        self.held = asyncio.Event()
        self.release = asyncio.Event()

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        self.callers.append(caller)
        await self._obey(request)
        return method.encode() + b" " + request

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self.callers.append(caller)
        try:
            while (message := await inbound.read()) is not None:
                await self._obey(message, inbound)
                if message == b"end":
                    return
                await inbound.write(memoryview(message))
            await inbound.write(b"bye")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @staticmethod
    async def _cancelled_write(inbound: Inbound | None) -> None:
        assert inbound is not None
        write = asyncio.create_task(inbound.write(b"a notice"))
        await asyncio.sleep(0)
        write.cancel()
        await asyncio.gather(write, return_exceptions=True)

    async def _obey(self, word: bytes, inbound: Inbound | None = None) -> None:
        if word == b"refuse":
            raise errors.TopicNotFound("there is none.", hint="Make one.", details={"topic": "orders"})
        if word == b"bug":
            raise ZeroDivisionError("secret insides")
        if word == b"fail beside a write":
            await self._cancelled_write(inbound)
            raise errors.Corrupt("this is damaged.")
        if word == b"wait":
            await asyncio.Event().wait()
        if word == b"hold":
            self.held.set()
            await self.release.wait()


@pytest.fixture
def handler() -> Echo:
    return Echo()


async def serve(handler: Echo, listen: str = "127.0.0.1:0") -> GrpcServer:
    server = GrpcServer(handler, listen=listen, batch_bytes_max=1 << 20, streams_max=10, connection_streams_max=10)
    server.bind()
    await server.start()
    return server


@pytest.fixture
async def server(handler: Echo) -> AsyncIterator[GrpcServer]:
    started = await serve(handler)
    yield started
    await started.stop(0.0)


channel = small_server.channel


async def test_calls_and_streams_carry_bytes(channel: Channel):
    assert await channel.call("Hello", b"\x00\xff", 5) == b"Hello \x00\xff"
    stream = channel.stream("Publish")
    large = b"x" * (1 << 20)
    for message in (b"a", b"", memoryview(b"view"), bytearray(b"array"), large):
        await stream.write(message)
        assert await stream.read() == bytes(message)
    await stream.end()
    assert await stream.read() == b"bye"
    assert await stream.read() is None
    assert await stream.read() is None


async def test_a_handler_is_told_who_calls_and_until_when(handler: Echo, channel: Channel):
    time = asyncio.get_running_loop().time
    asked = time()
    await channel.call("Hello", b"", 5)
    answered = time()
    stream = channel.stream("Publish")
    await stream.write(b"end")
    assert await stream.read() is None
    of_call, of_stream = handler.callers
    assert of_call.who == ""
    assert of_call.address.startswith("127.0.0.1:")
    assert of_call.transport == "grpc"
    assert of_call.deadline is not None
    assert asked < of_call.deadline <= answered + 5.1  # gRPC rounds up
    assert of_stream == of_call._replace(deadline=None)


async def test_errors_cross_as_themselves(channel: Channel):
    error = await refused(channel.call("Hello", b"refuse", 5), errors.TopicNotFound)
    assert (error.message, error.hint, error.details) == ("there is none.", "Make one.", {"topic": "orders"})
    stream = channel.stream("Fetch")
    await stream.write(b"refuse")
    await refused(stream.read(), errors.TopicNotFound)
    await refused(stream.write(b"more"), errors.TopicNotFound)
    await refused(stream.read(), errors.TopicNotFound)


async def test_a_bug_is_logged_here_and_not_told_there(channel: Channel, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR, "bowstring.wire"):
        error = await refused(channel.call("Hello", b"bug", 5), errors.Error, "nobody foresaw")
        assert error.kind == "error"
        assert "secret" not in str(error)
        stream = channel.stream("Publish")
        await stream.write(b"bug")
        await refused(stream.read(), errors.Error, "nobody foresaw")
    assert caplog.text.count("ZeroDivisionError: secret insides") == 2


async def test_a_call_without_an_answer_in_time(channel: Channel):
    await refused(channel.call("DescribeTopic", b"wait", 0.1), errors.Unavailable, "no answer")
    await refused(channel.call("CreateTopic", b"wait", 0.1), errors.OutcomeUnknown, "may or may not")
    await refused(channel.call("Hello", b"wait", -1), errors.Unavailable)


async def test_a_stream_that_the_server_ends_well(channel: Channel):
    stream = channel.stream("Publish")
    await stream.write(b"end")
    assert await stream.read() is None
    await refused(stream.write(b"more"), errors.Unavailable, "has ended this stream")


async def test_an_error_arrives_though_the_first_write_was_cancelled(channel: Channel):
    stream = channel.stream("Publish")
    await stream.write(b"fail beside a write")
    assert await stream.read() == b"a notice"
    await refused(stream.read(), errors.Corrupt, "this is damaged")


async def test_nothing_is_written_after_the_end(channel: Channel):
    stream = channel.stream("Publish")
    await stream.end()
    await refused(stream.write(b"more"), errors.Error, "was ended here")
    assert await stream.read() == b"bye"


async def test_cancelling_a_stream_ends_the_handler_and_its_waiters(channel: Channel, handler: Echo):
    stream = channel.stream("Publish")
    await stream.write(b"a")
    await stream.read()
    waiting = asyncio.create_task(stream.read())
    stream.cancel()
    await refused(waiting, errors.Unavailable, "was cancelled here")
    await refused(stream.read(), errors.Unavailable)
    await refused(stream.write(b"b"), errors.Unavailable)
    await handler.cancelled.wait()


async def test_cancelling_a_task_is_not_mistaken_for_an_error(channel: Channel, handler: Echo):
    stream = channel.stream("Publish")
    await stream.write(b"a")
    await stream.read()
    waiting = asyncio.create_task(stream.read())
    await channel.call("Hello", b"", 5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await handler.cancelled.wait()  # the whole call is cancelled, as the module says


async def test_a_stopping_server_lets_calls_finish_and_takes_no_new_ones(server: GrpcServer, channel: Channel, handler: Echo):
    under_way = asyncio.create_task(channel.call("Find", b"hold", 30.0))
    await handler.held.wait()
    stopping = asyncio.create_task(server.stop(grace=30.0))
    other = GrpcDialer().dial(server.address)
    await refused(other.call("Find", b"late", 5.0), errors.Unavailable)
    assert not under_way.done()
    handler.release.set()
    assert await under_way == b"Find hold"
    await stopping
    await other.close()


async def test_a_closed_channel(server: GrpcServer):
    channel = GrpcDialer().dial(server.address)
    stream = channel.stream("Publish")
    await stream.write(b"a")
    await stream.read()
    waiting = asyncio.create_task(stream.read())
    await channel.call("Hello", b"", 5)
    calling = asyncio.create_task(channel.call("Hello", b"wait", 5))
    await channel.call("Hello", b"", 5)
    await channel.close()
    await refused(waiting, errors.Unavailable, "cancelled here")
    await refused(calling, errors.Unavailable, "is closed")
    await refused(channel.call("Hello", b"", 5), errors.Unavailable, "is closed")
    with pytest.raises(errors.Unavailable, match="is closed"):
        channel.stream("Publish")


async def test_nobody_is_there_and_then_somebody_is(handler: Echo):
    server = await serve(handler)
    channel = GrpcDialer().dial(server.address)
    stream = channel.stream("Publish")
    await stream.write(b"a")
    await server.stop(0.0)
    await refused(take_all(stream), errors.Unavailable)
    await refused(channel.call("Hello", b"", 5), errors.Unavailable, "cannot be reached")
    await refused(channel.stream("Publish").read(), errors.Unavailable)
    again = await serve(handler, server.address)
    async with asyncio.timeout(20):
        while not await is_there(channel):
            continue
    await channel.close()
    await again.stop(0.0)


async def is_there(channel: Channel) -> bool:
    try:
        return await channel.call("Hello", b"there", 5) == b"Hello there"
    except errors.Unavailable:
        return False


async def take_all(stream: Stream) -> None:
    while await stream.read() is not None:
        pass


async def test_a_server_that_could_not_bind_leaves_no_noise(server: GrpcServer, handler: Echo, capfd: pytest.CaptureFixture[str]):
    second = GrpcServer(handler, listen=server.address, batch_bytes_max=1 << 20, streams_max=10, connection_streams_max=10)
    with pytest.raises(errors.Unavailable, match="is in use by another program"):
        second.bind()
    await second.stop(0.0)
    del second
    gc.collect()
    assert capfd.readouterr().err == ""


@pytest.mark.long
async def test_a_server_that_hangs_is_noticed(tmp_path: Path):
    """Pings go unanswered: after 10 s of silence and 5 s of waiting the connection counts as broken."""
    with serving("--data", str(tmp_path)) as served:
        channel = GrpcDialer().dial(served.address)
        await channel.call("ListTopics", b"", 5)
        waiting = asyncio.create_task(channel.stream("Fetch").read())
        served.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(40):
            await refused(waiting, errors.Unavailable)
        served.process.send_signal(signal.SIGCONT)
        await channel.close()


def test_two_loops_in_one_process_get_along():
    """A program with an embedded broker and a client of it has two: grpcio must not complain on stderr."""
    script = """
import asyncio
from bowstring.embedded import Broker
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.generated import bowstring_pb2 as pb

async def main(address):
    channel = GrpcDialer().dial(address)
    for _ in range(200):
        await channel.call("Hello", pb.HelloRequest(protocol=1).SerializeToString(), 10)
    await channel.close()

with Broker.ephemeral() as broker:
    asyncio.run(main(broker.address.removeprefix("bowstring://")))
    asyncio.run(main(broker.address.removeprefix("bowstring://")))
print("done")
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
