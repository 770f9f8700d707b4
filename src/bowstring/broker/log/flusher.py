"""How changes become durable: gather while the flush before is on its way, write, sync, commit,
then let the answers go.

    pending ──take──► append to the segment, sync ──► commit the journal row ──► answers, readers
                      (stage one: large flushes)      (stage two: every flush)

Two flushes can be on their way: while one is being committed, the next writes and syncs its
segment. An idle broker takes a change at once; under load, whatever came while the flush before was
on its way is the next flush, so flushes grow by themselves. A flush of settlements alone waits, for
a millisecond at most, while publishes come often: the next publish takes it along, and finds no
flush on its way that it has to wait for. A flush with few bytes of pages carries them in its
journal row, and needs one sync instead of two; it has no stage one, so it waits until the commit
before is done and gathers meanwhile.

Some changes are decided only when a flush is taken (`before_take`): grants of leases, so that a message
that is published to a waiting consumer is leased by the flush that stores it. `request` has one taken
for them alone.

Every answer waits here until what it rests on is committed: `answer` attaches it to the newest
flush there is, even if it says no (invariant 1). When a flush fails, nothing of it or after it
counts: all answers fail, and the incarnation is over (invariant 2). A commit that is already under
way in front of it is let finish first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bowstring import frames
from bowstring.broker.counters import Counters
from bowstring.core.changes import Append, Change, Paged
from bowstring.core.journal import encode
from bowstring.core.ledger_changes import Settle
from bowstring.ports.clock import Clock
from bowstring.ports.journal import Journal
from bowstring.ports.store import Page, Reference, Store
from bowstring.settings import Settings

Callback = Callable[[], None]

PATIENCE: Final = 0.001
"""So many seconds settlements wait for a publish."""
OFTEN: Final = 0.002
"""Publishes come often if flushes with pages are no further apart."""


class Watcher(Protocol):
    """Told how a flush gets on."""

    def written(self, flush: Flush) -> None:
        """Its pages have their place in a segment."""
        ...

    def committed(self, flush: Flush) -> None:
        """It is durable. Called in order, before its answers go out."""
        ...


class Flush:
    """One group commit."""

    def __init__(self) -> None:
        self.sequence = 0
        self.changes: list[Change] = []
        self.pages: list[tuple[Append, Page]] = []
        self.page_bytes = 0
        self.written = False
        """Are its pages in their segment?"""
        self.inlined: bytes | None = None
        """The frames of its pages, if its journal row holds them."""
        self.answers: list[Callback] = []
        self.is_patient = True
        """It has settlements only, and they have not waited for long enough."""
        self.is_waiting = False
        """Settlements wait for a publish."""
        self.begun = self.taken = 0.0
        """When its first change came, and when it was taken, by the monotonic clock."""

    def add(self, change: Change, page: Page | None) -> None:
        """Raises TypeError for a page whose change has no place to say where it is."""
        self.is_patient = self.is_patient and isinstance(change, Settle)
        if page is not None:
            if not isinstance(change, Paged):
                raise TypeError(f"{type(change).__name__} carries no page")
            self.pages.append((change, page))
            self.page_bytes += len(page.body) + len(page.header)
        self.changes.append(change)

    def located(self, references: Sequence[Reference]) -> None:
        """Its changes tell where their pages are."""
        for (change, _), reference in zip(self.pages, references, strict=True):
            change.segment, change.position, change.length = reference.segment, reference.position, reference.length


class Flusher:
    """The one writer of an incarnation."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        counters: Counters,
        journal: Journal,
        store: Store,
        sequence: int,
        watcher: Watcher,
        overlap_bytes: int,
    ) -> None:
        self._overlap_bytes = overlap_bytes
        """While a commit is under way, a flush of less than this waits for it and gathers: see
        `Tuning`.
        """
        self._settings = settings
        self._monotonic = clock.monotonic
        self._counters = counters
        self._journal = journal
        self._store = store
        self._sequence = sequence
        self._watcher = watcher
        self._pending = Flush()
        self._under_way: list[Flush] = []
        """Taken and not yet committed, the oldest first: at most two."""
        self._commit: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        """Set when a flush can be taken, and when a commit has ended."""
        self._failure: Exception | None = None
        """A failure outside of a flush: the next step of `run` raises it."""
        self._at_boundary: list[Callable[[int], None]] = []
        self.before_take: list[Callback] = []
        """Called when a flush is about to be taken. What they decide goes into it."""
        self._requested = False
        """Whether they are to be called although nothing is pending."""
        self._published = self._apart = 0.0
        """When the first page of the newest flush with pages came, and how long that was after the one before."""
        self.flushes = 0
        self.committed = sequence
        """The sequence of the last flush that was committed."""

    # What machines and answers call

    def add(self, change: Change, page: Page | None = None) -> None:
        """A change that was decided. It goes into the next flush."""
        if not self._pending.changes:
            self._pending.begun = self._monotonic()
        if page is not None and not self._pending.pages:
            before, self._published = self._published, self._monotonic()
            self._apart = self._published - before
        self._pending.add(change, page)
        if self._commit is None or self._is_worth_overlapping():
            self._arrived.set()

    def request(self) -> None:
        """Has `before_take` called soon, also if nothing is pending. If nothing is decided then,
        there is no flush.
        """
        self._requested = True
        if self._commit is None:
            self._arrived.set()

    def answer(self, callback: Callback) -> None:
        """Calls back when everything that was decided up to now is committed: at once, if all of it
        is.
        """
        if self._pending.changes:
            self._pending.answers.append(callback)
        elif self._under_way:
            self._under_way[-1].answers.append(callback)
        else:
            callback()

    def commitment(self) -> asyncio.Future[None]:
        """Settles when everything decided so far is committed. Never settles if the incarnation
        ends first.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answer(lambda: None if future.done() else future.set_result(None))
        return future

    @property
    def idle(self) -> bool:
        """Is everything committed?"""
        return not self._pending.changes and not self._under_way

    @property
    def waiting_bytes(self) -> int:
        """Bytes of pages that are to be written yet."""
        return self._pending.page_bytes + sum(flush.page_bytes for flush in self._under_way if not flush.written)

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest flush under way; 0 if there is none."""
        return self._monotonic() - self._under_way[0].taken if self._under_way else 0.0

    def at_boundary(self, callback: Callable[[int], None]) -> None:
        """Calls back with a sequence at a moment when everything that was decided is in flushes up
        to that one, and everything that will be decided comes after it: at once if nothing is
        pending, else when the next flush is taken.
        """
        if self._pending.changes:
            self._at_boundary.append(callback)
        else:
            callback(self._sequence)

    def uncommitted(self) -> list[Change]:
        """The changes that are not known to be committed, in order: what live state has and loaded
        state may lack.
        """
        return [change for flush in (*self._under_way, self._pending) for change in flush.changes]

    # The two stages

    async def run(self) -> None:
        """Flushes until something fails, and raises that."""
        while True:
            await self._due()
            flush = self._take()
            await self._write(flush)
            await self._settled()
            self._commit = asyncio.create_task(self._commit_flush(flush))

    def fail(self, failure: Exception) -> None:
        """Notes a failure outside of a flush that the incarnation cannot survive: no flush may
        follow.
        """
        self._failure = failure
        self._arrived.set()

    async def _due(self) -> None:
        """Waits until it is time to take the next flush."""
        while True:
            if self._failure is not None:
                await self._settled()
                raise self._failure
            if self._commit is not None and self._commit.done():
                await self._settled()
            if (self._pending.changes or self._requested) and (self._commit is None or self._is_worth_overlapping()):
                self._requested = False
                for decide in self.before_take:
                    decide()
                if self._pending.changes and not self._waits(self._pending):
                    return
            self._arrived.clear()
            await self._arrived.wait()

    def _waits(self, flush: Flush) -> bool:
        """Whether the flush waits for a publish."""
        if not flush.is_patient or max(self._apart, self._monotonic() - self._published) > OFTEN:
            return False
        if not flush.is_waiting:
            flush.is_waiting = True
            asyncio.get_running_loop().call_later(PATIENCE, self._waits_no_more, flush)
        return True

    def _waits_no_more(self, flush: Flush) -> None:
        flush.is_patient = False
        self._arrived.set()

    def _is_worth_overlapping(self) -> bool:
        """Whether the pending flush is large enough to be written while another is committed."""
        return self._pending.page_bytes > self._overlap_bytes

    def _take(self) -> Flush:
        flush, self._pending = self._pending, Flush()
        self._sequence += 1
        flush.sequence = self._sequence
        flush.taken = self._monotonic()
        self._under_way.append(flush)
        callbacks, self._at_boundary = self._at_boundary, []
        for callback in callbacks:
            callback(self._sequence)
        return flush

    async def _write(self, flush: Flush) -> None:
        """Stage one: the pages of a large flush go into a segment, and are durable before anything
        refers to them.
        """
        pages = [page for _, page in flush.pages]
        if flush.page_bytes <= self._settings.flush_inline_bytes:
            flush.inlined, references = frames.inlined(pages, *self._journal.fence, flush.sequence)
            flush.located(references)
            return
        try:
            flush.located(await self._store.append(flush.sequence, pages))
            flush.written = True
            self._watcher.written(flush)
            written = self._monotonic()
            await self._store.sync()
            self._counters.syncing.add(self._monotonic() - written)
        except Exception:
            await self._settled()
            raise

    async def _settled(self) -> None:
        """Waits for the commit before, and raises what it raised."""
        if self._commit is not None:
            commit, self._commit = self._commit, None
            await commit

    async def _commit_flush(self, flush: Flush) -> None:
        """Stage two: the journal row, which is the commit; then everything that waited for it."""
        begun = self._monotonic()
        try:
            await self._journal.commit(flush.sequence, encode(flush.changes), flush.inlined)
            self._under_way.pop(0)
            self.flushes += 1
            self.committed = flush.sequence
            self._count(flush, begun)
            self._watcher.committed(flush)
            for callback in flush.answers:
                callback()
        finally:
            self._arrived.set()

    def _count(self, flush: Flush, begun: float) -> None:
        counters, now = self._counters, self._monotonic()
        counters.flushes += 1
        counters.inlined += not flush.written and bool(flush.pages)
        counters.batches += len(flush.pages)
        counters.messages += sum([change.rows for change, _ in flush.pages])
        counters.bytes += flush.page_bytes
        counters.committing.add(now - begun)
        counters.flushing.add(now - flush.taken)
        if flush.pages:
            counters.publishing.add(now - flush.begun)
