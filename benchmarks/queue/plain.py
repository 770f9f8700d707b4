"""A consumer without the kit: what the broker can do for one that does nothing with its messages.

It acks every push by its runs, and sends what has gathered whenever fewer than four requests are
under way, as the kit does. It neither decodes batches nor looks at values.
"""

from __future__ import annotations

import argparse
import asyncio
from itertools import accumulate
from typing import Any

import uvloop

from benchmarks.worker import TOPIC, meter
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Stream
from bowstring.wire.codec import split
from bowstring.wire.dialer import AddressDialer
from bowstring.wire.generated import bowstring_pb2 as pb

CREDIT = pb.ConsumeCredit(messages=200_000, bytes=16 << 20)
UNDER_WAY_MAX = 4
ACK = 1


class PlainPushes:
    """Takes pushes of one partition and acks them."""

    def __init__(self, stream: Stream, wanted: int) -> None:
        self._stream = stream
        self._wanted = wanted
        self._next = pb.SettleRows()
        self._sent = self._answered = 0
        self.rows = 0
        self.pushes = 0
        self.done = asyncio.Event()

    def take(self, message: Buffer) -> None:
        answer = pb.ConsumeAnswer.FromString(split(message)[0])
        if answer.HasField("page"):
            self._ack(answer)
        self._answered += len(answer.settled)
        if any(one.refused for one in answer.settled):
            raise SystemExit("the broker has refused an ack")
        if self._next.grants and self._sent - self._answered < UNDER_WAY_MAX:
            self._send()
        if self.rows >= self._wanted and not self._next.grants and self._answered == self._sent:
            self.done.set()

    def _ack(self, answer: pb.ConsumeAnswer) -> None:
        self.rows += answer.page.rows
        self.pushes += 1
        self._next.grants.append(answer.lease.grant)
        self._next.outcomes.append(ACK)
        runs = [(run.offset, run.rows) for run in answer.page.runs]
        if answer.page.HasField("scattered"):
            told = answer.page.scattered
            runs = list(zip(accumulate(told.offsets), told.rows or [1] * len(told.offsets), strict=True))
        self._next.runs.append(len(runs))
        self._next.offsets.extend(offset for offset, _ in runs)
        self._next.rows.extend(rows for _, rows in runs)

    def _send(self) -> None:
        self._sent += 1
        self._next.request, self._next.answered = self._sent, self._answered
        if not self._stream.try_write(pb.ConsumeRequest(settle=[self._next]).SerializeToString()):
            raise SystemExit("the broker does not take requests")
        self._next = pb.SettleRows()


def consume(options: argparse.Namespace) -> dict[str, Any]:
    return uvloop.run(_consume(options))


async def _consume(options: argparse.Namespace) -> dict[str, Any]:
    channel = AddressDialer().dial(options.server.removeprefix("bowstring://"))
    create = pb.CreateSubscriptionRequest(topic=TOPIC, name=options.subscription)
    await channel.call("CreateSubscription", create.SerializeToString(), 10)
    stream = channel.stream("Consume")
    pushes = PlainPushes(stream, options.count)
    clock = meter(options)
    clock.start()
    opening = pb.ConsumeOpen(topic=TOPIC, subscription=options.subscription, consumer="plain", instance=bytes(16))
    await stream.write(pb.ConsumeRequest(open=opening, credit=CREDIT, ready=True).SerializeToString())
    reading = asyncio.ensure_future(stream.each(pushes.take))
    await asyncio.wait((reading, asyncio.ensure_future(pushes.done.wait())), return_when=asyncio.FIRST_COMPLETED)
    if reading.done():
        reading.result()
        raise SystemExit("the broker has ended the stream")
    figures = clock.stop(pushes.rows, pushes.rows * options.size)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await channel.close()
    return {**figures, "pushes": pushes.pushes}
