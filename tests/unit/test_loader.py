"""Reading back ids at load: what a disk cannot read for a moment is not lost for a deduplication window."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bowstring.broker.log.loader import TRIES_MAX, restore_ids
from bowstring.core import known_messages
from bowstring.core.changes import Append
from bowstring.core.pages import PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.failures import Damaged
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
