"""Segments that nothing refers to: which are reused, which are put aside, for how long, and what the log says."""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass

import pytest

from bowstring.ports.store import Reference
from bowstring.store.local import LocalStore
from bowstring.store.segments import orphan_name, segment_id, segment_name
from tests.contract.scripted_disk import ScriptedDisk
from tests.unit.small_segments import FIRST, background, page, scripted_disk, small_store

DAY = 86_400


@dataclass
class StoppedClock:
    seconds: int = 1_700_000_000

    def now(self) -> int:
        return self.seconds * 1_000_000

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None: ...


disk = scripted_disk
store = small_store


async def written(store: LocalStore, *sequences: int, size: int = 1_000, copies: bool = False) -> Reference:
    """Appends a flush of three pages for each, and gives the first reference of the last."""
    for sequence in sequences:
        references = await store.append(sequence, [page(size)] * 3, copies=copies)
    await store.sync()
    return references[0]


def is_orphan(store: LocalStore, segment: int) -> bool:
    return orphan_name(segment, None) in store.orphans()


# Which are reused


async def test_a_segment_that_was_prepared_and_not_used_is_reused(store: LocalStore, disk: ScriptedDisk):
    for epoch in range(2, 6):
        await background()
        await store.open(epoch, (), committed=50)
    assert store.orphans() == {}
    assert len(disk.done("create")) == 1


async def test_a_recycled_segment_that_was_prepared_and_not_used_is_reused(store: LocalStore, disk: ScriptedDisk):
    """Its frames are whole, and name another segment."""
    old = await written(store, 1, size=18_000)
    current = await written(store, 2, size=18_000)
    await store.release([old.segment])
    await store.open(2, [current.segment], committed=2)
    await background()
    await store.open(3, [current.segment], committed=2)
    assert store.orphans() == {}


@pytest.mark.parametrize(
    ("sequences", "committed", "kept"),
    [
        ([5], 4, False),
        ([5, 6], 4, False),
        ([5], 5, True),
        ([5, 6], 5, True),  # the first was acknowledged
        ([5, 6, 7], 4, True),  # 7 is written when 5 is committed: the catalog is an older one
        ([9], 4, True),
        ([5], None, True),  # nobody says what was committed
    ],
)
async def test_flushes_that_were_never_committed_are_missed_by_nobody(
    store: LocalStore, sequences: list[int], committed: int | None, kept: bool
):
    reference = await written(store, *sequences)
    await store.open(2, (), committed=committed)
    assert is_orphan(store, reference.segment) == kept


async def test_a_crash_loop_takes_no_space(store: LocalStore, disk: ScriptedDisk):
    for epoch in range(2, 30):
        await written(store, 5, size=10_000)
        await written(store, 0, size=10_000, copies=True)
        await store.open(epoch, (), committed=4)
    assert store.orphans() == {}
    assert disk.platter.used <= 4 * 4 * FIRST


async def test_unfinished_copies_are_reused_by_the_next_incarnation_and_by_no_later_one(store: LocalStore, disk: ScriptedDisk):
    first = await written(store, 3, copies=True)
    await store.open(2, (), committed=9)
    assert store.orphans() == {}
    second = await written(store, 3, copies=True)
    assert second.segment != first.segment
    await store.open(3, [second.segment], committed=9)
    third = await written(store, 10)
    await store.open(4, [third.segment], committed=10)
    assert is_orphan(store, second.segment)


async def test_a_flush_among_copies_counts(store: LocalStore):
    await store.append(3, [page()] * 200, copies=True)
    reference = await written(store, 4)
    await store.open(2, (), committed=4)
    assert is_orphan(store, reference.segment)


async def test_an_older_catalog_keeps_everything_that_was_written_to(store: LocalStore, caplog: pytest.LogCaptureFixture):
    """Among it what would be reused if it lay there alone."""
    near = await written(store, 5, size=18_000)
    far = await written(store, 8, size=18_000)
    assert near.segment != far.segment
    await store.open(2, (), committed=4)
    assert is_orphan(store, near.segment)
    assert is_orphan(store, far.segment)
    assert "flush 8 and the journal ends at 4, so the catalog is an older one" in caplog.text


async def test_a_segment_of_a_later_epoch_is_proof_of_an_older_catalog_too(store: LocalStore, disk: ScriptedDisk):
    reference = await written(store, 5)
    (await disk.create(segment_name(segment_id(9, 1)), FIRST)).close()
    await store.open(2, (), committed=4)
    assert is_orphan(store, reference.segment)
    assert segment_name(segment_id(9, 1)) in disk.names()


async def test_what_cannot_be_read_or_understood_is_put_aside(store: LocalStore, disk: ScriptedDisk, caplog: pytest.LogCaptureFixture):
    reference = await written(store, 5)
    disk.fail("read", errno.EIO)
    await store.open(2, (), committed=4)
    assert "it cannot be read" in caplog.text
    assert is_orphan(store, reference.segment)
    reference = await written(store, 5)
    disk.platter.names[segment_name(reference.segment)].data[0] ^= 1
    await store.open(3, (), committed=4)
    assert "neither zeros nor a page" in caplog.text
    assert is_orphan(store, reference.segment)


# What becomes of them


async def test_an_orphan_is_told_once_with_its_name_and_why_and_keeps_its_bytes(
    store: LocalStore, disk: ScriptedDisk, caplog: pytest.LogCaptureFixture
):
    reference = await written(store, 5)
    name = orphan_name(reference.segment, None)
    before = bytes(disk.platter.names[segment_name(reference.segment)].data)
    for epoch in (2, 3, 4):
        await store.open(epoch, (), committed=5)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert segment_name(reference.segment) in record.message
    assert name in record.message
    assert "flush 5, which may have been acknowledged" in record.message
    assert store.orphans() == {name: FIRST}
    assert disk.platter.durable_names[name].durable == before


async def test_the_number_of_an_orphan_is_not_given_again(store: LocalStore):
    first = await written(store, 5)
    await store.open(1, (), committed=5)
    assert is_orphan(store, first.segment)
    assert (await written(store, 6)).segment > first.segment


async def test_an_orphan_goes_when_its_time_is_over_and_the_log_says_so(disk: ScriptedDisk, caplog: pytest.LogCaptureFixture):
    clock = StoppedClock()
    store = LocalStore(disk, segment_bytes_first=FIRST, segment_bytes_max=FIRST, clock=clock, orphan_seconds=7 * DAY)
    await store.open(1, ())
    reference = await written(store, 5)
    await store.open(2, (), committed=5)
    (name,) = store.orphans()
    assert name == orphan_name(reference.segment, clock.seconds)
    clock.seconds += 7 * DAY - 1
    await store.open(3, (), committed=5)
    assert list(store.orphans()) == [name]
    clock.seconds += 1
    caplog.clear()
    await store.open(4, (), committed=5)
    assert store.orphans() == {}
    assert name not in disk.names()
    assert f"removed {name}" in caplog.text
    await store.close()


async def test_an_orphan_without_a_moment_is_never_removed(disk: ScriptedDisk):
    name = orphan_name(segment_id(1, 1), None)
    (await disk.create(name, FIRST)).close()
    store = LocalStore(disk, clock=StoppedClock(), orphan_seconds=0, segment_bytes_first=FIRST)
    await store.open(2, ())
    assert store.orphans() == {name: FIRST}
    await store.close()
