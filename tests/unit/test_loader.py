"""Loading: a state counts as of the journal that it names, and an id that a disk cannot read for a moment is not lost for a window."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bowstring.broker.log.loader import TRIES_MAX, load, restore_ids
from bowstring.broker.topics import TopicSettings, encode_settings
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import known_messages
from bowstring.core.changes import Append
from bowstring.core.journal import encode
from bowstring.core.pages import PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.core.snapshots import PARTITION, snapshot
from bowstring.host.worker import ThreadWorker
from bowstring.messages import encoding
from bowstring.ports.catalog import TopicRow
from bowstring.ports.extents import StateRow
from bowstring.ports.failures import Damaged
from bowstring.ports.journal import Edit
from bowstring.ports.store import Page

WINDOW = 600_000_000
ARRIVED = 1_800_000_000_000_000


class FailingReader:
    """Gives one page, after so many reads have failed."""

    def __init__(self, page: Page, failures: int) -> None:
        self._page = page
        self.failures = failures

    async def pages(self, partition: Partition, entries: list[Any], *, keep: bool = True) -> list[Page]:
        if self.failures:
            self.failures -= 1
            raise Damaged("the disk cannot read it now")
        return [self._page for _ in entries]


def loaded(failures: int) -> Partition:
    """A partition with one page of two ids, whose reading fails so often."""
    encoded = encoding.encode_columns(2, values=[b"a", b"b"], ids=["one", "two"])
    page = Page(encode_header(PageHeader(1, 0, 1, encoded.mask, 2, ())), bytes(encoded.data))
    partition = Partition(1, 0, WINDOW)
    partition.replay(Append(1, 0, 1, 2, ARRIVED, encoded.mask, b"p" * 16, 1, segment=1, length=100), 1)
    asyncio.run(restore_ids([partition], FailingReader(page, failures)))  # type: ignore[arg-type]
    return partition


@pytest.mark.parametrize("failures", range(TRIES_MAX + 1))
def test_a_page_that_can_be_read_after_some_tries_is_no_damaged_one(failures: int):
    partition = loaded(failures)
    assert not partition.is_blind(ARRIVED)
    assert partition.ids.count_below(3) == 2


def test_a_page_that_cannot_be_read_keeps_its_partition_from_telling_ids_for_a_window():
    partition = loaded(TRIES_MAX + 1)
    assert partition.is_blind(ARRIVED + WINDOW - 1)
    assert not partition.is_blind(ARRIVED + WINDOW)


def test_a_page_that_cannot_be_read_keeps_its_messages_from_being_found_until_retention_takes_it():
    partition = loaded(TRIES_MAX + 1)
    assert known_messages.is_partly_blind(partition, ARRIVED + WINDOW)
    partition.apply(partition.raise_floor(3, ()))
    assert not known_messages.is_partly_blind(partition, ARRIVED + WINDOW)


def append(number: int) -> Append:
    """A batch of one row, at the offset of its number."""
    return Append(1, 0, number, 1, ARRIVED, 0, b"p" * 16, number, segment=1, length=100)


@pytest.mark.parametrize(
    ("broker", "sequence", "journal"),
    [pytest.param(1, 3, [1, 2, 3, 4, 5], id="our own"), pytest.param(2, 7, [4, 5], id="another's")],
)
async def test_changes_count_from_a_state_on_if_it_is_as_of_the_same_journal_and_else_all_do(
    broker: int, sequence: int, journal: list[int]
):
    """A partition has a state with three sealed rows, as of a flush of some broker's journal, and our
    journal has two more rows of it. Sequences of different journals are not compared.
    """
    catalog = SqliteCatalog(":memory:", ThreadWorker(), wal_bytes_max=64 << 10)
    await catalog.open()
    fence = (await catalog.register(1)).fence
    await catalog.create_topic(fence, TopicRow(0, "orders", 1, 1, encode_settings(TopicSettings(retention=60.0, deduplication=60.0)), None))
    three = Partition(1, 0, WINDOW)
    for number in (1, 2, 3):
        three.replay(append(number), sequence)
    three.sealed(4, 300)
    await catalog.journal(fence).edit(Edit(states=[StateRow(1, 0, PARTITION, 0, broker, sequence, snapshot(three))]))
    for at, number in enumerate(journal, start=1):
        await catalog.journal(fence).commit(at, encode([append(number)]), None)
    loaded = (await load(catalog, 1)).partitions[1, 0]
    assert (loaded.next_offset, loaded.snapshot_sequence) == (6, sequence if broker == 1 else 0)
    await catalog.close()
