"""Turns the program's marks into requests, and the broker's answers into outcomes.

**When is a request made?** The first mark of a page enlists the page and wakes the loop. If nothing
is under way the loop sends at once what is marked by then. While a request is under way, marks
gather; its answer, or the next page of the program, sends them. At most `ROUNDS_MAX` rounds of
requests are under way, so requests grow with the load, and an idle consumer's ack leaves at once.

**No lock, no wake-up, no future for each message.** `enlist` appends to a deque in one step, and the
loop is woken once for each gathering. It says so *after* the page is in the deque, and the loop looks
into the deque *after* it has said that it is awake: no page is missed.

**Who learns of it?** A receipt is a page and a row; the page's states say what became of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bowstring import errors
from bowstring.client import lease_extension, lease_marks
from bowstring.client.consumer_settings import checked_lease
from bowstring.client.lease_extension import Extension
from bowstring.client.lease_marks import ACK, DONE, LOST, NACK, REFUSED, REJECT, REVOKED, TRAVELS_AS, Rows
from bowstring.client.lease_receipts import ExtendReceipt, LeaseBatchReceipt, LeaseReceipt, MarkReceipt, MarksReceipt, OneExtension
from bowstring.client.lease_time import LeaseTime
from bowstring.client.leased_page import HeldLease, LeasedPage
from bowstring.client.nack_times import NEVER
from bowstring.client.receipts import raisable
from bowstring.client.refusals import Refusal, Refusals
from bowstring.client.settle_requests import RUNS_MAX, MarkedPart, RequestLane, SentSettlement
from bowstring.wire import forks
from bowstring.wire.generated import bowstring_pb2 as pb

ROUNDS_MAX: Final = 4
"""So many rounds of requests are under way."""
UNANSWERED_MAX: Final = 512
"""So many requests of a partition may be without an answer; the broker remembers twice as many."""

Wake = Callable[[Callable[[], object]], object]
"""Has the loop call a function."""


class Settlements:
    """What a consumer's program has said about its messages."""

    def __init__(
        self,
        topic: str,
        lease_time: LeaseTime,
        work: Callable[[], object],
        finished: Callable[[HeldLease], object],
        doubted: Callable[[], object] = int,
    ) -> None:
        self.topic = topic
        self.receipt: type[MarkReceipt] = LeaseReceipt
        """The classes of receipts: of a message that is settled,"""
        self.batch_receipt: type[MarksReceipt] = LeaseBatchReceipt
        """of rows of a batch,"""
        self.extend_receipt: type[OneExtension] = ExtendReceipt
        """of a message whose lease is extended."""
        self.refusals = Refusals()
        self.counts = dict.fromkeys((*TRAVELS_AS, LOST, REVOKED), 0)
        """Rows by what became of them."""
        self.is_keyed = False
        """Whether the subscription is key-shared."""
        self.doubted: Callable[[], object] = doubted
        """Rows in hand may have to be checked."""
        self.wake: Wake = asyncio.get_running_loop().call_soon
        self._work = work
        self._finished = finished
        """Called when nothing of a lease is left."""
        self._lease_time = lease_time
        self._generation = forks.generation()
        self._enlisted: deque[LeasedPage | Extension] = deque()
        self._woken = False
        self._lanes: dict[int, RequestLane] = {}
        self._numbers_from = 0
        self._rounds: deque[set[SentSettlement]] = deque()
        """The requests of each round that are not answered."""
        self.retention = NEVER
        """How long the topic keeps messages, in microseconds."""
        self._failure: errors.Error | None = None
        """Why nothing can be settled any more."""
        self._unseen_failure: errors.Error | None = None
        """The same, if the program has settled something in vain."""
        self._changed = asyncio.Event()
        """An answer has come."""

    # ---- the program's side, in any thread

    def enlist(self, what: LeasedPage | Extension) -> None:
        """There is something for the loop."""
        self._enlisted.append(what)
        if not self._woken and (not self._rounds or len(self._enlisted) > 1):
            self._woken = True
            self.wake(self._work)

    def extend_one(self, page: LeasedPage, row: int, lease: Any) -> OneExtension:
        """Extends the lease of one row."""
        span = 0 if lease is None else checked_lease(lease, self.broker_now())
        extension = Extension(page.lease.partition, [(page, np.array([row]))], span)
        self.enlist(extension)
        return self.extend_receipt(page, row, extension)

    def extend_many(
        self, parts: list[tuple[LeasedPage, npt.NDArray[np.intp]]], lease: Any
    ) -> list[tuple[int, npt.NDArray[np.intp], Extension]]:
        """Extends the leases of rows of pages. Returns which rows of which part are extended by
        what.
        """
        span = 0 if lease is None else checked_lease(lease, self.broker_now())
        made: list[tuple[int, npt.NDArray[np.intp], Extension]] = []
        for some in lease_extension.divided(parts, RUNS_MAX):
            pages: list[tuple[LeasedPage, Rows]] = [(parts[number][0], rows) for number, rows in some]
            extension = Extension(pages[0][0].lease.partition, pages, span)
            self.enlist(extension)
            made += [(number, rows, extension) for number, rows in some]
        return made

    def check_process(self) -> None:
        """Raises Conflict in a forked child: the loop that answers is the parent's."""
        forks.check(self._generation)

    def monotonic(self) -> float:
        """The seconds by which moments of writing are given."""
        return self._lease_time.monotonic()

    def broker_now(self) -> int:
        """The broker's time."""
        return self._lease_time.broker_time.now()

    def lost_refusal(self, page: LeasedPage) -> Refusal:
        """What is known about rows that the consumer has lost."""
        now, lease = self._lease_time.latest(), page.lease
        return Refusal(page.topic, page.partition, page.offsets, ended=lease.until, now=now, standing=lease.standing)

    # ---- requests

    def told(self, numbers_from: int) -> None:
        """The broker has told where the numbers of requests go on."""
        self._numbers_from = numbers_from
        for lane in self._lanes.values():
            lane.numbers_from = numbers_from

    def _lane(self, partition: int) -> RequestLane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = RequestLane(partition, self._numbers_from)
        return lane

    def awake(self) -> None:
        """The loop looks now."""
        self._woken = False

    def may_send(self) -> bool:
        """Whether there is something to send, and it is worth a request."""
        if not self._enlisted or any(len(lane.unanswered) >= UNANSWERED_MAX for lane in self._lanes.values()):
            return False
        return not self._rounds or (len(self._rounds) < ROUNDS_MAX and len(self._enlisted) > 1)

    def gather(self) -> tuple[list[SentSettlement], list[Extension], dict[int, int]]:
        """Makes requests of everything that is marked: these, the extensions that the program asks
        for, and how many rows have which mark.
        """
        by_partition: dict[int, list[MarkedPart]] = {}
        extensions: list[Extension] = []
        counts: dict[int, int] = {}
        while self._enlisted:
            found = self._enlisted.popleft()
            if not isinstance(found, LeasedPage):
                extensions.append(found)
                continue
            for code, rows, time, reason in lease_marks.gathered(found):
                many = lease_marks.count(found, rows)
                counts[code] = counts.get(code, 0) + many
                self.counts[code] += many
                if code >= LOST:
                    self._set(found, rows, REFUSED)
                elif self._failure is not None:
                    self._fail(found, rows, self._failure)
                else:
                    by_partition.setdefault(found.lease.partition, []).append(MarkedPart(found, code, rows, time, reason))
        requests = [request for partition, parts in by_partition.items() for request in self._lane(partition).add(parts)]
        if requests:
            self._rounds.append(set(requests))
        return requests, extensions, counts

    def to_write(self, requests: Iterable[SentSettlement], now: float) -> list[pb.SettleRows]:
        """Requests as they are written now."""
        return [message for request in requests for message in self._lanes[request.message.partition].to_write([request], now)]

    def unanswered(self) -> list[SentSettlement]:
        """What has to be sent again after a break, in order."""
        return [request for lane in self._lanes.values() for request in lane.unanswered.values()]

    # ---- answers

    def answered(self, told: pb.RowsSettled, now: int) -> float | None:
        """Takes an answer. Returns when its request was written; None if there was none."""
        lane = self._lanes.get(told.partition)
        request = None if lane is None else lane.unanswered.pop(told.request, None)
        if request is None:
            return None
        refused = [(part, each) for each in told.refused for part in request.parts if part.page.lease.grant == each.grant]
        for part, each in refused:  # first: another thread must never see such a row as done
            self._refuse(part, each, now)
        for page, _, rows, *_ in request.parts:
            self._set(page, rows, DONE)
        self._end(request)
        return request.written

    def _end(self, request: SentSettlement) -> None:
        for requests in self._rounds:
            requests.discard(request)
        while self._rounds and not self._rounds[0]:
            self._rounds.popleft()
        self._changed.set()

    def _set(self, page: LeasedPage, rows: Rows, state: int) -> None:
        """These rows are decided, but for those that were refused already. The last one of a page
        lets the page go.
        """
        if page.refusals:
            mine = np.arange(page.rows) if rows is None else rows
            page.state_array[mine[page.state_array[mine] != REFUSED]] = state
        elif rows is None:
            page.state_array[:] = state
        else:
            page.state_array[rows] = state
        page.open -= lease_marks.count(page, rows)
        lease = page.lease
        if page.open <= 0 and page in lease.pages:
            del lease.pages[page]
            if not lease.pages:
                self._finished(lease)
        page.answered()

    def _refuse(self, part: MarkedPart, told: pb.RefusedRows, now: int) -> None:
        """The broker has refused rows of a part."""
        page, mark, rows, *_ = part
        if told.offsets:
            at = lease_marks.rows_at(page, list(told.offsets), list(told.rows))
            lost = at if rows is None else np.intersect1d(at, rows)
        else:
            lost = np.arange(page.rows) if rows is None else rows
        if not len(lost):
            return
        refusal = self.refusal(page, lost, told, now)
        page.state_array[lost] = REFUSED
        self.counts[mark] -= len(lost)
        self.counts[LOST] += len(lost)
        if mark in (ACK, NACK, REJECT):
            self.refusals.add(refusal)

    def refusal(self, page: LeasedPage, rows: Rows, told: pb.RefusedRows, now: int) -> Refusal:
        """Notes with the page what the broker says about rows that it refuses."""
        refusal = Refusal(
            page.topic,
            page.partition,
            page.offsets if rows is None else page.offsets[rows],
            ended=page.lease.until,
            now=now,
            standing=told.standing,
            holder=told.holder,
            until=told.until,
        )
        page.refusals.append((rows, refusal))
        return refusal

    # ---- the end

    def fail(self, error: errors.Error, pages: Iterable[LeasedPage]) -> None:
        """Nothing can be settled any more: what is not answered has this outcome."""
        self._failure = error
        for page in pages:
            page.failure = error
        for lane in self._lanes.values():
            for request in lane.unanswered.values():
                for page, _, rows, *_ in request.parts:
                    self._fail(page, rows, error)
            lane.unanswered.clear()
        self._rounds.clear()
        self._changed.set()

    def give_up(self, error: errors.Error, pages: Iterable[LeasedPage]) -> list[Extension]:
        """The same at the consumer's own end, of which `close` tells the program. Returns the
        extensions that were not sent.
        """
        self.fail(error, pages)
        extensions = self.gather()[1]
        self._unseen_failure = None
        return extensions

    def _fail(self, page: LeasedPage, rows: Rows, error: errors.Error) -> None:
        page.failure = self._unseen_failure = error
        self._set(page, rows, REFUSED)

    def raised(self) -> errors.Error | None:
        """What `flush` raises: refusals that the program has not looked at."""
        failure, self._unseen_failure = self._unseen_failure, None
        return self.refusals.raised() or (None if failure is None else raisable(failure))

    def failure_told(self) -> None:
        """The program knows what has ended the consumer."""
        self._unseen_failure = None

    def is_settled(self) -> bool:
        """Whether everything that the program has said is answered."""
        return not self._enlisted and not self._rounds

    async def settled(self, requests: Iterable[SentSettlement]) -> None:
        """Waits until these requests are answered."""
        waited = set(requests)
        while any(waited & some for some in self._rounds):
            self._changed.clear()
            await self._changed.wait()
