"""Planted bugs of the way into the log: durability, fencing, answers that come too early."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.commits import Commits
from bowstring.broker.log.flusher import Flush, Flusher
from bowstring.broker.log.publish_request import PublishBatch
from bowstring.broker.log.requests import DeleteMessages
from bowstring.broker.reading.caches import TailKey
from bowstring.catalog.sqlite import file, wal
from bowstring.catalog.sqlite.database import Database
from bowstring.core import publishing
from bowstring.core.changes import Append
from bowstring.core.decisions import Decided
from bowstring.core.partition import Partition
from bowstring.core.producers import Absent
from bowstring.ports.failures import DiskFull
from bowstring.store import local
from bowstring.store.local import LocalStore
from bowstring.store.supply import Segment, Supply, segment_id, segment_name
from tests.simulation.load import Load
from tests.simulation.planting import CALM, CRASHES, CUTS, FAILING, FULL, HURRY, IDS, JOURNAL, POWER, SEGMENTS, SLOW, bug

LATE = HURRY.only(seconds=10.0, tight_seconds=0.15, natural=0.3, readers=1)
DELETED = SEGMENTS.only(seconds=8.0, topics=1, partitions_max=1, deletes=0.7, impatient=0.5, natural=1.0, ids=300, plain=0.0, readers=1)
OVERLAPPING = SEGMENTS.only(seconds=4.0, topics=2, partitions_max=2, overlap_bytes=0, seal_seconds=0.1, upkeep_seconds=0.1, readers=1)

# ---- durability --------------------------------------------------------------------------------------------------------


@bug(POWER, JOURNAL)
def acknowledged_before_the_commit() -> Generator[None]:
    """Answers go out when the flush is handed to the catalog, not when it is committed."""
    original = Flusher._commit_flush

    async def commit(self: Flusher, flush: Flush) -> None:
        told, flush.answers = flush.answers, []
        commits = owner(self)
        commits.committed(flush)
        for callback in told:
            callback()
        with patch.object(commits, "committed", lambda _: None):
            await original(self, flush)

    with patch.object(Flusher, "_commit_flush", commit):
        yield


@bug(FAILING, JOURNAL)
def wal_is_trusted_after_a_failed_sync() -> Generator[None]:
    """The next start folds frames into the catalog that only the cache has, and the power goes in the middle of it."""
    with patch.object(wal, "write_anew", lambda *_: False):
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
    original = file._settle

    def settle(connection: Any, *arguments: Any) -> None:
        original(connection, *arguments)
        connection.pragma("synchronous", "NORMAL")

    with patch.object(file, "_settle", settle):
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


@bug(FULL, Load(seconds=20.0, mortal_topics=0, tight=0.0, overlap_bytes=1 << 30))
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
    last = "SELECT max(position) FROM journal WHERE position BETWEEN :first AND :last"
    with _commit_with("", f"AND coalesce(({last}), :first) = :position - 1"):
        yield


@bug(SLOW, JOURNAL.only(usurp_every=2.0))
def write_of_an_old_incarnation_is_accepted() -> Generator[None]:
    """Neither the epoch nor the sequence is checked: the row of an old incarnation takes the place of a newer one."""
    with _commit_with("OR REPLACE", ""), patch.object(Database, "check_epoch", lambda *_: None):
        yield


@contextmanager
def _commit_with(how: str, condition: str) -> Generator[None]:
    original = Database.__init__

    def made(self: Database, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        columns = "(position, epoch, crc, changes, pages) SELECT :position, :epoch, :crc, :changes, :pages"
        self.sql = {**self.sql, "commit": f"INSERT {how} INTO journal {columns} WHERE :broker > 0 {condition}"}

    with patch.object(Database, "__init__", made):
        yield


# ---- answers that come too early ---------------------------------------------------------------------------------------


@bug(POWER.only(slow_rate=0.02, slow_seconds=0.5), IDS)
def duplicate_is_answered_before_its_flush() -> Generator[None]:
    """A repeat is answered from what was decided, whether or not it is committed."""

    def publish_ids(partition: Partition, batch: Any, ids: Any, now: int, confirmed: Any) -> Any:
        hits = partition.ids.find(ids.hashes)
        if len(hits.offsets) and int(hits.offsets.max()) >= partition.committed_offset:
            offsets = np.zeros(batch.rows, np.int64)
            offsets[hits.rows] = hits.offsets
            return publishing._accept_new(partition, batch, ids, now, offsets)
        return original(partition, batch, ids, now, confirmed)

    original = publishing._publish_ids
    with patch.object(publishing, "_publish_ids", publish_ids), _answers_at_once():
        yield


@bug(POWER.only(cut_rate=0.01, cut_every=1.0, slow_rate=0.05, slow_seconds=0.5), JOURNAL)
def resend_is_answered_from_uncommitted_state() -> Generator[None]:
    """A batch that comes again is acknowledged although its first flush is still on its way."""
    original = publishing._repeated

    def repeated(partition: Partition, batch: Any, batches: Any, found: Any) -> Any:
        known = batches.find(batch.number)
        return original(partition, batch, batches, found) if isinstance(known, Absent) else Decided((), known.stored)

    with patch.object(publishing, "_repeated", repeated), _answers_at_once():
        yield


@contextmanager
def _answers_at_once() -> Generator[None]:
    def answer(self: PartitionActor, request: Any, outcome: Any) -> None:
        request.settle(outcome)

    with patch.object(PartitionActor, "_answer", answer):
        yield


@bug(POWER.only(slow_rate=0.02, slow_seconds=0.3), JOURNAL.only(readers=4))
def read_ahead_of_the_commit() -> Generator[None]:
    """Readers see a flush as soon as it is on its way."""
    original, known = Flusher._commit_flush, Partition.committed

    async def commit(self: Flusher, flush: Flush) -> None:
        commits = owner(self)
        for change, page in flush.pages:
            commits._tail.put(TailKey(change.topic, change.partition, change.first_offset, change.rows), page)
        for change in flush.changes:
            if isinstance(change, Append) and (reader := commits._topics.actor(change.topic, change.partition)):
                reader.partition.committed(change, flush.sequence)
                reader.visible(change.first_offset, reader.partition.committed_offset)
        await original(self, flush)

    def committed(self: Partition, change: Append, sequence: int) -> None:
        if change.first_offset >= self.committed_offset:
            known(self, change, sequence)

    with patch.object(Flusher, "_commit_flush", commit), patch.object(Partition, "committed", committed):
        yield


def owner(of: Flusher) -> Commits:
    watcher = of._watcher
    assert isinstance(watcher, Commits)
    return watcher


@bug(SLOW, HURRY)
def deadline_is_not_checked_at_the_commit() -> Generator[None]:
    """What was committed too late is acknowledged all the same."""
    with patch.object(PublishBatch, "late", lambda *_: 0):
        yield


@bug(CUTS.only(cut_rate=0.02, cut_every=0.5, slow_rate=0.2, slow_seconds=0.5), LATE)
def whoever_waits_past_its_deadline_is_refused_though_it_may_be_stored() -> Generator[None]:
    """A resend waits for the commit of its first copy. Its deadline passes, and it is told that it is certainly not stored."""

    def woken(self: PartitionActor, now: int) -> None:
        for request in [request for request in self._queue if request.deadline <= now]:
            request.settle(errors.DeadlinePassed("the timeout has passed; it is not stored."))

    with patch.object(PartitionActor, "woken", woken):
        yield


@bug(CRASHES.only(sync_seconds=0.1, crash_every=1.0, crash_inside=0.0, down_seconds=0.1), LATE)
def a_late_publish_is_refused_before_its_deletion_is_committed() -> Generator[None]:
    """The broker says "certainly not stored" when the deletion is decided. If it dies now, the message is there."""
    original = PartitionActor.committed

    def committed(self: PartitionActor, change: Any, sequence: int) -> None:
        self._answer = lambda request, outcome: request.settle(outcome)  # type: ignore[method-assign]
        try:
            original(self, change, sequence)
        finally:
            del self._answer

    with patch.object(PartitionActor, "committed", committed):
        yield


@bug(CALM.only(sync_seconds=0.02), OVERLAPPING)
def an_answer_waits_for_the_oldest_flush_under_way() -> Generator[None]:
    """Two flushes are under way, and an answer that rests on the second goes out with the first. So does a snapshot."""

    def answer(self: Flusher, callback: Any) -> None:
        if self._pending.changes:
            self._pending.answers.append(callback)
        elif self._under_way:
            self._under_way[0].answers.append(callback)
        else:
            callback()

    with patch.object(Flusher, "answer", answer), patch.object(Partition, "check", lambda _: None):
        yield


@bug(CRASHES.only(sync_seconds=0.05, crash_every=1.0, crash_inside=0.0, down_seconds=0.1), DELETED)
def deletes_are_acknowledged_before_their_commit() -> Generator[None]:
    """A delete is answered when it is decided."""

    original = PartitionActor._answer

    def answer(self: PartitionActor, request: Any, outcome: Any) -> None:
        if isinstance(request, DeleteMessages):
            request.settle(outcome)
        else:
            original(self, request, outcome)

    with patch.object(PartitionActor, "_answer", answer):
        yield
