"""The way of granted rows to one consumer, in the order of their grants.

When a grant is committed its rows are read and sent: in the same step if their pages are in memory,
else by a task, and then those behind it wait. What the session has no room for is not read: a
consumer that reads nothing costs two numbers for each grant that waits.

Nothing is sent beyond the consumer's credit. Rows of a new grant that turn out not to fit, because
they have more bytes than was estimated or because the credit was lowered meanwhile, are given back
at once, uncounted: they never reached it. Those that it was sent before, on an earlier connection,
wait until it has room.

What is sent is what the consumer holds by the ledger when it is sent. A row that was taken back
meanwhile, because its publish missed its deadline, is not held any more and stays out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue import leased_page
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.granted_pages import GrantedPages, PagesFound
from bowstring.broker.queue.lease_requests import GiveBackGrants, SetAsideRows
from bowstring.broker.queue.pushes import PushedLease, PushedRows
from bowstring.broker.reading.fetched import Fetched
from bowstring.broker.reading.reading import Reading
from bowstring.core.ledger_changes import SetAsideReason
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows

SCATTERED_MAX = 1
"""So many grants of scattered rows may wait while pages are read for another one."""
READ_BYTES_MAX = 4 * 1024 * 1024
"""About how many bytes are read for one consumer at once."""


class Outgoing:
    """A grant that is to be sent, or a part of it."""

    __slots__ = ("actor", "again", "asked", "grant", "is_scattered", "offset", "sent")

    def __init__(self, actor: PartitionActor, grant: int, *, again: bool = False, asked: AskedGrant | None = None) -> None:
        self.actor = actor
        self.grant = grant
        self.again = again
        self.asked = asked
        """Of rows that the consumer has asked for by their ids."""
        self.is_scattered = False
        """Its rows are not one run."""
        self.offset = 0
        """Rows below this are sent."""
        self.sent: list[RowSet] = []
        """The rows that were sent, of those that were asked for."""

    def finish(self) -> None:
        """Nothing more of it is sent."""
        if self.asked is not None and not self.asked.done.done():
            self.asked.done.set_result(RowSet.union(self.sent))


class AskedGrant(NamedTuple):
    """A grant of rows that the consumer has asked for by their ids."""

    number: int
    """Of the request."""
    done: asyncio.Future[RowSet]
    """Settles with the rows that were sent."""


class Delivery:
    """What one consumer is sent."""

    def __init__(self, consumer: LiveConsumer, reading: Reading) -> None:
        self._consumer = consumer
        self._subscription = consumer.subscription
        self._receiver = consumer.receiver
        self._reading = reading
        self._pages = GrantedPages(reading, gathered=not consumer.subscription.settings.where)
        self._queue: deque[Outgoing] = deque()
        self._task: asyncio.Task[None] | None = None
        """Reads pages for the first in the queue."""

    def add(self, actor: PartitionActor, grant: int, *, again: bool = False) -> None:
        """A grant is committed."""
        outgoing = Outgoing(actor, grant, again=again)
        if self._consumer.ended is None:
            self._queue.append(outgoing)
            outgoing.is_scattered = self._task is not None and not self._held(outgoing).is_run
            self.go_on()
        elif not again:
            self._give_back(outgoing, self._held(outgoing))

    def add_asked(self, actor: PartitionActor, grant: int, asked: AskedGrant) -> None:
        """A grant that the consumer has asked for is committed. It comes before all that waits, and
        whatever credit for messages the consumer has; but no more bytes than it has room for.
        """
        outgoing = Outgoing(actor, grant, asked=asked)
        if self._consumer.ended is None:
            self._queue.appendleft(outgoing)
            self.go_on()
        else:
            self._give_back(outgoing, self._held(outgoing))
            outgoing.finish()

    def give_up(self, actor: PartitionActor, wanted: RowSet) -> None:
        """Gives the grants back that have some of these rows and were not sent: the consumer asks for the
        rows by their ids.
        """
        for outgoing in [each for each in self._queue if each.actor is actor and not each.again and each.asked is None]:
            held = self._held(outgoing)
            if held & wanted:
                self._queue.remove(outgoing)
                self._give_back(outgoing, held)

    def go_on(self) -> None:
        """Sends what can be sent without waiting; a task reads the rest."""
        self._send_on()
        self._note_behind()

    def _note_behind(self) -> None:
        """While pages are read and scattered rows wait to be sent, no more are granted. Where keys are
        shared out, room is the measure of load, and stays what it is.
        """
        holdings, waiting = self._consumer.holdings, sum(outgoing.is_scattered for outgoing in self._queue)
        is_behind = self._task is not None and waiting >= SCATTERED_MAX and self._subscription.keys is None
        if is_behind != holdings.is_behind:
            holdings.is_behind = is_behind
            self._subscription.room_changed(self._consumer)

    def _send_on(self) -> None:
        holdings = self._consumer.holdings
        while self._queue and self._task is None and self._consumer.ended is None:
            room = self._receiver.room()
            outgoing = self._queue[0]
            rows = self._held(outgoing)
            if not rows:
                self._queue.popleft().finish()
                continue
            sendable = len(rows) if outgoing.asked is not None else holdings.sendable
            if sendable <= 0 and not outgoing.again:  # its credit was lowered since
                self._give_back(outgoing, rows)
                continue
            if room <= 0 or sendable <= 0:
                return
            rows, bytes_max = _first(rows, sendable), min(room, READ_BYTES_MAX)
            found = self._pages.at_once(outgoing.actor.partition, rows, bytes_max)
            if found is None:
                self._task = asyncio.create_task(self._later(outgoing, rows, bytes_max))
                return
            if not self._send(outgoing, rows, found):
                return

    def _held(self, outgoing: Outgoing) -> RowSet:
        """What is to be sent of a grant: what the consumer holds of it, if the lease lasts."""
        ledger = self._subscription.ledger(outgoing.actor)
        leases = () if ledger is None else ledger.leases.of_grant(outgoing.grant)
        now = self._consumer.now()
        live = [lease.rows for lease in leases if lease.until > now]
        rows = live[0] if len(live) == 1 else RowSet.union(live)
        return rows - RowSet(0, outgoing.offset) if rows.first < outgoing.offset else rows

    async def _later(self, outgoing: Outgoing, rows: RowSet, bytes_max: int) -> None:
        """Reads pages for a grant, sends them, and goes on."""
        try:
            found = await self._pages.read(outgoing.actor.partition, rows, bytes_max)
        except Exception as error:
            self._task = None
            self._consumer.end(error if isinstance(error, errors.Error) else errors.Unavailable(f"messages could not be read: {error}"))
            return
        self._task = None
        held = self._held(outgoing) & rows
        if self._send(outgoing, held, found):
            self._send_on()
        self._note_behind()

    # Sending

    def _send(self, outgoing: Outgoing, rows: RowSet, found: PagesFound) -> bool:
        """Sends the rows that these pages have. Those that are gone, or cannot be read, are settled
        without a delivery: no consumer could ever ack them. A consumer that was sent them before may
        have them still, so its lease runs to its end first. False if the rest has to wait for room.
        """
        partition, entries = outgoing.actor.partition, found.entries
        if outgoing.again:
            outgoing.offset = max(outgoing.offset, found.gone.stop)
        else:
            self._set_aside(outgoing, rows & found.gone, SetAsideReason.EXPIRED)
        scout = None if self._subscription.is_lane(outgoing.actor) else self._subscription.scout
        if scout is not None and not outgoing.again and (left_out := scout.left_out_of(rows, found)):
            self._set_aside(outgoing, left_out, SetAsideReason.LEFT_OUT)
            rows = rows - left_out
        if entries and rows:
            moments = None if outgoing.again else self._reading.moments(partition.topic, self._subscription.kept_longer(outgoing.actor))
            cut = leased_page.cut(partition, rows, entries, found.pages, moments, READ_BYTES_MAX)
            self._set_aside(outgoing, cut.expired, SetAsideReason.EXPIRED)
            self._set_aside(outgoing, cut.too_old, self._subscription.fate_of_old_rows)
            for piece in cut.pieces:
                if not self._send_piece(outgoing, piece):
                    return not outgoing.again
            outgoing.offset = min(cut.end, rows.stop)
            if cut.end < entries[-1].end:
                return True
        if found.damaged:
            outgoing.offset = found.damaged.stop
            if not outgoing.again:
                self._set_aside(outgoing, rows & found.damaged, SetAsideReason.DAMAGED)
        return True

    def _send_piece(self, outgoing: Outgoing, piece: Fetched) -> bool:
        """Sends as much of a piece as the consumer has room for by its bytes; says whether that was
        all. A message goes out whatever its size when the consumer has nothing else. Rows that do not
        fit are given back, unless the consumer was sent them before.
        """
        holdings = self._consumer.holdings
        spare = holdings.spare(outgoing.actor, outgoing.grant)
        if piece.size <= spare:
            self._push(outgoing, piece)
            return True
        has_nothing = holdings.rows == holdings.unsent
        some = leased_page.fitting(piece, spare) or (leased_page.first_rows(piece, 1) if has_nothing else None)
        if some is not None:
            self._push(outgoing, some)
            if some.rows == piece.rows:
                return True
        if not outgoing.again:
            self._give_back(outgoing, self._held(outgoing))
            holdings.is_stalled = outgoing.asked is None
            self._subscription.room_changed(self._consumer)
        return False

    def _push(self, outgoing: Outgoing, piece: Fetched) -> None:
        actor, grant = outgoing.actor, outgoing.grant
        outgoing.offset = leased_page.end_of(piece.runs)
        ledger, now = self._subscription.ledger(actor), self._consumer.now()
        ends = [] if ledger is None else [lease.until for lease in ledger.leases.of_grant(grant) if lease.until > now]
        if ledger is None or not ends:
            return
        rows = leased_page.offsets_of(piece)
        asked = 0 if outgoing.asked is None else outgoing.asked.number
        outgoing.sent += [rows] if asked else []
        counts = leased_page.run_lengths(ledger.retry_counts(rows))
        lease = PushedLease(grant, min(ends), outgoing.again, *counts, *self._origin(actor), asked)
        self._subscription.learn(actor, piece.rows, piece.size)
        self._consumer.holdings.sent(actor, grant, piece.rows, piece.size)
        self._subscription.room_changed(self._consumer)  # its rows may be smaller than was estimated
        self._reading.counters.queue.pushed(piece.rows, piece.size)
        if self._subscription.is_lane(actor):
            piece = piece._replace(partition=self._subscription.place(actor))
        self._receiver.push(PushedRows(piece, lease))

    def _origin(self, actor: PartitionActor) -> tuple[str, int]:
        """The topic and partition of rows of another topic than the consumer's: redriven dead letters."""
        return (self._subscription.dead_letters, actor.partition.number) if self._subscription.is_lane(actor) else ("", 0)

    def _set_aside(self, outgoing: Outgoing, rows: RowSet, reason: SetAsideReason) -> None:
        if rows:
            parts = [GrantRows(outgoing.grant, rows)]
            self._reading.counters.queue.aside[reason.name.lower()] += len(rows)
            outgoing.actor.receive(SetAsideRows(self._subscription.number_in(outgoing.actor), self._consumer.now, parts, reason))

    def _give_back(self, outgoing: Outgoing, rows: RowSet) -> None:
        """Rows that were never sent go back to their place, uncounted."""
        if rows:
            parts = [GrantRows(outgoing.grant, rows)]
            outgoing.actor.receive(GiveBackGrants(self._subscription.number_in(outgoing.actor), self._consumer.now, _ignored, parts))

    # The end

    def close(self) -> None:
        """The consumer has left. Rows that were not sent to it are given back: it never had them."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        queue, self._queue = self._queue, deque()
        for outgoing in queue:
            if not outgoing.again:
                self._give_back(outgoing, self._held(outgoing))
            outgoing.finish()


def _first(rows: RowSet, count: int) -> RowSet:
    """So many of the rows, the first ones."""
    if len(rows) <= count:
        return rows
    return RowSet(rows.first, rows.first + count) if rows.is_run else RowSet.of_offsets(rows.offsets()[:count])


def _ignored(outcome: object) -> None:
    """There is no caller to answer."""
