"""What the world knows of when rows expire."""

from __future__ import annotations

from bowstring.core.changes import Append
from bowstring.core.pages import PageEntry, entry_of
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.ports.failures import Damaged
from tests.simulation.expiries import Expiries

FIRST, LAST = 1_800_000_000_000_000, 1_800_000_060_000_000
BATCH = encoding.encode_columns(3, values=["a", "b", "c"], expires=[FIRST, None, LAST])
PLAIN = encoding.encode_values(["a", "b"])


def appended(first_offset: int, batch: encoding.Encoded, expires: int = 0) -> Append:
    return Append(7, 1, first_offset, batch.rows, 1, batch.mask, b"p", 1, expires=expires)


def moments(expiries: Expiries, end: int) -> list[int]:
    return [expiries.of(7, 1, offset) for offset in range(1, end)]


def test_each_row_of_a_batch_expires_for_itself():
    expiries = Expiries()
    expiries.committed(appended(1, PLAIN), PLAIN.data)
    expiries.committed(appended(3, BATCH), BATCH.data)
    assert moments(expiries, 7) == [0, 0, FIRST, 0, LAST, 0]
    assert expiries.of(7, 0, 3) == 0


def test_only_pages_that_were_not_seen_before_are_read_at_load():
    expiries, partition, read = Expiries(), Partition(7, 1, 60), list[int]()
    for number, first_offset in enumerate((1, 4), 1):
        partition.pages.add(entry_of(appended(first_offset, BATCH), number))
    expiries.committed(appended(1, BATCH), BATCH.data)

    def data(entry: PageEntry) -> bytes:
        read.append(entry.first_offset)
        return BATCH.data

    expiries.loaded(partition, data)
    assert read == [4]
    assert moments(expiries, 7) == [FIRST, 0, LAST, FIRST, 0, LAST]


def test_the_rows_of_a_page_that_cannot_be_read_expire_with_the_page():
    expiries, partition = Expiries(), Partition(7, 1, 60)
    partition.pages.add(entry_of(appended(1, BATCH, expires=LAST), 1))

    def damaged(entry: PageEntry) -> bytes:
        raise Damaged("rotten")

    expiries.loaded(partition, damaged)
    assert moments(expiries, 4) == [LAST, LAST, LAST]
