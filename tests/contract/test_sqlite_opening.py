"""Opening a SQLite catalog: what is refused, what is told, and that what is refused is left as it was."""

from __future__ import annotations

import itertools
from pathlib import Path

import apsw
import pytest

from bowstring.catalog.sqlite import file
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.errors import Conflict, Corrupt, NotSupported
from bowstring.ports.catalog import Fence, Registered
from bowstring.ports.failures import DiskFull, StorageFailed
from bowstring.ports.journal import Edit
from tests.contract import catalog_fixture, faulty_catalog
from tests.contract.catalog_contract import BROKER, PAGES, commit, journal_of, make_topics, reading, references_of, same_pages
from tests.contract.edit_contract import KEPT
from tests.contract.edit_model import Kept, read
from tests.contract.faulty_catalog import opened
from tests.contract.faulty_vfs import BROKEN, FULL, Faults
from tests.contract.test_catalog import InlineWorker

faults = faulty_catalog.faults
make = faulty_catalog.make


async def test_a_catalog_in_use_is_refused(make):
    catalog = make()
    await catalog.open()
    with pytest.raises(Conflict, match="in use"):
        await make().open()
    await catalog.close()
    again = make()
    await again.open()
    await again.close()


async def test_a_newer_format_is_refused_and_left_alone(make, tmp_path: Path):
    catalog = make()
    await catalog.open()
    await catalog.close()
    connection = apsw.Connection(str(tmp_path / "catalog.db"))
    connection.pragma("user_version", 99)
    connection.close()
    before = (tmp_path / "catalog.db").read_bytes()
    with pytest.raises(NotSupported, match=r"format 99; this software reads the formats up to \d+"):
        await make().open()
    assert (tmp_path / "catalog.db").read_bytes() == before


@pytest.mark.parametrize("setting", ["CREATE TABLE theirs (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 77"])
async def test_the_database_of_another_application_is_refused_and_left_alone(make, tmp_path: Path, setting: str):
    connection = apsw.Connection(str(tmp_path / "catalog.db"))
    connection.execute(setting)
    connection.close()
    before = (tmp_path / "catalog.db").read_bytes()
    with pytest.raises(Conflict, match="another application"):
        await make().open()
    assert (tmp_path / "catalog.db").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be looked at closely " * 100, b"SQLite format 3\x00" + bytes(5_000)]
)
async def test_a_file_that_is_no_database_is_refused_and_left_alone(make, tmp_path: Path, content: bytes):
    (tmp_path / "catalog.db").write_bytes(content)
    with pytest.raises(Corrupt, match="no SQLite database"):
        await make().open()
    assert (tmp_path / "catalog.db").read_bytes() == content


async def test_a_directory_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(Conflict, match="cannot be opened"):
        await SqliteCatalog(str(tmp_path / "nowhere" / "catalog.db"), InlineWorker()).open()


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


async def opens(catalog: SqliteCatalog, faults: Faults, told: type[Exception]) -> bool:
    """Whether it does; it may fail only because a fault struck, and only so."""
    try:
        await catalog.open()
    except told:
        assert faults.struck
        return False
    return True


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize(("error", "told"), [(FULL, DiskFull), (BROKEN, StorageFailed)])
async def test_opening_that_fails_at_any_step_is_told_and_works_once_the_disk_does(make, faults: Faults, tmp_path: Path, kind, error, told):
    for n in itertools.count(1):
        empty(tmp_path)
        faults.plan(kind, n, error)
        catalog = make()
        if await opens(catalog, faults, told):
            await catalog.close()
            if not faults.struck:
                break
        faults.heal()
        catalog = make()
        fence = await opened(catalog)
        await commit(catalog, fence, 1, b"changes", PAGES)
        await catalog.close()
    assert n > 4


async def test_a_directory_whose_sync_fails_is_told(make):
    def fail() -> None:
        raise OSError(5, "the directory cannot be synced")

    with pytest.raises(StorageFailed, match="directory cannot be synced"):
        await make(sync_directory=fail).open()


async def test_settings_that_did_not_take_are_told(make, monkeypatch: pytest.MonkeyPatch):
    class Deaf(apsw.Connection):
        def pragma(self, name: str, value: object = None, **options: object) -> object:
            return None if (name, value) == ("journal_mode", "WAL") else super().pragma(name, *([] if value is None else [value]))

    monkeypatch.setattr(file.apsw, "Connection", Deaf)
    with pytest.raises(StorageFailed, match="settings that make commits durable"):
        await make().open()


# ---- older formats ---------------------------------------------------------------------------------------------------


@pytest.fixture
def format_1(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes((Path(__file__).parent / "fixtures" / "catalog-1.sqlite").read_bytes())


@pytest.mark.usefixtures("format_1")
async def test_a_catalog_of_format_1_is_brought_up_to_this_one_and_everything_is_there(make):
    catalog = make()
    await catalog.open()
    assert await catalog.register(BROKER) == Registered(Fence(BROKER, 3), 12, 0)
    assert await catalog.topics() == catalog_fixture.TOPICS
    assert await journal_of(catalog) == catalog_fixture.ROWS
    for row in catalog_fixture.ROWS:
        pages = catalog_fixture.pages_of(row.sequence)
        assert same_pages(await reading(catalog).read(references_of(row.sequence, pages)), pages)
    assert await read(reading(catalog), 0) == Kept()
    cluster = await catalog.cluster()
    await catalog.close()
    again = make()
    fence = await opened(again)
    assert await again.cluster() == cluster
    await make_topics(again, fence)
    await again.journal(fence).edit(KEPT._replace(trim=5))
    assert await read(reading(again), 5) == Kept().edited(KEPT._replace(trim=5), 12)
    await again.close()


@pytest.mark.usefixtures("format_1")
async def test_a_tombstone_of_format_1_counts_as_made_when_it_was_brought_up(make):
    catalog = make()
    fence = await opened(catalog)
    for sequence in range(13, 26):
        await commit(catalog, fence, sequence, b"", [])
    await catalog.journal(fence).edit(Edit(trim=20))
    assert [row.id for row in await catalog.topics()] == [1, 2, 3]
    await catalog.journal(fence).edit(Edit(trim=21))
    assert [row.id for row in await catalog.topics()] == [1, 3]
    await catalog.close()


@pytest.mark.usefixtures("format_1")
@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize(("error", "told"), [(FULL, DiskFull), (BROKEN, StorageFailed)])
async def test_bringing_up_a_format_that_fails_at_any_step_is_told_and_works_once_the_disk_does(make, faults: Faults, kind, error, told):
    for n in itertools.count(1):
        faults.plan(kind, n, error)
        catalog = make()
        if await opens(catalog, faults, told):
            break
        faults.heal()
    assert n > 1
    faults.heal()
    await catalog.register(BROKER)
    assert await catalog.topics() == catalog_fixture.TOPICS
    assert await journal_of(catalog) == catalog_fixture.ROWS
    await catalog.close()
