"""The SQLite catalog holds the contract: on a file with a thread, on a file with calls run inline, and in memory.

Behind that, a hypothesis machine compares it with a model of a few lines, and controls show that a catalog that forgets one of the two
checks of a commit breaks the contract.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.errors import InvalidArgument, TopicExists
from bowstring.host.worker import ThreadWorker
from bowstring.ports.catalog import Fence, PartitionRow
from bowstring.ports.failures import Fenced
from bowstring.ports.journal import Row
from bowstring.ports.worker import Worker
from tests.contract.brokers_contract import BrokersContract
from tests.contract.catalog_contract import CatalogContract, commit, reading, topic
from tests.contract.edit_contract import EditContract
from tests.contract.topic_contract import TopicContract

T = TypeVar("T")
BROKERS = st.sampled_from([1, 2])


class InlineWorker:
    """Runs calls at once, as the simulation does."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()

    async def close(self) -> None: ...


class SqlitePlace:
    """A SQLite file, or memory. Beside the one connection there is no other, so an incarnation beside has the same object."""

    def __init__(self, path: str, worker: Worker) -> None:
        self.path = path
        self.worker = worker
        self.catalog = SqliteCatalog(path, worker, wal_bytes_max=64 << 10)

    async def open(self) -> SqliteCatalog:
        await self.catalog.open()
        return self.catalog

    async def beside(self) -> SqliteCatalog:
        return self.catalog

    async def again(self) -> SqliteCatalog:
        if self.path != ":memory:":
            await self.catalog.close()
            self.catalog = SqliteCatalog(self.path, self.worker, wal_bytes_max=64 << 10)
            await self.catalog.open()
        return self.catalog

    async def flip_a_byte(self, sequence: int, column: str, position: int) -> None:
        def flip(connection: apsw.Connection) -> None:
            with connection.blob_open("main", "journal", column, sequence, True) as blob:
                blob.seek(position)
                byte = blob.read(1)[0] ^ 0x10
                blob.seek(position)
                blob.write(bytes([byte]))

        await self._behind_its_back(flip)

    async def lose_a_row(self, sequence: int) -> None:
        await self._behind_its_back(lambda connection: connection.execute("DELETE FROM journal WHERE position = ?", (sequence,)))

    async def flip_a_bit(self, table: str, key: dict[str, int], column: str) -> None:
        def flip(connection: apsw.Connection) -> None:
            where = " AND ".join(f"{name} = {value}" for name, value in key.items())
            [(value,)] = connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchall()
            other: str | bytes | int
            if isinstance(value, str):
                other = chr(ord(value[0]) ^ 1) + value[1:]
            else:
                other = bytes([value[0] ^ 1]) + value[1:] if isinstance(value, bytes) else (value or 0) ^ 1
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (other,))

        await self._behind_its_back(flip)

    async def close(self) -> None:
        await self.catalog.close()
        await self.worker.close()

    async def _behind_its_back(self, change: Callable[[apsw.Connection], object]) -> None:
        """On a connection of its own where the file allows it; memory is only to be had through the catalog's."""
        if self.path == ":memory:":
            change(self.catalog.database.connection)
            return
        await self.catalog.close()
        connection = apsw.Connection(self.path)
        change(connection)
        connection.close()
        await self.catalog.open()


class SqliteFileContract(CatalogContract, EditContract, TopicContract, BrokersContract):
    """The suite on a file, with the worker that a class names."""

    worker: type[ThreadWorker] | type[InlineWorker]

    @pytest.fixture
    async def place(self, tmp_path: Path):
        place = SqlitePlace(str(tmp_path / "catalog.db"), self.worker())
        yield place
        await place.close()


class TestSqliteFileWithAThread(SqliteFileContract):
    worker = ThreadWorker


class TestSqliteFileInline(SqliteFileContract):
    worker = InlineWorker


class TestSqliteMemory(CatalogContract, EditContract, TopicContract, BrokersContract):
    @pytest.fixture
    async def place(self):
        place = SqlitePlace(":memory:", InlineWorker())
        yield place
        await place.close()


EPOCH_CHECK = "(SELECT epoch FROM broker WHERE number = :broker) = :epoch"
SEQUENCE_CHECK = "), :first) = :position - 1"


@pytest.mark.parametrize(
    ("forgotten", "broken"),
    [
        (EPOCH_CHECK, lambda place: CatalogContract().test_nothing_of_an_old_epoch_lands_after_a_new_one_was_registered(place, 0)),
        (EPOCH_CHECK, lambda place: CatalogContract().test_a_commit_handed_over_with_a_registration_lands_before_it_or_never(place, False)),
        (EPOCH_CHECK, lambda place: CatalogContract().test_an_older_epoch_is_fenced(place)),
        (EPOCH_CHECK, lambda place: BrokersContract().test_a_new_epoch_of_one_leaves_the_other_in_office(place)),
        (EPOCH_CHECK, lambda place: BrokersContract().test_two_brokers_commit_and_are_taken_over_at_the_same_time(place, 0)),
        (SEQUENCE_CHECK, lambda place: CatalogContract().test_a_commit_with_the_wrong_sequence_is_fenced_and_stores_nothing(place, 4)),
    ],
)
async def test_a_catalog_that_forgets_a_check_breaks_the_contract(forgotten: str, broken: Callable[[SqlitePlace], Awaitable[None]]):
    place = SqlitePlace(":memory:", InlineWorker())
    database = place.catalog.database
    query = database.sql["commit"]
    assert forgotten in query
    database.sql = {**database.sql, "commit": query.replace(forgotten, "TRUE" if forgotten == EPOCH_CHECK else "), :first) IS NOT NULL")}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await broken(place)
    await place.close()


@pytest.mark.parametrize(
    "broken",
    [
        lambda place: EditContract().test_an_old_epoch_edits_alters_and_forgets_nothing(place),
        lambda place: EditContract().test_an_edit_handed_over_with_a_registration_lands_before_it_or_never(place, False),
    ],
)
async def test_a_catalog_whose_edits_forget_the_epoch_breaks_the_contract(monkeypatch, broken: Callable[[SqlitePlace], Awaitable[None]]):
    place = SqlitePlace(":memory:", InlineWorker())
    monkeypatch.setattr(place.catalog.database, "check_epoch", lambda *_: None)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await broken(place)
    await place.close()


@pytest.mark.parametrize("number", [0, -1, (1 << 15) + 1])
async def test_a_number_that_no_broker_can_have_is_refused(number: int):
    place = SqlitePlace(":memory:", InlineWorker())
    catalog = await place.open()
    with pytest.raises(InvalidArgument, match="the number of a broker"):
        await catalog.register(number)
    assert (await catalog.register(1 << 15)).fence == Fence(1 << 15, 1)
    await place.close()


class AgainstAModel(RuleBasedStateMachine):
    """Any calls of two brokers in any order, with reopening between: the journals and the live topics are what lists and a dictionary
    say."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.place = SqlitePlace(f"{self.directory.name}/catalog.db", InlineWorker())
        self.catalog = self.runner.run(self.place.open())
        self.last_epoch = 0
        self.epochs = {1: 0, 2: 0}
        self.rows: dict[int, list[Row]] = {1: [], 2: []}
        self.topics: dict[str, int] = {}
        self.ids: list[int] = []
        self.partitions: list[PartitionRow] = []

    @rule(broker=BROKERS)
    def register(self, broker: int) -> None:
        registered = self.runner.run(self.catalog.register(broker))
        self.last_epoch += 1
        self.epochs[broker] = self.last_epoch
        assert registered == (Fence(broker, self.last_epoch), len(self.rows[broker]), 0)

    @rule(broker=BROKERS, older=st.integers(0, 2), ahead=st.integers(-1, 2), changes=st.binary(max_size=3_000))
    def commit(self, broker: int, older: int, ahead: int, changes: bytes) -> None:
        rows = self.rows[broker]
        row = Row(len(rows) + ahead, self.epochs[broker] - older, changes)
        committing = commit(self.catalog, Fence(broker, row.epoch), row.sequence, changes, [])
        current = self.epochs[broker] > 0 and older == 0
        if current and ahead == 1:
            self.runner.run(committing)
            rows.append(row)
        elif current and row in rows:
            self.runner.run(committing)
        else:
            with pytest.raises(Fenced):
                self.runner.run(committing)

    @rule(broker=BROKERS, older=st.integers(0, 1), name=st.sampled_from(["a", "b", "c"]))
    def create(self, broker: int, older: int, name: str) -> None:
        create = self.catalog.create_topic(Fence(broker, self.epochs[broker] - older), topic(name))
        if older or not self.epochs[broker]:
            with pytest.raises(Fenced):
                self.runner.run(create)
        elif name in self.topics:
            with pytest.raises(TopicExists):
                self.runner.run(create)
        else:
            made = self.runner.run(create)
            assert made.id not in self.ids
            self.ids.append(made.id)
            self.topics[name] = made.id
            self.partitions.append(PartitionRow(made.id, 0, broker))

    @rule(broker=BROKERS, name=st.sampled_from(["a", "b", "c"]))
    def delete(self, broker: int, name: str) -> None:
        if name in self.topics and self.epochs[broker]:
            self.runner.run(self.catalog.delete_topic(Fence(broker, self.epochs[broker]), self.topics.pop(name), 1))

    @rule()
    def reopen(self) -> None:
        self.catalog = self.runner.run(self.place.again())

    @invariant()
    def is_as_the_model_says(self) -> None:
        for broker, expected in self.rows.items():
            assert self.runner.run(reading(self.catalog, broker).rows(0, 1_000_000)) == expected
            assert self.runner.run(self.catalog.partitions(broker)) == [row for row in self.partitions if row.broker == broker]
        rows = self.runner.run(self.catalog.topics())
        assert {row.name: row.id for row in rows if row.deleted is None} == self.topics
        assert [row.id for row in rows] == self.ids

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.place.close())
            self.runner.close()
            self.directory.cleanup()


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = settings(max_examples=40, stateful_step_count=30)
