"""The protocol by hand: what a kit would send, and also what no kit ever would."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from bowstring import errors
from bowstring.messages import encoding
from bowstring.messages.encoding import Encoded
from bowstring.messages.schema import BYTES_SCHEMA
from bowstring.ports.transport import Channel, Stream
from bowstring.settings import Settings
from bowstring.wire.codec import join, split
from bowstring.wire.generated import bowstring_pb2 as pb

M = TypeVar("M", bound=Message)
PRODUCER = b"producer-number1"
SECONDS = 20.0


def settings(folder: Path) -> Settings:
    """Of a small broker on a free port."""
    return Settings(data=str(folder / "data"), listen="127.0.0.1:0", segment_bytes_first=1 << 20, batch_bytes_max=1 << 20)


async def refused(waiting: Awaitable[object], kind: type[errors.Error], said: str | None = None) -> errors.Error:
    """Waits for exactly this error, and gives it."""
    with pytest.raises(kind, match=said) as caught:
        await waiting
    assert type(caught.value) is kind
    return caught.value


async def call(channel: Channel, method: str, request: Message, answer: type[M]) -> M:
    """A unary call."""
    return answer.FromString(await channel.call(method, request.SerializeToString(), SECONDS))


async def create(channel: Channel, name: str, **fields: Any) -> pb.Topic:
    return await call(channel, "CreateTopic", pb.CreateTopicRequest(name=name, **fields), pb.Topic)


def request(number: int, batch: Encoded | bytes, *, previous: int | None = None, partition: int = 0, **fields: Any) -> bytes:
    """A publish request; fields that are not given are those of a well-behaved producer of one partition."""
    encoded = batch if isinstance(batch, Encoded) else None
    values: dict[str, Any] = {
        "partition": partition,
        "number": number,
        "previous": number - 1 if previous is None else previous,
        "sent": time.time_ns() // 1000,
        "timeout": 30_000_000,
        "schema": BYTES_SCHEMA,
        "columns": encoded.mask if encoded else 2,
        "rows": encoded.rows if encoded else 1,
    }
    header = pb.PublishRequest(**(values | fields)).SerializeToString()
    return join(header, encoded.data if encoded else bytes(batch))  # type: ignore[arg-type]


async def open_publish(channel: Channel, topic: str, *, producer: bytes = PRODUCER, stream: int = 1, group: str = "shop") -> Stream:
    opened = channel.stream("Publish")
    message = pb.PublishRequest(open=pb.PublishOpen(topic=topic, producer=producer, stream=stream, group=group))
    await opened.write(message.SerializeToString())
    return opened


async def publish(stream: Stream, number: int, values: list[bytes], **fields: Any) -> pb.PublishAnswer:
    """One batch, and its answer."""
    await stream.write(request(number, encoding.encode_values(values), **fields))
    return await answer(stream)


async def answer(stream: Stream) -> pb.PublishAnswer:
    message = await stream.read()
    assert message is not None, "the stream has ended"
    return pb.PublishAnswer.FromString(message)


async def open_fetch(channel: Channel, topic: str, *froms: tuple[int, int, int], credit: int = 1 << 30) -> Stream:
    opened = channel.stream("Fetch")
    partitions = [pb.FetchFrom(partition=partition, offset=offset, end=end) for partition, offset, end in froms]
    await opened.write(pb.FetchRequest(open=pb.FetchOpen(topic=topic, partitions=partitions), credit=credit).SerializeToString())
    return opened


async def fetched(stream: Stream) -> tuple[pb.FetchAnswer, list[bytes]] | None:
    """The next answer of a reader's stream and its values, None at the end."""
    message = await stream.read()
    if message is None:
        return None
    header, batch = split(message)
    answered = pb.FetchAnswer.FromString(header)
    return answered, [] if batch is None else encoding.decode(answered.columns, batch).column("value").to_pylist()


async def read_all(channel: Channel, topic: str, end: int, partition: int = 0) -> list[bytes]:
    """The values of a partition up to the offset `end`, which is not included."""
    stream = await open_fetch(channel, topic, (partition, 1, end))
    values: list[bytes] = []
    while (found := await fetched(stream)) is not None:
        values += found[1]
    return values


def runs_in(page: pb.FetchAnswer) -> list[tuple[int, int]]:
    """The runs of offsets of an answer, whichever way they came."""
    if not page.HasField("scattered"):
        return [(run.offset, run.rows) for run in page.runs]
    told = page.scattered
    return list(zip(accumulate(told.offsets), told.rows or [1] * len(told.offsets), strict=True))
