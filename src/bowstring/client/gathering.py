"""The open batches of a producer, and what is done once per batch: its first row, its sealing, its place in the order.

There is one open batch per partition. Whatever is done here is done under the lock (in asyncio nobody else is there, and the lock is none);
rows of the usual kind come in past it, see `sending`.

**Kinds.** A batch has natural ids in all rows or in none, and one timeout, so a row of another kind seals the open batch. It must not
simply open a second one beside it: rows of one key would then be stored out of order. Rows that are merely wider than the batch's (a key,
or attributes, where those before had none) seal it once; later batches are made wide enough for them.

**Room.** An open batch reserves the bytes that it may grow to, a sealed one counts what it has, until it is answered.

**Partitions.** Until the topic is described nobody knows how many there are. What has a key or an id waits for that (`waiting`), and
is put into batches before anything can be sent past it: from then on what has neither waits behind it, or it would be stored first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn

from bowstring import errors
from bowstring.client.broker_time import BrokerTime
from bowstring.client.outgoing import FULL, KEYED, PLAIN, Outgoing
from bowstring.client.receipts import MessageReceipt
from bowstring.client.rows import ROW_BYTES, Row, partition_for
from bowstring.client.waiting import Waiting
from bowstring.messages.encoding import Draft
from bowstring.ports.clock import Clock
from bowstring.ports.randomness import Randomness

GATHER_BYTES: Final = 2 * 1024 * 1024
"""What a batch is gathered up to: large enough that its own cost vanishes, small enough to be pipelined."""
GATHER_BYTES_MIN: Final = 16 * 1024


class Gathering:
    """What the two halves of a producer share: the program's, `sending.Sending`, and the loop's, `publishing.Publisher`."""

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
        self.inbox: deque[Outgoing] = deque()
        """Batches that the loop has not seen in this state: with their first row, or sealed."""
        self.bytes_under_way = 0
        self.max_bytes = max_bytes
        self.partitions = 0
        """0 as long as nobody has told."""
        self._clock = clock
        self._stamp = stamps(clock)
        self._broker_time = broker_time
        self._randomness = randomness
        self._lock = lock
        self._timeout = timeout
        self._compression = compression
        self._batch_bytes_max = batch_bytes_max
        self._gather_bytes = GATHER_BYTES
        self.gatherings: list[Outgoing] = []
        self._current = 0
        self._number = 0
        self._width = PLAIN
        self._since: float | None = None
        self._waiting: list[Waiting] = []
        self._closed: errors.Error | None = None
        self._wake: Callable[[], object] = _nobody
        self._know(1)
        self.partitions = 0

    # ---- batches; all of this under the lock

    def _append(self, row: Row, timeout: float, size: int, *, forced: bool = False) -> Outgoing | None:
        """Puts a row into the open batch of its partition, or, where it does not fit there, into the next; None if there is no room."""
        needed = FULL if not (row[3] is row[4] is row[5] is row[6] is None) else PLAIN if row[2] is None else KEYED
        self._width = max(self._width, needed)
        partition = partition_for(row[2], row[6], len(self.gatherings))
        batch = self.gatherings[self._current if partition is None else partition]
        while batch.number and not (
            batch.width >= needed
            and batch.timeout == timeout
            and batch.has_ids == (row[6] is not None)
            and batch.size + size <= self._gather_bytes
        ):
            self._seal(batch)
            batch = self.gatherings[self._current if partition is None else partition]
        if not batch.number and not self._begin(batch, timeout, row[6] is not None, size, forced):
            return None
        batch.size += size
        batch.items += row[: batch.width]
        return batch

    def _begin(self, batch: Outgoing, timeout: float, has_ids: bool, size: int, forced: bool) -> bool:
        """Sets everything for the first row; False if there is no room."""
        reserve = max(self._gather_bytes, size)
        if self.bytes_under_way and self.bytes_under_way + reserve > self.max_bytes and not forced:
            return False
        self.bytes_under_way += reserve
        self._number += 1
        batch.number = self._number
        batch.reserved = reserve
        batch.width = FULL if has_ids else self._width
        batch.has_ids = has_ids
        self._start_time(batch, timeout)
        if timeout == self._timeout and not has_ids:
            batch.limit = self._gather_bytes if batch.width == PLAIN else -1
            batch.keyed_limit = self._gather_bytes if batch.width == KEYED and self.partitions else -1
            batch.wide_limit = self._gather_bytes if batch.width == FULL and self.partitions else -1
        self._hand_over(batch)
        return True

    def _start_time(self, batch: Outgoing, timeout: float) -> None:
        now = self._clock.monotonic()
        waited = now - (self._since or now)
        batch.timeout = timeout
        batch.deadline = now - waited + timeout
        batch.sent = self._broker_time.now() - int(waited * 1e6)

    def _seal(self, batch: Outgoing) -> None:
        """Ends the gathering, hands the batch over, and opens the next one of its partition."""
        batch.seal()
        self.bytes_under_way += batch.size - batch.reserved
        batch.reserved = batch.size
        self.gatherings[batch.partition] = Outgoing(self.topic, self.producer, batch.partition)
        if batch.partition == self._current:
            self._current = (self._current + 1) % len(self.gatherings)
        self._open = self.gatherings[self._current]
        self._hand_over(batch)

    def _add_batch(self, partition: int | None, encoded: Draft, given_ids: Sequence[Any] | None, timeout: float) -> Outgoing:
        """Takes a batch as a whole, after what was gathered for its partition."""
        place = self._current if partition is None else partition % len(self.gatherings)
        if self.gatherings[place].number:
            self._seal(self.gatherings[place])
        batch = Outgoing(self.topic, self.producer, place)
        self._number += 1
        batch.number = self._number
        batch.encoded, batch.rows, batch.sealed = encoded, encoded.rows, True
        batch.given_ids, batch.has_ids = given_ids, given_ids is not None
        batch.size = encoded.size + ROW_BYTES
        batch.reserved = encoded.size + ROW_BYTES * len(encoded.pieces)
        self.bytes_under_way += batch.reserved
        self._start_time(batch, timeout)
        if place == self._current:
            self._current = (place + 1) % len(self.gatherings)
            self._open = self.gatherings[self._current]
        self._hand_over(batch)
        return batch

    def _hand_over(self, batch: Outgoing) -> None:
        self.inbox.append(batch)
        if len(self.inbox) == 1:
            self._wake()

    def _know(self, partitions: int) -> None:
        for partition in range(len(self.gatherings), partitions):
            self.gatherings.append(Outgoing(self.topic, self.producer, partition))
        del self.gatherings[partitions:]
        self.partitions = partitions
        self._current %= partitions
        self._open = self.gatherings[self._current]
        fair = max(GATHER_BYTES_MIN, self.max_bytes // (2 * partitions))
        self._gather_bytes = max(1, min(GATHER_BYTES, fair, self.max_bytes // 2, self._batch_bytes_max * 3 // 4))

    def _keep(self, size: int, entry: Callable[[float], Waiting], *, forced: bool = False) -> bool:
        """Lets something wait, and all that comes behind it: what is open is sealed, so that the next row comes this way too."""
        if not forced and self.bytes_under_way and self.bytes_under_way + size > self.max_bytes:
            return False
        self.bytes_under_way += size
        self.seal_open()
        self._waiting.append(entry(self._clock.monotonic()))
        self._wake()
        return True

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(self._closed.message, hint=self._closed.hint)

    # ---- for the loop's half

    def attach(self, wake: Callable[[], object]) -> None:
        """`wake` tells the loop, from any thread, that there is something in the inbox."""
        self._wake = wake

    def limits(self, batch_bytes_max: int) -> None:
        """The broker's limit, as the last handshake told it."""
        with self._lock:
            self._batch_bytes_max = batch_bytes_max
            if self.partitions:
                self._know(self.partitions)

    def know_partitions(self, partitions: int) -> list[Outgoing]:
        """The topic was described: what waited for it is put into batches, whose time began with the first of it. Only then may
        others be sent past `_waiting`. Gives the placeholders of what turned out to be wrong."""
        failed: list[tuple[Outgoing, errors.Error]] = []
        with self._lock:
            self.seal_open()
            self._know(partitions)
            self.partitions = 0
            waiting, self._waiting = self._waiting, []
            self._since = min((entry.started for entry in waiting), default=None)
            for entry in waiting:
                self.bytes_under_way -= entry.size
                try:
                    entry.route(self)
                except errors.Error as error:
                    failed.append((entry.placeholder, error))
            if waiting:
                self._since = None
                self.seal_open()
            self.partitions = partitions
        for placeholder, error in failed:
            placeholder.resolve(error)
        for entry in waiting:
            entry.placeholder.moved()
        return [placeholder for placeholder, _ in failed]

    def forget_partitions(self) -> None:
        """The topic is not there: how many partitions it will have is open again."""
        with self._lock:
            self.seal_open()
            self.partitions = 0

    def forward(self, receipt: MessageReceipt, row: Row, timeout: float, size: int) -> None:
        """Puts a row that waited into a batch. Under the lock."""
        found = self._append(row, timeout, size, forced=True)
        assert found is not None
        receipt.moved(found)

    def seal(self, batch: Outgoing) -> None:
        """Seals it, if it is still open, so that it can be written."""
        with self._lock:
            if not batch.sealed:
                self._seal(batch)

    def seal_open(self) -> None:
        """Seals all that has rows. Also under the lock."""
        for batch in list(self.gatherings):
            if batch.number:
                self._seal(batch)

    def seal_all(self) -> None:
        """Seals all that has rows: they are wanted now."""
        with self._lock:
            self.seal_open()

    def release(self, batch: Outgoing) -> None:
        """The batch has its outcome: its bytes do not count any more."""
        with self._lock:
            self.bytes_under_way -= batch.reserved
            batch.reserved = 0

    def has_room(self, share: float = 1.0) -> bool:
        """Whether another batch may begin, with this share of max_bytes under way."""
        return not self.bytes_under_way or self.bytes_under_way + self._gather_bytes <= self.max_bytes * share

    def waiting(self) -> list[Outgoing]:
        """The placeholders of what waits for the number of partitions."""
        return [entry.placeholder for entry in self._waiting]

    def fail_waiting(self, error: errors.Error, before: float | None = None) -> list[Outgoing]:
        """Fails what waits for the number of partitions: all of it, or what had time until `before` only. Gives the placeholders."""
        with self._lock:
            failed = [entry for entry in self._waiting if before is None or entry.started + entry.timeout <= before]
            self._waiting = [entry for entry in self._waiting if before is not None and entry.started + entry.timeout > before]
            self.bytes_under_way -= sum(entry.size for entry in failed)
        for entry in failed:
            entry.placeholder.resolve(error)
        return [entry.placeholder for entry in failed]

    def close(self, error: errors.Error) -> None:
        """Nothing more is taken; whoever sends gets this error."""
        with self._lock:
            self._closed = error
            self.seal_open()


def stamps(clock: Clock) -> Callable[[], int]:
    """The wall clock in nanoseconds, a fresh object each time. A clock of the real machine has it as a function of the interpreter itself,
    which saves a call in Python for every message that is sent."""
    found: Callable[[], int] | None = getattr(clock, "nanoseconds", None)
    return found or (lambda: clock.now() * 1000)


def _nobody() -> NoReturn:
    raise AssertionError("the loop's half is not there yet")
