"""`send()`: gathers rows into open batches, from any thread, without a lock on the usual way.

`send` appends a row to the open batch of its partition and returns. The loop does the rest per
batch: it encodes, writes and reads answers (`outbox`). Rows without a key go to the current
partition, which changes with each batch.

**Threads.** A lock per message would cost as much as all the rest, so the usual way takes none.
This rests on two facts. `items += row` is one step under the interpreter's lock, so rows of several
threads lie one behind the other, never mixed. And a seal says so *before* it counts the rows, while
`send` looks *after* it has appended: a row behind the count belongs to a thread that has seen, or
is about to see, that the batch is sealed. That thread puts its row into the next batch itself,
before `send` returns. So the rows of one thread keep their order, and a receipt's batch is final
when the caller gets it. The stamp, a new object in each row, tells which row of the batch it is.
Sizes are counted without a lock, too; two threads may lose an update, which makes a batch a little
larger than planned.

The first row of a batch, and rows of an unusual kind, go through the lock: see `open_batches`. The
batch's `limit` sends a row there: it is below zero while the batch is empty, and again once it is
sealed.

When `max_bytes` are under way, asyncio programs get `Full`; the sync face waits (`_make_room`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Final

from bowstring import errors, times
from bowstring.client import arguments
from bowstring.client.arguments import Span, SpanOrMoment
from bowstring.client.frames import Frame
from bowstring.client.open_batch import OpenBatch
from bowstring.client.open_batches import OpenBatches
from bowstring.client.receipts import BatchPart, BatchReceipt, MessageReceipt, Receipt, RowsReceipt
from bowstring.client.rows import ROW_BYTES, KnownAttributes, Row, row_bytes
from bowstring.client.unrouted import Placeholder, UnroutedBatch, UnroutedMessage
from bowstring.messages.hashing import hash_key

BATCH_BYTES: Final = 2 * 1024 * 1024
"""The size of the batches into which `send_batch` divides its rows."""


class Sender(OpenBatches):
    """The half of a producer that programs call, from any thread."""

    __slots__ = ("_known_attributes", "_receipt")

    _receipts: type[MessageReceipt] = Receipt
    _batch_receipt: type[RowsReceipt] = BatchReceipt
    _blocks = False
    """Whether `_make_room` waits instead of raising."""

    def __init__(self, topic: str, producer: bytes, **further: Any) -> None:
        super().__init__(topic, producer, **further)
        self._receipt = self._receipts
        self._known_attributes = KnownAttributes()

    def send(
        self,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        **options: Any,
    ) -> MessageReceipt:
        """Sends one message, and returns at once. The receipt has its id, and turns into `Stored`
        once it is durable."""
        # Bind callables to locals: attribute calls are slower.
        if options or type(value) is not bytes:
            return self._send(value, key=key, attributes=attributes, **options)
        if attributes is not None:
            return self._send_wide(value, key, attributes)
        now, make = self._stamp, self._receipt
        if key is None:
            batch = self._open
            if (size := batch.size + len(value) + ROW_BYTES) > batch.limit:
                return self._route((value, now(), None, None, None, None, None), self._timeout)
            batch.size = size
            items, stamp = batch.items, now()
            items += (value, stamp)
        else:
            if type(key) is not bytes:
                key = key.encode() if type(key) is str and key.isascii() else arguments.binary(key, "key")
            batches = self.batches
            batch = batches[hash_key(key) % len(batches)] if len(batches) > 1 else batches[0]
            if (size := batch.size + len(value) + len(key) + ROW_BYTES) > batch.keyed_limit:
                return self._route((value, now(), key, None, None, None, None), self._timeout)
            batch.size = size
            items, stamp = batch.items, now()
            items += (value, stamp, key)
        if batch.sealed:
            return self._settle(batch, (value, stamp, key, None, None, None, None))
        return make(batch, stamp)

    def _send_wide(self, value: bytes, key: bytes | str | None, attributes: Mapping[str, str]) -> MessageReceipt:
        """The same with attributes; without the lock if they are known."""
        now, make = self._stamp, self._receipt
        try:
            known = self._known_attributes.get(tuple(attributes.items())) if type(attributes) is dict else None
        except TypeError:  # not hashable; `_send` raises the right error
            known = None
        if known is None:
            return self._send(value, key=key, attributes=attributes)
        size = len(value) + known.size + ROW_BYTES
        if key is None:
            batch = self._open
        else:
            if type(key) is not bytes:
                key = key.encode() if type(key) is str and key.isascii() else arguments.binary(key, "key")
            batches = self.batches
            batch = batches[hash_key(key) % len(batches)] if len(batches) > 1 else batches[0]
            size += len(key)
        if (size := batch.size + size) > batch.wide_limit:
            return self._send(value, key=key, attributes=attributes)
        batch.size = size
        items, stamp = batch.items, now()
        items += (row := (value, stamp, key, known, None, None, None))
        return self._settle(batch, row) if batch.sealed else make(batch, stamp)

    def _send(
        self,
        value: bytes | str | None = None,
        *,
        json: object = None,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        id: str | None = None,
        delay: Span | None = None,
        at: datetime | None = None,
        expires: SpanOrMoment | None = None,
        timeout: SpanOrMoment | None = None,
        transaction: None = None,
    ) -> MessageReceipt:
        """Sends one message, and returns at once. The receipt has its id, and turns into `Stored`
        once it is durable."""
        if type(value) is not bytes:
            value = arguments.value(value, json)
        elif json is not None:
            arguments.value(value, json)
        if key is not None and type(key) is not bytes:
            key = arguments.binary(key, "key")
        stamp = self._stamp()
        if attributes is delay is at is expires is id is timeout is transaction is None:
            return self._route((value, stamp, key, None, None, None, None), self._timeout)
        if transaction is not None:
            raise errors.NotSupported("transactions are not in this version.", hint="Omit transaction=.")
        now = self._broker_time.now()
        due = times.delivery(delay, at, now)
        expiry = arguments.expiry(expires, now)
        checked = arguments.attributes(attributes)
        known = None if checked is None else self._known_attributes.add(checked)
        row = (value, stamp, key, known, due, expiry, None if id is None else arguments.message_id(id))
        return self._route(row, self._timeout if timeout is None else arguments.timeout(timeout, now))

    def _route(self, row: Row, timeout: float) -> MessageReceipt:
        """Appends a row of any kind, under the lock; makes room first if there is none."""
        size = row_bytes(row)
        if size - ROW_BYTES > self._batch_bytes_max:
            raise arguments.too_large("value" if row[2] is row[3] is row[6] is None else "message", size - ROW_BYTES, self._batch_bytes_max)
        while True:
            with self._lock:
                self._check_open()
                if not self.partitions and (row[2] is not None or row[6] is not None or self._unrouted):
                    receipt = self._wait_for_partitions(row, timeout, size)
                    if receipt is not None:
                        return receipt
                else:
                    batch = self._append(row, timeout, size)
                    if batch is not None:
                        return self._receipt(batch, row[1])
            self._make_room()

    def _settle(self, batch: OpenBatch, row: Row) -> MessageReceipt:
        """A row was appended while another thread sealed the batch: it is in the batch, or it came
        too late and goes into the next."""
        with self._lock:
            if batch.holds(row[1]):
                return self._receipt(batch, row[1])
        return self._route(row, self._timeout)

    def send_batch(
        self, data: object, *, partition: int | None = None, transaction: None = None, timeout: SpanOrMoment | None = None
    ) -> RowsReceipt:
        """Sends many messages: a list of values, or anything with `__arrow_c_stream__` that has a
        column `value` (binary or text) and any of key, attributes, id, due, expires, created. Other
        columns of a batch that was read are ignored. With `partition` all rows go there, whatever
        their keys and ids say. The receipt turns into `Answers`, one per row."""
        if transaction is not None:
            raise errors.NotSupported("transactions are not in this version.", hint="Omit transaction=.")
        seconds = self._timeout if timeout is None else arguments.timeout(timeout, self._broker_time.now())
        self._check_open()
        frame = Frame.of(data, self._clock.now(), self._compression)
        if partition is not None:
            frame.send_to(arguments.partition(partition))
        if not self.has_room():
            self._make_room()
        if (frame.routed or self._unrouted) and not self.partitions:
            with self._lock:
                self._check_open()
                if not self.partitions:
                    return self._keep_batch(frame, seconds)
        return self._batch_receipt(self.topic, frame.rows, self._divide(frame, seconds, self._lock, waits=True))

    def _divide(self, frame: Frame, timeout: float, lock: AbstractContextManager[Any], *, waits: bool) -> list[BatchPart]:
        """Hands the rows over in batches. An error of the first batch is raised; later ones are
        refused in the answers."""
        parts: list[BatchPart] = []
        frame.check_partition(self.topic, len(self.batches))
        pieces = frame.pieces(len(self.batches), min(self._batch_bytes_max, BATCH_BYTES), self._batch_bytes_max)
        for partition, rows, encode in pieces:
            if waits and parts and self._blocks and not self.has_room():
                self._make_room()
            try:
                encoded, given_ids = encode()
            except errors.Error as error:
                if not parts:
                    raise
                batch = Placeholder(self.topic, len(rows), partition=partition or 0)
                batch.outcome.decide(error)
            else:
                with lock:
                    batch = self._add_batch(partition, encoded, given_ids, timeout)
            parts.append(BatchPart(batch, rows))
        return parts

    def _wait_for_partitions(self, row: Row, timeout: float, size: int) -> MessageReceipt | None:
        """Keeps the row until the topic is described; None if there is no room."""
        if row[6] is None:
            row = (*row[:6], self._randomness.unique().hex())
        placeholder = Placeholder(self.topic, 1, [row[6]])
        receipt = self._receipt(placeholder, row[1])
        kept = self._keep(size, lambda started: UnroutedMessage(started, timeout, size, placeholder, receipt, row))
        return receipt if kept else None

    def _keep_batch(self, frame: Frame, timeout: float) -> RowsReceipt:
        placeholder = Placeholder(self.topic, frame.rows)
        receipt = self._batch_receipt(self.topic, frame.rows, [], placeholder)

        def divide() -> list[BatchPart]:
            return self._divide(frame, timeout, nullcontext(), waits=False)

        self._keep(frame.size, lambda started: UnroutedBatch(started, timeout, frame.size, placeholder, receipt, divide), forced=True)
        return receipt

    def _make_room(self) -> None:
        """There is no room for another batch: raises Full, or waits until there is."""
        raise errors.Full(
            f"{arguments.in_mebibytes(self.bytes_under_way)} are under way, more than the producer's max_bytes allow.",
            hint="await producer.ready(), or make it with a larger max_bytes=.",
        )


Sender.send.__signature__ = inspect.signature(Sender._send)  # pyright: ignore[reportFunctionMemberAccess, reportPrivateUsage]
