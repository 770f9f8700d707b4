"""How the SQLite catalog fails, on real files whose writes and syncs can be made to fail.

The promises are those of `ports.failures`: after `DiskFull` nothing of the write counts and the catalog goes on, after `StorageFailed`
nothing is ever written again, `Damaged` is about one reading only. Each is tried with the failure at every single write or sync that
the work consists of, one after the other, until one round has none left to fail.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.ports.catalog import Fence
from bowstring.ports.extents import ExtentKey
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.ports.journal import Edit, Row
from tests.contract import faulty_catalog
from tests.contract.catalog_contract import BROKER, PAGES, commit, journal_of, make_topics, reading, references_of, same_pages, topic
from tests.contract.edit_contract import KEPT
from tests.contract.edit_model import Kept, extent, read, state
from tests.contract.faulty_catalog import opened
from tests.contract.faulty_vfs import BROKEN, FULL, Faults
from tests.contract.test_catalog import InlineWorker

# apsw raises what a VFS raises, and where it cannot (in a checkpoint, in closing) it says so to the hook for such exceptions, too.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

faults = faulty_catalog.faults
make = faulty_catalog.make


# ---- a full disk -----------------------------------------------------------------------------------------------------


async def test_a_commit_that_finds_no_room_at_any_of_its_writes_counts_for_nothing(make, faults: Faults):
    catalog = make()
    fence = await opened(catalog)
    for n in itertools.count(1):
        faults.plan("write", n, FULL)
        try:
            await commit(catalog, fence, 1, b"too much", PAGES)
            break
        except DiskFull:
            assert faults.struck
        assert await journal_of(catalog) == []
    assert n > 5
    faults.heal()
    assert await journal_of(catalog) == [Row(1, 1, b"too much")]
    assert same_pages(await reading(catalog).read(references_of(1, PAGES)), PAGES)
    await catalog.close()
    catalog = make()
    await catalog.open()
    assert await journal_of(catalog) == [Row(1, 1, b"too much")]
    await catalog.close()


async def test_a_commit_that_found_no_room_does_not_come_back_after_a_crash(make, faults: Faults, tmp_path: Path):
    for n in itertools.count(1):
        catalog = make()
        fence = await opened(catalog)
        last = len(await journal_of(catalog))
        faults.plan("write", n, FULL)
        try:
            await commit(catalog, fence, last + 1, b"too much", PAGES)
            break
        except DiskFull:
            faults.heal()
        copy = as_a_crash_leaves_it(tmp_path, n)
        await catalog.close()
        crashed = SqliteCatalog(str(copy / "catalog.db"), InlineWorker())
        await crashed.open()
        assert len(await journal_of(crashed)) == last
        await crashed.close()
    assert n > 5
    await catalog.close()


def empty(folder: Path) -> None:
    for path in folder.glob("catalog.db*"):
        path.unlink()


def as_a_crash_leaves_it(folder: Path, n: int) -> Path:
    """A copy of the files as they are now."""
    copy = folder / f"after crash {n}"
    copy.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    return copy


async def test_an_edit_that_finds_no_room_at_any_of_its_writes_changes_nothing_and_does_not_come_back(make, faults: Faults, tmp_path: Path):
    for n in itertools.count(1):
        catalog = make()
        fence, edit, kept = await edited(catalog)
        faults.plan("write", n, FULL)
        try:
            await catalog.journal(fence).edit(edit)
            break
        except DiskFull:
            faults.heal()
        assert await read(reading(catalog), 0) == kept
        copy = as_a_crash_leaves_it(tmp_path, n)
        await catalog.journal(fence).edit(Edit(drop=edit.drop))
        await catalog.close()
        crashed = SqliteCatalog(str(copy / "catalog.db"), InlineWorker())
        await crashed.open()
        assert (await crashed.register(BROKER)).trimmed == 0
        assert await read(reading(crashed), 0) == kept
        await crashed.close()
        empty(tmp_path)
    assert n > 5
    faults.heal()
    assert await read(reading(catalog), 9) == kept.edited(edit, 12)
    await catalog.close()


async def edited(catalog: SqliteCatalog) -> tuple[Fence, Edit, Kept]:
    """A catalog with 12 rows and an edit, what it keeps, and another edit that touches every table."""
    fence = await opened(catalog)
    for sequence in range(1, 13):
        await commit(catalog, fence, sequence, b"changes", PAGES[:2])
    await make_topics(catalog, fence)
    made = await catalog.create_topic(fence, topic("orders"))
    await catalog.delete_topic(fence, made.id, 10)
    await catalog.journal(fence).edit(KEPT)
    add = [extent(2, n, 1, 100) for n in range(8)]
    states = [*(state(2, n, 9, bytes(1_500)) for n in range(2)), state(2, 0, 9, bytes(5_000), part=1), state(1, 0, 9, b"", part=1)]
    edit = Edit(add, [ExtentKey(1, 0, 1)], states, trim=9)
    return fence, edit, Kept().edited(KEPT, 12)


async def test_topics_and_registrations_that_find_no_room_leave_no_trace(make, faults: Faults):
    catalog = make()
    fence = await opened(catalog)
    made = await catalog.create_topic(fence, topic("orders"))
    faults.plan("write", 1, FULL, on=True)
    with pytest.raises(DiskFull):
        await catalog.create_topic(fence, topic("payments"))
    with pytest.raises(DiskFull):
        await catalog.delete_topic(fence, made.id, 10)
    with pytest.raises(DiskFull):
        await catalog.register(BROKER)
    faults.heal()
    assert await catalog.topics() == [made]
    await commit(catalog, fence, 1, b"still the same epoch", [])
    assert (await catalog.create_topic(fence, topic("payments"))).id == made.id + 1
    await catalog.close()


@pytest.mark.parametrize("error", [FULL, BROKEN])
@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_disk_that_fails_in_closing_loses_nothing(make, faults: Faults, kind: str, error: type[Exception]):
    catalog = make()
    fence = await opened(catalog)
    await commit(catalog, fence, 1, b"changes", PAGES)
    faults.plan(kind, 1, error, on=True)
    await catalog.close()
    assert faults.struck
    faults.heal()
    catalog = make()
    assert (await opened(catalog)).epoch == 2
    assert await journal_of(catalog) == [Row(1, 1, b"changes")]
    await catalog.close()


async def test_a_checkpoint_that_finds_no_room_is_no_harm_and_is_tried_again(make, faults: Faults):
    catalog = make(wal_bytes_max=1 << 40)
    fence = await opened(catalog)
    for sequence in range(1, 21):
        await commit(catalog, fence, sequence, b"changes" * 100, PAGES)
    in_wal = catalog.wal_bytes
    faults.plan("write", 3, FULL, on=True)
    await catalog.checkpoint()
    assert faults.struck
    faults.heal()
    assert (catalog.statistics().checkpoints, catalog.wal_bytes) == (0, in_wal)
    await commit(catalog, fence, 21, b"goes on", [])
    await catalog.checkpoint()
    assert (catalog.statistics().checkpoints, catalog.wal_bytes) == (1, 0)
    assert len(await journal_of(catalog)) == 21
    await catalog.close()


# ---- a failed write or sync ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_failed_write_or_sync_ends_the_catalog_and_nothing_more_is_written(make, faults: Faults, kind: str):
    for n in itertools.count(1):
        faults.heal()
        catalog = make()
        fence = await opened(catalog)
        last = len(await journal_of(catalog))
        made = await catalog.create_topic(fence, topic(f"topic {n}"))
        faults.plan(kind, n, BROKEN)
        try:
            await commit(catalog, fence, last + 1, b"changes", PAGES)
            break
        except StorageFailed:
            assert faults.struck
        faults.done.clear()
        with pytest.raises(StorageFailed):
            await commit(catalog, fence, last + 1, b"changes", PAGES)
        with pytest.raises(StorageFailed):
            await catalog.register(BROKER)
        with pytest.raises(StorageFailed):
            await catalog.delete_topic(fence, made.id, 10)
        await catalog.checkpoint()
        await catalog.close()
        assert not {"write", "sync"} & {done for done, _ in faults.done}
    assert n > (5 if kind == "write" else 1)
    await catalog.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_an_edit_whose_write_or_sync_fails_ends_the_catalog(make, faults: Faults, tmp_path: Path, kind: str):
    for n in itertools.count(1):
        faults.heal()
        catalog = make()
        fence, edit, kept = await edited(catalog)
        faults.plan(kind, n, BROKEN)
        try:
            await catalog.journal(fence).edit(edit)
            break
        except StorageFailed:
            assert faults.struck
        faults.done.clear()
        for call in (catalog.journal(fence).edit(edit), catalog.alter_topic(fence, 1, b""), catalog.journal(fence).forget_topic(1, 9)):
            with pytest.raises(StorageFailed):
                await call
        await catalog.close()
        assert not {"write", "sync"} & {done for done, _ in faults.done}
        faults.heal()
        catalog = make()
        await catalog.open()
        trimmed = (await catalog.register(BROKER)).trimmed
        assert await read(reading(catalog), trimmed) in (kept, kept.edited(edit, 12))
        await catalog.close()
        empty(tmp_path)
    assert n > (5 if kind == "write" else 1)
    await catalog.close()


async def test_a_checkpoint_that_fails_is_told_by_the_next_write(make, faults: Faults):
    catalog = make()
    fence = await opened(catalog)
    await commit(catalog, fence, 1, b"changes", PAGES)
    faults.plan("sync", 2, BROKEN)
    await catalog.checkpoint()
    assert faults.struck
    with pytest.raises(StorageFailed, match="checkpoint"):
        await commit(catalog, fence, 2, b"changes", [])
    assert await journal_of(catalog) == [Row(1, 1, b"changes")]
    await catalog.close()


async def test_a_read_that_fails_is_damage_and_reading_and_writing_go_on(make, faults: Faults):
    catalog = make()
    fence = await opened(catalog)
    large = [PAGES[1]._replace(body=bytes(3 << 20))]
    await commit(catalog, fence, 1, b"changes", large)
    await commit(catalog, fence, 2, b"changes", PAGES)
    faults.plan("read", 10, BROKEN)
    with pytest.raises(Damaged):
        await reading(catalog).read(references_of(1, large))
    assert faults.struck
    assert same_pages(await reading(catalog).read(references_of(1, large)), large)
    await commit(catalog, fence, 3, b"changes", [])
    await catalog.close()


async def test_a_catalog_that_is_closed_is_told_so_and_not_waited_for(make):
    catalog = make()
    fence = await opened(catalog)
    await catalog.close()
    await catalog.close()
    with pytest.raises(StorageFailed, match="not open"):
        await commit(catalog, fence, 1, b"late", [])
    with pytest.raises(StorageFailed, match="not open"):
        await journal_of(catalog)


async def test_a_wal_that_was_left_behind_is_written_and_synced_before_the_database_is_touched(make, faults: Faults, tmp_path: Path):
    """Its bytes may be in the cache alone, because a sync failed; the database must not be overwritten before they are durable."""
    catalog = make()
    fence = await opened(catalog)
    await commit(catalog, fence, 1, b"changes", [PAGES[1]._replace(body=bytes(1 << 20))])
    faults.plan("sync", 1, BROKEN)
    with pytest.raises(StorageFailed):
        await commit(catalog, fence, 2, b"not synced", PAGES)
    await catalog.close()
    faults.heal()
    before = (tmp_path / "catalog.db-wal").read_bytes()
    faults.done.clear()
    catalog = make()
    await catalog.open()
    changed = [done for done in faults.done if done[0] != "read"]
    written = len(before) // (1 << 16) + 1
    assert changed[: written + 1] == [("write", "catalog.db-wal")] * written + [("sync", "catalog.db-wal")]
    assert ("write", "catalog.db") in changed[written + 1 :]
    assert (tmp_path / "catalog.db-wal").read_bytes() == before
    assert await journal_of(catalog) == [Row(1, 1, b"changes"), Row(2, 1, b"not synced")]
    await catalog.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_wal_that_cannot_be_written_anew_does_not_open_and_loses_nothing(make, faults: Faults, tmp_path: Path, kind: str):
    catalog = make()
    fence = await opened(catalog)
    await commit(catalog, fence, 1, b"changes", PAGES)
    copy = as_a_crash_leaves_it(tmp_path, 1)
    await catalog.close()
    for path in copy.iterdir():
        path.rename(tmp_path / path.name)
    before = (tmp_path / "catalog.db").read_bytes()
    faults.plan(kind, 1, BROKEN)
    with pytest.raises(StorageFailed):
        await make().open()
    assert faults.struck
    assert (tmp_path / "catalog.db").read_bytes() == before
    faults.heal()
    catalog = make()
    await catalog.open()
    assert await journal_of(catalog) == [Row(1, 1, b"changes")]
    await catalog.close()


# ---- checkpoints -----------------------------------------------------------------------------------------------------


async def test_the_wal_is_folded_in_behind_a_commit_and_its_file_does_not_grow(make, tmp_path: Path):
    catalog = make(wal_bytes_max=256 << 10)
    fence = await opened(catalog)
    for sequence in range(1, 301):
        await commit(catalog, fence, sequence, b"changes" * 100, PAGES)
        if catalog.database._checkpoint is not None:
            await catalog.database._checkpoint
    assert catalog.statistics().checkpoints >= 5
    assert (tmp_path / "catalog.db-wal").stat().st_size < 300 << 10
    await catalog.close()


async def test_a_commit_is_answered_before_the_checkpoint_that_it_makes_due_begins(make, faults: Faults):
    catalog = make(wal_bytes_max=0)
    fence = await opened(catalog)
    faults.done.clear()
    await commit(catalog, fence, 1, b"changes", PAGES)
    assert {file for _, file in faults.done} <= {"catalog.db-wal"}
    await catalog.close()
    assert ("sync", "catalog.db") in faults.done


async def test_a_commit_is_one_sync(make, faults: Faults):
    catalog = make()
    fence = await opened(catalog)
    await commit(catalog, fence, 1, b"changes", PAGES)
    faults.done.clear()
    await commit(catalog, fence, 2, b"changes", PAGES)
    assert [done for done in faults.done if done[0] == "sync"] == [("sync", "catalog.db-wal")]
    await catalog.close()


async def test_what_is_written_for_a_flush_is_counted_as_the_wal_file_has_it(make, tmp_path: Path):
    catalog = make()
    fence = await opened(catalog)
    await catalog.checkpoint()
    before = catalog.statistics().wal_bytes_written
    for sequence in range(1, 31):
        await commit(catalog, fence, sequence, b"c" * 120, [])
    written = catalog.statistics().wal_bytes_written - before
    assert written == catalog.wal_bytes == (tmp_path / "catalog.db-wal").stat().st_size - 32
    assert catalog.statistics().commits == 30
    await catalog.close()
