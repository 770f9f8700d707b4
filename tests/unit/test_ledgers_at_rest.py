"""Subscriptions in a catalog: a capture writes their ledgers, a broker loads them, and the rows of
those that were deleted go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from bowstring.broker.log.loader import load
from bowstring.broker.topics import TopicSettings, encode_settings
from bowstring.broker.upkeep.capture import Capture
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import granting, settling, snapshots, subscribing
from bowstring.core.changes import Append, Change
from bowstring.core.decisions import Decided
from bowstring.core.journal import encode
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Settlement
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import OutcomeRows, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.host.clock import SystemClock
from bowstring.host.worker import ThreadWorker
from bowstring.ports.catalog import TopicRow
from bowstring.ports.extents import StateRow
from bowstring.ports.failures import Damaged, DiskFull
from bowstring.ports.journal import Edit, Journal

WINDOW = 60_000_000
NOW = 1_800_000_000_000_000
ADA = b"a" * 16


class Catalog:
    """A catalog with a topic of one partition, and the broker that has it."""

    def __init__(self, catalog: SqliteCatalog) -> None:
        self.catalog = catalog
        self.partition = Partition(1, 0, WINDOW)
        self.sequence = 0
        self.journal: Journal

    async def begin(self) -> None:
        await self.catalog.open()
        fence = (await self.catalog.register(1)).fence
        settings = encode_settings(TopicSettings(retention=60.0, deduplication=60.0))
        await self.catalog.create_topic(fence, TopicRow(0, "orders", 1, 1, settings, None))
        await self.load()
        await self.write(Append(1, 0, 1, 100, NOW, 2, ADA, 1, segment=7, length=100))

    async def load(self) -> None:
        loaded = await load(self.catalog, 1)
        self.partition, self.sequence = loaded.partitions[1, 0], loaded.sequence
        self.journal = self.catalog.journal(loaded.fence)

    async def write(self, *changes: Change) -> None:
        self.partition.take(Decided(changes, None))
        self.sequence += 1
        await self.journal.commit(self.sequence, encode(changes), None)
        for change in changes:
            self.partition.committed(change, self.sequence)

    async def subscribe(self, name: str = "billing") -> Ledger:
        number = self.partition.ledgers.next_number
        await self.write(subscribing.subscribe(self.partition, number, name, SubscriptionSettings(), 1, NOW))
        return self.partition.ledgers[number]

    async def grant(self, ledger: Ledger, rows: int) -> int:
        granted = granting.grant(ledger, "ada", rows, self.partition.next_offset, 30_000_000, NOW)
        assert granted is not None
        await self.write(*granted.changes)
        return granted.number

    async def ack(self, ledger: Ledger, number: int, rows: RowSet) -> None:
        request = SettleRequest("ada", number, [OutcomeRows(1, Settlement.ACK, rows)])
        await self.write(*settling.settle(ledger, request, NOW).changes)

    async def capture(self, edits_max: int = 99) -> None:
        self.partition.sealed(self.partition.committed_offset, 100)
        capture = Capture([self.partition], 1)
        capture.take(self.sequence)
        await capture.write(Limited(self.journal, edits_max), SystemClock())  # type: ignore[arg-type]

    async def put(self, row: StateRow) -> None:
        fence = (await self.catalog.register(1)).fence
        await self.catalog.journal(fence).edit(Edit(states=[row]))

    async def rows(self) -> list[tuple[str, int]]:
        return [(row.machine, row.part) for row in await self.journal.states()]


class Limited:
    """A journal whose disk is full after so many rows of states."""

    def __init__(self, journal: Journal, rows: int) -> None:
        self._journal = journal
        self._rows = rows

    async def edit(self, edit: Edit) -> None:
        states: Sequence[StateRow] = edit.states
        for row in states[: self._rows]:
            await self._journal.edit(Edit(states=[row]))
        if len(states) > self._rows:
            raise DiskFull("no room")
        self._rows -= len(states)


@pytest.fixture
async def catalog() -> AsyncIterator[Catalog]:
    made = Catalog(SqliteCatalog(":memory:", ThreadWorker(), wal_bytes_max=64 << 10))
    await made.begin()
    yield made
    await made.catalog.close()


async def test_a_capture_has_all_of_a_ledger_and_the_journal_the_rest(catalog: Catalog):
    ledger = await catalog.subscribe()
    await catalog.grant(ledger, 50)
    await catalog.ack(ledger, 1, RowSet(10, 20))
    await catalog.capture()
    assert await catalog.rows() == [("ledger-1", 0), ("ledger-1", 1), ("partition", 0)]
    await catalog.journal.edit(Edit(trim=catalog.sequence - 1))
    await catalog.ack(ledger, 2, RowSet(1, 10))
    before = catalog.partition
    await catalog.load()
    loaded = catalog.partition
    assert loaded.state() == before.state()
    assert loaded.ledgers[1].floor == 20
    assert (loaded.ledgers[1].name, loaded.ledgers[1].settings, loaded.ledgers[1].created) == ("billing", SubscriptionSettings(), NOW)


async def test_only_ledgers_that_have_changed_are_written(catalog: Catalog):
    first, second = await catalog.subscribe("first"), await catalog.subscribe("second")
    await catalog.capture()
    await catalog.grant(second, 5)
    parts = snapshots.capture(catalog.partition)
    assert [part.machine for part in parts] == ["ledger-2", "partition"]
    snapshots.put_back(catalog.partition, parts)
    await catalog.capture()
    before = catalog.partition
    await catalog.load()
    assert catalog.partition.state() == before.state()
    assert first.subscription == 1


async def test_the_rows_of_a_deleted_subscription_go_with_the_next_capture_and_one_made_anew_is_another(catalog: Catalog):
    ledger = await catalog.subscribe()
    await catalog.grant(ledger, 50)
    await catalog.ack(ledger, 1, RowSet(10, 20))
    await catalog.capture()
    await catalog.write(subscribing.unsubscribe(catalog.partition, 1))
    again = await catalog.subscribe()
    assert (again.subscription, again.name) == (2, "billing")
    assert again.backlog(101) == 100
    await catalog.load()
    assert catalog.partition.ledgers.numbers() == {2}
    await catalog.capture()
    assert await catalog.rows() == [("ledger-2", 0), ("partition", 0)]
    await catalog.load()
    assert catalog.partition.ledgers[2].backlog(101) == 100


@pytest.mark.parametrize("rows", range(6))
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "goes on"])
async def test_a_capture_that_is_cut_off_anywhere_loses_nothing(catalog: Catalog, rows: int, dies: bool):
    """Chunk, heads of two ledgers, the head of the partition, two rows of one that is gone."""
    gone, ledger = await catalog.subscribe("gone"), await catalog.subscribe()
    await catalog.grant(gone, 50)
    await catalog.ack(gone, 1, RowSet(10, 20))
    await catalog.capture()
    await catalog.write(subscribing.unsubscribe(catalog.partition, 1))
    await catalog.subscribe("new")
    await catalog.grant(ledger, 50)
    await catalog.ack(ledger, 1, RowSet(20, 30))
    with pytest.raises(DiskFull):
        await catalog.capture(rows)
    before = catalog.partition
    if dies:
        await catalog.load()
        assert catalog.partition.state() == before.state()
    assert catalog.partition.is_ahead_of_snapshot
    await catalog.capture()
    assert not catalog.partition.is_ahead_of_snapshot
    assert await catalog.rows() == [("ledger-2", 0), ("ledger-2", 1), ("ledger-3", 0), ("partition", 0)]
    await catalog.load()
    assert catalog.partition.state() == before.state()


async def test_a_ledger_of_another_brokers_journal_counts_as_of_its_beginning(catalog: Catalog):
    """The partition came from a broker whose journal was longer than ours is."""
    other = Partition(1, 0, WINDOW)
    other.replay(Append(1, 0, 1, 100, NOW, 2, ADA, 1, segment=7, length=100), 70)
    other.apply(subscribing.subscribe(other, 1, "billing", SubscriptionSettings(), 1, NOW))
    other.sealed(101, 100)
    states = [StateRow(1, 0, part.machine, part.number, 2, 70, part.encode()) for part in snapshots.capture(other)]
    await catalog.journal.edit(Edit(states=states))
    granted = granting.grant(other.ledgers[1], "ada", 5, 101, 30_000_000, NOW)
    assert granted is not None
    for sequence, change in enumerate(granted.changes, start=catalog.sequence + 1):
        await catalog.journal.commit(sequence, encode([change]), None)
    await catalog.journal.edit(Edit(trim=catalog.sequence))  # the append was the other's
    await catalog.load()
    assert catalog.partition.ledgers[1].leases.rows() == RowSet(1, 6)


async def test_a_head_that_is_missing_or_cannot_be_read_is_damage(catalog: Catalog):
    await catalog.subscribe()
    await catalog.capture()
    (head,) = [row for row in await catalog.journal.states() if row.machine == "ledger-1"]
    await catalog.put(head._replace(state=b"\xc1"))
    with pytest.raises(Damaged, match="cannot be read"):
        await catalog.load()
    await catalog.put(head._replace(state=b""))
    with pytest.raises(Damaged, match="subscription 1 is missing"):
        await catalog.load()
    await catalog.put(head)
    await catalog.load()
    assert catalog.partition.ledgers.numbers() == {1}
