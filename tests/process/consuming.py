"""A consumer by hand, over a real stream: the schema and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

from bowstring.messages import encoding
from bowstring.ports.transport import Channel, Stream
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process.wire_calls import runs_in

SECONDS = 20.0
MUCH = {"messages": 1 << 40, "bytes": 1 << 40}


class Answer:
    """One answer of the broker."""

    def __init__(self, message: bytes) -> None:
        header, batch = split(message)
        self.told = pb.ConsumeAnswer.FromString(header)
        self.batch = batch

    @property
    def kind(self) -> str:
        if self.told.HasField("page"):
            return "push"
        for name in ("opened", "settled", "extended", "lost", "ping"):
            field = getattr(self.told, name)
            if self.told.HasField(name) if name == "opened" else bool(field):
                return name
        return "nothing"

    @property
    def offsets(self) -> list[int]:
        """Of a push."""
        return [offset + row for offset, rows in runs_in(self.told.page) for row in range(rows)]

    @property
    def values(self) -> list[bytes]:
        assert self.batch is not None
        return encoding.decode(self.told.page.columns, bytes(self.batch)).column("value").to_pylist()

    @property
    def retry_counts(self) -> list[int]:
        """Of a push, one for each row."""
        lease = self.told.lease
        if not lease.retry_rows:
            return [0] * self.told.page.rows
        return [count for count, rows in zip(lease.retry_counts, lease.retry_rows, strict=True) for _ in range(rows)]


class PlainConsumer:
    """One stream of one consumer."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.requests: dict[int, int] = {}
        """The number of the last request in each partition."""
        self.numbers_from = 0
        self.kept: list[Answer] = []
        self._reading: asyncio.Task[Any] | None = None
        """Waits for the next message: a stream whose `read` is cancelled ends."""

    async def send(self, **fields: Any) -> None:
        await self.stream.write(pb.ConsumeRequest(**fields).SerializeToString())

    async def read(self) -> Answer:
        if not await self.comes(SECONDS):
            raise TimeoutError("nothing comes")
        assert self._reading is not None
        reading, self._reading = self._reading, None
        message = reading.result()
        assert message is not None, "the stream has ended"
        return Answer(bytes(message))

    async def comes(self, seconds: float) -> bool:
        """Whether a message, or the end, comes within so many seconds."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self.stream.read())
        return bool((await asyncio.wait((self._reading,), timeout=seconds))[0])

    async def next(self, kind: str) -> Answer:
        """The next answer of a kind; others are kept."""
        for answer in self.kept:
            if answer.kind == kind:
                self.kept.remove(answer)
                return answer
        while (answer := await self.read()).kind != kind:
            self.kept.append(answer)
        return answer

    async def pause(self, channel: Channel) -> None:
        """No more from here on: the broker knows, because requests of a connection are taken in
        order.
        """
        await self.send(credit=pb.ConsumeCredit())
        await channel.call("Hello", pb.HelloRequest(protocol=1).SerializeToString(), SECONDS)

    async def rows(self, count: int) -> list[Answer]:
        """Pushes until there are so many rows."""
        found: list[Answer] = []
        while sum(push.told.page.rows for push in found) < count:
            found.append(await self.next("push"))
        return found

    async def settle(self, partition: int, outcome: int, parts: list[tuple[int, list[tuple[int, int]]]], **fields: Any) -> pb.RowsSettled:
        """Settles runs of rows of grants; no runs for all that a grant has. Waits for the answer."""
        number = self.requests[partition] = self.requests.get(partition, 0) + 1
        await self.send(settle=[rows_settled(partition, number, outcome, parts, **fields)])
        (settled,) = (await self.next("settled")).told.settled
        assert (settled.partition, settled.request) == (partition, number)
        return settled

    async def ack(self, push: Answer) -> pb.RowsSettled:
        """Acks what a push brought."""
        return await self.settle(push.told.page.partition, 1, [(push.told.lease.grant, runs_in(push.told.page))])


def rows_settled(partition: int, number: int, outcome: int, parts: list[tuple[int, list[tuple[int, int]]]], **fields: Any) -> pb.SettleRows:
    return pb.SettleRows(
        partition=partition,
        request=number,
        grants=[grant for grant, _ in parts],
        outcomes=[outcome] * len(parts),
        runs=[len(runs) for _, runs in parts],
        offsets=[offset for _, runs in parts for offset, _ in runs],
        rows=[rows for _, runs in parts for _, rows in runs],
        **fields,
    )


async def consume(
    channel: Channel,
    topic: str,
    subscription: str,
    name: str = "ada",
    *,
    instance: bytes | None = None,
    credit: dict[str, int] | None = None,
    ready: bool = True,
    **opening: Any,
) -> PlainConsumer:
    """A consumer whose stream is open."""
    stream = channel.stream("Consume")
    consumer = PlainConsumer(stream)
    given = instance if instance is not None else name.encode().ljust(16, b"-")
    opened = pb.ConsumeOpen(topic=topic, subscription=subscription, consumer=name, instance=given, **opening)
    await consumer.send(open=opened, credit=pb.ConsumeCredit(**(MUCH if credit is None else credit)), ready=ready)
    consumer.numbers_from = (await consumer.next("opened")).told.opened.numbers_from
    return consumer
