"""A partition and those who wait for it: one actor, plain synchronous handlers, no locks.

A publish is handled at once, unless an earlier one of the same partition still waits: for a lookup of stored ids, or for a commit. Then it
queues, because the order of arrival is the order of offsets. Readers register an event and look again when something was committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Protocol

import pyarrow as pa

from bowstring import errors
from bowstring.broker.log.flusher import Flusher
from bowstring.broker.log.lookups import Lookups
from bowstring.core.answers import Answer, Stored
from bowstring.core.changes import Append, Change, Delete, Reason
from bowstring.core.decisions import Accept, BatchName, Found, Lookup, Publish, Refused, Rows, Wait
from bowstring.core.pages import Origin, PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.messages import encoding
from bowstring.messages.schema import BYTES_SCHEMA
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

REFUSED_MAX = 1000


class Request(NamedTuple):
    """A batch that was checked, on its way into the log."""

    publish: Publish
    group: str
    batch: pa.RecordBatch
    data: Buffer
    answer: asyncio.Future[Answer]

    def texts(self, rows: Rows) -> pa.Array:
        """The ids of some rows."""
        return self.batch.column("id").take(pa.array(rows))


class Follower(Protocol):
    """A reader's stream, as a partition sees it: it may have sent what is deleted later."""

    def deleted(self, actor: PartitionActor, runs: tuple[tuple[int, int], ...]) -> None:
        """These rows are deleted, durably."""

    def altered(self) -> None:
        """The topic has other settings."""

    def closed(self, error: errors.Error) -> None:
        """Nothing is to be read here any more."""


class PartitionActor:
    """Owns one partition."""

    def __init__(self, partition: Partition, *, flusher: Flusher, clock: Clock, lookups: Lookups) -> None:
        self.partition = partition
        self._flusher = flusher
        self._clock = clock
        self._lookups = lookups
        self._queue: deque[Request] = deque()
        self._lookup: asyncio.Task[None] | None = None
        self._waits_for_commit = False
        self._unanswered: dict[int, Request] = {}
        """Accepted batches by first offset, until their flush is committed."""
        self._refused: dict[BatchName, errors.Error] = {}
        """Batches that were refused because something could not be read, the newest ones."""
        self._readers: list[asyncio.Event] = []
        self.followers: dict[Follower, None] = {}
        self.closed: errors.Error | None = None
        """Why nothing is taken any more."""
        self.gone: errors.Error | None = None
        """Why nothing is delivered any more. Of a deleted topic that is so only when the deletion is durable."""

    # Publishing

    def publish(self, request: Request) -> None:
        """Takes a batch. Its future is settled when what it rests on is committed."""
        if self.closed is not None:
            _settle(request.answer, self.closed)
            return
        self._queue.append(request)
        if len(self._queue) == 1:
            self._handle()

    def _handle(self, found: Found | None = None) -> None:
        """Works the queue off until something has to wait."""
        while self._queue and self.closed is None:
            request, now = self._queue[0], self._clock.now()
            if self._refused and (error := self._refused.get(_name(request))) is not None:
                self._answer(self._queue.popleft(), error)
                continue
            decision = self.partition.publish(request.publish, now, found)
            if isinstance(decision, Lookup) and found is None and request.publish.ids is not None:
                found = self._lookups.at_once(self.partition, decision, request.publish.ids.hashes, now)
                if found is not None:
                    continue
            found = None
            if isinstance(decision, Wait):
                self._waits_for_commit = True
                return
            if isinstance(decision, Lookup):
                self._lookup = asyncio.create_task(self._look_up(request, decision))
                return
            self._queue.popleft()
            if isinstance(decision, Accept):
                self._accept(request, decision.change, decision.kept)
            elif isinstance(decision, Refused):
                self._refuse(request, decision.error)
            else:
                self._answer(request, decision.answer)

    def _accept(self, request: Request, change: Append, kept: Rows | None) -> None:
        if not change.rows:
            self._flusher.add(change)
            self._answer(request, Stored(0, 0, change.repeats))
            return
        columns, data = request.publish.columns, request.data
        if kept is not None:
            columns, _, data = encoding.take(request.batch, kept)
            change.columns = columns
        origin = Origin(change.rows, change.producer, change.number, 0, request.group)
        header = PageHeader(change.topic, change.partition, BYTES_SCHEMA, columns, change.rows, (origin,))
        self._unanswered[change.first_offset] = request
        self._flusher.add(change, Page(encode_header(header), data))

    def _answer(self, request: Request, outcome: Answer | errors.Error) -> None:
        self._flusher.answer(lambda: _settle(request.answer, outcome))

    def _refuse(self, request: Request, error: errors.Error) -> None:
        """A refusal is final. What could not be read may be readable a moment later, so a second copy of the batch that is on its way
        already must not be judged anew."""
        if isinstance(error, errors.Corrupt):
            self._refused[_name(request)] = error
            if len(self._refused) > REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
        self._answer(request, error)

    async def _look_up(self, request: Request, lookup: Lookup) -> None:
        """Compares candidates with what is stored, then goes on with the queue."""
        try:
            found = await self._lookups.look_up(self.partition, lookup, request.publish.ids, request.texts, self._clock.now())
        except Damaged as error:
            self._lookup = None
            self._queue.popleft()
            self._refuse(request, _not_compared(request, lookup, error))
            self._handle()
            return
        self._lookup = None
        if self.closed is None:
            self._handle(found)

    # After a commit

    def committed(self, change: Change, sequence: int) -> None:
        """A flush with this change was committed. What missed its deadline is taken back before anybody sees it."""
        self.partition.committed(change, sequence)
        if isinstance(change, Delete):
            for follower in tuple(self.followers):
                follower.deleted(self, change.runs)
        if not isinstance(change, Append) or not change.rows:
            return
        request = self._unanswered.pop(change.first_offset, None)
        if request is None:
            return
        late = self._clock.now() - request.publish.sent - request.publish.timeout
        if late > 0:
            self._flusher.add(self.partition.delete(((change.first_offset, change.rows),), Reason.DEADLINE))
            error = errors.DeadlinePassed(f"the batch was committed {late / 1e6:.3f} s after its timeout and taken back; it is not stored.")
            self._answer(request, error)
        else:
            _settle(request.answer, Stored(change.first_offset, change.rows, change.repeats))

    def wake(self) -> None:
        """Something was committed: what waited for it goes on, and readers look again."""
        if self._waits_for_commit:
            self._waits_for_commit = False
            self._handle()
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.set()

    @property
    def waits_for_commit(self) -> bool:
        return self._waits_for_commit

    def wake_when_committed(self, event: asyncio.Event) -> None:
        """Sets the event once, at the next commit or at the end of this actor."""
        self._readers.append(event)

    def forget(self, event: asyncio.Event) -> None:
        """The reader does not wait any more."""
        if event in self._readers:
            self._readers.remove(event)

    async def next_commit(self) -> None:
        """Waits for the next commit. Raises what this actor was closed with."""
        if self.closed is None:
            event = asyncio.Event()
            self.wake_when_committed(event)
            try:
                await event.wait()
            finally:
                self.forget(event)
        if self.closed is not None:
            raise self.closed.with_traceback(None)

    def close(self, error: errors.Error) -> None:
        """No more publishes: the topic is being deleted, or the incarnation has ended. Whoever waits for an answer is told so."""
        self.closed = error
        if self._lookup is not None:
            self._lookup.cancel()
        for request in (*self._queue, *self._unanswered.values()):
            _settle(request.answer, error)
        self._queue.clear()
        self._unanswered.clear()
        self.wake()

    def end(self, error: errors.Error) -> None:
        """The incarnation has ended."""
        self.close(error)
        self.end_reading(error)

    def end_reading(self, error: errors.Error) -> None:
        """Nothing is delivered any more: the topic is deleted, or the incarnation has ended. Readers are told so."""
        self.gone = error
        for follower in tuple(self.followers):
            follower.closed(error)
        self.wake()


def _name(request: Request) -> BatchName:
    return BatchName(request.publish.producer, request.publish.number)


def _not_compared(request: Request, lookup: Lookup, error: Damaged) -> errors.Error:
    """What is damaged may be this very batch, if it came before: then it may well be stored."""
    if _name(request) in lookup.batches:
        return errors.OutcomeUnknown(f"the batch came before, and whether it is stored cannot be read: {error}")
    return errors.Corrupt(f"an id could not be compared with the stored one: {error}")


def _settle(future: asyncio.Future[Answer], outcome: Answer | errors.Error) -> None:
    if future.done():
        return
    if isinstance(outcome, errors.Error):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
