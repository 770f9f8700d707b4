"""A hundred thousand wrong requests against a running broker: it stays up, stays small, and stores nothing wrong.

Mutants of batches come in good headers, and whole requests are mutated too, headers and all. A stream that the broker ends for one of them
is opened again. In the end everything that was stored is read back and checked as if it came from outside.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from pathlib import Path

import psutil
import pytest

from bowstring import errors
from bowstring.messages import encoding, layout
from bowstring.ports.transport import Channel, Stream
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.native_client import NativeDialer
from tests.fuzz.mutations import mutations
from tests.process import wire_calls as wire
from tests.process.serving import serving

REQUESTS = int(os.environ.get("BOWSTRING_FUZZ_REQUESTS", "100000"))
A_STREAM = 200
RSS_MAX = 400 * 2**20


def good_batches() -> list[encoding.Encoded]:
    values, keys, moment = [b"a" * 30, None, b"", b"bb" * 40], [b"k", None, b"kk", b""], time.time_ns() // 1000
    plain = [encoding.encode_values(values, compression=codec) for codec in (None, "lz4", "zstd")]
    full = [
        encoding.encode_columns(
            4,
            values=values,
            keys=keys,
            attributes=[{"a": "b"}, None, {}, {"c": "d", "e": "f"}],
            created=moment,
            ids=list("wxyz"),
            compression=codec,
        )
        for codec in (None, "lz4", "zstd")
    ]
    return plain + full


class Fuzzer:
    """One producer whose requests are wrong."""

    def __init__(self, channel: Channel, source: random.Random) -> None:
        self.channel = channel
        self.source = source
        self.batches = good_batches()
        self.mutants = mutations(source, [bytes(batch.data) for batch in self.batches])
        self.number = 0
        self.sent = self.refused = self.ended = self.stored = 0

    def request(self) -> bytes:
        self.number += 1
        if self.source.random() < 0.95:
            batch = self.source.choice(self.batches)
            return wire.request(self.number, encoding.Encoded(batch.mask, batch.rows, next(self.mutants)), previous=0)
        good = wire.request(self.number, self.source.choice(self.batches), previous=0)
        return next(mutations(self.source, [good]))

    async def one_stream(self, count: int) -> None:
        """Sends so many requests and reads what comes, until there is nothing more or the broker has had enough."""
        stream = await wire.open_publish(self.channel, "fuzzed", producer=self.source.randbytes(16), stream=1)
        answers = asyncio.ensure_future(self._answers(stream))
        try:
            for _ in range(count):
                await stream.write(self.request())
                self.sent += 1
            await stream.end()
            await answers
        except (errors.InvalidArgument, errors.TooLarge, errors.NotSupported, errors.Unavailable):
            self.ended += 1
        finally:
            await asyncio.gather(answers, return_exceptions=True)

    async def _answers(self, stream: Stream) -> None:
        while (message := await stream.read()) is not None:
            outcome = pb.PublishAnswer.FromString(message).WhichOneof("outcome")
            self.stored += outcome == "stored"
            self.refused += outcome != "stored"


async def stored_is_right(channel: Channel) -> int:
    """Reads everything back, and checks it as strictly as a batch from outside."""
    topic = await wire.call(channel, "DescribeTopic", pb.DescribeTopicRequest(name="fuzzed"), pb.Topic)
    stream = await wire.open_fetch(channel, "fuzzed", (0, 1, topic.ranges[0].next))
    rows = 0
    while (message := await stream.read()) is not None:
        header, batch = split(message)
        answer = pb.FetchAnswer.FromString(header)
        if batch is not None:
            layout.check(answer.schema, answer.columns, answer.rows, batch, bytes_max=16 * 2**20)
            rows += answer.rows
    assert rows == topic.messages
    return rows


@pytest.mark.long
async def test_a_hundred_thousand_wrong_requests_do_no_harm(tmp_path: Path) -> None:
    source = random.Random(4)
    with serving("--data", str(tmp_path)) as served:
        channel = NativeDialer().dial(served.address)
        await wire.create(channel, "fuzzed")
        fuzzer = Fuzzer(channel, source)
        process = psutil.Process(served.process.pid)
        for round_ in itertools.count():
            if fuzzer.sent >= REQUESTS:
                break
            await fuzzer.one_stream(source.randrange(1, A_STREAM))
            assert served.process.poll() is None, "the broker has ended"
            if round_ % 50 == 0:
                assert process.memory_info().rss < RSS_MAX
        assert fuzzer.refused + fuzzer.ended > 0
        assert fuzzer.stored > 0
        assert await stored_is_right(channel) > 0
        await channel.close()
