"""A small data directory with everything in it that a release can write, kept as that release left it: a later one must open it.

`fixtures/data-1.tar.xz` was made by this program with the software of the release before there were extents (catalog format 1, frames of
version 1, journal rows of format 1), commit 46f08a7:

    git archive 46f08a7 | tar -x -C OLD
    PYTHONPATH=OLD/src python tests/process/data_fixture.py tests/process/fixtures/data-1.tar.xz

It is never made again. The directory is taken while the broker runs, as a crash would leave it: with a WAL. Beside it in the archive is
`expected.json`: what was published, in the order of offsets, with the ids, and what was refused.

Retention and deduplication are as long as can be, so that nothing of it is ever too old to be served and recognised.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
import tarfile
import tempfile
from datetime import timedelta
from pathlib import Path

import bowstring
from bowstring import aio
from bowstring.catalog.sqlite.catalog import SqliteCatalog

LONG = timedelta(days=36_500)
LARGE = 20 * 1024
SETTINGS = {"segment_bytes_first": 64 * 1024, "segment_bytes_max": 128 * 1024, "topic_create": "on-request"}


class Fixture:
    """Publishes, and writes down what was acknowledged."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.stored: list[dict[str, object]] = []
        self.refused: list[dict[str, object]] = []

    def _broker(self) -> aio.Broker:
        return aio.Broker(data=self._data, **SETTINGS)

    async def _publish(self, producer: aio.Producer, topic: str, id: str, value: bytes, key: str) -> None:
        stored = await producer.send(value, id=id, key=key, attributes={"id": id})
        where = {"topic": topic, "partition": stored.partition, "offset": stored.offset}
        self.stored.append({**where, "id": id, "key": key, "value": base64.b64encode(value).decode()})

    async def first_life(self) -> None:
        async with self._broker() as broker, broker.connect() as client:
            for name, partitions in (("orders", 3), ("large", 1), ("late", 1), ("gone", 2)):
                await client.create_topic(name, partitions=partitions, retention=LONG, deduplication=LONG)
            async with client.producer("orders", group="shop") as producer:
                for number in range(40):
                    await self._publish(producer, "orders", f"order-{number}", b"order %d" % number, f"customer-{number % 7}")
            async with client.producer("gone") as producer:
                await producer.send(b"will be deleted", id="gone-1")
            async with client.producer("large") as producer:
                for number in range(6):
                    await self._publish(producer, "large", f"large-{number}", bytes([number]) * LARGE, "k")
            await client.delete_topic("gone")

    async def second_life(self, archive: Path) -> None:
        async with self._broker() as broker, broker.connect() as client:
            async with client.producer("late") as producer:
                await self._publish(producer, "late", "in-time-1", b"in time", "k")
                await self._miss_a_deadline(producer)
                await self._publish(producer, "late", "in-time-2", b"in time, too", "k")
            async with client.producer("orders", group="shop") as producer:
                for number in range(40, 50):
                    await self._publish(producer, "orders", f"order-{number}", b"order %d" % number, f"customer-{number % 7}")
            async with client.producer("large", compression="zstd") as producer:
                await self._publish(producer, "large", "compressed", b"z" * 4 * LARGE, "k")
            self._keep(archive)

    async def _miss_a_deadline(self, producer: aio.Producer) -> None:
        """A flush that takes longer than its message may: it is stored, then deleted, and its offset stays a hole."""
        commit = SqliteCatalog.commit

        async def slow(self: SqliteCatalog, *arguments: object) -> None:
            await asyncio.sleep(0.5)
            await commit(self, *arguments)

        SqliteCatalog.commit = slow
        try:
            await producer.send(b"too late", id="late-1", timeout=0.3)
        except bowstring.DeadlinePassed:
            self.refused.append({"topic": "late", "id": "late-1"})
        finally:
            SqliteCatalog.commit = commit

    def _keep(self, archive: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self._data, Path(folder, "data"))
            Path(folder, "data", "lock").unlink()
            Path(folder, "expected.json").write_text(json.dumps({"stored": self.stored, "refused": self.refused}))
            with tarfile.open(archive, "w:xz") as tar:
                for name in ("data", "expected.json"):
                    tar.add(Path(folder, name), name)


async def make(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fixture = Fixture(Path(folder))
        await fixture.first_life()
        await fixture.second_life(archive)


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
