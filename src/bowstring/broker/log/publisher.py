"""A producer's stream into the broker: credit first, one check of each batch, then the partition's
actor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bowstring import errors
from bowstring.broker.disk_room import DiskRoom
from bowstring.broker.log.admission import Admission, Admitted, Answered
from bowstring.broker.log.publish_request import PublishBatch
from bowstring.broker.log.published_batch import PublishedBatch, check_numbers, columns_of, understood
from bowstring.broker.topic_table import TopicTable
from bowstring.core import publishing
from bowstring.messages.limits import NAME_BYTES_MAX
from bowstring.ports.clock import Clock


def check_producer(producer: bytes, group: str) -> None:
    """Refuses a producer that cannot publish under this name."""
    if len(producer) != 16:
        raise errors.InvalidArgument(f"a producer id has 16 bytes, this one has {len(producer)}.")
    if not 1 <= len(group) <= NAME_BYTES_MAX:
        raise errors.InvalidArgument(f"a producer group has 1 to {NAME_BYTES_MAX} characters, this one has {len(group)}.")


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

    def try_admit(self, size: int) -> bool:
        """Reserves memory for the next batch if there is some. It is given back when that batch is
        answered.
        """
        if not self._admission.try_admit(size):
            return False
        self._admitted += size
        return True

    async def admit(self, size: int) -> None:
        """As `try_admit`, but waits until there is memory."""
        await self._admission.admit(size)
        self._admitted += size

    def publish(self, batch: PublishedBatch, answered: Answered) -> None:
        """Takes an admitted batch. Calls back when everything the answer rests on is committed:
        before it returns, perhaps.
        """
        admitted = self._admission.outstanding(self._admitted, answered)
        self._admitted = 0
        try:
            self._publish(batch, admitted)
        except errors.Error as error:
            self._admission.refuse(admitted, error)

    def _publish(self, batch: PublishedBatch, admitted: Admitted) -> None:
        if self.fenced.is_set():
            raise errors.Unavailable("a newer stream of this producer has taken over.")
        check_numbers(batch)
        actor = self._topics.by_id(self._topic).actor(batch.partition)
        columns = columns_of(batch, self._batch_bytes_max)
        publish = understood(batch, columns, self._producer)
        try:
            self._room.check(len(batch.data))
        except errors.Full:
            if publishing.is_new(actor.partition, publish, self._clock.now()):  # others need no room, only their answer
                raise
        actor.receive(PublishBatch(publish, self._group, columns, batch.data, admitted))

    def close(self) -> None:
        """The stream has ended. Its batches under way continue."""
        self._closed(self._producer, self)
