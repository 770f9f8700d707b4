"""A durable hand-over, without a network: `python -m benchmarks.grant_path`.

A real broker on a real directory, in this process. One producer publishes a message, a consumer that waits is pushed it and acks it,
and when the ack is answered the producer publishes the next one. What is told: flushes and CPU for each message, and the time from the
publish to the push. `--late` grants only rows that are committed already, so that the grant needs a flush of its own: the way that
decision 0045 refuses. `--rows` publishes so many messages at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.publish_path import CALLER, ROOT, TOPIC, requests
from bowstring.assembly import assemble
from bowstring.broker.queue import granter, lease_requests
from bowstring.broker.queue.subscriptions import NewSubscription, create
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import granting
from bowstring.core.ledger import Ledger
from bowstring.core.partition import Partition
from bowstring.host.clock import SystemClock
from bowstring.host.disk import HostDisk
from bowstring.host.worker import ThreadWorker
from bowstring.messages.encoding import encode_columns
from bowstring.ports.transport import Inbound, Take, joined
from bowstring.settings import Settings
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb

MUCH = 1 << 40


class Hand(Inbound):
    """One side of the hand-over, as the broker sees it: takes messages in the step in which they are made."""

    def __init__(self, opening: bytes, got: Callable[[bytes], None]) -> None:
        self._opening = opening
        self._got = got
        self._over = asyncio.Event()
        self.send: Callable[[bytes], object] = bytes

    async def each(self, take: Take) -> None:
        if (waiting := take(self._opening)) is not None:
            await waiting
        self.send = take
        await self._over.wait()

    def try_write(self, message: Any) -> bool:
        self._got(split(joined(message))[0])
        return True

    def end(self) -> None:
        self._over.set()


class HandOver:
    """Passes message after message from a producer to a consumer."""

    def __init__(self, rows: int, count: int) -> None:
        batch = encode_columns(rows, values=[os.urandom(100) for _ in range(rows)], created=SystemClock().now())
        opening, self._messages = requests(batch, count)
        opened = pb.ConsumeOpen(topic=TOPIC, subscription="s", consumer="c", instance=b"1" * 16)
        consume = pb.ConsumeRequest(open=opened, credit=pb.ConsumeCredit(messages=MUCH, bytes=MUCH), ready=True)
        self.producer = Hand(opening, lambda answer: None)
        self.consumer = Hand(consume.SerializeToString(), self._came)
        self.done = asyncio.Event()
        self.seconds: list[float] = []
        self._sent = 0.0
        self._acked = 0

    def publish(self) -> None:
        if not self._messages:
            return self.done.set()
        self._sent = time.perf_counter()
        self.producer.send(self._messages.pop(0))

    def _came(self, message: bytes) -> None:
        answer = pb.ConsumeAnswer.FromString(message)
        if answer.settled:
            asyncio.get_running_loop().call_soon(self.publish)
        elif answer.HasField("lease"):
            self.seconds.append(time.perf_counter() - self._sent)
            self._acked += 1
            settle = pb.SettleRows(request=self._acked, answered=self._acked - 1, grants=[answer.lease.grant], outcomes=[1], runs=[0])
            asyncio.get_running_loop().call_soon(self.consumer.send, pb.ConsumeRequest(settle=[settle]).SerializeToString())


def grant_late() -> None:
    """Grants committed rows only."""

    def decide(request: Any, partition: Partition, ledger: Ledger, now: int) -> Any:
        request.granted = found = granting.grant(ledger, request._consumer, request._most, partition.committed_offset, request._lease, now)
        return lease_requests.Decided(() if found is None else found.changes, found)

    def looks_again(grant: Callable[[Any], None]) -> Callable[[Any], None]:
        def granting_again(self: Any) -> None:
            candidates = list(self._candidates)
            grant(self)
            for subscription in candidates:
                subscription.waiting.update(dict.fromkeys(subscription.topic.actors))
                if any(actor.partition.committed_offset < actor.partition.next_offset for actor in subscription.topic.actors):
                    self.look_at(subscription)

        return granting_again

    lease_requests.GrantToConsumer.decide_lease = decide  # type: ignore[method-assign]
    granter.Granter.grant = looks_again(granter.Granter.grant)  # type: ignore[method-assign]


async def measure(options: argparse.Namespace) -> dict[str, float]:
    data = Path(tempfile.mkdtemp(prefix="grant-", dir=options.folder))
    worker, disk = ThreadWorker("bowstring-catalog"), HostDisk(data)
    disk.lock("benchmark")
    if options.late:
        grant_late()
    broker, gateway = assemble(Settings(), clock=SystemClock(), catalog=SqliteCatalog(str(data / "catalog.sqlite"), worker), disk=disk)
    try:
        await broker.start()
        await broker.topics.create(TOPIC)
        await create(broker.serving.queues, NewSubscription(TOPIC, "s"), CALLER, exists_ok=True)
        handing = HandOver(options.rows, options.count)
        calls = {"Publish": handing.producer, "Consume": handing.consumer}
        streams = [asyncio.create_task(gateway.stream(call, hand, CALLER)) for call, hand in calls.items()]
        await asyncio.sleep(0.05)
        flushes, cpu = broker.statistics().flushes, time.process_time()
        handing.publish()
        await handing.done.wait()
        cpu, flushes = time.process_time() - cpu, broker.statistics().flushes - flushes
        for hand in calls.values():
            hand.end()
        await asyncio.gather(*streams)
        await broker.stop()
    finally:
        await worker.close()
        disk.unlock()
        shutil.rmtree(data, ignore_errors=True)
    return {
        "flushes": round(flushes / options.count, 2),
        "cpu_us": round(cpu / options.count * 1e6),
        "median_ms": round(statistics.median(handing.seconds) * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grant_path", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="batches in all")
    parser.add_argument("--rows", type=int, default=1, help="messages a batch")
    parser.add_argument("--late", action="store_true", help="grant when rows are committed")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="where the data directory is made; on a real disk")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(uvloop.run(measure(options))))


if __name__ == "__main__":
    main()
