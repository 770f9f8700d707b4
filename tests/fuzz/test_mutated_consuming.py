"""Wrong requests on Consume streams, straight into the gateway of a broker: each gets an answer or an error of the product, and the
consumers beside it get and settle every message as if nothing had been.

Two honest consumers work all the time: one on a subscription of its own, one on the subscription that the wrong ones share with it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from bowstring import errors
from bowstring.gateway.gateway import Gateway
from bowstring.messages import encoding
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Inbound, Pieces, joined
from bowstring.server import open_broker
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.fuzz.consume_mutants import HeldRun, good_open, mutants, wrong_opens
from tests.process import wire_calls as wire

SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "14"))
REQUESTS_EACH = 6
LIMIT_SECONDS = 30


class Conversation(Inbound):
    """`ports.transport.Inbound` of a caller whose requests are put in as it goes on."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.requests: dict[int, int] = {}
        """The last number of each partition."""
        self.numbers_from = 0

    def put(self, request: bytes | None) -> None:
        self._requests.put_nowait(request)

    async def read(self) -> bytes | None:
        return await self._requests.get()

    async def write(self, message: Buffer | Pieces) -> None:
        header, _ = split(joined(message))
        answer = pb.ConsumeAnswer.FromString(header)
        if answer.HasField("opened"):
            self.numbers_from = answer.opened.numbers_from
        if answer.ping:
            self.put(pb.ConsumeRequest(pong=answer.ping).SerializeToString())
        self.take(answer)

    def take(self, answer: pb.ConsumeAnswer) -> None:
        raise NotImplementedError


class Honest(Conversation):
    """A consumer that acks whatever it gets."""

    def __init__(self, subscription: str) -> None:
        super().__init__()
        opening = pb.ConsumeOpen(
            topic="orders", subscription=subscription, consumer="honest", instance=os.urandom(16), create=pb.CreateSubscriptionRequest()
        )
        self.put(pb.ConsumeRequest(open=opening, credit=pb.ConsumeCredit(messages=20, bytes=1 << 24), ready=True).SerializeToString())
        self.got = Counter[tuple[int, int]]()
        self.unanswered = 0
        self.refused: list[pb.RefusedRows] = []
        self.news = asyncio.Event()

    def take(self, answer: pb.ConsumeAnswer) -> None:
        assert not answer.lost
        for settled in answer.settled:
            self.unanswered -= 1
            self.refused += settled.refused
        if answer.HasField("lease"):
            at, runs = answer.page.partition, wire.runs_in(answer.page)
            self.got.update((at, offset + row) for offset, rows in runs for row in range(rows))
            last = self.requests.get(at, self.numbers_from)
            settle = pb.SettleRows(partition=at, request=last + 1, answered=last - self.unanswered)
            settle.grants.append(answer.lease.grant)
            settle.outcomes.append(1)
            settle.runs.append(len(runs))
            settle.offsets.extend(offset for offset, _ in runs)
            settle.rows.extend(rows for _, rows in runs)
            self.requests[at] = last + 1
            self.unanswered += 1
            self.put(pb.ConsumeRequest(settle=[settle]).SerializeToString())
        self.news.set()

    async def has(self, count: int) -> None:
        """Waits until it has got and settled so many messages."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while len(self.got) < count or self.unanswered:
                self.news.clear()
                await self.news.wait()


class Prodding(Conversation):
    """A consumer that notes what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.held: asyncio.Queue[HeldRun] = asyncio.Queue()

    def take(self, answer: pb.ConsumeAnswer) -> None:
        if answer.HasField("lease"):
            for run in wire.runs_in(answer.page):
                self.held.put_nowait(HeldRun(answer.page.partition, answer.lease.grant, *run))


class Publisher:
    """Publishes a few messages each time."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.count = 0

    async def publish(self, rows: int) -> None:
        opening = pb.PublishOpen(topic="orders", producer=os.urandom(16), stream=1, group="g")
        batch = encoding.encode_values([b"order %d" % (self.count + row) for row in range(rows)])
        await self._gateway.stream("Publish", Given(pb.PublishRequest(open=opening).SerializeToString(), wire.request(1, batch)), Caller())
        self.count += rows


class Given(Inbound):
    """A caller that sends these and takes every answer."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)

    async def read(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    async def write(self, message: Buffer | Pieces) -> None:
        return


async def outcome(gateway: Gateway, conversation: Conversation) -> str:
    """How a stream ends. What is not an error of the product is raised."""
    try:
        await gateway.stream("Consume", conversation, Caller(transport="fuzz"))
    except errors.Error as error:
        return error.kind  # "error" itself would be a bug
    return "answered"


async def prod(gateway: Gateway, source: random.Random, name: str) -> str:
    """One consumer that goes wrong: at its first request, behind a lease, or under a name that others have had and that may hold
    more than its credit."""
    conversation, chance = Prodding(), source.random()
    if chance < 0.5:
        first = wrong_opens(source, name) if chance < 0.3 else iter([good_open(source, "fuzz").SerializeToString()])
        made_up = HeldRun(0, source.randrange(1, 2000), source.randrange(1, 5000), source.randrange(1, 50))
        for request in itertools.islice(itertools.chain(first, mutants(source, made_up, source.randrange(1, 50))), REQUESTS_EACH):
            conversation.put(request)
        conversation.put(None)
        return await outcome(gateway, conversation)
    conversation.put(good_open(source, name).SerializeToString())
    served = asyncio.ensure_future(outcome(gateway, conversation))
    waiting = asyncio.ensure_future(conversation.held.get())
    await asyncio.wait((served, waiting), return_when=asyncio.FIRST_COMPLETED)
    if served.done():
        waiting.cancel()
        return await served
    held = await waiting
    first = conversation.numbers_from + 1
    for request in itertools.islice(mutants(source, held, first), source.randrange(1, REQUESTS_EACH)):
        conversation.put(request)
    conversation.put(None)
    return await served


@pytest.mark.parametrize("consumers", [300, pytest.param(20_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
async def test_wrong_requests_of_consumers_do_no_harm_to_others(tmp_path: Path, consumers: int) -> None:
    source = random.Random(SEED)
    server = await open_broker(wire.settings(tmp_path))
    try:
        gateway = server._gateway
        await gateway.call("CreateTopic", pb.CreateTopicRequest(name="orders").SerializeToString(), Caller())
        publisher, counts = Publisher(gateway), Counter[str]()
        await publisher.publish(1)
        alone, beside = Honest("alone"), Honest("shared")
        working = [asyncio.ensure_future(outcome(gateway, honest)) for honest in (alone, beside)]
        await asyncio.gather(alone.has(1), beside.has(1))
        for number in range(consumers):
            prodding = asyncio.ensure_future(prod(gateway, source, f"fuzz-{number}"))
            async with asyncio.timeout(LIMIT_SECONDS):
                while not prodding.done():
                    await publisher.publish(source.choice((1, 8, 60)))
            counts[prodding.result()] += 1
            assert not any(task.done() for task in working)
        await alone.has(publisher.count)
        assert alone.got == Counter((0, offset) for offset in range(1, publisher.count + 1))
        assert (alone.refused, beside.refused) == ([], [])
        assert {"answered", "invalid-argument"} <= counts.keys()
        assert "error" not in counts
        for honest in (alone, beside):
            honest.put(None)
        assert await asyncio.gather(*working) == ["answered", "answered"]
        assert not gateway._sessions
    finally:
        await server.stop()
