"""A real broker, killed with SIGKILL a hundred times under load; the history that its clients wrote is checked as the simulation's is.

Kills are not timed but counted: each comes after some number of further acknowledgements, so it always hits a broker that works. The
broker comes back on the same port and the kits go on by themselves.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time
from pathlib import Path

import bowstring
import bowstring.aio
from bowstring import errors
from tests.history import checkers
from tests.history.events import FAIL, FINAL, OK, PUBLISH, UNKNOWN, History, Row, fingerprint, label, label_in, value_of
from tests.process.serving import Served, start

ROUNDS = int(os.environ.get("BOWSTRING_KILL_ROUNDS", "100"))
TOPIC, PARTITIONS = "orders", 3
LIMIT_SECONDS = 600


class Load:
    """Producers and followers in this process, and what they were told."""

    def __init__(self, address: str, source: random.Random) -> None:
        self.address = address
        self.source = source
        self.history = History(time.monotonic)
        self.acknowledged = 0
        self.progress = asyncio.Condition()
        self.over = False

    async def produce(self, name: str) -> None:
        async with bowstring.aio.connect(self.address) as client:
            producer = client.producer(TOPIC, group=name, timeout=30)
            sequence = 0
            waiting: set[asyncio.Task[None]] = set()
            while not self.over:
                sequence += 1
                waiting.add(asyncio.create_task(self._send(producer, name, sequence)))
                if len(waiting) >= 20:
                    _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*waiting)
            await producer.close()

    async def _send(self, producer: bowstring.aio.Producer, name: str, sequence: int) -> None:
        natural = self.source.random() < 0.3
        text, size = label(name, sequence), self.source.choice([20, 200, 20_000])
        value, key = value_of(text, size), f"k{self.source.randrange(9)}"
        row = Row(text, f"{name}-{sequence}" if natural else "", key, fingerprint(value), natural=natural)
        call = self.history.invoke(name, PUBLISH, TOPIC, [row], producer=name, sequence=sequence)
        receipt = producer.send(value, key=key, id=row.id or None)
        try:
            stored = await receipt
        except errors.OutcomeUnknown as error:
            self.history.ended(UNKNOWN, name, call, PUBLISH, TOPIC, [row._replace(id=receipt.id, error=error.kind)], error=error.kind)
        except errors.Error as error:
            self.history.ended(FAIL, name, call, PUBLISH, TOPIC, [row._replace(id=receipt.id, error=error.kind)], error=error.kind)
        else:
            where = {"partition": stored.partition, "offset": stored.offset, "duplicate": stored.duplicate, "id": stored.id}
            self.history.ended(OK, name, call, PUBLISH, TOPIC, [row._replace(**where)])
            async with self.progress:
                self.acknowledged += 1
                self.progress.notify_all()

    async def read(self, session: str, end: str | None = None) -> None:
        async with bowstring.aio.connect(self.address) as client:
            self.history.opened(session, session, TOPIC, dict.fromkeys(range(PARTITIONS), 1))
            async for batch in client.reader(TOPIC, end=end).batches():
                self.history.read(session, session, TOPIC, [_row(message) for message in batch])

    async def acknowledgements(self, more: int) -> None:
        """Waits for some further ones."""
        async with self.progress:
            wanted = self.acknowledged + more
            await self.progress.wait_for(lambda: self.acknowledged >= wanted)


def _row(message: bowstring.Message) -> Row:
    key = message.key.decode() if message.key is not None else ""
    arrived = int(message.arrived.timestamp() * 1e6)
    return Row(label_in(message.value), message.id, key, fingerprint(message.value), message.partition, message.offset, arrived)


def free_port() -> int:
    """A port for a broker that has to come back to it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def test_nothing_acknowledged_is_lost_when_the_broker_is_killed_again_and_again(tmp_path: Path) -> None:
    source = random.Random(os.environ.get("BOWSTRING_KILL_SEED", "bowstring"))
    arguments = ("--data", str(tmp_path), "--listen", f"127.0.0.1:{free_port()}", "--segment-bytes-first", "1MiB")
    served = await asyncio.to_thread(start, *arguments)
    load = Load(served.address, source)
    try:
        async with asyncio.timeout(LIMIT_SECONDS), bowstring.aio.connect(served.address) as client:
            await client.create_topic(TOPIC, partitions=PARTITIONS)
            producers = [asyncio.create_task(load.produce(f"p{number}")) for number in range(3)]
            follower = asyncio.create_task(load.read("follower"))
            for _ in range(ROUNDS):
                await load.acknowledgements(source.randrange(1, 60))
                served = await killed_and_back(served, arguments)
            await load.acknowledgements(50)
            load.over = True
            await asyncio.gather(*producers)
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
            await load.read(FINAL, end="latest")
    finally:
        served.process.kill()
        served.process.communicate()
    assert load.acknowledged > 10 * ROUNDS
    assert checkers.check(load.history.events) == []


async def killed_and_back(served: Served, arguments: tuple[str, ...]) -> Served:
    """The broker is killed, and started again."""
    served.process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(served.process.communicate)
    return await asyncio.to_thread(start, *arguments)
