"""How long a broker takes to load many subscriptions: `python -m benchmarks.ledger_load`.

Every partition has been used by every subscription: each ledger has a head with a consumer, and one
in ten holds leases and has a chunk. All of it is at rest, and the journal is short.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bowstring.broker.log.loader import load
from bowstring.broker.topics import TopicSettings, encode_settings
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import granting, settling, snapshots, subscribing
from bowstring.core.changes import Append
from bowstring.core.journal import encode
from bowstring.core.ledger_changes import Settlement
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import OutcomeRows, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.host.worker import ThreadWorker
from bowstring.ports.catalog import TopicRow
from bowstring.ports.extents import StateRow
from bowstring.ports.journal import Edit

NOW = 1_700_000_000_000_000
LEASE = 30_000_000
PARTITIONS_A_TOPIC = 100
ROWS_AN_EDIT = 2_000


def used(topic: int, number: int, subscriptions: int) -> Partition:
    """A partition of a thousand rows, most of which are settled."""
    partition = Partition(topic, number, 600_000_000)
    partition.replay(Append(topic, number, 1, 1_000, NOW, 0, b"p" * 16, 1, segment=1, length=100), 1)
    for subscription in range(1, subscriptions + 1):
        partition.apply(subscribing.subscribe(partition, subscription, f"subscription {subscription}", SubscriptionSettings(), 1, NOW))
        ledger = partition.ledgers[subscription]
        granted = granting.grant(ledger, "worker-17", 900, partition.next_offset, LEASE, NOW)
        assert granted is not None
        for change in granted.changes:
            partition.apply(change)
        rows = RowSet(500, 600) if (number + subscription) % 10 == 0 else None
        request = SettleRequest("worker-17", 1, [OutcomeRows(granted.number, Settlement.ACK, rows)])
        for change in settling.settle(ledger, request, NOW).changes:
            partition.apply(change)
    partition.sealed(1_001, 100_000)
    return partition


def states(partitions: int, subscriptions: int) -> Iterator[StateRow]:
    for at in range(partitions):
        partition = used(1 + at // PARTITIONS_A_TOPIC, at % PARTITIONS_A_TOPIC, subscriptions)
        for part in snapshots.capture(partition):
            yield StateRow(partition.topic, partition.number, part.machine, part.number, 1, 1, part.encode())


async def make(path: str, partitions: int, subscriptions: int) -> None:
    catalog = SqliteCatalog(path, ThreadWorker(), wal_bytes_max=64 << 20)
    await catalog.open()
    fence = (await catalog.register(1)).fence
    settings = encode_settings(TopicSettings(retention=60.0, deduplication=60.0))
    for topic in range(1, partitions // PARTITIONS_A_TOPIC + 1):
        await catalog.create_topic(fence, TopicRow(0, f"topic-{topic}", PARTITIONS_A_TOPIC, 1, settings, None))
    journal, rows = catalog.journal(fence), list[StateRow]()
    await journal.commit(1, encode([]), None)
    for row in states(partitions, subscriptions):
        rows.append(row)
        if len(rows) == ROWS_AN_EDIT:
            await journal.edit(Edit(states=rows))
            rows = []
    await journal.edit(Edit(states=rows))
    await catalog.close()


async def seconds(path: str) -> tuple[float, float, int]:
    """To load, by the clock and of CPU, and how many subscriptions there are."""
    catalog = SqliteCatalog(path, ThreadWorker(), wal_bytes_max=64 << 20)
    await catalog.open()
    gc.collect()
    gc.disable()  # as `serve` does
    begun, used = time.perf_counter(), time.process_time()
    loaded = await load(catalog, 1)
    took = time.perf_counter() - begun, time.process_time() - used
    gc.enable()
    found = sum(len(partition.ledgers) for partition in loaded.partitions.values())
    await catalog.close()
    return *took, found


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a broker takes to load many subscriptions.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--subscriptions", type=int, default=10, help="of each partition's topic")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "catalog.sqlite")
        asyncio.run(make(path, options.partitions, options.subscriptions))
        print(f"{options.partitions:,} partitions, {options.subscriptions} subscriptions each, {Path(path).stat().st_size / 2**20:.0f} MiB")
        for _ in range(options.rounds):
            took, cpu, found = asyncio.run(seconds(path))
            assert found == options.partitions * options.subscriptions
            print(f"loaded in {took:.2f} s, {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main()
