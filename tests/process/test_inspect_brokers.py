"""`bowstring inspect` and `--repair` on a catalog that two brokers share: each has its own journal, and damage is told by broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bowstring import frames
from bowstring.broker.topics import TopicSettings, encode_settings
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core.changes import Append
from bowstring.core.journal import encode
from bowstring.core.pages import Origin, PageHeader, encode_header
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.overview import overview
from bowstring.inspection.repair import repair
from bowstring.messages import encoding
from bowstring.ports.catalog import Fence, TopicRow
from bowstring.ports.store import Page
from tests.contract.test_catalog import InlineWorker
from tests.process import stored
from tests.process.test_inspect import verified

ARRIVED = 1_800_000_000_000_000
PRODUCER = b"p" * 16


async def publish(catalog: SqliteCatalog, fence: Fence, topic: int, sequence: int) -> None:
    """A flush with one inlined page of two rows."""
    encoded = encoding.encode_columns(2, values=[b"a", b"b"], ids=[f"{topic}-{sequence}-{n}" for n in range(2)])
    header = PageHeader(topic, 0, 1, encoded.mask, 2, (Origin(2, PRODUCER, sequence, 0, "shop"),))
    inlined = frames.inlined([Page(encode_header(header), bytes(encoded.data))], *fence, sequence)
    change = Append(topic, 0, 2 * sequence - 1, 2, ARRIVED, encoded.mask, PRODUCER, sequence)
    change.segment, change.position, change.length = inlined.references[0][:3]
    await catalog.journal(fence).commit(sequence, encode([change]), inlined.data)


async def fill(path: Path) -> None:
    """Broker 1 has made 4 flushes in a topic of its own, broker 2 has made 3."""
    catalog = SqliteCatalog(str(path), InlineWorker())
    await catalog.open()
    settings = encode_settings(TopicSettings(3600.0, 60.0))
    for broker, flushes in ((1, 4), (2, 3)):
        fence = (await catalog.register(broker)).fence
        made = await catalog.create_topic(fence, TopicRow(0, f"of-{broker}", 1, ARRIVED, settings, None))
        for sequence in range(1, flushes + 1):
            await publish(catalog, fence, made.id, sequence)
    await catalog.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    asyncio.run(fill(folder / "catalog.sqlite"))
    return folder


def test_each_journal_is_told_and_every_page_is_checked(data: Path):
    assert verified(data) == []
    with DataDirectory(str(data)) as directory:
        told = overview(directory, stored.Contents(directory.catalog))
    assert [(each["broker"], each["first"], each["last"], each["rows"]) for each in told["journals"]] == [(1, 1, 4, 4), (2, 1, 3, 3)]
    assert {topic["name"]: topic["messages"] for topic in told["topics"]} == {"of-1": 8, "of-2": 6}


def test_a_damaged_row_of_one_journal_is_made_anew_and_the_other_is_left_alone(data: Path):
    position = (2 - 1 << 48) + 2
    others = stored.catalog(data, "SELECT * FROM journal WHERE position <> ? ORDER BY position", position)
    stored.catalog(data, "UPDATE journal SET changes = x'c0ffee' WHERE position = ?", position)
    assert {finding.kind for finding in verified(data)} == {"journal", "gap"}
    assert {step.where for step in repair(str(data), now=ARRIVED)} == {"of-2/0@3..4"}
    assert verified(data) == []
    assert stored.catalog(data, "SELECT * FROM journal WHERE position <> ? ORDER BY position", position) == others
    assert {key: partition.messages for key, partition in stored.contents(data).partitions.items()} == {(1, 0): 8, (2, 0): 6}
