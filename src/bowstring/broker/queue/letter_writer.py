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
from typing import Any, Final

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.log import Log
from bowstring.broker.queue.companions import Companions
from bowstring.broker.queue.granted_pages import GrantedPages, PagesFound
from bowstring.broker.queue.letter import DyingRows, LetterSource, deaths_of, letters
from bowstring.broker.queue.letter_requests import AppendLetters, BuryRows
from bowstring.broker.queue.letter_rows import letter_rows
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.reading.reading import Reading
from bowstring.broker.topics import Topic
from bowstring.ports.failures import DiskFull

ROWS_A_BATCH: Final = 2048
"""So many letters are written together at most."""
BYTES_A_READ: Final = 1024 * 1024
PARTITIONS_AT_ONCE: Final = 32
RETRY_SECONDS: Final = 1.0
"""How long to wait when the disk is full, or something could not be read."""
BEHIND_SECONDS: Final = 1.0
"""So long someone who looks at dead letters waits for those that are not written yet."""

BeginLane = Callable[[LiveSubscription, Topic], int]
"""Gives the number of the lanes of a subscription in its companion."""
Waiting = tuple[LiveSubscription, PartitionActor]


class LetterWriter:
    """Writes the dead letters of one incarnation."""

    def __init__(self, log: Log, reading: Reading, companions: Companions, begin_lane: BeginLane) -> None:
        self._log = log
        self._reading = reading
        self._pages = GrantedPages(reading, whole=True)
        self._counters = reading.counters.queue
        self._companions = companions
        self._begin_lane = begin_lane
        self._waiting: dict[Waiting, None] = {}
        """Partitions in which a subscription has condemned rows."""
        self._task: asyncio.Task[None] | None = None
        self._awaiting: set[asyncio.Event] = set()
        """Set when some were written, or no more are."""

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

    async def caught_up(self, subscription: LiveSubscription) -> None:
        """Rows that are condemned now have their dead letters when it returns, unless that takes too long:
        someone who rejects a message and then looks finds it.
        """
        if not self._is_behind(subscription):
            return
        woken, sleeping = asyncio.Event(), asyncio.ensure_future(self._log.clock.sleep(BEHIND_SECONDS))
        self._awaiting.add(woken)
        try:
            while not sleeping.done() and self._is_behind(subscription):
                waiting = asyncio.ensure_future(woken.wait())
                await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                woken.clear()
        finally:
            sleeping.cancel()
            self._awaiting.discard(woken)

    def _is_behind(self, subscription: LiveSubscription) -> bool:
        return self._task is not None and any(ledger.condemned for _, ledger in subscription.ledgers())

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
            self._tell()

    def _tell(self) -> None:
        for event in self._awaiting:
            event.set()

    async def _write(self, some: list[Waiting]) -> None:
        """Writes a batch of letters for each of these."""
        written: list[asyncio.Future[Any]] = []
        failed = False
        for subscription, actor in some:
            try:
                told = await self._write_one(subscription, actor)
            except (errors.Unavailable, DiskFull, OSError):
                told, failed = None, True
                if actor.closed is None:
                    self._waiting[subscription, actor] = None
            if told is not None:  # its error is heard at once: the incarnation may end in the midst of this
                written.append(asyncio.gather(told, return_exceptions=True))
        await asyncio.gather(*written)
        for subscription, actor in some:
            ledger = None if actor.closed is not None else subscription.ledger(actor)
            if ledger is not None and ledger.condemned and subscription.ended is None:
                self._waiting[subscription, actor] = None
        self._tell()
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
        dying = letter_rows(subscription, actor, rows, found, self._reading.moments(actor.partition.topic).now)
        self._counters.aside["damaged"] += len(dying.damaged)
        bury = BuryRows(subscription.number_in(actor), dying)
        if not dying.letters:
            return PartitionActor.ask_together([(actor, bury)]) if dying.all else None
        return self._ask(subscription, actor, companion, dying, found, bury)

    def _ask(
        self, subscription: LiveSubscription, actor: PartitionActor, companion: Topic, dying: DyingRows, found: PagesFound, bury: BuryRows
    ) -> asyncio.Future[list[int]]:
        """All in one step: nothing changes between the look at the ledger and the decision."""
        ledger = subscription.ledger(actor)
        assert ledger is not None
        rows = dying.letters
        deaths = deaths_of(rows, list(ledger.condemned.groups(rows)), ledger.retry_counts(rows))
        number = actor.partition.number
        source = LetterSource(subscription.topic.row.name, number, subscription.name, subscription.is_lane(actor))
        made = letters(source, deaths, found.entries, found.pages)
        self._log.room.check(len(made.encoded.data))
        lane = self._begin_lane(subscription, companion)
        append = AppendLetters(lane, subscription.name, subscription.settings, made)
        self._counters.dead_letters += len(rows)
        return PartitionActor.ask_together([(actor, bury), (companion.actors[number], append)])
