"""The loop's half of a producer: carries batches to the broker, in order, until each has an outcome.

**When is a batch written?** A full one as soon as the window has room. One that still gathers when everything is answered that was under
way at its first row: so an idle producer sends at once, a busy one gathers while the batch before is on its way, and a quiet partition is
not starved by a busy one. Several full batches are under way at the same time, so that the broker can commit them together.

**What if the stream breaks?** A new one is opened (handshake, description of the topic, stream number one higher, which fences the old one)
and everything unanswered is written again, in order, with the same numbers and the same `sent`: what the broker has already it answers as a
duplicate. `lanes` keeps the order.

**What if time is over?** A batch that was never written is certainly not stored: `DeadlinePassed`. For one that was, only the broker knows:
it refuses what comes too late, so asking again gives a certain answer. If the stream is silent a new one is opened to ask. When no
answer can be had for a grace time the outcome is unknown, and the error says so.

**What if the broker's disk is full?** It may have room again a moment later, so everything is tried again until its time is over. What is
certainly not stored then is told to be `Full`, because that is what somebody has to look after.

**What if the broker has ended for good?** Everything is given up at once: what was never written is certainly not stored, and for the rest
nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from bowstring import errors
from bowstring.client import window
from bowstring.client.connection import PAUSE_MAX, Connection, Pauses
from bowstring.client.gathering import Gathering
from bowstring.client.lanes import Lane
from bowstring.client.outgoing import Outgoing, Placed
from bowstring.client.statistics import ProducerCounts
from bowstring.client.window import Window
from bowstring.messages import schema
from bowstring.ports.transport import Stream
from bowstring.wire import codec, status
from bowstring.wire.generated import bowstring_pb2 as pb

AGE_SHARE: Final = 0.05
"""An open batch is sealed at this share of its timeout even when it cannot be written, so that its rows are about equally old."""
GRACE: Final = (1.0, 5.0)
"""How long an answer is still waited for when the timeout is over: half of it, within these limits."""
ASK_SHARE: Final = 0.25
"""After this share of the grace a silent stream is replaced."""
FULL_SECONDS: Final = 0.5
"""How often a broker whose disk is full is asked: it does answer, and what is too late by then has to hear so within its grace."""
FAILURES_MAX: Final = 10_000
DESCRIBE_SECONDS: Final = 5.0


class Publisher:
    """One producer's stream, and whatever replaces it."""

    def __init__(self, connection: Connection, gathering: Gathering, group: str, compression: str | None) -> None:
        self._connection = connection
        self._gathering = gathering
        self._group = group
        self._compression = compression
        self._clock = connection.world.clock
        self._loop = asyncio.get_running_loop()
        self._pauses = Pauses(connection.world)
        self._lanes: dict[int, Lane] = {}
        self._gathered: dict[int, Outgoing] = {}
        """Open batches that have rows, by number."""
        self._window = Window()
        self._stream_number = 0
        self._answers = 0
        """Answers on this stream."""
        self._stream: Stream | None = None
        self._topic_id = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._tried = asyncio.Event()
        self._failed: list[Outgoing] = []
        self._full: errors.Full | None = None
        """What the broker has said since it stored something last, if it was this."""
        self.counts = ProducerCounts()
        self._task = self._loop.create_task(self._run(), name=f"bowstring producer of {gathering.topic}")

    # ---- what the program's half hands over

    def work(self) -> None:
        """Takes what is in the inbox. Called on the loop."""
        inbox = self._gathering.inbox
        while inbox:
            batch = inbox.popleft()
            if batch.outcome is not None or batch.number in self._lane(batch.partition).unanswered:
                continue
            if batch.rows:
                self._adopt(batch)
            elif batch.number not in self._gathered:
                self._gathered[batch.number] = batch
                batch.barrier = self._window.serial
                batch.timer = self._loop.call_later(batch.timeout * AGE_SHARE, self._gathering.seal, batch)
        self._changed.set()

    def _adopt(self, batch: Outgoing) -> None:
        self._gathered.pop(batch.number, None)
        self._lane(batch.partition).add(batch)
        self._window.add(batch)
        if batch.timer is not None:
            batch.timer.cancel()
        batch.timer = self._loop.call_later(max(0.0, batch.deadline - self._clock.monotonic()), self._late, batch)

    def _lane(self, partition: int) -> Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane()
        return lane

    def _unanswered(self) -> list[Outgoing]:
        return [batch for lane in self._lanes.values() for batch in lane.unanswered.values()]

    # ---- time

    def _late(self, batch: Outgoing) -> None:
        """The timeout of a batch is over."""
        if not batch.first_stream:
            self._give_up(
                batch, errors.DeadlinePassed(f"the timeout of {batch.timeout:g} s passed before it could be sent; it is not stored.")
            )
            return
        grace = min(max(batch.timeout / 2, GRACE[0]), GRACE[1])
        batch.timer = self._loop.call_later(grace * ASK_SHARE, self._ask, batch, grace)

    def _ask(self, batch: Outgoing, grace: float) -> None:
        """There is still no answer: asks on a new stream, unless it was asked on one since."""
        if self._stream is not None and batch.stream == self._stream_number:
            self._stream.cancel()
        batch.timer = self._loop.call_later(grace * (1 - ASK_SHARE), self._lose, batch)

    def _lose(self, batch: Outgoing) -> None:
        error = errors.OutcomeUnknown(
            f"no broker has answered within {batch.timeout:g} s and the time to ask again, so it may or may not be stored.",
            hint="Repeat with the same id, or ask producer.find(id).",
        )
        self._give_up(batch, error)

    def _give_up(self, batch: Outgoing, error: errors.Error) -> None:
        if self._full is not None and isinstance(error, errors.DeadlinePassed):
            error = errors.Full(f"{self._full.message} This was so until the timeout of {batch.timeout:g} s passed.", hint=self._full.hint)
        self._lane(batch.partition).dropped(batch)
        self._window.answered(batch)
        self._resolve(batch, error)

    # ---- the stream

    async def _run(self) -> None:
        while True:
            try:
                await self._serve()
            except errors.Unavailable as error:
                self._full = error if isinstance(error, errors.Full) else self._full
                self._broken()
                if (ended := self._connection.given_up(error)) is not None:
                    self._refuse_all(ended)
                    await self._more()
            except errors.Error as error:
                self._broken()
                if not self._answers:
                    self._refuse_all(error, self._stream_number)
                    if isinstance(error, errors.NotFound):
                        self._gathering.forget_partitions()
                    await self._more()
            except Exception as error:
                self._gathering.close(errors.Error(f"the producer has failed: {error!r}"))
                self._refuse_all(errors.OutcomeUnknown(f"the producer has failed: {error!r}", hint="This is a bug in Bowstring."))
                raise
            self._tried.set()
            late = errors.DeadlinePassed("the timeout passed before it could be sent; it is not stored.")
            self._note_failed(self._gathering.fail_waiting(late, self._clock.monotonic()))
            await self._pauses.wait(PAUSE_MAX if self._full is None else FULL_SECONDS)

    async def _more(self) -> None:
        """Everything was refused: waits until there is more to send."""
        self._changed.clear()
        self._tried.set()
        await self._changed.wait()

    async def _serve(self) -> None:
        """Opens a stream and uses it until it breaks."""
        self._answers = 0
        self._stream_number += 1
        greeting = await self._connection.hello()
        self._window.bytes_max = min(greeting.publish_window or window.BYTES_MAX, window.BYTES_MAX)
        self._gathering.limits(greeting.batch_bytes_max)
        await self._describe()
        self._stream = stream = self._connection.channel.stream("Publish")
        opening = pb.PublishOpen(
            topic=self._gathering.topic, producer=self._gathering.producer, stream=self._stream_number, group=self._group
        )
        reading = self._loop.create_task(self._read(stream))
        writing = self._loop.create_task(self._write(stream, pb.PublishRequest(open=opening).SerializeToString()))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream = None
            stream.cancel()
            reading.cancel()
            writing.cancel()
            ends = await asyncio.gather(reading, writing, return_exceptions=True)
        raise _why(ends)

    async def _describe(self) -> None:
        """How many partitions the topic has. One that is not there may be made by publishing to it, with one partition."""
        request = pb.DescribeTopicRequest(name=self._gathering.topic).SerializeToString()
        try:
            topic = pb.Topic.FromString(await self._connection.channel.call("DescribeTopic", request, DESCRIBE_SECONDS))
            partitions, identity = topic.partitions, topic.id
        except errors.TopicNotFound:
            partitions, identity = self._gathering.partitions or 1, 0
        known = self._gathering.partitions
        if known and partitions != known:
            self._refuse_all(_remade(self._gathering.topic, known, partitions))
        if partitions != known:
            self._note_failed(self._gathering.know_partitions(partitions))
        if identity != self._topic_id:
            self._topic_id = identity
            for lane in self._lanes.values():
                lane.last = 0
        self._tried.set()

    def _broken(self) -> None:
        """Everything unanswered is to be written again, in order."""
        self._window.restart(self._unanswered())

    def _refuse_all(self, error: errors.Error, stream: int = 0) -> None:
        """Nothing under way can be sent any more. What was written before this stream may have been stored, unless the topic is gone."""
        self._gathering.seal_all()
        self.work()
        self._note_failed(self._gathering.fail_waiting(error))
        unknown = errors.OutcomeUnknown(
            f"the answer was lost, and then: {error.message}", hint="Ask producer.find(id), or repeat with the same id."
        )
        for batch in self._unanswered():
            certain = batch.first_stream in (0, stream) or isinstance(error, errors.NotFound)
            self._give_up(batch, error if certain else unknown)

    # ---- writing

    async def _write(self, stream: Stream, opening: bytes) -> None:
        await stream.write(opening)
        while True:
            batch = self._next()
            if batch is not None:
                message = self._message(batch)
                if message is not None:
                    await stream.write(message)
            else:
                self._changed.clear()
                await self._changed.wait()

    def _next(self) -> Outgoing | None:
        """What to write now; None while there is nothing, or no room for it."""
        batch = self._window.next()
        if batch is None and self._gathered and not self._window.queue:
            self._seal_due()
            batch = self._window.next()
        return batch

    def _seal_due(self) -> None:
        oldest = self._window.oldest
        for batch in [batch for batch in self._gathered.values() if batch.barrier < oldest]:
            self._gathering.seal(batch)
        self.work()

    def _message(self, batch: Outgoing) -> bytes | None:
        """The request that publishes a batch; None if it cannot be written, which is then its outcome."""
        try:
            encoded = batch.encode(self._compression)
        except errors.Error as error:
            self._give_up(batch, error)
            return None
        self.counts.resent += bool(batch.first_stream)
        batch.first_stream = batch.first_stream or self._stream_number
        batch.stream = self._stream_number
        batch.written_at = self._clock.monotonic()
        self._window.wrote(batch, encoded.size)
        header = pb.PublishRequest(
            partition=batch.partition,
            number=batch.number,
            previous=self._lane(batch.partition).previous(batch),
            sent=batch.sent,
            timeout=int(batch.timeout * 1e6),
            schema=schema.BYTES_SCHEMA,
            columns=encoded.mask,
            rows=encoded.rows,
        )
        message = codec.join_pieces(header.SerializeToString(), encoded.pieces, encoded.size)
        # For a resend the batch in this message is as good, and nothing of what it was made of has to be kept.
        batch.encoded = encoded._replace(pieces=(memoryview(message)[-encoded.size :],))
        return message

    # ---- answers

    async def _read(self, stream: Stream) -> None:
        while (message := await stream.read()) is not None:
            self._answers += 1
            self._answer(pb.PublishAnswer.FromString(message))
        raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")

    def _answer(self, answer: pb.PublishAnswer) -> None:
        lane = self._lane(answer.partition)
        batch = lane.unanswered.get(answer.number)
        if batch is None or not batch.writes:
            return
        self._connection.broker_time.heard(answer.broker_time, batch.written_at, self._clock.monotonic())
        batch.writes -= 1
        kind = answer.WhichOneof("outcome")
        if kind == "stored":
            self._full = None
            self._pauses.reset()
            lane.stored(batch)
            self._window.answered(batch)
            repeats = tuple((repeat.row, repeat.rows, repeat.offset) for repeat in answer.stored.repeats)
            self._resolve(batch, Placed(answer.stored.first_offset, repeats))
        elif kind == "refused":
            error = status.from_message(answer.refused)
            if error.retryable and not isinstance(error, errors.DeadlinePassed):
                raise error
            self._give_up(batch, error)
            if isinstance(error, errors.NotFound):
                raise errors.Unavailable("the topic of this stream is gone; there may be another of its name.")
        elif not batch.writes:
            self._window.answered(batch)
            self._window.again(lane.rewind(answer.resend_after))
        self._changed.set()

    def _resolve(self, batch: Outgoing, outcome: Placed | errors.Error) -> None:
        self._gathering.release(batch)
        if isinstance(outcome, Placed):
            self.counts.stored(batch)
        else:
            self._note_failed([batch])
        batch.resolve(outcome)
        self._room.set()

    def _note_failed(self, batches: list[Outgoing]) -> None:
        """These have failed, or are placeholders of what has. What they held is given back already: there may be room now."""
        self.counts.refused += sum(batch.rows for batch in batches)
        self._failed += batches
        del self._failed[:-FAILURES_MAX]
        self._room.set()

    # ---- waiting

    async def ready(self, share: float = 1.0) -> None:
        """Waits until there is room for another batch, and until the topic was asked for once."""
        await self._tried.wait()
        while not self._gathering.has_room(share):
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Waits until everything that was sent before has its outcome."""
        for placeholder in self._gathering.waiting():
            await _decided(placeholder)
        self._gathering.seal_all()
        self.work()
        for batch in self._unanswered():
            await _decided(batch)

    def failures(self) -> list[Outgoing]:
        """Batches that failed since this was asked the last time."""
        failed, self._failed = self._failed, []
        return failed

    async def close(self) -> None:
        """Ends the stream and the connection. What has no outcome then is given up, and whoever waits for room goes on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._refuse_all(errors.Unavailable("the producer was closed before it was sent; it is not stored."))
        self._tried.set()
        self._room.set()
        await self._connection.close()


async def _decided(batch: Outgoing) -> None:
    """Waits until the batch has an outcome, or its rows were moved to others."""
    if batch.outcome is None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch.when_done(lambda: None if future.done() else future.set_result(None))
        await future


def _why(ends: Iterable[Any]) -> BaseException:
    """Why a stream ended, of the ends of its reader and its writer. Reading knows better than writing, and a bug comes first."""
    found = [end for end in ends if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError)]
    bugs = [end for end in found if not isinstance(end, errors.Error)]
    return (bugs or found or [errors.Unavailable("the stream has ended.")])[0]


def _remade(topic: str, before: int, now: int) -> errors.Conflict:
    return errors.Conflict(
        f"'{topic}' was deleted and made again with {now} instead of {before} partitions while this was under way.",
        hint="Look what is there, then send again.",
    )
