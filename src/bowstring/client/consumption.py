"""The loop's half of a consumer: what it holds, and what it says to its broker.

**Reconnecting.** A broken stream gives nothing back: leases run to their end. The next stream says
what the consumer still holds and sends again what was not answered, with the old numbers; only then
does the broker push. It tells which leases are lost, and pushes those again that the consumer has
not named. The lease that was pushed last may have come in part only, so it is not named; rows of it
that the consumer has are recognised, and not handed out twice.

**Losing.** The program learns what the consumer lost from its log, from `statistics().lost`, and by
settling it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, cast

import numpy as np

from bowstring import errors
from bowstring.client import key_order, lease_marks
from bowstring.client.connection import Connection
from bowstring.client.consume_stream import ConsumeStream
from bowstring.client.consumer_settings import KEY_SHARED, ConsumerSettings
from bowstring.client.deliveries import Deliveries
from bowstring.client.extensions import Extensions
from bowstring.client.lease_asks import LeaseAsks
from bowstring.client.lease_credit import LAP_SECONDS, LeaseCredit
from bowstring.client.lease_extension import Extension
from bowstring.client.lease_marks import ABANDONED, ACK, LOST, NACK, OPEN, REJECT, RELEASE, REVOKED
from bowstring.client.lease_time import LeaseTime
from bowstring.client.lease_watch import LeaseWatch
from bowstring.client.leased_page import HeldLease, LeasedPage
from bowstring.client.nack_times import NEVER
from bowstring.client.pages import Chunk
from bowstring.client.settle_requests import SentSettlement, packed
from bowstring.client.settlements import Settlements
from bowstring.ports.disk import Buffer
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb

_log = logging.getLogger("bowstring.client.consumer")


class LeaseHand(NamedTuple):
    """The program's half, as far as the loop asks it."""

    doubted: Callable[[], object]
    """Rows in hand may have to be checked."""
    seen: Callable[[LeasedPage], int]
    """How many rows of a page the program has got."""
    give_back: Callable[[list[LeasedPage]], object]
    """Gives the rows back that the program has not seen."""
    alive: Callable[[], Awaitable[bool]]
    """Whether the program says that it is alive."""


class Consumption:
    """What a consumer holds, and its way to the broker."""

    def __init__(self, connection: Connection, settings: ConsumerSettings, name: str, hand: LeaseHand) -> None:
        self._settings = settings
        self._name = name
        self._hand = hand
        self._clock = connection.world.clock
        self._loop = asyncio.get_running_loop()
        self._instance = connection.world.randomness.unique()
        self.lease_time = LeaseTime(connection.broker_time)
        self.credit = LeaseCredit(settings.credit, settings.credit_bytes)
        self.settlements = Settlements(settings.topic, self.lease_time, self.work, self._finished, hand.doubted)
        self.deliveries = Deliveries(
            self.lease_time, settings.credit_bytes // 2, lambda: self.credit.messages - self.credit.held, self._asked
        )
        self._extensions = Extensions(self.settlements)
        self._watch = LeaseWatch(
            self.lease_time,
            alive=hand.alive,
            extend_max=settings.extend_max,
            seen=hand.seen,
            extend=self._extend,
            give_back=hand.give_back,
            doubted=hand.doubted,
        )
        self._held: dict[tuple[int, int], HeldLease] = {}
        """By partition and grant."""
        self._newest: HeldLease | None = None
        """The lease that was pushed last: more of it may come."""
        self._topic_id = self._subscription_id = 0
        self._written = 0.0
        """When the opening of the present stream was written."""
        self._is_open = False
        """Whether the broker has answered the opening of the present stream."""
        self.opened = asyncio.Event()
        """The first stream is open, or the consumer has ended."""
        self._looking: asyncio.TimerHandle | None = None
        self.batches = self.bytes = 0
        self.asks = LeaseAsks(self._send_ask, release)
        self._stream = ConsumeStream(connection.another(), self, name)

    @property
    def connections(self) -> int:
        """How many streams were opened."""
        return self._stream.connections

    # ---- what is written

    def opening(self) -> list[pb.ConsumeRequest]:
        """The first requests of a stream."""
        settings, self._written, self._is_open = self._settings, self.lease_time.monotonic(), False
        opening = pb.ConsumeOpen(
            topic=settings.topic,
            subscription=settings.subscription,
            consumer=self._name,
            instance=self._instance,
            lease=settings.lease,
            mode=settings.mode,
            where=settings.where,
            topic_id=self._topic_id,
            subscription_id=self._subscription_id,
            create=settings.creation if not self._subscription_id else None,
            held=self._held_leases(),
        )
        first = pb.ConsumeRequest(open=opening, credit=self._credit())
        requests = [first, *self._settling(self.settlements.unanswered())]
        requests[-1].extend.extend(self._extensions.to_write(self._extensions.again(), self._written))
        requests[-1].ready = True
        return requests + self.asks.unanswered()

    def _held_leases(self) -> list[pb.HeldLeases]:
        """The leases that have come whole and have rows for which nothing was sent."""
        grants: dict[int, list[int]] = {}
        for (partition, grant), lease in self._held.items():
            if lease is not self._newest and any(OPEN in page.states for page in lease.pages):
                grants.setdefault(partition, []).append(grant)
        return [pb.HeldLeases(partition=partition, grants=sorted(some)) for partition, some in sorted(grants.items())]

    def _credit(self) -> pb.ConsumeCredit:
        return pb.ConsumeCredit(messages=self.credit.messages, bytes=self.credit.bytes)

    def send_credit(self) -> None:
        """The credit has changed."""
        if self._is_open:
            self._stream.send(pb.ConsumeRequest(credit=self._credit()))

    def work(self) -> None:
        """The program has settled something."""
        self.settlements.awake()
        self._pump()

    def _pump(self) -> None:
        if self._is_open and self.settlements.may_send():
            self._send(*self._gathered())
        elif self.deliveries.error is not None:
            for extension in self.settlements.gather()[1]:
                extension.decide(self.deliveries.error)

    def _gathered(self) -> tuple[list[SentSettlement], list[Extension], bool]:
        """Makes requests of everything that the program has said; and whether the credit changes."""
        requests, extensions, counts = self.settlements.gather()
        worked_off = counts.get(ACK, 0) + counts.get(NACK, 0) + counts.get(REJECT, 0)
        self.credit.gone(sum(counts.values()) - worked_off)
        self._tell_lost(counts.get(LOST, 0))
        changed = self.credit.settled(worked_off, self._clock.monotonic()) if worked_off else False
        return requests, extensions, changed

    def _send(self, requests: list[SentSettlement], extensions: list[Extension], credit: bool) -> None:
        messages = list(self._settling(requests))
        if (extensions or credit) and not messages:
            messages.append(pb.ConsumeRequest())
        if extensions:
            messages[-1].extend.extend(self._extensions.to_write(extensions, self.lease_time.monotonic()))
        if credit:
            messages[0].credit.CopyFrom(self._credit())
        for message in messages:
            self._stream.send(message)

    def _settling(self, requests: Iterable[SentSettlement]) -> list[pb.ConsumeRequest]:
        settle = self.settlements.to_write(requests, self.lease_time.monotonic())
        return [pb.ConsumeRequest(settle=some) for some in packed(settle)]

    def _extend(self, extensions: list[Extension]) -> None:
        if self._is_open and extensions:
            self._send([], extensions, False)

    # ---- what is answered

    def answered(self, message: Buffer) -> None:
        """Takes one answer, in the step in which it arrives."""
        header, data = codec.split(message)
        told = pb.ConsumeAnswer.FromString(header)
        self.bytes += len(message)
        if told.HasField("opened"):
            self._opened(told)
        if told.ping:
            self._stream.send(pb.ConsumeRequest(pong=told.ping))
        for lost in told.lost:
            self._lose(lost, told.standing)
        for revoked in told.revoked:
            self._revoke(revoked)
        if told.HasField("page"):
            self._pushed(told, data)
        if told.HasField("leased"):
            self.asks.answer(told.leased)
        written = [self._settled(each, told.now) for each in told.settled]
        written += [self._extended(each, told.now) for each in told.extended]
        answered = [moment for moment in written if moment is not None]
        if answered:
            self.lease_time.heard(told.now, max(answered))
            self._pump()

    def _opened(self, told: pb.ConsumeAnswer) -> None:
        self._stream.pauses.reset()
        self.lease_time.restart(told.now, self._written)
        self._topic_id, self._subscription_id = told.opened.topic_id, told.opened.subscription_id
        self._watch.span = told.opened.lease
        self.settlements.is_keyed = told.opened.mode == KEY_SHARED
        self.settlements.told(told.opened.numbers_from)
        self.settlements.retention = told.opened.retention or NEVER
        self._is_open = True
        self.opened.set()
        self._watch.extended(tuple(self._held.values()))
        self._pump()

    def _pushed(self, told: pb.ConsumeAnswer, data: memoryview | None) -> None:
        """Rows have come."""
        self.batches += 1
        partition, grant = told.page.partition, told.lease.grant
        lease = self._held.get((partition, grant))
        if lease is None:
            lease = self._held[partition, grant] = HeldLease(partition, grant, told.lease.until)
        self._newest = lease
        page = LeasedPage(self._settings.topic, told.page, data, told.lease, lease, self.settlements)
        chunks = [Chunk(page, 0, page.rows)]
        if told.lease.again:
            lease.until = max(lease.until, told.lease.until)
            chunks = self._not_held(lease, page)
        if chunks:
            lease.pages[page] = None
            key_order.revoke_arrived(page)
            self.credit.came(sum(chunk.rows for chunk in chunks), self._clock.monotonic())
            if told.lease.asked:
                self.asks.came(told.lease.asked, chunks)
            elif self.credit.paused:
                release(chunks)
            else:
                self.deliveries.came(chunks)
            self._look_later()
        if lease.pages:
            self._watch.add(lease)
        else:
            self._finished(lease)

    def _not_held(self, lease: HeldLease, page: LeasedPage) -> list[Chunk]:
        """The rows of a page that were not pushed before, as far as they are held."""
        held = np.zeros(page.rows, np.bool_)
        for other in lease.pages:
            held |= np.isin(page.offsets, other.offsets)
        page.elsewhere(np.flatnonzero(held))
        edges = np.flatnonzero(np.diff(np.concatenate(([True], held, [True])).astype(np.int8)))
        return [Chunk(page, int(first), int(end - first)) for first, end in edges.reshape(-1, 2)]

    def _settled(self, told: pb.RowsSettled, now: int) -> float | None:
        before = self.settlements.counts[LOST]
        written = self.settlements.answered(told, now)
        self._tell_lost(self.settlements.counts[LOST] - before)
        return written

    def _extended(self, told: pb.RowsExtended, now: int) -> float | None:
        extension = self._extensions.answered(told, now)
        if extension is None:
            return None
        self._watch.extended(extension.leases)
        if told.refused:
            self._hand.doubted()
        return extension.written

    def _lose(self, told: pb.HeldLeases, standing: str) -> None:
        """The consumer does not have these leases any more."""
        for grant in told.grants:
            lease = self._held.get((told.partition, grant))
            if lease is not None:
                lease.standing = standing
                lease.is_lost = True  # what else comes of it is not held either
                self._watch.drop(lease)
                for page in tuple(lease.pages):
                    page.lose(0, page.rows)
        self._hand.doubted()

    def _revoke(self, told: pb.RevokedRows) -> None:
        """The consumer does not have these rows any more: they come again in the order of their
        keys.
        """
        lease = self._held.get((told.partition, told.grant))
        if lease is not None:
            for page in tuple(lease.pages):
                rows = lease_marks.rows_at(page, list(told.offsets), list(told.rows))
                if len(rows):
                    page.lose_rows(rows, REVOKED)
            self._hand.doubted()

    def _tell_lost(self, rows: int) -> None:
        if rows and self.deliveries.error is None:
            what = "a message" if rows == 1 else f"{rows} messages"
            _log.warning("consumer '%s' of '%s' does not hold %s any more, which come again", self._name, self._settings.topic, what)

    def _finished(self, lease: HeldLease) -> None:
        """Nothing of a lease is left."""
        self._held.pop((lease.partition, lease.grant), None)
        self._watch.drop(lease)

    # ---- credit

    def _asked(self, askers: int) -> None:
        """So many threads and tasks iterate. In any thread."""
        self.settlements.wake(lambda: self.send_credit() if self.credit.asked(askers) else None)

    def _look_later(self) -> None:
        if self._looking is None:
            self._looking = self._loop.call_later(LAP_SECONDS, self._look)

    def _look(self) -> None:
        """Looks whether the program works its credit off."""
        self._looking = None
        if self.credit.look(self._clock.monotonic()):
            self.send_credit()
        if self.credit.held > 0:
            self._look_later()

    # ---- the end

    def broken(self) -> None:
        """The stream is broken."""
        self._is_open = False

    def fail(self, error: errors.Error) -> None:
        """The consumer has ended."""
        self._is_open = False
        self.deliveries.fail(error)
        self.settlements.fail(error, self.pages())
        self._extensions.fail(error)
        self.asks.fail(error)
        self._watch.close()
        self._hand.doubted()
        self.opened.set()
        self._pump()

    def _send_ask(self, request: pb.ConsumeRequest) -> None:
        if self._is_open:
            self._stream.send(request)

    def pages(self) -> list[LeasedPage]:
        """The pages with rows that are not settled."""
        return [page for lease in self._held.values() for page in lease.pages]

    def abandon(self) -> None:
        """Gives everything back that the program has and has not settled."""
        for page in self.pages():
            page.mark(0, page.rows, ABANDONED)

    @property
    def is_open(self) -> bool:
        """Whether a broker is there."""
        return self._is_open

    async def flush(self) -> None:
        """Waits until everything that the program has said so far is answered."""
        self._send(*self._gathered())  # before a stream is open it goes nowhere, and is sent again
        await self.settlements.settled(self.settlements.unanswered())

    async def close(self, seconds: float) -> None:
        """Ends the stream and the connection. What is not answered within this time is given up."""
        self._watch.close()
        if self._looking is not None:
            self._looking.cancel()
        await self._stream.finish(seconds, leaving=self.settlements.is_settled() and not self.pages())
        await self._stream.close()
        self._give_up()
        self.deliveries.close()

    def _give_up(self) -> None:
        """No answer comes any more: receipts of what was said and not answered tell so."""
        error = errors.OutcomeUnknown(
            "the consumer was closed before the broker had answered.", hint="What was not settled comes again when its lease ends."
        )
        self._extensions.fail(error)
        for extension in self.settlements.give_up(error, self.pages()):
            extension.decide(error)


def release(chunks: Iterable[Chunk]) -> None:
    """Gives rows back that the program has not seen."""
    for chunk in chunks:
        cast("LeasedPage", chunk.page).mark(chunk.first, chunk.rows, RELEASE)
