"""A producer's stream to one broker, and the streams that replace it.

**When is a batch written?** A full one as soon as the window has room. An open one when everything
is answered that was under way at its first row: so an idle producer sends at once, a busy one
gathers while the batch before is on its way, and a busy partition does not starve a quiet one.
Several full batches are under way at a time, so that the broker can commit them together.

**What if the stream breaks?** It opens a new one (handshake, description of the topic, a higher
stream number, which fences the old one) and writes everything unanswered again, in order, with the
same numbers and the same `sent`. The broker answers what it already has as a duplicate. Lanes keep
the order.

**What if the broker's disk is full?** It may have room a moment later, so everything is tried again
until its time is over. What is certainly not stored then fails with `Full`, because that is what
the operator has to know.

**What if the broker has ended for good?** Everything is given up at once: a batch that was never
written is certainly not stored, and the outcome of the others is unknown.

**What if another broker was named, and does not answer?** The outbox forgets the route and asks a
seed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bowstring import errors
from bowstring.client import window
from bowstring.client.connection import PAUSE_MAX, Connection, Pauses
from bowstring.client.sent_batch import SentBatch
from bowstring.client.window import Window
from bowstring.messages import schema
from bowstring.ports.transport import Stream
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.outbox import Outbox

FULL_SECONDS: Final = 0.5
"""How often a broker whose disk is full is asked again: it does answer, and what is too late by
then has to hear so within its grace."""
DESCRIBE_SECONDS: Final = 5.0


class PublishStream:
    """One producer's way to one broker."""

    def __init__(self, outbox: Outbox, connection: Connection, address: str | None = None) -> None:
        self.address = address
        """The broker that an answer has named; None for whichever seed answers."""
        self.window = Window()
        self.number = 0
        """The number of the present stream. Numbers rise over all streams of the producer."""
        self.pauses = Pauses(connection.world)
        self.full: errors.Full | None = None
        """The broker's complaint that its disk is full; None once it has stored something."""
        self.changed = asyncio.Event()
        """There may be something to write."""
        self._outbox = outbox
        self._connection = connection
        self._clock = connection.world.clock
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._answers = 0
        """Answers on the present stream."""
        self._task = self._loop.create_task(self._run(), name=f"bowstring producer of {outbox.topic}")

    @property
    def broker(self) -> str:
        """The address of the broker at the other end."""
        return self.address or self._connection.address

    def ask_again(self, number: int) -> None:
        """Replaces a stream of this number that is silent."""
        if self._stream is not None and number == self.number:
            self._stream.cancel()

    async def close(self) -> None:
        """Ends the stream and its connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    # ---- one stream after the other

    async def _run(self) -> None:
        while True:
            try:
                await self._serve()
            except errors.Unavailable as error:
                self.full = error if isinstance(error, errors.Full) else self.full
                self._broken()
                if self.address is not None and not self._answers:
                    return await self._lose()
                if (ended := self._connection.given_up(error)) is not None:
                    self._outbox.refuse(ended, self)
                    await self._more()
            except errors.Error as error:
                self._broken()
                if not self._answers:
                    self._outbox.refuse(error, self, self.number)
                    await self._more()
            except Exception as error:
                self._outbox.fail(error)
                raise
            self._outbox.attempted()
            await self.pauses.wait(PAUSE_MAX if self.full is None else FULL_SECONDS)

    def _broken(self) -> None:
        """Everything unanswered is to be written again, in order."""
        self.window.restart(self._outbox.unanswered(self))

    async def _lose(self) -> None:
        """The broker that was named does not answer: its lanes go back to the seeds."""
        self._outbox.lost(self)
        await self._connection.close()

    async def _more(self) -> None:
        """Everything was refused: waits until there is more to send."""
        self.changed.clear()
        self._outbox.attempted()
        await self.changed.wait()

    async def _serve(self) -> None:
        """Opens a stream and uses it until it breaks."""
        self._answers = 0
        self.number = self._outbox.next_stream()
        greeting = await self._connection.hello()
        self.window.bytes_max = min(greeting.publish_window or window.BYTES_MAX, window.BYTES_MAX)
        self._outbox.met(self, greeting.batch_bytes_max)
        await self._describe()
        self._stream = stream = self._connection.channel.stream("Publish")
        reading = self._loop.create_task(self._read(stream))
        writing = self._loop.create_task(self._write(stream, self._outbox.opening(self.number)))
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
        """Asks how many partitions the topic has. One that does not exist may be made by publishing
        to it, with one partition."""
        request = pb.DescribeTopicRequest(name=self._outbox.topic).SerializeToString()
        try:
            topic = pb.Topic.FromString(await self._connection.channel.call("DescribeTopic", request, DESCRIBE_SECONDS))
        except errors.TopicNotFound:
            self._outbox.described(0, 0)
        else:
            self._outbox.described(topic.partitions, topic.id)

    # ---- writing and reading

    async def _write(self, stream: Stream, opening: bytes) -> None:
        await stream.write(opening)
        while True:
            batch = self._next()
            if batch is not None:
                message = self._message(batch)
                if message is not None:
                    await stream.write(message)
            else:
                self.changed.clear()
                await self.changed.wait()

    def _next(self) -> SentBatch | None:
        """The batch to write now; None if there is none, or no room for it."""
        batch = self.window.next()
        if batch is None and not self.window.queue:
            self._outbox.seal_due(self)
            batch = self.window.next()
        return batch

    def _message(self, batch: SentBatch) -> bytes | None:
        """The request that publishes a batch; None if it cannot be encoded, which is then its
        outcome."""
        try:
            encoded = self._outbox.begin_write(batch)
        except errors.Error as error:
            self._outbox.give_up(batch, error)
            return None
        batch.wrote(self.number, self._clock.monotonic())
        self.window.wrote(batch, encoded.size)
        header = pb.PublishRequest(
            partition=batch.partition,
            number=batch.number,
            previous=self._outbox.lane(batch.partition).previous(batch),
            sent=batch.term.sent,
            timeout=int(batch.term.seconds * 1e6),
            schema=schema.BYTES_SCHEMA,
            columns=encoded.mask,
            rows=encoded.rows,
        )
        message = codec.join_pieces(header.SerializeToString(), encoded.pieces, encoded.size)
        # For a resend the batch in this message is as good, and the pieces that it was made of are
        # freed.
        batch.content = encoded._replace(pieces=(memoryview(message)[-encoded.size :],))
        return message

    async def _read(self, stream: Stream) -> None:
        while (message := await stream.read()) is not None:
            self._answers += 1
            self._outbox.answered(self, pb.PublishAnswer.FromString(message))
        raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")


def _why(ends: Iterable[Any]) -> BaseException:
    """Why a stream ended, from the ends of its reader and its writer. Reading knows better than
    writing, and a bug comes first."""
    found = [end for end in ends if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError)]
    bugs = [end for end in found if not isinstance(end, errors.Error)]
    return (bugs or found or [errors.Unavailable("the stream has ended.")])[0]
