"""Bugs on purpose, each a switch over the real code, with the faults in which it shows.

The simulation has to find every one of them by its checkers. An assertion of the product that stops a bug proves nothing about the
simulation, so where one would, the bug takes it away. No bug has a seed of its own: the search begins at seed 1, in a world whose
faults are of the kind that the bug needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from bowstring.broker import actor, flusher, incarnation, loader, publishing, reading
from bowstring.broker.actor import PartitionActor
from bowstring.broker.caches import TailKey
from bowstring.broker.flusher import Flush, Flusher
from bowstring.broker.incarnation import Incarnation
from bowstring.catalog import sqlite_file
from bowstring.catalog.sqlite import SqliteCatalog
from bowstring.core import changes as journal
from bowstring.core.changes import Append, Delete
from bowstring.core.partition import Accept, Answered, Partition
from bowstring.core.producers import Absent
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged, DiskFull
from bowstring.ports.store import Page, Reference
from bowstring.store import frames, local
from bowstring.store.local import LocalStore
from bowstring.store.supply import Segment, Supply, segment_id, segment_name
from tests.simulation.load import KIB, Load
from tests.simulation.options import Options

Switch = Callable[[], Generator[None]]

CALM = Options()
POWER = Options(power_cut_every=3.0, power_cut_inside=0.8, inside_operations=60, down_seconds=0.3)
CRASHES = Options(crash_every=3.0, crash_inside=0.8, inside_operations=60, down_seconds=0.3)
CUTS = Options(cut_rate=0.01, cut_every=2.0, half_open=0.3, half_open_seconds=3.0)
FULL = Options(full_every=3.0, full_seconds=1.0)
SLOW = Options(slow_rate=0.05, slow_seconds=1.0)
SEGMENTS = Load(seconds=15.0, mortal_topics=0, inline_bytes=0, tail_bytes=0, pages_bytes=0, tight=0.0)
JOURNAL = Load(seconds=15.0, mortal_topics=0, inline_bytes=16 * KIB, large=0.0, tight=0.0)
IDS = JOURNAL.only(natural=1.0, ids=20)
HURRY = Load(seconds=15.0, mortal_topics=0, tight=0.9, tight_seconds=0.2, natural=0.7, ids=30)


class Bug(NamedTuple):
    """A planted bug, and the world to look for it in."""

    switch: Switch
    options: Options
    load: Load

    @property
    def name(self) -> str:
        return self.switch.__name__

    def planted(self) -> Any:
        return contextmanager(self.switch)()


BUGS: list[Bug] = []


def bug(options: Options, load: Load) -> Callable[[Switch], Switch]:
    def planted(switch: Switch) -> Switch:
        BUGS.append(Bug(switch, options, load))
        return switch

    return planted


# ---- durability --------------------------------------------------------------------------------------------------------


@bug(POWER, JOURNAL)
def acknowledged_before_the_commit() -> Generator[None]:
    """Answers go out when the flush is handed to the catalog, not when it is committed."""
    original = Flusher._commit_flush

    async def commit(self: Flusher, flush: Flush) -> None:
        told, flush.answers = flush.answers, []
        epoch = _owner(self)
        epoch.committed(flush)
        for callback in told:
            callback()
        with patch.object(epoch, "committed", lambda _: None):
            await original(self, flush)

    with patch.object(Flusher, "_commit_flush", commit):
        yield


@bug(POWER, SEGMENTS)
def commit_before_the_sync_of_the_segment() -> Generator[None]:
    """The journal refers to pages that may not be on the disk."""

    async def sync(self: LocalStore) -> None:
        self._unsynced.clear()

    with patch.object(LocalStore, "sync", sync):
        yield


@bug(POWER, SEGMENTS)
def no_sync_of_the_directory() -> Generator[None]:
    """A segment is written to before its name is durable."""

    async def make(self: Supply, wanted: int, at_least: int) -> Segment:
        self._number += 1
        segment = segment_id(self._epoch, self._number)
        file, size = await self._file(segment_name(segment), wanted, at_least)
        return Segment(segment, file, size)

    with patch.object(Supply, "_make", make):
        yield


@bug(POWER, JOURNAL)
def sqlite_does_not_sync_commits() -> Generator[None]:
    """WAL with synchronous=NORMAL."""
    original = sqlite_file._settle

    def settle(connection: Any, *arguments: Any) -> None:
        original(connection, *arguments)
        connection.pragma("synchronous", "NORMAL")

    with patch.object(sqlite_file, "_settle", settle):
        yield


@bug(POWER.only(sync_error_rate=0.02), SEGMENTS.only(overlap_bytes=0))
def failed_sync_is_tried_again() -> Generator[None]:
    """The second sync of the same file succeeds, as it does in Linux, and nothing was written."""
    original = LocalStore.sync

    async def sync(self: LocalStore) -> None:
        try:
            await original(self)
        except local.StorageFailed:
            self._failure = None
            await sync(self)

    with patch.object(LocalStore, "sync", sync):
        yield


@bug(FULL, Load(seconds=20.0, mortal_topics=0, tight=0.0))
def failed_flush_is_followed_by_another() -> Generator[None]:
    """After a full disk the same incarnation goes on with what came after."""
    original = Flusher._commit_flush

    async def commit(self: Flusher, flush: Flush) -> None:
        flush.sequence = self._sequence = self._sequence - self._dropped  # type: ignore[attr-defined]
        self._dropped = 0  # type: ignore[attr-defined]
        try:
            await original(self, flush)
        except DiskFull:
            self._under_way.remove(flush)
            self._dropped = 1  # type: ignore[attr-defined]

    def apply(self: Partition, change: Append) -> None:
        self.next_offset = change.first_offset if change.rows else self.next_offset
        applied(self, change)

    def committed(self: Partition, change: Append, sequence: int) -> None:
        self.committed_offset = change.first_offset if change.rows else self.committed_offset
        known(self, change, sequence)

    applied, known = Partition._apply_append, Partition.committed
    with (
        patch.object(Flusher, "_dropped", 0, create=True),
        patch.object(flusher, "OVERLAP_BYTES", 1 << 30),
        patch.object(Flusher, "_commit_flush", commit),
        patch.object(Partition, "_apply_append", apply),
        patch.object(Partition, "committed", committed),
        patch.object(Partition, "check", lambda _: None),
    ):
        yield


# ---- who may commit ----------------------------------------------------------------------------------------------------


@bug(SLOW, JOURNAL.only(usurp_every=2.0))
def epoch_is_not_checked() -> Generator[None]:
    """A commit counts whatever epoch it comes from, as long as its row is the next one."""
    with _commit_with("", "AND coalesce((SELECT max(sequence) FROM journal), 0) = :sequence - 1"):
        yield


@bug(SLOW, JOURNAL.only(usurp_every=2.0))
def write_of_an_old_incarnation_is_accepted() -> Generator[None]:
    """Neither the epoch nor the sequence is checked: the row of an old incarnation takes the place of a newer one."""
    with _commit_with("OR REPLACE", ""), patch.object(SqliteCatalog, "_check_epoch", lambda *_: None):
        yield


@contextmanager
def _commit_with(how: str, condition: str) -> Generator[None]:
    original = SqliteCatalog.__init__

    def made(self: SqliteCatalog, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        columns = "(sequence, epoch, crc, changes, pages) SELECT :sequence, :epoch, :crc, :changes, :pages"
        self._sql = {**self._sql, "commit": f"INSERT {how} INTO journal {columns} WHERE :broker > 0 {condition}"}

    with patch.object(SqliteCatalog, "__init__", made):
        yield


# ---- answers that come too early ---------------------------------------------------------------------------------------


@bug(POWER.only(slow_rate=0.02, slow_seconds=0.5), IDS)
def duplicate_is_answered_before_its_flush() -> Generator[None]:
    """A repeat is answered from what was decided, whether or not it is committed."""

    def publish_ids(self: Partition, batch: Any, ids: Any, now: int, confirmed: Any) -> Any:
        hits = self.ids.find(ids.hashes)
        if len(hits.offsets) and int(hits.offsets.max()) >= self.committed_offset:
            offsets = np.zeros(batch.rows, np.int64)
            offsets[hits.rows] = hits.offsets
            return self._accept_new(batch, ids, now, offsets)
        return original(self, batch, ids, now, confirmed)

    original = Partition._publish_ids
    with patch.object(Partition, "_publish_ids", publish_ids), _answers_at_once():
        yield


@bug(POWER.only(cut_rate=0.01, cut_every=1.0, slow_rate=0.05, slow_seconds=0.5), JOURNAL)
def resend_is_answered_from_uncommitted_state() -> Generator[None]:
    """A batch that comes again is acknowledged although its first flush is still on its way."""
    original = Partition._repeated

    def repeated(self: Partition, batch: Any, known: Any) -> Any:
        found = known.find(batch.number)
        return original(self, batch, known) if isinstance(found, Absent) else Answered(found.stored)

    with patch.object(Partition, "_repeated", repeated), _answers_at_once():
        yield


@contextmanager
def _answers_at_once() -> Generator[None]:
    def answer(self: PartitionActor, request: Any, outcome: Any) -> None:
        actor._settle(request.answer, outcome)

    with patch.object(PartitionActor, "_answer", answer):
        yield


@bug(POWER.only(slow_rate=0.02, slow_seconds=0.3), JOURNAL.only(readers=4))
def read_ahead_of_the_commit() -> Generator[None]:
    """Readers see a flush as soon as it is on its way."""
    original, known = Flusher._commit_flush, Partition.committed

    async def commit(self: Flusher, flush: Flush) -> None:
        epoch: Incarnation = _owner(self)
        for change, page in flush.pages:
            epoch._tail.put(TailKey(change.topic, change.partition, change.first_offset), page)
        for change in flush.changes:
            if isinstance(change, Append) and (change.topic, change.partition) in epoch._actors:
                reader = epoch._actors[change.topic, change.partition]
                reader.partition.committed(change, flush.sequence)
                reader.wake()
        await original(self, flush)

    def committed(self: Partition, change: Append, sequence: int) -> None:
        if change.first_offset >= self.committed_offset:
            known(self, change, sequence)

    with patch.object(Flusher, "_commit_flush", commit), patch.object(Partition, "committed", committed):
        yield


def _owner(of: Flusher) -> Incarnation:
    watcher = of._watcher
    assert isinstance(watcher, Incarnation)
    return watcher


@bug(SLOW, HURRY)
def deadline_is_not_checked_at_the_commit() -> Generator[None]:
    """What was committed too late is acknowledged all the same."""
    original = PartitionActor.committed

    def committed(self: PartitionActor, change: Append, sequence: int) -> None:
        request = self._unanswered.get(change.first_offset)
        if request is not None:
            patient = request._replace(publish=request.publish._replace(timeout=1 << 60))
            self._unanswered[change.first_offset] = patient
        original(self, change, sequence)

    with patch.object(PartitionActor, "committed", committed):
        yield


# ---- loading -----------------------------------------------------------------------------------------------------------


@bug(CRASHES, IDS)
def deduplication_is_not_restored() -> Generator[None]:
    """Ids that were published before a restart are not known after it."""

    async def nothing(*_: Any) -> None:
        pass

    with patch.object(incarnation, "restore_ids", nothing):
        yield


@bug(CRASHES, JOURNAL)
def journal_is_replayed_one_row_short() -> Generator[None]:
    """The last flush is forgotten at load."""
    original = loader._replay

    async def replay(catalog: Any, broker: int, last: int, *arguments: Any, **named: Any) -> None:
        await original(_Short(catalog, last), broker, max(0, last - 1), *arguments, **named)

    class _Short:
        def __init__(self, catalog: Any, last: int) -> None:
            self._catalog = catalog
            self._last = last

        async def journal(self, broker: int, after: int, rows_max: int) -> Any:
            return [row for row in await self._catalog.journal(broker, after, rows_max) if row.sequence < self._last]

    with patch.object(loader, "_replay", replay):
        yield


@bug(CRASHES.only(slow_rate=0.05, slow_seconds=0.5), HURRY)
def deletions_are_forgotten_at_load() -> Generator[None]:
    """What was taken back before a restart is there after it."""
    decode = journal.decode

    def without(data: bytes) -> Any:
        return [change for change in decode(data) if not isinstance(change, Delete)]

    with patch.object(journal, "decode", without):
        yield


# ---- deduplication and order -------------------------------------------------------------------------------------------


@bug(CUTS, JOURNAL.only(under_way_max=60, pause_seconds=0.01, batches=0.0, topics=1, partitions_max=1))
def resend_is_stored_out_of_order() -> Generator[None]:
    """A batch is taken whatever batch of its producer came before."""
    original = Partition.publish

    def publish(self: Partition, batch: Any, now: int, confirmed: Any = None) -> Any:
        known = self.producers.get(batch.producer)
        return original(self, batch._replace(previous=known.last if known is not None else 0), now, confirmed)

    with patch.object(Partition, "publish", publish):
        yield


@bug(SLOW, HURRY.only(natural=1.0, ids=15, repeats=1.0))
def ids_of_a_late_batch_are_not_freed() -> Generator[None]:
    """A message that was taken back keeps its id: the next one is called a duplicate of nothing."""
    original = Partition.delete

    def delete(self: Partition, first: int, rows: int, *, freed: bool) -> Delete:
        return original(self, first, rows, freed=False)

    with patch.object(Partition, "delete", delete):
        yield


@bug(CALM, IDS.only(ids=3, topics=1, partitions_max=1))
def batch_of_repeats_is_not_recorded() -> Generator[None]:
    """A batch in which every row was there already leaves no trace, so nothing can follow on it."""
    original = Partition._accept

    def accept(self: Partition, batch: Any, now: int, kept: Any, repeats: Any) -> Accept:
        if kept is None or len(kept):
            return original(self, batch, now, kept, repeats)
        change = Append(self.topic, self.number, 0, 0, max(now, self.arrived), batch.columns, batch.producer, batch.number, repeats)
        return Accept(change, kept)

    def add(self: Flusher, change: Any, page: Any = None) -> None:
        if not isinstance(change, Append) or change.rows:
            added(self, change, page)

    added = Flusher.add
    with patch.object(Partition, "_accept", accept), patch.object(Flusher, "add", add):
        yield


@bug(CALM, IDS.only(batches=1.0, batch_rows_max=10))
def an_id_twice_in_one_batch_is_stored_twice() -> Generator[None]:
    """Rows are compared with what is stored, and not with each other."""
    original = publishing._ids

    def ids(column: Any, partition: int) -> Any:
        return original(column, partition)._replace(firsts=None)

    with patch.object(publishing, "_ids", ids):
        yield


@bug(CALM, IDS)
def same_hash_is_taken_for_the_same_id() -> Generator[None]:
    """A hit is not compared with the stored id; hashes have three bits here, so that they meet."""
    original = publishing.id_hashes

    async def look_up(self: PartitionActor, request: Any, hits: Any) -> None:
        self._lookup = None
        if self.closed is None:
            self._handle(hits)

    few = lambda column: original(column) & np.uint64(7)  # noqa: E731
    with (
        patch.object(PartitionActor, "_look_up", look_up),
        patch.object(publishing, "id_hashes", few),
        patch.object(loader, "id_hashes", few),
    ):
        yield


# ---- bytes -------------------------------------------------------------------------------------------------------------


@bug(Options(bit_flip_rate=0.05), SEGMENTS)
def checksum_is_not_verified() -> Generator[None]:
    """Pages are served as they were read."""

    def extend(checksum: int, buffer: Buffer) -> int:
        return 0

    with patch.object(frames, "_extend", extend):
        yield


@bug(FULL.only(full_every=2.0), Load(seconds=20.0, mortal_topics=0, tail_bytes=1024 * KIB, readers=4, tight=0.0))
def tail_cache_is_stale() -> Generator[None]:
    """Pages go into the tail when they are written, and the tail outlives the incarnation: it has pages of flushes that failed."""
    tails: list[Any] = []
    original, take = Incarnation.__init__, Flusher._take

    def made(self: Incarnation, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        tails.append(self._tail)
        self._tail = tails[0]
        self.reader._caches = self.reader._caches._replace(tail=tails[0])

    def taken(self: Flusher) -> Flush:
        flush = take(self)
        for change, page in flush.pages:
            _owner(self)._tail.put(TailKey(change.topic, change.partition, change.first_offset), page)
        return flush

    with patch.object(Incarnation, "__init__", made), patch.object(Flusher, "_take", taken):
        yield


@bug(CALM, SEGMENTS.only(seconds=30.0, topics=2, mortal_topics=2, partitions_max=2))
def segment_is_reused_while_a_page_lives_in_it() -> Generator[None]:
    """When a topic is deleted all its segments are reused, also those that others have pages in."""
    with _released_too_early():
        yield


@bug(CALM, SEGMENTS.only(seconds=30.0, topics=2, mortal_topics=2, partitions_max=2, large=0.0, value_bytes=30, batches=0.0))
def old_bytes_of_a_recycled_segment_are_served() -> Generator[None]:
    """Whatever good frame is found at a place is taken for the page that was meant."""
    original = frames.verify

    def verify(data: Buffer, reference: Reference) -> Page:
        _, _, segment, _, sequence, body, header = frames._FIELDS.unpack_from(data)
        length = frames.FRAME_HEADER_BYTES + header + body
        if length > len(data):
            raise Damaged("there is no frame")
        return original(data, Reference(segment, reference.position, length, sequence))

    with (
        _released_too_early(),
        patch.object(local, "verify", verify),
        patch.object(reading.PageReader, "_check", lambda *_: None),
    ):
        yield


@contextmanager
def _released_too_early() -> Generator[None]:
    original = Incarnation._release

    async def release(self: Incarnation, topic: Any) -> None:
        segments = {segment for each in topic.actors for segment in each.partition.pages.segments()}
        await original(self, topic)
        await self._store.release(sorted(segments))

    with patch.object(Incarnation, "_release", release):
        yield
