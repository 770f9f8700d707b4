"""A producer's stream into the broker: credit first, one check of each batch, then the partition's
actor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring import errors
from bowstring.broker.disk_room import DiskRoom
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.requests import PublishBatch
from bowstring.broker.topic_table import TopicTable
from bowstring.core import publishing
from bowstring.core.answers import Answer
from bowstring.core.decisions import GivenBack, Ids, Publish
from bowstring.messages import ids, layout
from bowstring.messages.hashing import id_hashes
from bowstring.messages.schema import DUE, EXPIRES, ID
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Buffer

GENERATED = "^[0-9a-f]{32}-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+$"
GENERATED_LENGTH_MIN = 38
TIMEOUT_MAX = 86_400_000_000
NUMBER_MAX = 2**62


class PublishedBatch(NamedTuple):
    """A batch as it came from the wire; moments and spans in microseconds."""

    partition: int
    number: int
    previous: int
    sent: int
    timeout: int
    schema: int
    columns: int
    rows: int
    data: Buffer


class Publisher:
    """One stream of one producer. A newer stream of the same producer fences it."""

    def __init__(
        self,
        topic: int,
        producer: bytes,
        stream: int,
        group: str,
        *,
        topics: TopicTable,
        admission: Admission,
        room: DiskRoom,
        clock: Clock,
        batch_bytes_max: int,
        closed: Callable[[bytes, Publisher], None],
    ) -> None:
        self._topics = topics
        self._admission = admission
        self._room = room
        self._clock = clock
        self._batch_bytes_max = batch_bytes_max
        self._closed = closed
        self._topic = topic
        self._producer = producer
        self.stream = stream
        self._group = group
        self.fenced = asyncio.Event()
        self._admitted = 0

    async def admit(self, size: int) -> None:
        """Waits until there is memory for the next batch. It is given back when that batch is
        answered.
        """
        await self._admission.admit(size)
        self._admitted += size

    def publish(self, batch: PublishedBatch) -> asyncio.Future[Answer]:
        """Takes an admitted batch. The future is settled when everything the answer rests on is
        committed.
        """
        answer = self._admission.outstanding(self._admitted)
        self._admitted = 0
        try:
            self._publish(batch, answer)
        except errors.Error as error:
            self._admission.refuse(answer, error)
        return answer

    def _publish(self, batch: PublishedBatch, answer: asyncio.Future[Answer]) -> None:
        if self.fenced.is_set():
            raise errors.Unavailable("a newer stream of this producer has taken over.")
        _check_numbers(batch)
        actor = self._topics.by_id(self._topic).actor(batch.partition)
        columns = layout.check(batch.schema, batch.columns, batch.rows, batch.data, bytes_max=self._batch_bytes_max)
        publish = Publish(
            producer=self._producer,
            number=batch.number,
            previous=batch.previous,
            sent=batch.sent,
            timeout=batch.timeout,
            rows=batch.rows,
            columns=batch.columns,
            ids=_ids(columns.column("id"), batch.partition) if batch.columns & ID else None,
            expires=_expires(columns.column("expires")) if batch.columns & EXPIRES else 0,
            due=_latest(columns.column("due")) if batch.columns & DUE else 0,
        )
        try:
            self._room.check(len(batch.data))
        except errors.Full:
            if publishing.is_new(actor.partition, publish, self._clock.now()):  # others need no room, only their answer
                raise
        actor.ask(PublishBatch(publish, self._group, columns, batch.data, answer))

    def close(self) -> None:
        """The stream has ended. Its batches under way continue."""
        self._closed(self._producer, self)


def _check_numbers(batch: PublishedBatch) -> None:
    if not 0 < batch.number < NUMBER_MAX or not 0 <= batch.previous < NUMBER_MAX:
        raise errors.InvalidArgument(f"a batch cannot have number {batch.number} after {batch.previous}.", hint="Numbers rise from 1.")
    if not 0 < batch.timeout <= TIMEOUT_MAX or not 0 <= batch.sent < NUMBER_MAX:
        raise errors.InvalidArgument(
            f"a timeout of {batch.timeout / 1e6:g} s from {batch.sent} is not valid.", hint="Timeouts are above 0 s and up to a day."
        )


def _expires(column: pa.Array) -> int:
    """When the last row expires; 0 if one of them does not."""
    return 0 if column.null_count else _latest(column)


def _latest(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.max(column.cast(pa.int64())).as_py()


def _ids(column: pa.Array, partition: int) -> Ids:
    """The hashes of a column of ids, for the machine; loops only over rows with generated ids."""
    hashes, firsts = id_hashes(column), None
    order = np.argsort(hashes)
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # the same id twice, or nearly so: it has to be looked at closely
        codes = column.dictionary_encode()
        indices = codes.indices.to_numpy(zero_copy_only=False)
        first_rows = np.empty(len(codes.dictionary), np.int64)
        first_rows[indices[::-1]] = np.arange(len(column))[::-1]  # of several rows with the same id the first is written last
        firsts = first_rows[indices]
    rows = _generated(column)
    parsed = [(int(row), ids.parse(column[int(row)].as_py())) for row in rows]
    given = tuple(GivenBack(row, g.producer, g.number, g.row) for row, g in parsed if g is not None and g.partition == partition)
    return Ids(hashes, firsts, given, order)


def _generated(column: pa.Array) -> NDArray[np.int64]:
    """The rows whose ids look like those that a kit generates."""
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False)
    if int(lengths.max(initial=0)) < GENERATED_LENGTH_MIN:
        return np.empty(0, np.int64)
    return np.flatnonzero(pc.match_substring_regex(column, GENERATED).to_numpy(zero_copy_only=False))
