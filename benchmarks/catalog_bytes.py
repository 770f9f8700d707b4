"""Counts the bytes that the catalog writes for a flush, without the pages that the flush carries in
its journal row.

A real broker in this process, on a real SQLite file, without the network: so it is known which
batches are in one flush. The bytes are those by which the WAL file grows, with checkpoints put off
so that it only ever grows; the pages' bytes are what the `pages` column holds afterwards. A
checkpoint later writes each changed page of the database once more, whatever the number of flushes
that changed it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from bowstring.assembly import assemble
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.host.clock import SystemClock
from bowstring.host.disk import HostDisk
from bowstring.host.worker import ThreadWorker
from bowstring.messages.encoding import Encoded, encode_values
from bowstring.messages.schema import BYTES_SCHEMA
from bowstring.settings import Settings

NEVER = 1 << 40
CATALOG = "catalog.sqlite"


def measure(folder: Path, flushes: int) -> dict[str, float]:
    """Bytes a flush: one partition with a small batch (inlined) and a large one (in a segment), and
    a hundred partitions.
    """
    small, large = encode_values([os.urandom(100)]), encode_values([os.urandom(100)] * 10_000)
    return {
        "1 partition, inlined": asyncio.run(_measure(folder, 1, small, flushes)),
        "1 partition, segment": asyncio.run(_measure(folder, 1, large, flushes)),
        "100 partitions": asyncio.run(_measure(folder, 100, small, flushes)),
    }


async def _measure(folder: Path, partitions: int, batch: Encoded, flushes: int) -> float:
    data = Path(tempfile.mkdtemp(prefix="catalog-", dir=folder))
    worker = ThreadWorker("bowstring-catalog")
    disk = HostDisk(data)
    disk.lock("benchmark")
    catalog = SqliteCatalog(str(data / CATALOG), worker, wal_bytes_max=NEVER)
    broker = assemble(Settings(), clock=SystemClock(), catalog=catalog, disk=disk).broker
    try:
        await broker.start()
        await broker.topics.create("bench", partitions=partitions)
        wal = data / f"{CATALOG}-wal"
        publisher = await broker.publisher("bench", os.urandom(16), 1, "default")
        before, committed = wal.stat().st_size, broker.statistics().flushes
        for number in range(flushes):
            await _flush(publisher, partitions, batch, number)
        grown, committed = wal.stat().st_size - before, broker.statistics().flushes - committed
        if committed != flushes:
            raise RuntimeError(f"{flushes} flushes were meant, {committed} were made")
        await broker.stop()
        return round((grown - _inlined_bytes(data / CATALOG)) / flushes, 1)
    finally:
        await worker.close()
        disk.unlock()
        shutil.rmtree(data, ignore_errors=True)


async def _flush(publisher: Any, partitions: int, batch: Encoded, number: int) -> None:
    """One batch to each partition, all before the broker's flusher has its turn."""
    answers: list[asyncio.Future[Any]] = []
    for partition in range(partitions):
        await publisher.admit(len(batch.data))
        answers.append(asyncio.get_running_loop().create_future())
        publisher.publish(
            PublishedBatch(
                partition=partition,
                number=number * partitions + partition + 1,
                previous=(number - 1) * partitions + partition + 1 if number else 0,
                sent=SystemClock().now(),
                timeout=30_000_000,
                schema=BYTES_SCHEMA,
                columns=batch.mask,
                rows=batch.rows,
                data=batch.data,
            ),
            answers[-1].set_result,
        )
    for answer in await asyncio.gather(*answers):
        if isinstance(answer, Exception):
            raise answer


def _inlined_bytes(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute("select coalesce(sum(length(pages)), 0) from journal").fetchone()
    connection.close()
    return found
