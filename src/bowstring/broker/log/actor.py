"""A partition and those who ask it: the only way to change it. One actor, plain synchronous
handlers, no locks.

    ask ──► decide ──► Decided   its changes are applied and go into the next flush, all at once;
              ▲                  the answer goes out when that is committed
              │    ──► Refused   so does the error
              ├─────── Wait      after the next commit
              └─────── Lookup    after what it asks for was read and compared

Deciding has no await in it, so nothing changes between the look and the leap. Requests that are
`in_order`, publishes, are decided one after the other: while one waits, those behind it do, because
the order of arrival is the order of offsets. Others do not wait.

`visible` is the one function that is called when rows become visible.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from bowstring import errors
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.flusher import Flusher
from bowstring.broker.log.lookups import Lookups
from bowstring.broker.log.publish_request import PublishBatch, Unanswered
from bowstring.broker.log.requests import Question, Request
from bowstring.core.changes import Append, Change, Delete, Floor, Reason, Reschedule, Runs
from bowstring.core.decisions import BatchName, Decided, Found, Lookup, Refused, Wait
from bowstring.core.machine import NEVER
from bowstring.core.partition import Partition
from bowstring.ports.clock import Clock
from bowstring.ports.failures import Damaged

REFUSED_MAX = 1000

Told = TypeVar("Told")


class Follower(Protocol):
    """A reader's stream, as a partition sees it: it may have sent rows that are deleted later."""

    def deleted(self, actor: PartitionActor, runs: Runs) -> None:
        """These rows are deleted, durably."""

    def altered(self) -> None:
        """The topic has other settings."""

    def closed(self, error: errors.Error) -> None:
        """Nothing is to be read here any more."""


class PartitionActor:
    """Owns one partition."""

    def __init__(self, partition: Partition, flusher: Flusher, clock: Clock, lookups: Lookups, alarm: Alarm) -> None:
        self.partition = partition
        self._flusher = flusher
        self._clock = clock
        self._lookups = lookups
        self._alarm = alarm
        self._queue: deque[Request[Any]] = deque()
        """Requests that are decided in order; only the first one waits for something else than its
        turn.
        """
        self._waiting: dict[Request[Any], None] = {}
        """Those that wait for a commit."""
        self._reading: dict[Request[Any], asyncio.Task[None]] = {}
        """Requests that wait for a lookup."""
        self._unanswered: dict[int, Unanswered] = {}
        """Accepted batches by first offset, with the answer for a commit in time."""
        self._in_time: list[Unanswered] = []
        """Those of the present flush that go out when every part of the broker knows of it."""
        self._refused: dict[BatchName, errors.Error] = {}
        """Batches that were refused because something could not be read, the newest ones."""
        self._answers: dict[Request[Any], None] = {}
        """Others that are decided, until their answers are out."""
        self._came = 0
        """The first offset that has become visible with the present flush; 0 if none has."""
        self._committed_at = 0
        """The moment by which the present flush is in time or late; 0 until one is asked for."""
        self._opened = False
        """Whether that flush lets readers go on for another reason."""
        self.readers: dict[asyncio.Event, int] = {}
        """Readers that wait, and the offset that each would read next."""
        self.followers: dict[Follower, None] = {}
        self.taken: Callable[[PartitionActor, Sequence[Change]], None] | None = None
        """Hears of every decision when it is applied, before it is committed: queues go by it."""
        self.closed: errors.Error | None = None
        """The error since which it accepts nothing."""
        self.gone: errors.Error | None = None
        """The error since which it delivers nothing. A deleted topic sets it only when the deletion
        is durable.
        """

    # Asking

    def ask(self, question: Question[Told]) -> asyncio.Future[Told]:
        """Takes a question. Its answer settles when everything that it rests on is committed."""
        self.receive(question)
        return question.answer

    def receive(self, request: Request[Any]) -> None:
        """Takes a request, and settles it when everything that its answer rests on is committed."""
        if self.closed is not None:
            request.settle(self.closed.with_traceback(None))
        elif not request.in_order:
            self._drive(request)
        else:
            self._queue.append(request)
            if len(self._queue) == 1:
                self._work_off()
            if self._queue:
                self._alarm.set(self, request.deadline)

    @staticmethod
    def ask_together(asked: Sequence[tuple[PartitionActor, Question[Told]]]) -> asyncio.Future[list[Told]]:
        """Asks several partitions as one: all of it is decided and goes into one flush, or nothing
        if one of them refuses. For requests that neither look anything up nor wait. Raises what one
        of the actors was closed with.
        """
        decided: list[tuple[PartitionActor, Question[Told], Decided[Told]]] = []
        for actor, request in asked:
            if actor.closed is not None:
                raise actor.closed.with_traceback(None)
            decision = request.decide(actor.partition, actor._clock.now(), None)
            assert isinstance(decision, Decided | Refused), "it would have to wait"
            if isinstance(decision, Refused):
                actor._refuse(request, decision.error)
                return asyncio.gather(*[request.answer])
            decided.append((actor, request, decision))
        for actor, request, decision in decided:
            actor._take(request, decision)
        return asyncio.gather(*[request.answer for _, request in asked])

    def _work_off(self, found: Found | None = None) -> None:
        """Decides about the queue until something has to wait."""
        while self._queue and self.closed is None and self._drive(self._queue[0], found):
            self._queue.popleft()
            found = None

    def _drive(self, request: Request[Any], found: Found | None = None) -> bool:
        """The one loop: decides until there is an outcome. False if the request has to wait."""
        if self._refused and request.name is not None and (error := self._refused.get(request.name)) is not None:
            self._answer(request, error)
            return True
        while True:
            now = self._clock.now()
            decision = request.decide(self.partition, now, found)
            if isinstance(decision, Decided):
                self._take(request, decision)
                return True
            if isinstance(decision, Refused):
                self._refuse(request, decision.error)
                return True
            if isinstance(decision, Wait):
                self._waiting[request] = None
                return False
            if found is None and request.ids is not None:
                found = self._lookups.at_once(self.partition, decision, request.ids.hashes, now)
                if found is not None:
                    continue
            self._reading[request] = asyncio.create_task(self._look_up(request, decision, self.partition.moves))
            return False

    def _take(self, request: Request[Any], decided: Decided[Any]) -> None:
        """All changes of a decision are applied and go into the same flush: there is no await
        between.
        """
        self.partition.take(decided)
        is_stored = False
        for change in decided.changes:
            page = request.page(change, decided)
            self._flusher.add(change, page)
            if page is not None and isinstance(request, PublishBatch) and isinstance(change, Append):
                self._unanswered[change.first_offset] = request, decided.answer
                is_stored = True
        if self.taken is not None and decided.changes:
            self.taken(self, decided.changes)
        if not is_stored:
            self._answer(request, decided.answer)

    def _answer(self, request: Request[Any], outcome: object) -> None:
        """Not before everything that was decided up to now is committed, even if it says no
        (invariant 1).
        """
        self._answers[request] = None
        self._flusher.answer(lambda: self._settle(request, outcome))

    def _settle(self, request: Request[Any], outcome: object) -> None:
        self._answers.pop(request, None)
        request.settle(outcome)

    def _refuse(self, request: Request[Any], error: errors.Error) -> None:
        """A refusal is final. What could not be read may be readable a moment later, so a second
        copy of the batch that is on its way already must not be judged anew.
        """
        if isinstance(error, errors.Corrupt) and request.name is not None:
            self._refused[request.name] = error
            if len(self._refused) > REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
        self._answer(request, error)

    async def _look_up(self, request: Request[Any], lookup: Lookup, moves: int) -> None:
        """Carries out the lookup of a request, then continues with it, and with those behind it. A
        lookup asks for what was sealed when it was decided on. If something has moved before its
        reading began, it may have asked for too little, and counts for nothing.
        """
        found: Found | None = None
        failure: errors.Error | None = None
        try:
            found = await self._lookups.look_up(self.partition, lookup, request.ids, request.texts, self._clock.now())
            if found.moves != moves:
                found = None
        except Damaged as error:
            failure = request.not_compared(self.partition, lookup, error)
        except Exception as error:  # nothing was decided: the caller may try again
            failure = errors.Unavailable(f"stored messages could not be read: {error}")
        self._reading.pop(request, None)
        if failure is None:
            self._go_on(request, found)
            return
        self._refuse(request, failure)
        if request.in_order:
            self._queue.popleft()
            self._work_off()

    def _go_on(self, request: Request[Any], found: Found | None = None) -> None:
        """Continues with a request whose lookup is done."""
        if request.in_order:
            self._work_off(found)
        elif not request.is_settled:
            self._drive(request, found)

    # When a deadline has come

    def next_deadline(self, after: int) -> int:
        """When it wants to be woken next: for the first of those that wait for their turn, or when
        its machine does.
        """
        deadlines = [self.partition.next_deadline(), *(request.deadline for request in self._queue)]
        return min((deadline for deadline in deadlines if deadline > after), default=NEVER)

    def woken(self, now: int) -> None:
        """Refuses requests that have missed their deadline while they waited, now and not when
        their turn comes. Deciding changes nothing, so a request may be decided out of turn to see
        whether it is refused; any other decision waits for its turn.
        """
        first = self._queue[0] if self._queue else None
        for request in [request for request in self._queue if request.deadline <= now]:
            decision = request.decide(self.partition, now, None)
            if isinstance(decision, Refused):
                self._queue.remove(request)
                self._waiting.pop(request, None)
                if (reading := self._reading.pop(request, None)) is not None:
                    reading.cancel()
                self._refuse(request, decision.error)
        if self._queue and self._queue[0] is not first:
            self._work_off()
        self._alarm.set(self, self.next_deadline(now))

    # After a commit

    def committed(self, change: Change, sequence: int) -> None:
        """Notes that a flush with this change was committed. Takes back rows that missed their
        deadline before any reader sees them.
        """
        self.partition.committed(change, sequence)
        if isinstance(change, Append):
            if change.rows and not self._took_back(change):
                self._came = self._came or change.first_offset
        elif isinstance(change, Delete | Floor | Reschedule):
            self._opened = True
            if isinstance(change, Delete):
                for follower in tuple(self.followers):
                    follower.deleted(self, change.runs)

    def _took_back(self, change: Append) -> bool:
        """Whether the rows missed their deadline and must stay hidden; otherwise their producer
        gets its answer with the rest of the flush.
        """
        unanswered = self._unanswered.pop(change.first_offset, None)
        if unanswered is None:
            return False
        request = unanswered[0]
        self._committed_at = self._committed_at or self._clock.now()
        late = request.late(self._committed_at)
        if late <= 0:
            self._in_time.append(unanswered)
            return False
        error = errors.DeadlinePassed(f"the batch was committed {late / 1e6:.3f} s after its timeout and taken back; it is not stored.")
        delete = self.partition.delete(((change.first_offset, change.rows),), Reason.DEADLINE)
        self._take(request, Decided((delete,), error))
        return True

    def flushed(self) -> None:
        """All changes of a flush are noted: requests that waited for a commit continue, and so do
        readers if there are rows for them.
        """
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for request in waiting:
                self._go_on(request)
        self._alarm.set(self, self.partition.next_deadline())
        self._committed_at = 0
        came, self._came = self._came, 0
        opened, self._opened = self._opened, False
        if came:
            self.visible(came, self.partition.committed_offset)
        elif opened:
            self._wake_readers()

    def answer_publishes(self) -> None:
        """Every part of the broker knows of the flush: producers get their answers."""
        answers, self._in_time = self._in_time, []
        for request, answer in answers:
            request.settle(answer)

    def visible(self, first: int, end: int) -> None:
        """Rows of [first, end) are visible from now on. Everything that waits for rows is woken
        here and nowhere else.
        """
        del first, end
        self._wake_readers()

    # Those who wait

    def wake_when_readable(self, event: asyncio.Event, offset: int = NEVER) -> None:
        """Sets the event once: when rows become visible, when a deletion or the floor lets readers
        go on, or at the end of this actor.
        """
        self.readers[event] = offset

    def forget(self, event: asyncio.Event) -> None:
        """The reader does not wait any more."""
        self.readers.pop(event, None)

    def _wake_readers(self) -> None:
        readers, self.readers = self.readers, {}
        for reader in readers:
            reader.set()

    # What others tell of the partition

    def alter(self, *, window: int) -> None:
        """The topic has other settings from here on."""
        self.partition.alter(window=window)
        for follower in tuple(self.followers):
            follower.altered()

    def sealed(self, end: int, size: int) -> None:
        """Rows below the offset are in extents now, of that many bytes in all."""
        self.partition.sealed(end, size)

    def moved(self, sealed_bytes: int) -> None:
        """Extents have changed: copied to another place, or gone."""
        self.partition.moved(sealed_bytes)

    # The end

    def close(self, error: errors.Error) -> None:
        """Accepts nothing more: the topic is being deleted, or the incarnation has ended. Requests
        that wait for a decision get this error.
        """
        self.closed = error
        for task in self._reading.values():
            task.cancel()
        for request in (*self._queue, *self._waiting, *self._reading, *(request for request, _ in self._unanswered.values())):
            request.settle(error)
        self._queue.clear()
        self._waiting.clear()
        self._reading.clear()
        self._unanswered.clear()
        self._wake_readers()

    def end(self, error: errors.Error) -> None:
        """The incarnation has ended."""
        self.close(error)
        for request in tuple(self._answers):
            self._settle(request, error)
        self.end_reading(error)

    def end_reading(self, error: errors.Error) -> None:
        """Delivers nothing more: the topic is deleted, or the incarnation has ended. Readers get
        this error.
        """
        self.gone = error
        for follower in tuple(self.followers):
            follower.closed(error)
        self._wake_readers()
