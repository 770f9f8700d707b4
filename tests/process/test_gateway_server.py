"""The server around the services: health, limits, a clean end, a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bowstring import errors
from bowstring.gateway.fetch_session import FetchSession
from bowstring.messages import encoding
from bowstring.ports.transport import Channel, Stream
from bowstring.server import Server, open_broker
from bowstring.settings import Settings
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_call import MESSAGE_COST
from bowstring.wire.native_client import NativeDialer
from bowstring.wire.native_connection import TO_CALLER_BYTES
from tests.process import small_server
from tests.process import wire_calls as wire
from tests.process.wire_calls import refused

server = small_server.server
channel = small_server.channel


async def drain(stream: Stream, answered: list[pb.PublishAnswer] | None = None) -> None:
    """Reads until the stream ends; keeps the answers where somebody wants them."""
    while (message := await stream.read()) is not None:
        if answered is not None:
            answered.append(pb.PublishAnswer.FromString(message))


async def test_health(server: Server):
    async with grpc.aio.insecure_channel(server.address) as plain:
        health = health_pb2_grpc.HealthStub(plain)
        for service in ("", "bowstring.v1.Broker"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health.Check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_gives_the_schema(server: Server):
    """What a tool such as grpcurl asks for: which services there are, and the file that describes one of them."""
    async with grpc.aio.insecure_channel(server.address) as plain:
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="bowstring.v1.Broker"),
        ]
        answers = [answer async for answer in reflection_pb2_grpc.ServerReflectionStub(plain).ServerReflectionInfo(iter(asked))]
    names = {service.name for service in answers[0].list_services_response.service}
    assert {"bowstring.v1.Broker", "grpc.health.v1.Health"} <= names
    (file,) = (descriptor_pb2.FileDescriptorProto.FromString(each) for each in answers[1].file_descriptor_response.file_descriptor_proto)
    assert file.name == pb.DESCRIPTOR.name
    assert {method.name for method in file.service[0].method} >= {"Hello", "Publish", "Fetch"}


async def test_no_more_streams_than_the_limit(tmp_path: Path):
    server = await open_broker(Settings(data=str(tmp_path), listen="127.0.0.1:0", connections_max=2))
    channel = NativeDialer().dial(server.address)
    await wire.create(channel, "orders")
    first, second = [await wire.open_publish(channel, "orders", producer=bytes([n]) * 16) for n in (1, 2)]
    for stream in (first, second):
        await wire.publish(stream, 1, [b"a"])
    third = channel.stream("Fetch")
    await refused(third.read(), errors.Unavailable, "serves 2 streams already, which is its limit")
    await first.end()
    assert await first.read() is None
    assert len(await wire.read_all(channel, "orders", 3)) == 2
    await channel.close()
    await server.stop()


async def test_no_more_streams_of_one_connection_than_the_limit(tmp_path: Path):
    server = await open_broker(Settings(data=str(tmp_path), listen="127.0.0.1:0", connection_streams_max=1))
    channel, other = NativeDialer().dial(server.address), NativeDialer().dial(server.address)
    await wire.create(channel, "orders")
    first = await wire.open_publish(channel, "orders")
    await wire.publish(first, 1, [b"a"])
    await refused(channel.stream("Fetch").read(), errors.Unavailable, "this connection has 1 streams already")
    assert await wire.read_all(other, "orders", 2) == [b"a"]
    await first.end()
    assert await first.read() is None
    assert await wire.read_all(channel, "orders", 2) == [b"a"]
    for each in (channel, other):
        await each.close()
    await server.stop()


async def test_a_reader_that_reads_nothing_holds_nothing_up(tmp_path: Path):
    """Invariant 10: with endless credit and nobody who reads, the broker takes a bounded part of the log into its memory."""
    server = await open_broker(Settings(data=str(tmp_path), listen="127.0.0.1:0", memory_tail_bytes=0, memory_pages_bytes=0))
    channel, slow = NativeDialer().dial(server.address), NativeDialer().dial(server.address)
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    reading = await wire.open_fetch(slow, "orders", (0, 1, 0), credit=1 << 50)
    value = bytes(512 * 1024)
    for number in range(1, 101):
        await wire.publish(stream, number, [value])
    (fetching,) = [each for each in server._gateway._sessions if isinstance(each, FetchSession)]
    taken = (1 << 50) - fetching._credit
    assert taken < 50 * len(value), "half of the log lies somewhere unread"
    read = 0
    while read < 100:
        answered = await wire.fetched(reading)
        assert answered is not None
        read += len(answered[1])
    for each in (channel, slow):
        await each.close()
    await server.stop()


async def test_a_stopping_server_answers_what_is_under_way_and_says_why_it_ends(server: Server, channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await wire.publish(stream, 1, [b"a"])
    reading = await wire.open_fetch(channel, "orders", (0, 1, 0))
    await wire.fetched(reading)
    for number in range(2, 30):
        await stream.write(wire.request(number, encoding.encode_values([b"x"])))
    stopping = asyncio.create_task(server.stop())
    answered: list[pb.PublishAnswer] = []
    await refused(drain(stream, answered), errors.Unavailable, "the broker is stopping")
    assert [(a.number, a.stored.first_offset) for a in answered] == [(number, number) for number in range(2, 2 + len(answered))]
    await refused(drain(reading), errors.Unavailable, "the broker is stopping")
    await stopping
    await refused(channel.call("Hello", b"", 1), errors.Unavailable, "cannot be reached")


async def test_streams_that_were_never_opened_do_not_hold_up_the_end(server: Server, channel: Channel):
    streams = [channel.stream("Publish"), channel.stream("Fetch")]
    await wire.create(channel, "orders")  # a call behind them on the same connection: they have arrived
    stopping = asyncio.create_task(server.stop(grace=60.0))
    for stream in streams:
        await refused(stream.read(), errors.Unavailable)
    async with asyncio.timeout(20):
        await stopping


async def test_a_producer_that_takes_no_answers_is_not_read_for_ever(tmp_path: Path):
    """Invariant 10: what a caller does not take piles up nowhere."""
    server = await open_broker(Settings(data=str(tmp_path), listen="127.0.0.1:0", publish_window=1 << 20))
    channel = NativeDialer().dial(server.address)
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    written = 0
    bad = wire.request(1, b"x" * 20_000)
    try:
        async with asyncio.timeout(3):
            while True:
                await stream.write(bad)
                written += 1
    except TimeoutError:
        pass
    assert written < TO_CALLER_BYTES // MESSAGE_COST + 5_000  # what a caller may leave unread, and some on their way
    described = await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="orders"), pb.Topic)
    assert described.messages == 0
    await channel.close()
    await server.stop()


async def test_messages_survive_a_restart(tmp_path: Path):
    settings = Settings(data=str(tmp_path), listen="127.0.0.1:0")
    for round_number in range(3):
        server = await open_broker(settings)
        channel = NativeDialer().dial(server.address)
        await wire.create(channel, "orders", exists_ok=True)
        stream = await wire.open_publish(channel, "orders", stream=round_number + 1)
        await wire.publish(stream, round_number + 1, [b"%d" % round_number])
        hello = await wire.call(channel, "Hello", pb.HelloRequest(protocol=1), pb.HelloAnswer)
        assert hello.incarnation == round_number + 1
        assert await wire.read_all(channel, "orders", round_number + 2) == [b"%d" % n for n in range(round_number + 1)]
        await channel.close()
        await server.stop(grace=0.0 if round_number else 2.0)
