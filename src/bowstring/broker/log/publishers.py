"""The producers that have a stream open. A producer's newer stream fences its older one."""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.disk_room import DiskRoom
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.publisher import Publisher
from bowstring.broker.topic_table import TopicTable
from bowstring.broker.topics import Topic
from bowstring.ports.clock import Clock


class Publishers:
    """The open publish streams, by producer."""

    def __init__(self, *, topics: TopicTable, admission: Admission, room: DiskRoom, clock: Clock, batch_bytes_max: int) -> None:
        self._topics = topics
        self._admission = admission
        self._room = room
        self._clock = clock
        self._batch_bytes_max = batch_bytes_max
        self._open: dict[bytes, Publisher] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, topic: Topic, producer: bytes, stream: int, group: str) -> Publisher:
        """Raises Unavailable if the producer has opened a newer stream already."""
        older = self._open.pop(producer, None)
        if older is not None and older.stream >= stream:
            self._open[producer] = older
            raise errors.Unavailable(f"stream {older.stream} of this producer has taken over from {stream}.")
        if older is not None:
            older.fenced.set()
        publisher = self._open[producer] = Publisher(
            topic.row.id,
            producer,
            stream,
            group,
            topics=self._topics,
            admission=self._admission,
            room=self._room,
            clock=self._clock,
            batch_bytes_max=self._batch_bytes_max,
            closed=self._forget,
        )
        return publisher

    def _forget(self, producer: bytes, publisher: Publisher) -> None:
        if self._open.get(producer) is publisher:
            del self._open[producer]
