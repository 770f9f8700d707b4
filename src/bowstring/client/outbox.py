"""The loop's half of a producer: it carries sealed batches to the brokers until each has an
outcome.

Lanes keep the order within a partition; streams carry the batches, one stream for each broker.
`routes` says which broker serves a partition, and a lane is on the stream to that broker.

**What if a broker says "not here, ask there"?** That is the outcome of one write, and the stream
goes on. The whole lane leaves the stream and enters the one to the other broker, with its
unanswered batches in order and under their numbers. What the first broker still answers about them
counts only if it is "stored". The second broker knows what the first has stored; where it lacks a
batch it says so, and the lane is rewound. A lane that is sent elsewhere again and again pauses in
between.

**What if time is over?** A batch that was never written is certainly not stored: `DeadlinePassed`.
For others only the broker knows: it refuses a batch that comes too late, so asking again gives a
certain answer. A silent stream is replaced to ask. If no answer comes within a grace time, the
outcome is unknown, and the error says so.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from bowstring import errors
from bowstring.client.connection import PAUSE_FIRST, PAUSE_MAX, Connection
from bowstring.client.deadlines import Deadlines
from bowstring.client.lane import Lane
from bowstring.client.open_batches import OpenBatches
from bowstring.client.outcome import StoredRows
from bowstring.client.publish_stream import PublishStream
from bowstring.client.receipts import settled
from bowstring.client.routes import asks_elsewhere
from bowstring.client.sent_batch import SentBatch
from bowstring.client.statistics import ProducerCounts
from bowstring.client.unrouted import Placeholder
from bowstring.messages.encoding import Draft
from bowstring.wire import error_messages
from bowstring.wire.generated import bowstring_pb2 as pb

GRACE: Final = (1.0, 5.0)
"""How long an answer is awaited after the timeout: half of the timeout, within these limits."""
ASK_SHARE: Final = 0.25
"""After this share of the grace a silent stream is replaced."""
FAILURES_MAX: Final = 10_000


class Outbox:
    """One producer's batches from their seal to their outcome."""

    def __init__(self, connection: Connection, open_batches: OpenBatches, group: str, compression: str | None) -> None:
        self.topic = open_batches.topic
        self.counts = ProducerCounts()
        self._connection = connection
        self._routes = connection.routes
        self._open_batches = open_batches
        self._group = group
        self._compression = compression
        self._clock = connection.world.clock
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._clock)
        self._lanes: dict[int, Lane] = {}
        self._stream_number = 0
        self._topic_id = 0
        self._age_timer: asyncio.TimerHandle | None = None
        self._age_at = inf
        self._room = asyncio.Event()
        self._tried = asyncio.Event()
        self._failed: list[SentBatch | Placeholder] = []
        self._closed = False
        self._home = PublishStream(self, connection)
        """The stream to the broker that the kit is connected to."""
        self._others: dict[str, PublishStream] = {}
        """Streams to brokers that answers have named, by address."""

    # ---- batches come in

    def work(self) -> None:
        """Takes what is in the inbox, and has the streams look at the open batches. The program's
        half wakes the loop for it."""
        self._take()
        self._home.pump()
        for stream in tuple(self._others.values()):
            stream.pump()

    def _take(self) -> set[PublishStream | None]:
        """Puts what is in the inbox into lanes. Gives the streams of these."""
        streams: set[PublishStream | None] = set()
        for batch in self._open_batches.taken():
            lane = self.lane(batch.partition)
            lane.add(batch)
            streams.add(lane.stream)
            self._deadlines.add(batch.term.until, self._late, batch)
        if self._open_batches.next_age < self._age_at and not self._closed:
            self._watch_age()
        return streams

    def _watch_age(self) -> None:
        """Wakes up when the next open batch is aged."""
        if self._age_timer is not None:
            self._age_timer.cancel()
        self._age_at = self._open_batches.next_age
        self._age_timer = self._loop.call_later(max(0.0, self._age_at - self._clock.monotonic()), self._seal_aged)

    def _seal_aged(self) -> None:
        self._age_timer, self._age_at = None, inf
        self._open_batches.seal_aged(self._clock.monotonic())
        self.work()

    def seal_due(self, stream: PublishStream) -> bool:
        """Seals the open batches for which this stream waits: those whose barrier is answered. Says
        whether there were any."""
        if not self._open_batches.gathering:
            return False
        oldest = stream.window.oldest
        due = [
            batch
            for batch in tuple(self._open_batches.gathering.values())
            if (oldest is None or batch.barrier < oldest) and self.lane(batch.partition).stream is stream
        ]
        if not due:
            return False
        self._open_batches.seal(due)
        if self._take() - {stream}:
            self._loop.call_soon(self.work)  # other threads have sealed batches of other streams meanwhile
        return True

    def lane(self, partition: int) -> Lane:
        """The lane of a partition, on the stream of the broker that serves it."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition, self._stream_for(partition))
        return lane

    def unanswered(self, stream: PublishStream | None = None) -> list[SentBatch]:
        """The batches without an outcome: of all lanes, or of those on one stream."""
        lanes = [lane for lane in self._lanes.values() if stream is None or lane.stream is stream]
        return [batch for lane in lanes for batch in lane.unanswered.values()]

    # ---- streams and brokers

    def next_stream(self) -> int:
        """The number of another stream."""
        self._stream_number += 1
        return self._stream_number

    def opening(self, number: int) -> bytes:
        """The first request of a stream."""
        opening = pb.PublishOpen(topic=self.topic, producer=self._open_batches.producer, stream=number, group=self._group)
        return pb.PublishRequest(open=opening).SerializeToString()

    def _stream_for(self, partition: int) -> PublishStream:
        address = self._routes.address(self.topic, partition)
        if address is None or address == self._home.broker or self._closed:
            return self._home
        if address not in self._others:
            self._others[address] = PublishStream(self, self._connection.to(address), address)
        return self._others[address]

    def met(self, stream: PublishStream, batch_bytes_max: int) -> None:
        """A stream has reached its broker. There is one stream to a broker, because a second would
        fence the first."""
        self._open_batches.limits(batch_bytes_max)
        other = self._others.pop(stream.broker, None) if stream is self._home else None
        if other is not None:
            self._loop.create_task(other.close(), name="bowstring stream that another replaces")
            for lane in self._lanes.values():
                if lane.stream is other:
                    lane.leave()
                    lane.enter(stream)

    def lost(self, stream: PublishStream) -> None:
        """A broker that an answer had named does not answer: its lanes go back to the seeds, after
        a pause."""
        if stream.address is not None and self._others.get(stream.address) is stream:
            del self._others[stream.address]
            self._routes.forget(stream.address)
        for lane in self._lanes.values():
            if lane.stream is stream:
                self._leave(lane, pauses=True)

    def _leave(self, lane: Lane, *, pauses: bool) -> None:
        """Takes a lane off its stream; it enters the right one at once, or after a pause that grows
        with each move in vain."""
        lane.leave()
        seconds = min(PAUSE_FIRST * 2**lane.moves, PAUSE_MAX) if pauses or lane.moves else 0.0
        lane.moves += 1
        if seconds:
            self._loop.call_later(seconds, self._enter, lane)
        else:
            self._enter(lane)

    def _enter(self, lane: Lane) -> None:
        if lane.stream is None and not self._closed:
            lane.enter(stream := self._stream_for(lane.partition))
            stream.pump()

    def described(self, partitions: int, identity: int) -> None:
        """The topic has so many partitions; 0 if it does not exist and may be made by
        publishing."""
        known = self._open_batches.partitions
        partitions = partitions or known or 1
        if known and partitions != known:
            self.refuse(_remade(self.topic, known, partitions))
        if partitions != known:
            self._note_failed(self._open_batches.know_partitions(partitions))
        if identity != self._topic_id:
            self._topic_id = identity
            for lane in self._lanes.values():
                lane.last = 0
        self._tried.set()

    def attempted(self) -> None:
        """A stream has ended, or could not be opened: rows that wait for partitions may be too
        late."""
        self._tried.set()
        late = errors.DeadlinePassed("the timeout passed before it could be sent; it is not stored.")
        self._note_failed(self._open_batches.fail_unrouted(late, self._clock.monotonic()))

    # ---- answers

    def begin_write(self, batch: SentBatch) -> Draft:
        """A stream is about to write a batch: counts it, and gives its bytes."""
        encoded = batch.encoded(self._compression)
        self.counts.resent += bool(batch.first_stream)
        if not batch.serial:
            self._open_batches.serial += 1
            batch.serial = self._open_batches.serial
        return encoded

    def answered(self, stream: PublishStream, answer: pb.PublishAnswer) -> None:
        """An answer came on a stream. If the lane has moved away since, it counts only if the batch
        is stored."""
        lane = self.lane(answer.partition)
        batch = lane.unanswered.get(answer.number)
        kind = answer.WhichOneof("outcome")
        if batch is None or (lane.stream is stream and not batch.writes) or (lane.stream is not stream and kind != "stored"):
            return
        last = True
        if lane.stream is stream:
            self._connection.broker_time.heard(answer.broker_time, batch.written_at, self._clock.monotonic())
            last = batch.answered()
        if kind == "stored":
            self._stored(stream, lane, batch, answer.stored)
        elif kind == "refused":
            self._refused(lane, batch, error_messages.from_message(answer.refused))
        elif last:
            stream.window.answered(batch)
            stream.window.again(lane.rewind(answer.resend_after))

    def _stored(self, stream: PublishStream, lane: Lane, batch: SentBatch, stored: pb.Stored) -> None:
        stream.full = None
        stream.pauses.reset()
        lane.stored(batch)
        repeats = tuple((repeat.row, repeat.rows, repeat.offset) for repeat in stored.repeats) if stored.repeats else ()
        self._decide(batch, StoredRows(stored.first_offset, repeats))

    def _refused(self, lane: Lane, batch: SentBatch, error: errors.Error) -> None:
        address = asks_elsewhere(error)
        if address is not None and lane.stream is not None:
            self._routes.learn(self.topic, lane.partition, address)
            self._leave(lane, pauses=address in ("", lane.stream.broker))
            return
        if error.retryable and not isinstance(error, errors.DeadlinePassed):
            raise error
        self.give_up(batch, error)
        if isinstance(error, errors.NotFound):
            raise errors.Unavailable("the topic of this stream is gone; there may be another of its name.")

    def give_up(self, batch: SentBatch, error: errors.Error) -> None:
        """Decides that a batch has failed. Reports `Full`, not `DeadlinePassed`, when a full disk
        caused the timeout."""
        lane = self.lane(batch.partition)
        full = lane.stream.full if lane.stream is not None else None
        if full is not None and isinstance(error, errors.DeadlinePassed):
            error = errors.Full(f"{full.message} This was so until the timeout of {batch.term.seconds:g} s passed.", hint=full.hint)
        lane.dropped(batch)
        self._decide(batch, error)

    def refuse(self, error: errors.Error, stream: PublishStream | None = None, number: int = 0) -> None:
        """Gives up everything on a stream, or everything. A batch that was written before the
        stream of this number may be stored, unless the topic is gone."""
        self._open_batches.seal_all()
        self.work()
        self._note_failed(self._open_batches.fail_unrouted(error))
        unknown = errors.OutcomeUnknown(
            f"the answer was lost, and then: {error.message}", hint="Ask producer.find(id), or repeat with the same id."
        )
        for batch in self.unanswered(stream):
            certain = batch.first_stream in (0, number) or isinstance(error, errors.NotFound)
            self.give_up(batch, error if certain else unknown)
        if stream is not None and isinstance(error, errors.NotFound):
            self._open_batches.forget_partitions()

    def fail(self, error: Exception) -> None:
        """A bug: gives up everything, and takes nothing more."""
        self._open_batches.close(errors.Error(f"the producer has failed: {error!r}"))
        self.refuse(errors.OutcomeUnknown(f"the producer has failed: {error!r}", hint="This is a bug in Bowstring."))

    def _decide(self, batch: SentBatch, result: StoredRows | errors.Error) -> None:
        self._open_batches.release(batch)
        if isinstance(result, StoredRows):
            self.counts.stored(batch)
        else:
            self._note_failed([batch])
        batch.decide(result)
        self._room.set()

    def _note_failed(self, batches: list[SentBatch] | list[Placeholder]) -> None:
        """Keeps failures for `flush`. Their bytes are given back already, so there may be room
        now."""
        self.counts.refused += sum(batch.rows for batch in batches)
        self._failed += batches
        del self._failed[:-FAILURES_MAX]
        self._room.set()

    # ---- time

    def _late(self, batch: SentBatch) -> None:
        """The timeout of a batch is over."""
        seconds = batch.term.seconds
        if not batch.first_stream:
            error = errors.DeadlinePassed(f"the timeout of {seconds:g} s passed before it could be sent; it is not stored.")
            self.give_up(batch, error)
            return
        self._deadlines.add(self._clock.monotonic() + _grace(batch) * ASK_SHARE, self._ask, batch)

    def _ask(self, batch: SentBatch) -> None:
        """There is still no answer: asks on a new stream, unless the batch was written on one
        since."""
        stream = self.lane(batch.partition).stream
        if stream is not None:
            stream.ask_again(batch.stream)
        self._deadlines.add(self._clock.monotonic() + _grace(batch) * (1 - ASK_SHARE), self._lose, batch)

    def _lose(self, batch: SentBatch) -> None:
        error = errors.OutcomeUnknown(
            f"no broker has answered within {batch.term.seconds:g} s and the time to ask again, so it may or may not be stored.",
            hint="Repeat with the same id, or ask producer.find(id).",
        )
        self.give_up(batch, error)

    # ---- waiting

    async def ready(self, share: float = 1.0) -> None:
        """Waits until there is room for another batch, and until the topic was asked for once."""
        await self._tried.wait()
        while not self._open_batches.has_room(share):
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Waits until everything that was sent before has its outcome."""
        for placeholder in self._open_batches.unrouted():
            await settled(placeholder.outcome.when_settled)
        self._open_batches.seal_all()
        self.work()
        for batch in self.unanswered():
            await settled(batch.outcome.when_settled)

    def failures(self) -> list[SentBatch | Placeholder]:
        """The batches that failed since this was asked last."""
        failed, self._failed = self._failed, []
        return failed

    async def close(self) -> None:
        """Ends the streams and their connections. Gives up what has no outcome, and wakes those who
        wait for room."""
        self._closed = True
        if self._age_timer is not None:
            self._age_timer.cancel()
        await asyncio.gather(*(stream.close() for stream in (self._home, *self._others.values())))
        self.refuse(errors.Unavailable("the producer was closed before it was sent; it is not stored."))
        self._deadlines.close()
        self._tried.set()
        self._room.set()


def _grace(batch: SentBatch) -> float:
    return min(max(batch.term.seconds / 2, GRACE[0]), GRACE[1])


def _remade(topic: str, before: int, now: int) -> errors.Conflict:
    return errors.Conflict(
        f"'{topic}' was deleted and made again with {now} instead of {before} partitions while this was under way.",
        hint="Look what is there, then send again.",
    )
