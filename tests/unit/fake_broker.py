"""A small broker behind an in-memory transport.

It speaks the protocol of proto/bowstring/v1 as far as a kit needs it and keeps its promises in the simplest way that can be read: lists and
dicts. What a test wants to go wrong it does on request: streams are cut, answers get lost, batches are refused or held back, calls
fail, nobody answers at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bowstring import errors
from bowstring.client.client import Client
from bowstring.messages import encoding, ids
from bowstring.wire import codec, error_messages
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit.fake_stream import FakeStream
from tests.unit.fake_subscriptions import FakeSubscriptions
from tests.unit.fake_topic import FakePartition, FakeTopic
from tests.unit.virtual_time import FakeClock


class FakeRandomness:
    """Numbers that count."""

    def __init__(self) -> None:
        self.count = 0

    def unit(self) -> float:
        return 0.5

    def unique(self) -> bytes:
        self.count += 1
        return self.count.to_bytes(16, "big")


class FakeBroker(FakeSubscriptions):
    """The broker. `requests` are all publish requests that came in, as (stream, partition, number, previous, rows)."""

    direct = False
    """Whether its streams take and hand over messages without a task in between, as a native transport does. Every third write has to
    wait all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, FakeTopic] = {}
        self.create_on_publish = False
        self.batch_bytes_max = 16 * 2**20
        self.down = False
        self.requests: list[tuple[int, int, int, int, int]] = []
        self.headers: list[pb.PublishRequest] = []
        self.streams: list[FakeStream] = []
        self.answering: Callable[[pb.PublishRequest], str | errors.Error | None] = lambda request: None
        """Says what happens to a batch: None as usual, "lose" stores it and loses the answer with the stream, "ignore" stores it and never
        answers, "drop" neither stores nor answers, "cut" cuts the stream before storing; an error refuses it."""
        self.elsewhere: Callable[[int], str | None] = lambda partition: None
        """The address of the broker that serves a partition, if it is another one; empty if none does right now."""
        self.publishers: dict[bytes, tuple[int, FakeStream]] = {}  # the newest stream of each producer has fenced the others
        self.delay = 0.001
        self.calls: list[str] = []
        self.call_errors: list[errors.Error] = []
        """The next calls end with these errors, and do nothing."""
        self.lost_answers: list[errors.Error] = []
        """The next calls are carried out, and end with these errors."""
        self.clock = FakeClock()
        self.fetch_cut_after: int | None = None
        self.positions: dict[tuple[str, str], dict[int, int]] = {}

    def topic(self, name: str, partitions: int = 1) -> FakeTopic:
        self.topics[name] = FakeTopic(len(self.topics) + 1, [FakePartition() for _ in range(partitions)])
        return self.topics[name]

    def cut(self) -> None:
        """All streams break."""
        for stream in self.streams:
            stream.cut()
        self.streams.clear()

    # ---- calls

    async def call(self, method: str, request: bytes) -> bytes:
        await asyncio.sleep(self.delay)
        self.calls.append(method)
        if self.down:
            raise errors.Unavailable("nobody is there.")
        if self.call_errors:
            raise self.call_errors.pop(0)
        answer = getattr(self, f"_{method}")(request).SerializeToString()
        if self.lost_answers:
            raise self.lost_answers.pop(0)
        return answer

    def _Hello(self, request: bytes) -> pb.HelloAnswer:
        return pb.HelloAnswer(
            software="fake", protocol=1, broker_time=self.clock.now(), cluster=b"c" * 16, incarnation=1,
            batch_bytes_max=self.batch_bytes_max, publish_window=4 * 2**20,
        )  # fmt: skip

    def _CreateTopic(self, request: bytes) -> pb.Topic:
        asked = pb.CreateTopicRequest.FromString(request)
        if asked.name in self.topics and not asked.exists_ok:
            raise errors.TopicExists(f"'{asked.name}' exists already.")
        if asked.name not in self.topics:
            self.topic(asked.name, asked.partitions or 1)
        return self._described(asked.name)

    def _DescribeTopic(self, request: bytes) -> pb.Topic:
        return self._described(pb.DescribeTopicRequest.FromString(request).name)

    def _ListTopics(self, request: bytes) -> pb.ListTopicsAnswer:
        asked = pb.ListTopicsRequest.FromString(request)
        names = [name for name in sorted(self.topics) if name > asked.after]
        return pb.ListTopicsAnswer(topics=[self._described(name) for name in names[:2]], more=len(names) > 2)

    def _DeleteTopic(self, request: bytes) -> pb.DeleteTopicAnswer:
        asked = pb.DeleteTopicRequest.FromString(request)
        if self.topics.pop(asked.name, None) is None and not asked.missing_ok:
            raise errors.TopicNotFound(f"there is no topic '{asked.name}'.")
        return pb.DeleteTopicAnswer(deleted=True)

    def _Find(self, request: bytes) -> pb.FindAnswer:
        asked = pb.FindRequest.FromString(request)
        given = ids.parse(asked.id)
        for number, partition in enumerate(self.topics[asked.topic].partitions):
            for at, (producer, batch, row, natural, _) in enumerate(partition.log):
                if asked.id == natural or (natural is None and given == (producer, batch, number, row)):
                    return pb.FindAnswer(found=True, partition=number, offset=at + 1)
        return pb.FindAnswer()

    def _Offsets(self, request: bytes) -> pb.OffsetsAnswer:
        asked = pb.OffsetsRequest.FromString(request)
        topic = self.topics[asked.topic]
        ends = {number: len(topic.partitions[number].log) + 1 for number in asked.partitions}
        offsets = [pb.PartitionOffset(partition=number, offset=max(1, end - asked.newest)) for number, end in ends.items()]
        return pb.OffsetsAnswer(topic_id=topic.id, offsets=offsets)

    def _CommitPosition(self, request: bytes) -> pb.Position:
        asked = pb.CommitPositionRequest.FromString(request)
        self.positions[asked.topic, asked.name] = {each.partition: each.offset for each in asked.offsets}
        return pb.Position()

    def _DescribePosition(self, request: bytes) -> pb.Position:
        asked = pb.DescribePositionRequest.FromString(request)
        if (asked.topic, asked.name) not in self.positions:
            raise errors.NotFound("there is none.")
        held = self.positions[asked.topic, asked.name]
        return pb.Position(offsets=[pb.PositionOffset(partition=number, offset=offset) for number, offset in held.items()])

    def _DeletePosition(self, request: bytes) -> pb.DeletePositionAnswer:
        asked = pb.DeletePositionRequest.FromString(request)
        if self.positions.pop((asked.topic, asked.name), None) is None and not asked.missing_ok:
            raise errors.NotFound("there is none.")
        return pb.DeletePositionAnswer(deleted=True)

    def _described(self, name: str) -> pb.Topic:
        if name not in self.topics:
            raise errors.TopicNotFound(f"there is no topic '{name}'.")
        topic = self.topics[name]
        ranges = [pb.PartitionRange(first=1, next=len(partition.log) + 1) for partition in topic.partitions]
        messages = sum(len(partition.log) for partition in topic.partitions)
        return pb.Topic(name=name, id=topic.id, partitions=len(topic.partitions), messages=messages, ranges=ranges)

    # ---- publishing

    async def publish(self, stream: FakeStream) -> None:
        opened = pb.PublishRequest.FromString(await stream.inbound()).open
        if opened.topic not in self.topics:
            if not self.create_on_publish:
                raise errors.TopicNotFound(f"there is no topic '{opened.topic}'.")
            self.topic(opened.topic)
        topic = self.topics[opened.topic]
        number, older = self.publishers.get(opened.producer, (0, stream))
        assert number < opened.stream, "the numbers of streams rise"
        if older is not stream:
            older.cut()
        self.publishers[opened.producer] = opened.stream, stream
        while True:
            header, data = codec.split(await stream.inbound())
            request = pb.PublishRequest.FromString(header)
            self.headers.append(request)
            self.requests.append((opened.stream, request.partition, request.number, request.previous, request.rows))
            await asyncio.sleep(self.delay)
            what = self.answering(request) or _misdirected(self.elsewhere(request.partition))
            if what == "cut":
                raise errors.Unavailable("cut")
            if what == "drop":
                continue
            answer = pb.PublishAnswer(partition=request.partition, number=request.number, broker_time=self.clock.now())
            if isinstance(what, errors.Error):
                answer.refused.CopyFrom(error_messages.to_message(what))
            else:
                self._store(topic.partitions[request.partition], opened, request, bytes(data or b""), answer)
            if what == "lose":
                raise errors.Unavailable("cut")
            if what != "ignore":
                stream.answer(answer.SerializeToString())

    def _store(
        self, partition: FakePartition, opened: pb.PublishOpen, request: pb.PublishRequest, data: bytes, answer: pb.PublishAnswer
    ) -> None:
        known = partition.stored.get((opened.producer, request.number))
        last = partition.last.get(opened.producer, 0)
        if known is not None:
            answer.stored.CopyFrom(known)
            answer.stored.duplicate = True
        elif request.number <= last:
            answer.refused.CopyFrom(error_messages.to_message(errors.DeadlinePassed("a later batch was accepted.")))
        elif self.clock.now() > request.sent + request.timeout:
            answer.refused.CopyFrom(error_messages.to_message(errors.DeadlinePassed("too late.")))
        elif request.previous != last:
            answer.resend_after = last
        else:
            answer.stored.CopyFrom(self._append(partition, opened, request, data))

    def _append(self, partition: FakePartition, opened: pb.PublishOpen, request: pb.PublishRequest, data: bytes) -> pb.Stored:
        rows = encoding.decode(request.columns, data).to_pylist()
        assert len(rows) == request.rows
        first = len(partition.log) + 1
        stored = pb.Stored(first_offset=first)
        for at, row in enumerate(rows):
            natural = row.get("id")
            if natural is not None and natural in partition.natural:
                stored.repeats.add(row=at, rows=1, offset=partition.natural[natural])
                continue
            partition.log.append((opened.producer, request.number, at, natural, row))
            if natural is not None:
                partition.natural[natural] = len(partition.log)
        stored.rows = len(partition.log) + 1 - first
        partition.last[opened.producer] = request.number
        partition.stored[opened.producer, request.number] = stored
        header = pb.FetchAnswer(partition=request.partition, arrived=self.clock.now(), schema=1, columns=request.columns, rows=request.rows)
        header.runs.add(offset=first, rows=request.rows)
        header.origins.add(rows=request.rows, producer=opened.producer, number=request.number, group=opened.group)
        header.next_offset, header.stored_bytes = len(partition.log) + 1, len(data)
        partition.pages.append((first, header, data))
        partition.grown.set()
        for queue in self.queues.values():
            queue.kick()
        return stored

    # ---- fetching

    async def fetch(self, stream: FakeStream) -> None:
        request = pb.FetchRequest.FromString(await stream.inbound())
        topic = self.topics[request.open.topic]
        credit = [request.credit]
        granting = asyncio.create_task(self._grants(stream, credit))
        try:
            await asyncio.gather(*(self._fetch(stream, topic.partitions[one.partition], one, credit) for one in request.open.partitions))
        finally:
            granting.cancel()

    async def _grants(self, stream: FakeStream, credit: list[int]) -> None:
        while True:
            credit[0] += pb.FetchRequest.FromString(await stream.inbound()).credit

    async def _fetch(self, stream: FakeStream, partition: FakePartition, wanted: pb.FetchFrom, credit: list[int]) -> None:
        offset = wanted.offset or 1
        if not 1 <= offset <= len(partition.log) + 1:
            raise errors.OutOfRange(f"{offset} was asked for.")
        while not wanted.end or offset < wanted.end:
            if (elsewhere := _misdirected(self.elsewhere(wanted.partition))) is not None:
                elsewhere.details["partition"] = str(wanted.partition)
                raise elsewhere
            page = next((page for page in partition.pages if page[1].next_offset > offset), None)
            if page is None or credit[0] <= 0:
                partition.grown.clear()
                await (partition.grown.wait() if page is None else asyncio.sleep(self.delay))
                continue
            if self.fetch_cut_after is not None:
                self.fetch_cut_after -= 1
                if self.fetch_cut_after < 0:
                    self.fetch_cut_after = None
                    raise errors.Unavailable("cut")
            answer = _cut(page, offset, wanted.end)
            header, _ = codec.split(answer)
            told = pb.FetchAnswer.FromString(header)
            credit[0] -= told.stored_bytes
            offset = told.next_offset
            await asyncio.sleep(self.delay)
            stream.answer(answer)


def _misdirected(address: str | None) -> errors.Error | None:
    return None if address is None else errors.Unavailable("another broker serves this partition.", details={"ask": address})


def _cut(page: tuple[int, pb.FetchAnswer, bytes], offset: int, end: int) -> bytes:
    """The rows of a page from an offset on, up to an end."""
    first, header, data = page
    stop = min(header.next_offset, end or header.next_offset)
    start = max(first, offset)
    if (start, stop) == (first, header.next_offset):
        return codec.join(header.SerializeToString(), data)
    taken = encoding.take(encoding.decode(header.columns, data), list(range(start - first, stop - first)))
    part = pb.FetchAnswer()
    part.CopyFrom(header)
    part.rows, part.next_offset, part.columns = stop - start, stop, taken.mask
    part.runs[0].offset, part.runs[0].rows = start, stop - start
    part.origins[0].rows, part.origins[0].first_row = stop - start, start - first
    return codec.join(part.SerializeToString(), taken.data)


class FakeChannel:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        return await self._broker.call(method, request)

    def stream(self, method: str) -> FakeStream:
        return FakeStream(self._broker, method)

    async def close(self) -> None:
        return


class FakeDialer:
    """Knows brokers by address."""

    def __init__(self, brokers: dict[str, FakeBroker]) -> None:
        self._brokers = brokers
        self.dialled: list[str] = []

    def dial(self, address: str) -> FakeChannel:
        self.dialled.append(address)
        silent = FakeBroker()
        silent.down = True
        return FakeChannel(self._brokers.get(address, silent))


@asynccontextmanager
async def connected(broker: FakeBroker) -> AsyncIterator[Client]:
    """A client of a fake broker."""
    client = await Client(["a:1"], dialer=FakeDialer({"a:1": broker}), clock=FakeClock(), randomness=FakeRandomness()).open()
    async with client:
        yield client


@asynccontextmanager
async def with_topic(partitions: int = 1) -> AsyncIterator[tuple[FakeBroker, Client]]:
    """A fake broker that has the topic `t`, and a client of it."""
    broker = FakeBroker()
    broker.topic("t", partitions)
    async with connected(broker) as client:
        yield broker, client
