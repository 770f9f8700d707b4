"""Wrong requests of every call of the table, straight into the gateway of a broker: each gives an
answer or an error of the product.

Half of the requests are mutants of good ones; the other half are good messages of other calls.
Streams get them as their first request, and behind a good one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import Counter
from pathlib import Path

from google.protobuf.message import Message

from bowstring import errors
from bowstring.gateway.gateway import Gateway
from bowstring.messages import encoding
from bowstring.ports.calls import CALLS
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Inbound, Pieces
from bowstring.server import open_broker
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.fuzz.mutations import mutations
from tests.process import wire_calls as wire

ROUNDS = int(os.environ.get("BOWSTRING_FUZZ_ROUNDS", "60"))
"""Wrong requests for each call."""
SECONDS = 0.02
"""How long a call may wait, and a stream that is not refused is kept."""
LIMIT_SECONDS = 30
"""Only a call that never ends takes so long."""

OFFSETS = [pb.PartitionOffset(partition=0, offset=1)]
LETTERS = pb.LetterRows(partition=0, offsets=[1, 9], rows=[2, 1])
GOOD: dict[str, Message] = {
    "Hello": pb.HelloRequest(software="fuzz", protocol=1, protocol_min=1, name="fuzz"),
    "CreateTopic": pb.CreateTopicRequest(name="made", partitions=2, retention=10**9, deduplication=10**8, exists_ok=True),
    "DescribeTopic": pb.DescribeTopicRequest(name="orders"),
    "ListTopics": pb.ListTopicsRequest(pattern="o*", after="a", limit=5),
    "WatchTopics": pb.WatchTopicsRequest(topics=[pb.KnownTopic(name="orders", id=1, sum=2)], edition=1, wait=10**6),
    "AlterTopic": pb.AlterTopicRequest(name="orders", retention=10**10, retention_bytes=10**9),
    "DeleteTopic": pb.DeleteTopicRequest(name="made", missing_ok=True),
    "Publish": pb.PublishRequest(open=pb.PublishOpen(topic="orders", producer=b"p" * 16, stream=1, group="g")),
    "Fetch": pb.FetchRequest(
        open=pb.FetchOpen(topic="orders", partitions=[pb.FetchFrom(partition=0, offset=1)], where="key = 'k'"), credit=9
    ),
    "Offsets": pb.OffsetsRequest(topic="orders", partitions=[0], moment=10**15),
    "CommitPosition": pb.CommitPositionRequest(topic="orders", name="me", offsets=OFFSETS),
    "SetPosition": pb.SetPositionRequest(topic="orders", name="me", offsets=OFFSETS),
    "DescribePosition": pb.DescribePositionRequest(topic="orders", name="me"),
    "ListPositions": pb.ListPositionsRequest(topic="orders", after_topic="o", after_name="a", limit=3),
    "DeletePosition": pb.DeletePositionRequest(topic="orders", name="me", missing_ok=True),
    "Find": pb.FindRequest(topic="orders", id="one"),
    "DeleteMessages": pb.DeleteMessagesRequest(topic="orders", group="g", ids=["one", "two"]),
    "MoveMessages": pb.MoveMessagesRequest(topic="orders", group="g", ids=["one", "two"], due=1_800_000_000_000_000),
    "CancelMessages": pb.CancelMessagesRequest(topic="orders", group="g", ids=["one", "two"]),
    "CreateSubscription": pb.CreateSubscriptionRequest(
        topic="orders", name="billing", mode="shared", moment=10**15, lease=10**7, exists_ok=True, max_deliveries=3, where="key = 'k'"
    ),
    "AlterSubscription": pb.AlterSubscriptionRequest(topic="orders", name="billing", lease=10**7),
    "DescribeSubscription": pb.DescribeSubscriptionRequest(topic="orders", name="billing"),
    "ListSubscriptions": pb.ListSubscriptionsRequest(topic="orders", after_topic="o", after_name="a", limit=3),
    "DeleteSubscription": pb.DeleteSubscriptionRequest(topic="orders", name="billing", missing_ok=True),
    "SeekSubscription": pb.SeekSubscriptionRequest(topic="orders", name="billing", offsets=OFFSETS, dry_run=True),
    "Peek": pb.PeekRequest(topic="orders", subscription="billing", limit=5, where="key = 'k'", ids=["one"]),
    "ListDeadLetters": pb.ListDeadLettersRequest(
        topic="orders", subscription="billing", where="key = 'k'", ids=["one"], after_partition=1, after_offset=3, limit=5, places=True
    ),
    "Redrive": pb.RedriveRequest(topic="orders", subscription="billing", letters=[LETTERS]),
    "PurgeDeadLetters": pb.PurgeDeadLettersRequest(topic="orders", subscription="billing", letters=[LETTERS]),
    "ExplainKey": pb.ExplainKeyRequest(topic="orders", subscription="billing", key=b"k"),
    "Consume": pb.ConsumeRequest(
        open=pb.ConsumeOpen(
            topic="orders", subscription="billing", consumer="me", instance=b"i" * 16, lease=10**7, create=pb.CreateSubscriptionRequest()
        ),
        credit=pb.ConsumeCredit(messages=9, bytes=10**6),
        settle=[pb.SettleRows(request=1, grants=[1], outcomes=[1], runs=[1], offsets=[1], rows=[1])],
        extend=[pb.ExtendRows(number=1, lease=10**7, grants=[1], runs=[0])],
        ready=True,
    ),
    "ListLeases": pb.ListLeasesRequest(topic="orders", subscription="billing", consumer="me", older_than=5, after_grant=1, limit=3),
    "ReleaseLeases": pb.ReleaseLeasesRequest(topic="orders", subscription="billing", consumer="me", older_than=5),
    "Backup": pb.BackupRequest(target="/nowhere/at/all", proof="secret"),
}


class Sent(Inbound):
    """`ports.transport.Inbound` of a caller that sends these and takes every answer."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)

    async def read(self) -> bytes | None:
        return self._messages.pop(0) if self._messages else None

    async def write(self, message: Buffer | Pieces) -> None:
        return


async def outcome(gateway: Gateway, name: str, message: bytes, first: bytes | None) -> str:
    """The kind of the error that a message gets, or that it is answered. What is not an error of
    the product is raised."""
    caller = Caller(transport="fuzz", deadline=asyncio.get_running_loop().time() + SECONDS)
    try:
        async with asyncio.timeout(LIMIT_SECONDS if name != "Fetch" else SECONDS):
            if CALLS[name].stream:
                await gateway.stream(name, Sent(message) if first is None else Sent(first, message), caller)
            else:
                assert isinstance(await gateway.call(name, message, caller), bytes)
    except errors.Error as error:
        return error.kind
    except TimeoutError:
        assert name == "Fetch", f"{name} does not end"
    return "answered"


async def test_a_wrong_request_of_any_call_gets_an_error_of_the_product(tmp_path: Path) -> None:
    source = random.Random(12)
    good = {name: message.SerializeToString() for name, message in GOOD.items()}
    assert good.keys() == CALLS.keys()
    batch = wire.request(1, encoding.encode_values([b"x"]), previous=0)
    server = await open_broker(wire.settings(tmp_path))
    try:
        gateway, counts = server._gateway, Counter[str]()
        made = pb.CreateTopicRequest(name="orders", exists_ok=True).SerializeToString()
        for name in CALLS:
            mutants = mutations(source, [good[name], batch] if name == "Publish" else [good[name]])
            others = itertools.cycle(good.values())
            for wrong in itertools.chain.from_iterable(itertools.islice(zip(mutants, others, strict=False), ROUNDS // 2)):
                await gateway.call("CreateTopic", made, Caller())  # the one before may have deleted it
                first = good[name] if source.random() < 0.5 else None
                counts[await outcome(gateway, name, wrong, first)] += 1
        assert {"invalid-argument", "topic-not-found", "answered"} <= counts.keys()
        assert not gateway._sessions
    finally:
        await server.stop()
