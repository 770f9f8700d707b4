"""The open batches of a producer, and the steps that happen once per batch: first row, seal,
hand-over to the loop.

There is one open batch per partition. Everything here happens under the lock (asyncio programs have
one thread, and a lock that does nothing). Rows of the usual kind bypass it, see `sender`.

**Hand-over.** A batch crosses the inbox once, as a `SentBatch`, at the end of its seal. A first row
only wakes the loop, which seals what is due or aged (`seal`, `seal_aged`).

**Kinds.** The rows of a batch all have natural ids or none has, and they share one timeout. A row
of another kind seals the open batch. It must not open a second batch beside it: rows of one key
would then be stored out of order. A row that is wider than the batch (it has a key or attributes,
and those before had none) also seals it; later batches are wide enough.

**Room.** An open batch reserves the bytes that it may grow to. A sealed one counts its size until
it is answered.

**Partitions.** Until the topic is described, their number is unknown. Rows with a key or an id wait
for it (`unrouted`), and so do all rows behind them, which would otherwise be stored first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Final, NoReturn

from bowstring import errors
from bowstring.client.broker_time import BrokerTime
from bowstring.client.open_batch import CLOSED, OpenBatch
from bowstring.client.receipts import MessageReceipt
from bowstring.client.rows import FULL, KEYED, PLAIN, ROW_BYTES, Row, partition_for
from bowstring.client.sent_batch import SentBatch, Term
from bowstring.client.unrouted import Placeholder, Unrouted
from bowstring.messages.encoding import Draft
from bowstring.ports.clock import Clock
from bowstring.ports.randomness import Randomness

GATHER_BYTES: Final = 2 * 1024 * 1024
"""The size up to which a batch gathers: large enough that its own cost vanishes, small enough to be
pipelined."""
GATHER_BYTES_MIN: Final = 16 * 1024
AGE_SHARE: Final = 0.05
"""An open batch is sealed at this share of its timeout even when it cannot be written, so that its
rows are about equally old."""


class OpenBatches:
    """What the two halves of a producer share: the program's, `sender.Sender`, and the loop's,
    `outbox.Outbox`."""

    # Slots: instances with more than 30 attributes of a dict are slower to read, and `send` reads some.
    __slots__ = (
        "_batch_bytes_max",
        "_broker_time",
        "_clock",
        "_closed",
        "_compression",
        "_current",
        "_gather_bytes",
        "_lock",
        "_number",
        "_open",
        "_randomness",
        "_since",
        "_stamp",
        "_timeout",
        "_unrouted",
        "_wake",
        "_width",
        "_woken",
        "batches",
        "bytes_under_way",
        "gathering",
        "inbox",
        "max_bytes",
        "next_age",
        "partitions",
        "producer",
        "serial",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        producer: bytes,
        *,
        clock: Clock,
        broker_time: BrokerTime,
        randomness: Randomness,
        lock: AbstractContextManager[Any],
        timeout: float,
        compression: str | None,
        max_bytes: int,
        batch_bytes_max: int,
    ) -> None:
        self.topic = topic
        self.producer = producer
        self.inbox: deque[SentBatch] = deque()
        """Sealed batches that the loop has not taken yet."""
        self.serial = 0
        """How many batches the loop has written so far, resends not counted. The loop alone writes
        it."""
        self.next_age = inf
        """When the next open batch is aged, in monotonic seconds."""
        self.bytes_under_way = 0
        self.max_bytes = max_bytes
        self.partitions = 0
        """0 while it is unknown."""
        self._clock = clock
        self._stamp = stamps(clock)
        self._broker_time = broker_time
        self._randomness = randomness
        self._lock = lock
        self._timeout = timeout
        self._compression = compression
        self._batch_bytes_max = batch_bytes_max
        self._gather_bytes = GATHER_BYTES
        self.batches: list[OpenBatch] = []
        """One per partition."""
        self.gathering: dict[int, OpenBatch] = {}
        """Those of them that have rows, by number."""
        self._current = 0
        """The partition of rows without key and id. It changes with each batch."""
        self._number = 0
        self._width = PLAIN
        self._since: float | None = None
        self._unrouted: list[Unrouted] = []
        self._closed: errors.Error | None = None
        self._wake: Callable[[], object] = _nobody
        self._woken = False
        """Whether the loop is woken and has not begun to look."""
        self._know(1)
        self.partitions = 0

    # ---- batches; all of this under the lock

    def _append(self, row: Row, timeout: float, size: int, *, forced: bool = False) -> OpenBatch | None:
        """Puts a row into the open batch of its partition, or into the next one if it does not fit;
        None if there is no room."""
        needed = FULL if not (row[3] is row[4] is row[5] is row[6] is None) else PLAIN if row[2] is None else KEYED
        self._width = max(self._width, needed)
        partition = partition_for(row[2], row[6], len(self.batches))
        batch = self.batches[self._current if partition is None else partition]
        while batch.number and not (
            batch.width >= needed
            and batch.term.seconds == timeout
            and batch.has_ids == (row[6] is not None)
            and batch.size + size <= self._gather_bytes
        ):
            self._seal(batch)
            self._wake_loop()
            batch = self.batches[self._current if partition is None else partition]
        if not batch.number and not self._begin(batch, timeout, row[6] is not None, size, forced):
            return None
        batch.size += size
        batch.items += row[: batch.width]
        return batch

    def _begin(self, batch: OpenBatch, timeout: float, has_ids: bool, size: int, forced: bool) -> bool:
        """Prepares a batch for its first row; False if there is no room."""
        reserve = self._gather_bytes if size <= self._gather_bytes else size
        if self.bytes_under_way and self.bytes_under_way + reserve > self.max_bytes and not forced:
            return False
        self.bytes_under_way += reserve
        now = self._clock.monotonic()
        batch.begin(self._next_number(), FULL if has_ids else self._width, has_ids, self._term(timeout, now))
        batch.reserved = reserve
        batch.barrier = self.serial
        batch.aged = now + timeout * AGE_SHARE
        if batch.aged < self.next_age:
            self.next_age = batch.aged
        if timeout == self._timeout and not has_ids:
            batch.limit = self._gather_bytes if batch.width == PLAIN else CLOSED
            batch.keyed_limit = self._gather_bytes if batch.width == KEYED and self.partitions else CLOSED
            batch.wide_limit = self._gather_bytes if batch.width == FULL and self.partitions else CLOSED
        self.gathering[batch.number] = batch
        self._wake_loop()
        return True

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _term(self, timeout: float, now: float) -> Term:
        if self._since is None:
            return Term(timeout, now + timeout, self._broker_time.now())
        waited = now - self._since
        return Term(timeout, now - waited + timeout, self._broker_time.now() - int(waited * 1e6))

    def _seal(self, batch: OpenBatch) -> None:
        """Ends the gathering, opens the next batch of the partition, and puts this one into the
        inbox. The caller wakes the loop, unless it is the loop."""
        sent = batch.seal()
        self.bytes_under_way += sent.reserved - batch.reserved
        del self.gathering[batch.number]
        self.batches[batch.partition] = OpenBatch(self.topic, self.producer, batch.partition)
        if batch.partition == self._current:
            self._current = (self._current + 1) % len(self.batches)
        self._open = self.batches[self._current]
        self.inbox.append(sent)

    def _add_batch(self, partition: int | None, encoded: Draft, given_ids: Sequence[Any] | None, timeout: float) -> SentBatch:
        """Takes a batch as a whole, behind the rows that its partition has gathered."""
        place = self._current if partition is None else partition % len(self.batches)
        if self.batches[place].number:
            self._seal(self.batches[place])
        number, term = self._next_number(), self._term(timeout, self._clock.monotonic())
        batch = SentBatch(self.producer, place, number, term, encoded, encoded.size + ROW_BYTES, given_ids)
        batch.reserved = encoded.size + ROW_BYTES * len(encoded.pieces)
        self.bytes_under_way += batch.reserved
        if place == self._current:
            self._current = (place + 1) % len(self.batches)
            self._open = self.batches[self._current]
        self._hand_over(batch)
        return batch

    def _hand_over(self, batch: SentBatch) -> None:
        self.inbox.append(batch)
        self._wake_loop()

    def _wake_loop(self) -> None:
        """Wakes the loop, unless it is about to look anyway. It says that it begins to look
        (`taken`) before it looks, so that what was added before this step is always seen."""
        if not self._woken:
            self._woken = True
            self._wake()

    def _know(self, partitions: int) -> None:
        for partition in range(len(self.batches), partitions):
            self.batches.append(OpenBatch(self.topic, self.producer, partition))
        del self.batches[partitions:]
        self.partitions = partitions
        self._current %= partitions
        self._open = self.batches[self._current]
        fair = max(GATHER_BYTES_MIN, self.max_bytes // (2 * partitions))
        self._gather_bytes = max(1, min(GATHER_BYTES, fair, self.max_bytes // 2, self._batch_bytes_max * 3 // 4))

    def _keep(self, size: int, entry: Callable[[float], Unrouted], *, forced: bool = False) -> bool:
        """Lets rows wait for the partitions, and all rows behind them: it seals the open batches,
        so that the next row waits too."""
        if not forced and self.bytes_under_way and self.bytes_under_way + size > self.max_bytes:
            return False
        self.bytes_under_way += size
        self.seal_open()
        self._unrouted.append(entry(self._clock.monotonic()))
        self._wake_loop()
        return True

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(self._closed.message, hint=self._closed.hint)

    # ---- for the loop's half

    def attach(self, wake: Callable[[], object]) -> None:
        """`wake` tells the loop, from any thread, that there is something to take or to seal."""
        self._wake = wake

    def taken(self) -> list[SentBatch]:
        """Takes what is in the inbox."""
        self._woken = False  # before looking: what comes meanwhile wakes the loop again
        batches: list[SentBatch] = []
        while self.inbox:
            batches.append(self.inbox.popleft())
        return batches

    def limits(self, batch_bytes_max: int) -> None:
        """Keeps the broker's limit, as the last handshake told it."""
        with self._lock:
            self._batch_bytes_max = batch_bytes_max
            if self.partitions:
                self._know(self.partitions)

    def know_partitions(self, partitions: int) -> list[Placeholder]:
        """The topic is described: puts the rows that waited into batches, whose term began with the
        first of them. Only then may others pass `_unrouted`. Returns the placeholders of rows that
        turned out to be wrong."""
        failed: list[tuple[Placeholder, errors.Error]] = []
        with self._lock:
            self.seal_open()
            self._know(partitions)
            self.partitions = 0
            unrouted, self._unrouted = self._unrouted, []
            self._since = min((entry.started for entry in unrouted), default=None)
            for entry in unrouted:
                self.bytes_under_way -= entry.size
                try:
                    entry.route(self)
                except errors.Error as error:
                    failed.append((entry.placeholder, error))
            if unrouted:
                self._since = None
                self.seal_open()
            self.partitions = partitions
        for placeholder, error in failed:
            placeholder.outcome.decide(error)
        for entry in unrouted:
            entry.placeholder.outcome.move()
        return [placeholder for placeholder, _ in failed]

    def forget_partitions(self) -> None:
        """The topic does not exist: the number of its partitions is unknown again."""
        with self._lock:
            self.seal_open()
            self.partitions = 0

    def forward(self, receipt: MessageReceipt, row: Row, timeout: float, size: int) -> None:
        """Puts a row that waited into a batch. Under the lock."""
        found = self._append(row, timeout, size, forced=True)
        assert found is not None
        receipt.moved(found)

    def seal_open(self) -> None:
        """Seals every batch that has rows. Under the lock."""
        if self.gathering:
            for batch in tuple(self.gathering.values()):
                self._seal(batch)
            self._wake_loop()

    def seal_all(self) -> None:
        """Seals every batch that has rows: they are wanted now."""
        with self._lock:
            self.seal_open()

    def seal(self, batches: Sequence[OpenBatch]) -> None:
        """Seals the batches that the loop can write now, unless another thread has done so. The loop
        takes them then."""
        with self._lock:
            for batch in batches:
                if not batch.sealed:
                    self._seal(batch)

    def seal_aged(self, now: float) -> None:
        """Seals the batches that have gathered for long enough."""
        with self._lock:
            for batch in [batch for batch in self.gathering.values() if batch.aged <= now]:
                self._seal(batch)
            self.next_age = min((batch.aged for batch in self.gathering.values()), default=inf)

    def release(self, batch: SentBatch) -> None:
        """The batch is decided: its bytes do not count any more."""
        with self._lock:
            self.bytes_under_way -= batch.reserved
            batch.reserved = 0

    def has_room(self, share: float = 1.0) -> bool:
        """Whether another batch may begin, with this share of max_bytes under way."""
        return not self.bytes_under_way or self.bytes_under_way + self._gather_bytes <= self.max_bytes * share

    def unrouted(self) -> list[Placeholder]:
        """The placeholders of rows that wait for the number of partitions."""
        return [entry.placeholder for entry in self._unrouted]

    def fail_unrouted(self, error: errors.Error, before: float | None = None) -> list[Placeholder]:
        """Fails rows that wait for the number of partitions: all, or those whose time ends before
        this. Returns the placeholders."""
        with self._lock:
            failed = [entry for entry in self._unrouted if before is None or entry.started + entry.timeout <= before]
            self._unrouted = [entry for entry in self._unrouted if before is not None and entry.started + entry.timeout > before]
            self.bytes_under_way -= sum(entry.size for entry in failed)
        for entry in failed:
            entry.placeholder.outcome.decide(error)
        return [entry.placeholder for entry in failed]

    def leave_to_parent(self, error: errors.Error) -> None:
        """This is a forked child, without the loop's half: callers get this error. A thread that
        the child does not have may hold the lock, so it gets another of its kind."""
        self._lock = type(self._lock)()
        self._wake = lambda: None
        self.close(error)

    def close(self, error: errors.Error) -> None:
        """Takes nothing more: each later send raises this error."""
        with self._lock:
            self._closed = error
            self.seal_open()


def stamps(clock: Clock) -> Callable[[], int]:
    """The wall clock in nanoseconds, a new object each time. A real clock has this as a function of
    the interpreter itself, which saves a call in Python for each message."""
    found: Callable[[], int] | None = getattr(clock, "nanoseconds", None)
    return found or (lambda: clock.now() * 1000)


def _nobody() -> NoReturn:
    raise AssertionError("the loop's half is not there yet")
