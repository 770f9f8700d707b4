"""What is on the disk is looked at after every turn of upkeep that has moved something, without the broker's noticing.

The catalog and the segments are read past the simulated disk: no time passes, nothing fails, nothing is noted. Looked at is:

- that loading now would give the state that runs (invariant 6);
- that every row that is kept is in exactly one page, sealed or not;
- that what the catalog refers to is there, durable, and is what it is taken for (invariant 5);
- that ledgers are what the journal's rows say, read by a model with one record per message.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.broker.log.loader import Loaded, load, restore_ids
from bowstring.broker.reading.caches import caches_of
from bowstring.broker.reading.extents import Extents
from bowstring.broker.reading.page_reader import PageReader
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.core import sections
from bowstring.core.pages import LOST, PageEntry, decode_header
from bowstring.core.partition import Partition
from bowstring.frames import reference_of, verify
from bowstring.ports.catalog import Fence, Registered
from bowstring.ports.disk import Buffer
from bowstring.ports.extents import Extent
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store.supply import segment_name
from tests.history.checkers import live_equals_loaded
from tests.history.violations import Violation
from tests.simulation.comparing import compare_partition, missing_in
from tests.simulation.expiries import Expiries
from tests.simulation.naive_journal import NaiveJournal

if TYPE_CHECKING:
    from tests.simulation.disk import Drive
    from tests.simulation.medium import Inode, Medium

T = TypeVar("T")

TURN_MICROSECONDS = 1_000_000


class AtOnce:
    """`ports.worker.Worker` that does it now."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


class Bytes:
    """`ports.store.Store`, as far as reading goes, over what is on the medium."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self._known: dict[Reference, Inode] = {}
        """What was verified, and in which file."""

    async def read(self, references: Iterable[Reference]) -> list[Page]:
        return [self.page(each) for each in references]

    def page(self, where: Reference) -> Page:
        inode = self._medium.names.get(segment_name(where.segment))
        if inode is None:
            raise Damaged(f"segment {where.segment:#x} is not there")
        return verify(memoryview(bytes(inode.data[where.position : where.position + where.length])), where)

    def trouble(self, where: Reference) -> str:
        """Why this cannot be relied on, empty if it can. What was good stays good while its file has its name."""
        name = segment_name(where.segment)
        inode = self._medium.names.get(name)
        if inode is None or self._medium.durable_names.get(name) is not inode:
            return f"the name {name} is {'not durable' if inode is not None else 'not there'}"
        if self._known.get(where) is inode or inode.rotten or inode.durable is not None:
            return ""
        end = where.position + where.length
        if any(change.position < end and where.position < change.position + len(change.new) for change in inode.changes):
            return f"its bytes in {name} are not durable"
        try:
            self.page(where)
        except Damaged as error:
            return str(error)
        self._known[where] = inode
        return ""


class Inspection:
    """Looks at what one drive holds, over all incarnations of its broker."""

    def __init__(self, drive: Drive, expiries: Expiries, sometimes: Callable[[str, int], None]) -> None:
        self._drive = drive
        self._bytes = Bytes(drive.medium)
        self._expiries = expiries
        self._latest = 0
        """The latest that it ever was by a broker's clock; after a restart that may be another."""
        self.times = 0
        self.naive = NaiveJournal(sometimes)

    def note_time(self, epoch: Epoch) -> None:
        """From here on it may be that late: what expires until then may go, a turn of upkeep further on too."""
        self._latest = max(self._latest, epoch.reading.trusted.now() + TURN_MICROSECONDS)

    def begun(self, epoch: Epoch, catalog: SqliteCatalog) -> None:
        """Looks at the pages that an incarnation has found in the journal."""
        if catalog.database.failure:
            return
        with self._quietly():
            self._read_journal(catalog)
            journal = _reading(catalog).journal(epoch.fence)
            ports: dict[bool, Any] = {True: self._bytes, False: journal}

            def read(entry: PageEntry) -> Buffer:
                if entry.segment == LOST:
                    raise Damaged("its place is not known")
                return at_once(ports[entry.segment > 0].read([reference_of(entry, epoch.fence.broker)]))[0].body

            for actor in epoch.topics.actors():
                self._expiries.loaded(actor.partition, read)

    def landed(self, catalog: SqliteCatalog) -> None:
        """Reads what the journal has now, before it is trimmed."""
        if not catalog.database.failure:
            with self._quietly():
                self._read_journal(catalog)

    def _read_journal(self, catalog: SqliteCatalog) -> None:
        assert catalog.database.connection is not None
        rows = catalog.database.connection.execute("SELECT position, changes FROM journal WHERE position > ?", (self.naive.position,))
        self.naive.catch_up(sorted(rows))

    def look(self, epoch: Epoch, catalog: SqliteCatalog) -> list[Violation]:
        """Everything that is wrong now."""
        if epoch.log.ended is not None or catalog.database.failure:
            return []
        self.times += 1
        with self._quietly():
            if _epoch(catalog, epoch.fence.broker) != epoch.fence.epoch:
                return []  # it is fenced, and has yet to find out
            reading = _quiet(catalog, epoch)
            try:
                loaded = at_once(load(reading, epoch.fence.broker))
            except (Damaged, AssertionError) as error:
                return [Violation("loading_works", f"what is on the disk cannot be loaded: {error!r}")]
            journal = reading.journal(epoch.fence)
            files: Any = self._bytes
            extents = Extents(journal=journal, store=files, settings=epoch.surroundings.settings)
            caches = caches_of(0, 0)
            reader = PageReader(store=files, journal=journal, caches=caches, extents=extents)
            at_once(restore_ids(loaded.partitions.values(), reader))
            broken = self._compare(epoch, loaded)
            self._read_journal(catalog)
            broken += self.naive.compare(loaded.partitions.values())
            for key, actor in list(epoch.topics._actors.items()):
                if key in loaded.partitions:  # else its topic is deleted
                    broken += self._sealed(epoch, actor.partition, at_once(journal.extents(*key, 0, 1 << 30)))
        return broken

    def look_ahead(self, catalog: SqliteCatalog) -> list[Violation]:
        """A snapshot holds nothing that is not committed: if the broker died now, it would tell of messages that are nowhere."""
        if catalog.database.failure or catalog.database.connection is None:
            return []
        with self._quietly():
            last = "(SELECT max(position) FROM journal WHERE position < state.broker << 48)"
            ahead = f"SELECT topic, partition, machine, sequence FROM state WHERE (broker - 1 << 48) + sequence > {last}"
            found = catalog.database.connection.execute(ahead).fetchall()
        cases = [f"topic {topic}/{number} has a state {name!r} of flush {at}, which is not committed" for topic, number, name, at in found]
        return [Violation("nothing_is_ahead_of_the_journal", case) for case in cases]

    def extents(self, catalog: SqliteCatalog) -> list[Extent]:
        """All that the catalog has, of deleted topics too."""
        with self._quietly():
            assert catalog.database.connection is not None
            keys = catalog.database.connection.execute("SELECT DISTINCT topic, partition FROM extent").fetchall()
            journal = _reading(catalog).journal(Fence(0, 0))  # extents of a partition are asked for whoever owns it
            return [extent for topic, partition in keys for extent in at_once(journal.extents(topic, partition, 0, 1 << 30))]

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        self._drive.quiet = True
        try:
            yield
        finally:
            self._drive.quiet = False

    def _compare(self, epoch: Epoch, loaded: Loaded) -> list[Violation]:
        missing = missing_in(epoch, loaded.sequence)
        broken = live_equals_loaded("the broker", {"usage": dict(epoch.usage._sealed)}, {"usage": loaded.usage})
        for key, actor in epoch.topics._actors.items():
            if key in loaded.partitions:
                mine = [change for change in missing if (change.topic, change.partition) == key]
                who = f"topic {key[0]}/{key[1]} on the disk"
                broken += compare_partition(who, actor.partition, loaded.partitions[key], mine, loaded.sequence)
        return broken

    # ---- where things are ------------------------------------------------------------------------------------------

    def _sealed(self, epoch: Epoch, partition: Partition, extents: list[Extent]) -> list[Violation]:
        who = f"topic {partition.topic}/{partition.number}"
        cases: list[str] = []
        entries: list[PageEntry] = []
        for extent in extents:
            used = {segment for segment, _ in extent.uses}
            for where in (extent.index, extent.ids):
                if where is not None and (trouble := self._bytes.trouble(where)):
                    cases.append(f"a section of offsets {extent.first_offset} to {extent.end_offset - 1}: {trouble}")
            if cases:
                continue
            entries += self._index(extent)
            uncounted = {entry.segment for entry in entries if entry.segment > 0 and entry.first_offset >= extent.first_offset} - used
            cases += [f"the extent from {extent.first_offset} on does not count segment {segment:#x}" for segment in uncounted]
        for entry in (*entries, *partition.pages.state()):
            if entry.segment > 0 and (trouble := self._bytes.trouble(reference_of(entry)) or self._other(partition, entry)):
                cases.append(f"the page of offsets {entry.first_offset} to {entry.end - 1}: {trouble}")
        cases += self._covered(epoch, partition, entries)
        cases += [
            f"the page of offset {after.first_offset} was visible with flush {after.visible}, one before it with {before.visible}"
            for before, after in itertools.pairwise((*entries, *partition.pages.state()))
            if before.visible > after.visible
        ]
        return [Violation("the_disk_holds_what_it_should", f"{who}: {case}") for case in cases]

    def _index(self, extent: Extent) -> list[PageEntry]:
        page = self._bytes.page(extent.index)
        return sections.decode_index(sections.decode_header(page.header, sections.INDEX), memoryview(page.body)).state()

    def _other(self, partition: Partition, entry: PageEntry) -> str:
        try:
            header = decode_header(self._bytes.page(reference_of(entry)).header)
        except Damaged:
            return ""  # rotten bytes are no fault of the broker's
        meant = partition.topic, partition.number, entry.rows
        found = header.topic, header.partition, sum(origin.rows for origin in header.origins)
        return "" if found == meant else f"it holds {found}, and {meant} is meant"

    def _covered(self, epoch: Epoch, partition: Partition, entries: list[PageEntry]) -> list[str]:
        """Every row that may be delivered is in one page."""
        first, end = partition.retained.first, partition.committed_offset
        times = np.zeros(max(0, end - first), np.int64)
        for entry in (*entries, *partition.pages.state()):
            times[max(0, entry.first_offset - first) : max(0, entry.end - first)] += 1
        live = partition.live(first, end) if end > first else np.empty(0, np.int64)
        twice, missing = np.flatnonzero(times > 1) + first, live[times[live - first] == 0]
        self.note_time(epoch)
        lost = [o for o in missing.tolist() if not 0 < self._expiries.of(partition.topic, partition.number, o) < self._latest]
        cases = [f"offsets {twice[0]} to {twice[-1]} are in two pages"] if len(twice) else []
        return cases + ([f"{len(lost)} offsets from {lost[0]} to {lost[-1]} are in no page"] if lost else [])


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs what has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("it waits for something")


def _epoch(catalog: SqliteCatalog, broker: int) -> int:
    assert catalog.database.connection is not None
    return next(iter(catalog.database.connection.execute("SELECT epoch FROM broker WHERE number = ?", (broker,))))[0]


def _reading(catalog: SqliteCatalog) -> SqliteCatalog:
    """The same catalog for reading it now."""
    reading = copy.copy(catalog)
    reading.database = copy.copy(catalog.database)
    reading.database.worker = AtOnce()
    return reading


def _quiet(catalog: SqliteCatalog, epoch: Epoch) -> SqliteCatalog:
    """The same catalog for reading it now, without registering."""
    reading = _reading(catalog)

    async def register(broker: int) -> Registered:
        assert catalog.database.connection is not None
        assert broker == epoch.fence.broker
        return catalog.registered(catalog.database.connection, epoch.fence)

    reading.register = register  # type: ignore[method-assign]
    return reading
