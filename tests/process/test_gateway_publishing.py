"""Publish streams over real sockets: good batches, bad ones, and what is no request at all."""

from __future__ import annotations

import asyncio
import time

import pytest

from bowstring import errors
from bowstring.messages import encoding
from bowstring.ports.transport import Channel
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import small_server
from tests.process import wire_calls as wire
from tests.process.wire_calls import refused

server = small_server.server
channel = small_server.channel


async def test_batches_are_published_and_read_back(channel: Channel):
    await wire.create(channel, "orders", partitions=2)
    stream = await wire.open_publish(channel, "orders")
    answer = await wire.publish(stream, 1, [b"a", b"b"])
    assert (answer.number, answer.partition, answer.stored.first_offset, answer.stored.rows) == (1, 0, 1, 2)
    assert answer.broker_time > 1_700_000_000_000_000
    answer = await wire.publish(stream, 2, [b"c"], partition=1, previous=0)
    assert (answer.number, answer.partition, answer.stored.first_offset) == (2, 1, 1)
    await stream.end()
    assert await stream.read() is None

    reading = await wire.open_fetch(channel, "orders", (0, 1, 3))
    found = await wire.fetched(reading)
    assert found is not None
    header, values = found
    assert values == [b"a", b"b"]
    assert (header.partition, header.next_offset, header.rows) == (0, 3, 2)
    assert [(run.offset, run.rows) for run in header.runs] == [(1, 2)]
    assert [(o.rows, o.producer, o.number, o.first_row, o.group) for o in header.origins] == [(2, wire.PRODUCER, 1, 0, "shop")]
    assert header.stored_bytes > 0
    assert await wire.fetched(reading) is None


async def test_many_batches_are_under_way_at_once_and_each_is_answered(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    batch = encoding.encode_values([b"x" * 1000])

    async def write() -> None:
        for number in range(1, 501):
            await stream.write(wire.request(number, batch))
        await stream.end()

    writing = asyncio.create_task(write())
    answers = []
    while (message := await stream.read()) is not None:
        answers.append(pb.PublishAnswer.FromString(message))
    await writing
    assert [(a.number, a.stored.first_offset) for a in answers] == [(n, n) for n in range(1, 501)]
    assert len(await wire.read_all(channel, "orders", 501)) == 500


async def test_a_batch_sent_again_is_answered_as_a_duplicate_and_one_out_of_order_is_asked_for(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await wire.publish(stream, 1, [b"a"])
    again = await wire.publish(stream, 1, [b"a"])
    assert again.stored.duplicate
    assert again.stored.first_offset == 1
    gap = await wire.publish(stream, 5, [b"e"])
    assert gap.WhichOneof("outcome") == "resend_after"
    assert gap.resend_after == 1
    assert await wire.read_all(channel, "orders", 2) == [b"a"]


async def test_rows_with_known_ids_are_answered_with_their_first_offsets(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await stream.write(wire.request(1, encoding.encode_columns(2, values=[b"1", b"2"], ids=["one", "two"])))
    assert (await wire.answer(stream)).stored.rows == 2
    await stream.write(wire.request(2, encoding.encode_columns(3, values=[b"1", b"3", b"2"], ids=["one", "three", "two"])))
    stored = (await wire.answer(stream)).stored
    assert (stored.first_offset, stored.rows) == (3, 1)
    assert [(r.row, r.rows, r.offset) for r in stored.repeats] == [(0, 1, 1), (2, 1, 2)]
    found = await wire.call(channel, "Find", pb.FindRequest(topic="orders", id="three"), pb.FindAnswer)
    assert (found.found, found.partition, found.offset) == (True, 0, 3)
    assert not (await wire.call(channel, "Find", pb.FindRequest(topic="orders", id="four"), pb.FindAnswer)).found


async def test_a_newer_stream_of_a_producer_ends_the_older(channel: Channel):
    await wire.create(channel, "orders")
    older = await wire.open_publish(channel, "orders", stream=1)
    await wire.publish(older, 1, [b"a"])
    newer = await wire.open_publish(channel, "orders", stream=2)
    assert (await wire.publish(newer, 2, [b"b"])).stored.first_offset == 2
    await refused(older.read(), errors.Unavailable, "newer stream")
    oldest = await wire.open_publish(channel, "orders", stream=1)
    await refused(oldest.read(), errors.Unavailable, "taken over")
    assert (await wire.publish(newer, 3, [b"c"])).stored.first_offset == 3


BAD_BATCHES: dict[str, tuple[dict[str, int], bytes | None]] = {
    "no batch": ({}, b""),
    "garbage": ({}, b"not arrow at all"),
    "truncated": ({}, None),
    "rows that do not fit": ({"rows": 7}, None),
    "absurd rows": ({"rows": 2**32 - 1}, None),
    "no rows": ({"rows": 0}, None),
    "another schema": ({"schema": 9}, None),
    "unknown columns": ({"columns": 2**31}, None),
    "a partition beyond": ({"partition": 5}, None),
    "the last partition of all": ({"partition": 2**32 - 1}, None),
    "an absurd previous": ({"previous": 2**63}, None),
    "no timeout": ({"timeout": 0}, None),
    "an absurd timeout": ({"timeout": 2**64 - 1}, None),
    "an absurd number": ({"number": 2**64 - 1, "previous": 0}, None),
    "sent before 1970": ({"sent": -5}, None),
}


@pytest.mark.parametrize(("fields", "data"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
async def test_a_bad_batch_is_refused_and_the_stream_goes_on(channel: Channel, fields: dict[str, int], data: bytes | None):
    fields = dict(fields)
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    good = encoding.encode_values([b"value"])
    bad = good.data[:-8] if data is None and not fields else good.data if data is None else data
    await stream.write(wire.request(fields.pop("number", 1), good._replace(data=bad), **fields))
    answer = await wire.answer(stream)
    assert answer.number in {1, 2**64 - 1}
    assert answer.refused.kind in {"invalid-argument", "not-supported", "too-large"}
    assert answer.refused.message
    assert (await wire.publish(stream, 2, [b"good"], previous=0)).stored.first_offset == 1
    assert await wire.read_all(channel, "orders", 2) == [b"good"]


async def test_a_batch_after_its_timeout_is_refused_for_good(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    answer = await wire.publish(stream, 1, [b"late"], sent=time.time_ns() // 1000 - 5_000_000, timeout=1_000_000)
    assert answer.refused.kind == "deadline-passed"
    assert (await wire.publish(stream, 2, [b"in time"], previous=0)).stored.first_offset in {1, 2}


async def test_a_batch_that_is_too_large(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    answer = await wire.publish(stream, 1, [b"x" * ((1 << 20) + 100)])
    assert answer.refused.kind == "too-large"
    await stream.write(wire.request(2, encoding.encode_values([b"x" * (2 << 20)])))
    await refused(stream.read(), errors.TooLarge)


MALFORMED = {
    "a batch without a number": wire.request(0, encoding.encode_values([b"x"]), previous=0),
    "a second open": pb.PublishRequest(open=pb.PublishOpen(topic="orders")).SerializeToString(),
    "garbage": b"\xff" * 50,
    "something behind the batch": wire.request(1, encoding.encode_values([b"x"])) + b"\x18\x01",
    "a header that is not protobuf": b"\x0a\x02\xff\xff\x7a\x00",
    "a long header": b"\x18\x01" * 40_000,
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_no_publish_request_ends_the_stream(channel: Channel, message: bytes):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await stream.write(message)
    await refused(stream.read(), errors.InvalidArgument)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (pb.PublishRequest(number=1), errors.InvalidArgument),
        (pb.PublishRequest(open=pb.PublishOpen(topic="orders", producer=b"p" * 16, group="g"), batch=b"x"), errors.InvalidArgument),
        (pb.PublishRequest(open=pb.PublishOpen(topic="orders", producer=b"short", group="g")), errors.InvalidArgument),
        (pb.PublishRequest(open=pb.PublishOpen(topic="orders", producer=b"p" * 16, group="")), errors.InvalidArgument),
        (pb.PublishRequest(open=pb.PublishOpen(topic="orders", producer=b"p" * 16, group="g" * 300)), errors.InvalidArgument),
        (pb.PublishRequest(open=pb.PublishOpen(topic="nowhere", producer=b"p" * 16, group="g")), errors.TopicNotFound),
    ],
)
async def test_a_stream_that_is_not_opened_well(channel: Channel, first: pb.PublishRequest, kind: type[errors.Error]):
    await wire.create(channel, "orders")
    stream = channel.stream("Publish")
    await stream.write(first.SerializeToString())
    await refused(stream.read(), kind)


async def test_whoever_writes_on_is_told_how_the_stream_ended(channel: Channel):
    """grpcio would say INTERNAL; see `wire.grpc_client`."""
    for _ in range(20):
        stream = await wire.open_publish(channel, "nowhere")

        async def write(stream=stream) -> None:
            for number in range(1, 200):
                await stream.write(wire.request(number, encoding.encode_values([b"x" * 100_000])))

        await refused(write(), errors.TopicNotFound)
        await refused(stream.read(), errors.TopicNotFound)


async def test_batches_under_way_when_the_topic_goes_are_refused(channel: Channel):
    await wire.create(channel, "orders")
    stream = await wire.open_publish(channel, "orders")
    await wire.publish(stream, 1, [b"a"])
    await wire.call(channel, "DeleteTopic", pb.DeleteTopicRequest(name="orders"), pb.DeleteTopicAnswer)
    assert (await wire.publish(stream, 2, [b"b"])).refused.kind == "topic-not-found"
