"""A producer's stream to one broker, and the streams that replace it.

**When is a batch written?** A full one as soon as the window has room. An open one when everything
is answered that was under way at its first row: so an idle producer sends at once, a busy one
gathers while the batch before is on its way, and a busy partition does not starve a quiet one.
Several full batches are under way at a time, so that the broker can commit them together.

**Who writes it?** On the usual way no task does. `pump` encodes a batch and gives it to the transport
in the step in which it crosses to the loop, and an answer settles its receipts in the step in which
it arrives. Waking a task for each costs more than all the rest of a small message. Where the
transport would have to wait, `pump` leaves the message to the writing task, which waits.

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
from typing import TYPE_CHECKING, Final

from bowstring import errors
from bowstring.client import publish_request, window
from bowstring.client.connection import PAUSE_MAX, Connection, Pauses
from bowstring.client.sent_batch import SentBatch
from bowstring.client.stream_ends import why
from bowstring.client.window import Window
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Pieces, Stream
from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.outbox import Outbox

FULL_SECONDS: Final = 0.5
"""How often a broker whose disk is full is asked again: it does answer, and what is too late by
then has to hear so within its grace."""
DESCRIBE_SECONDS: Final = 5.0
PIECES_BYTES_MIN: Final = 64 * 1024
"""From this size on a batch goes to the transport in its pieces: a copy costs more than they do."""
PIECES_MAX: Final = 16
"""A batch of more pieces is joined: a system call takes only so many."""


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
        self._outbox = outbox
        self._connection = connection
        self._clock = connection.world.clock
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._writable: Stream | None = None
        """The present stream while `pump` may write to it: it is open, and the writing task does
        not wait for it."""
        self._left: Buffer | Pieces | None = None
        """The message that `pump` has left to the writing task."""
        self._bug: Exception | None = None
        """What `pump` has raised, for the writing task."""
        self._pumping = False
        self._changed = asyncio.Event()
        """There is something for the stream's task."""
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
        self._changed.clear()
        self._outbox.attempted()
        await self._changed.wait()

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
            self._stream = self._writable = self._left = None
            stream.cancel()
            reading.cancel()
            writing.cancel()
            ends = await asyncio.gather(reading, writing, return_exceptions=True)
        raise why(ends)

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

    def pump(self) -> None:
        """Writes what can be written now, as far as that needs no waiting. Called whenever there may
        be something to write."""
        stream = self._writable
        if stream is None:
            self._changed.set()
        if stream is None or self._pumping:
            return
        self._pumping = True
        try:
            while (batch := self._next()) is not None:
                message = self._message(batch)
                if message is not None and not stream.try_write(message):
                    self._left = message
                    break
        except Exception as error:
            self._bug = error
        finally:
            self._pumping = False
        if self._left is not None or self._bug is not None:
            self._writable = None
            self._changed.set()

    async def _write(self, stream: Stream, opening: bytes) -> None:
        """Writes what `pump` has left."""
        await stream.write(opening)
        while True:
            self._writable = stream
            self.pump()
            while self._left is self._bug is None:
                self._changed.clear()
                await self._changed.wait()
            if self._bug is not None:
                raise self._bug
            message, self._left = self._left, None
            assert message is not None
            await stream.write(message)

    def _next(self) -> SentBatch | None:
        """The batch to write now; None if there is none, or no room for it."""
        batch = self.window.next()
        if batch is None and not self.window.queue and self._outbox.seal_due(self):
            batch = self.window.next()
        return batch

    def _message(self, batch: SentBatch) -> Buffer | Pieces | None:
        """The request that publishes a batch; None if it cannot be encoded, which is then its
        outcome."""
        try:
            encoded = self._outbox.begin_write(batch)
        except errors.Error as error:
            self._outbox.give_up(batch, error)
            return None
        batch.wrote(self.number, self._clock.monotonic())
        self.window.wrote(batch, encoded.size)
        start = publish_request.head(
            batch.partition,
            batch.number,
            self._outbox.lane(batch.partition).previous(batch),
            batch.term.sent,
            int(batch.term.seconds * 1e6),
            encoded.mask,
            encoded.rows,
            encoded.size,
        )
        if len(encoded.pieces) <= PIECES_MAX:
            return (start, *encoded.pieces) if encoded.size >= PIECES_BYTES_MIN else b"".join((start, *encoded.pieces))
        message = b"".join((start, *encoded.pieces))
        # For a resend the batch in this message is as good, and the pieces that it was made of are
        # freed.
        batch.content = encoded._replace(pieces=(memoryview(message)[-encoded.size :],))
        return message

    async def _read(self, stream: Stream) -> None:
        await stream.each(self._take)
        raise errors.Unavailable("the broker has ended the stream.", hint="Wait and repeat.")

    def _take(self, message: Buffer) -> None:
        """An answer has arrived."""
        self._answers += 1
        self._outbox.answered(self, pb.PublishAnswer.FromString(bytes(message)))
        self.pump()
