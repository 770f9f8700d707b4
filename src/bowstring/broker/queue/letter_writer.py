"""Writes dead letters.

Rows are condemned by the change that ends their last delivery (`core.condemned`). Here their pages are
read, and then one flush settles the rows and stores the letters: two partitions are asked as one, and
nothing is awaited between the look at the ledger and the decision. A crash in between finds the rows
condemned, and the next incarnation goes on.

One task does it for all subscriptions, some partitions at a time, and waits for the commit before it
goes on: a storm is worked off in batches, and costs bounded memory. On a full disk the rows wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.queue.companions import Companions
from bowstring.broker.queue.granted_pages import GrantedPages, PagesFound
from bowstring.broker.queue.letter import LetterSource, deaths_of, letters
from bowstring.broker.queue.letter_requests import AppendLetters, BuryRows
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.reading.reading import Reading
from bowstring.broker.topics import Topic
from bowstring.core.row_set import RowSet
from bowstring.ports.failures import DiskFull

ROWS_A_BATCH: Final = 2048
"""So many letters are written together at most."""
BYTES_A_READ: Final = 1024 * 1024
PARTITIONS_AT_ONCE: Final = 32
RETRY_SECONDS: Final = 1.0
"""How long to wait when the disk is full, or something could not be read."""

BeginLane = Callable[[LiveSubscription, Topic], int]
"""Gives the number of the lanes of a subscription in its companion."""
Waiting = tuple[LiveSubscription, PartitionActor]


class LetterWriter:
    """Writes the dead letters of one incarnation."""

    def __init__(self, log: Log, reading: Reading, companions: Companions, begin_lane: BeginLane) -> None:
        self._log = log
        self._pages = GrantedPages(reading)
        self._counters = reading.counters.queue
        self._companions = companions
        self._begin_lane = begin_lane
        self._waiting: dict[Waiting, None] = {}
        """Partitions in which a subscription has condemned rows."""
        self._task: asyncio.Task[None] | None = None

    def look_at(self, subscription: LiveSubscription, actor: PartitionActor) -> None:
        """There are condemned rows."""
        self._waiting[subscription, actor] = None
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """The incarnation is over."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        """Until nothing is left."""
        try:
            while self._waiting and self._log.ended is None:
                some = list(self._waiting)[:PARTITIONS_AT_ONCE]
                for waiting in some:
                    del self._waiting[waiting]
                await self._write(some)
        except Exception as failure:
            self._log.flusher.fail(failure)
        finally:
            self._task = None

    async def _write(self, some: list[Waiting]) -> None:
        """Writes a batch of letters for each of these."""
        written: list[asyncio.Future[list[int]]] = []
        failed = False
        for subscription, actor in some:
            try:
                told = await self._write_one(subscription, actor)
            except (errors.Unavailable, DiskFull, OSError):
                told, failed = None, True
                if actor.closed is None:
                    self._waiting[subscription, actor] = None
            if told is not None:
                written.append(told)
        await asyncio.gather(*written, return_exceptions=True)
        for subscription, actor in some:
            ledger = None if actor.closed is not None else subscription.ledger(actor)
            if ledger is not None and ledger.condemned and subscription.ended is None:
                self._waiting[subscription, actor] = None
        if failed:
            await self._log.clock.sleep(RETRY_SECONDS)

    async def _write_one(self, subscription: LiveSubscription, actor: PartitionActor) -> asyncio.Future[list[int]] | None:
        """Settles the first condemned rows, and stores their letters."""
        ledger = subscription.ledger(actor)
        if ledger is None or actor.closed is not None or subscription.ended is not None:
            return None
        rows = ledger.condemned.rows().smallest(ROWS_A_BATCH)
        companion = await self._companions.awoken(subscription)
        found = await self._pages.read(actor.partition, rows, BYTES_A_READ)
        if subscription.ledger(actor) is not ledger or actor.closed is not None or not rows:
            return None
        rows, lost = _reached(rows, found)
        rows, lost = ledger.condemned.among(rows), ledger.condemned.among(lost)
        if lost:
            self._counters.aside["damaged"] += len(lost)
        bury = BuryRows(subscription.number_in(actor), RowSet.union((rows, lost)), lost)
        if not rows:
            return PartitionActor.ask_together([(actor, bury)]) if lost else None
        return self._ask(subscription, actor, companion, rows, found, bury)

    def _ask(
        self, subscription: LiveSubscription, actor: PartitionActor, companion: Topic, rows: RowSet, found: PagesFound, bury: BuryRows
    ) -> asyncio.Future[list[int]]:
        """All in one step: nothing changes between the look at the ledger and the decision."""
        ledger = subscription.ledger(actor)
        assert ledger is not None
        deaths = deaths_of(rows, list(ledger.condemned.groups(rows)), ledger.retry_counts(rows))
        number = actor.partition.number
        source = LetterSource(subscription.topic.row.name, number, subscription.name, subscription.is_lane(actor))
        made = letters(source, deaths, found.entries, found.pages)
        self._log.room.check(len(made.encoded.data))
        lane = self._begin_lane(subscription, companion)
        append = AppendLetters(lane, subscription.name, subscription.settings, made)
        self._counters.dead_letters += len(rows)
        return PartitionActor.ask_together([(actor, bury), (companion.actors[number], append)])


def _reached(rows: RowSet, found: PagesFound) -> tuple[RowSet, RowSet]:
    """Of the rows those that the pages have, and those that no page has any more or a damaged one
    has: they cannot be read.
    """
    readable = RowSet.union([RowSet(entry.first_offset, entry.end) for entry in found.entries])
    return rows & readable, rows & RowSet.union((found.gone, found.damaged))
