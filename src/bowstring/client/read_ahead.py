"""The pages that a reader has: of one topic or of several, in the order in which they arrived.

Each topic has a stream of its own (`topic_stream`); this module says when there is something
to take from what has arrived (`arrivals`), and limits how many rows the program gets before it
commits (`commit_window`). Rows that may not be handed out any more (`freshness`) are dropped when their
turn comes; if a topic was deleted, nothing more is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bowstring import errors
from bowstring.client.arrivals import BOUNDLESS, Arrivals
from bowstring.client.commit_window import CommitWindow
from bowstring.client.connection import Connection
from bowstring.client.pages import Chunk
from bowstring.client.reader_settings import WantedTopic
from bowstring.client.topic_stream import CREDIT_BYTES, TopicStream
from bowstring.wire.generated import bowstring_pb2 as pb

FILL_BYTES: Final = CREDIT_BYTES // 2


class ReadAhead(Arrivals):
    """Pages of some topics from given places on."""

    def __init__(
        self,
        connection: Connection,
        wanted: Sequence[WantedTopic],
        window: CommitWindow | None = None,
        patience: float | None = None,
        doubted: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(FILL_BYTES)
        self._connection = connection
        self._window = window
        self._patience = patience
        """How long to wait for rows while no broker answers, in seconds; None for ever."""
        self._absence_told = False
        self._is_deleted = False
        """Whether one of the topics is gone: then nothing is handed out any more."""
        credit = CREDIT_BYTES // len(wanted)
        self._streams = {each.topic: TopicStream(connection.another(), each, credit, self._came, doubted, patience) for each in wanted}

    def _came(self, chunk: Chunk | None) -> None:
        if chunk is not None:
            self._add(chunk)
        elif not self._is_deleted:
            self._is_deleted = any(isinstance(stream.error, errors.TopicNotFound) for stream in self._streams.values())
        self._change()

    # ---- waiting

    async def placed(self) -> None:
        """Waits until the start of the reader is known."""
        while not all(stream.position for stream in self._streams.values()):
            if self._closed:
                raise closed()
            self._raise_failure()
            await self._wait()

    async def available(self) -> bool:
        """Waits until there are rows to take; False when the end is reached, or all is closed.
        Raises what ended a stream for good (after the last row, but a deleted topic at once), and
        `Unavailable` when an end is wanted and no broker has answered for long.
        """
        self._count_absence_anew()
        while not self._closed and (self._is_deleted or not (self._pages and self._room())):
            if self._is_deleted:
                self._raise_failure()
            if self._pages:  # the program has to commit first
                await self._wait()
                continue
            if all(stream.finished() for stream in self._streams.values()):
                self._release()
                return False
            self._raise_failure()
            self._raise_absence()
            await self._wait(self._patience_left())
        return not self._closed

    def wants_rows(self) -> bool:
        if self._pages or self._over() or self._is_deleted or self._absence_told:
            return False
        return self._patience_left() is None

    def _release(self) -> None:
        for stream in self._streams.values():
            stream.release()

    def _over(self) -> bool:
        streams = self._streams.values()
        return self._closed or all(stream.finished() for stream in streams) or any(stream.error is not None for stream in streams)

    def _patience_left(self) -> float | None:
        """How much longer to wait for a broker that is away; None if none is away, or for ever."""
        away = [stream.away_since for stream in self._streams.values() if stream.away_since is not None and not stream.finished()]
        if self._patience is None or not away:
            return None
        return max(0.0, min(away) + self._patience - self._connection.world.clock.monotonic())

    def _raise_absence(self) -> None:
        if self._patience is not None and self._patience_left() == 0:
            self._absence_told = True
            raise self._connection.unanswered(self._patience)

    def _count_absence_anew(self) -> None:
        """Starts the wait anew: a caller that got the error and asks again waits as long again."""
        if self._absence_told:
            self._absence_told = False
            for stream in self._streams.values():
                if stream.away_since is not None:
                    stream.questions.away_since = self._connection.world.clock.monotonic()

    def _raise_failure(self) -> None:
        error = next((stream.error for stream in self._streams.values() if stream.error is not None), None)
        if isinstance(error, errors.Error):
            raise type(error)(error.message, hint=error.hint, details=error.details) from error.__cause__
        if error is not None:
            raise error

    # ---- taking

    def _next(self) -> Chunk | None:
        """The rest of the first page of which something may be handed out. The position moves past
        what may not.
        """
        while self._pages and not self._is_deleted:
            chunk = self._pages.popleft()
            stream = self._streams[chunk.page.topic]
            if not stream.freshness.doubts(chunk):
                return chunk
            fresh = stream.freshness.sifted(chunk)
            self.dropped += chunk.rows - (fresh.rows if fresh is not None else 0)
            if fresh is not None:
                return fresh
            stream.taken(chunk, last_of_page=True)
        return None

    def _took(self, chunk: Chunk, *, last_of_page: bool) -> None:
        self._streams[chunk.page.topic].taken(chunk, last_of_page=last_of_page)
        if self._window is not None:
            self._window.handed_out(chunk.page.topic, chunk.page.partition, chunk.offsets)

    def fresh(self, chunk: Chunk) -> Chunk | None:
        if not self.doubts(chunk):
            return chunk
        rest = None if self._is_deleted else self._streams[chunk.page.topic].freshness.sifted(chunk)
        lost = chunk.rows - (rest.rows if rest is not None else 0)
        self.messages -= lost
        self.dropped += lost
        return rest

    def doubts(self, chunk: Chunk) -> bool:
        return self._is_deleted or self._streams[chunk.page.topic].freshness.doubts(chunk)

    def is_near(self, chunk: Chunk) -> bool:
        return self._streams[chunk.page.topic].freshness.is_near(chunk)

    def _room(self) -> int:
        return BOUNDLESS if self._window is None else self._window.room

    def holds(self, rows: int, size: int) -> bool:
        return not self._is_deleted and super().holds(rows, size)

    def owes(self) -> bool:
        """Whether credit is to be given back for what was taken: by `grant`, on the loop."""
        return any(stream.owes() for stream in self._streams.values())

    def grant(self) -> None:
        """Gives credit back for taken rows, once it is worth a message."""
        for stream in self._streams.values():
            stream.grant()

    def committed(self, topic: str, position: Mapping[int, int]) -> None:
        """Notes a commit: more messages may come."""
        if self._window is not None:
            self._window.committed(topic, position)
            self._change()

    # ---- what the same client has done

    def deleted(self, topic: str, topic_id: int, places: Iterable[tuple[int, int]]) -> None:
        """Messages were deleted at these partitions and offsets."""
        if (stream := self._stream(topic, topic_id)) is not None:
            by_partition: dict[int, list[tuple[int, int]]] = {}
            for partition, offset in places:
                by_partition.setdefault(partition, []).append((offset, 1))
            for partition, runs in by_partition.items():
                stream.deleted(partition, runs)

    def altered(self, topic: pb.Topic) -> None:
        """The topic was altered."""
        if (stream := self._stream(topic.name, topic.id)) is not None:
            stream.kept_for(topic.retention)

    def topic_deleted(self, topic: str, topic_id: int) -> None:
        """The topic was deleted."""
        if (stream := self._stream(topic, topic_id)) is not None:
            stream.fail(errors.TopicNotFound(f"the topic '{topic}' was deleted.", details={"topic": topic}))

    def _stream(self, topic: str, topic_id: int) -> TopicStream | None:
        stream = self._streams.get(topic)
        return stream if stream is not None and stream.topic_id == topic_id != 0 else None

    # ---- places and figures

    @property
    def position(self) -> dict[str, dict[int, int]]:
        """The program's position by topic: behind the rows that were handed out."""
        return {topic: stream.position for topic, stream in self._streams.items()}

    def topic_id(self, topic: str) -> int:
        """The number of a topic; 0 until it is known."""
        return self._streams[topic].topic_id

    async def describe(self, topic: str) -> pb.Topic:
        """A topic as it is now; repeated until a broker answers."""
        return await self._streams[topic].questions.describe()

    @property
    def bytes_ahead(self) -> int:
        """The bytes that have arrived and were not taken."""
        return sum(stream.bytes_ahead for stream in self._streams.values())

    @property
    def bytes(self) -> int:
        """The bytes that have arrived, as they travelled."""
        return sum(stream.bytes for stream in self._streams.values())

    @property
    def batches(self) -> int:
        """How many answers came."""
        return sum(stream.batches for stream in self._streams.values())

    @property
    def connections(self) -> int:
        """How many streams were opened."""
        return sum(stream.connections for stream in self._streams.values())

    async def close(self) -> None:
        """Ends the streams and their connections. Wakes all callers that wait."""
        self._closed = True
        self._change()
        for stream in self._streams.values():
            await stream.close()


def closed() -> errors.Conflict:
    """The error for calls that a closed reader cannot serve."""
    return errors.Conflict("this reader is closed.", hint="Make another with client.reader().")
