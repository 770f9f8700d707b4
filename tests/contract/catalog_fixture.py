"""A small catalog of every kind of row, kept as a file of each format: what an older Bowstring wrote must be read by every later one.

`fixtures/catalog-1.sqlite` was made by this program at the commit before format 2 came, with

    python -m tests.contract.catalog_fixture tests/contract/fixtures/catalog-1.sqlite

and is never made again: the software that writes its format is gone.
"""

from __future__ import annotations

import asyncio
import sys

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.ports.catalog import Fence, Row, TopicRow
from bowstring.ports.store import Page

BROKER = 1
CREATED, DELETED = 1_700_000_000_000_000, 1_700_000_001_000_000
PAGES = [Page(b"whose rows", b"a batch"), Page(b"", bytes(range(256)) * 20)]
ROWS = [
    Row(sequence, 1 if sequence <= 6 else 2, b"changes of %d " % sequence * (300 if sequence == 5 else sequence))
    for sequence in range(1, 13)
]
TOPICS = [
    TopicRow(1, "orders", 3, CREATED, b"\x00settings", None),
    TopicRow(2, "payments", 1, CREATED, b"", DELETED),
    TopicRow(3, "été 夏", 64, CREATED, b"x" * 3_000, None),
]


def pages_of(sequence: int) -> list[Page]:
    """The pages that the row of the fixture has inlined."""
    return PAGES[: sequence % 3]


async def fill(catalog: SqliteCatalog) -> None:
    """Two incarnations, and what they commit."""
    for _ in range(2):
        fence = Fence(BROKER, (await catalog.register(BROKER)).epoch)
        for row in ROWS:
            if row.epoch == fence.epoch:
                await catalog.commit(fence, row.sequence, row.changes, pages_of(row.sequence))
    for topic in TOPICS:
        await catalog.create_topic(fence, topic)
        if topic.deleted is not None:
            await catalog.delete_topic(fence, topic.id, topic.deleted)


class Inline:
    """Runs calls at once."""

    async def run(self, call):
        return call()

    async def close(self) -> None: ...


async def make(path: str) -> None:
    catalog = SqliteCatalog(path, Inline())
    await catalog.open()
    await fill(catalog)
    await catalog.close()


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1]))
