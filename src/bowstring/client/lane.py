"""The order of a producer's batches in one partition, over resends and over brokers.

The broker takes a batch only right after the one that it names as the one before, so nothing is
ever stored out of order. Each batch names the last one before it that is not known to be refused.
The lane decides this at each write, because refusals change it.

When a batch in the middle of the pipeline is refused, those behind it name one that the broker
lacks. The broker answers each of them with the last number that it has, and the lane is rewound:
every unanswered batch is written again, in order. Answers to the writes before are still to come;
only the answer to the last write of a batch rewinds again (`SentBatch.writes`).

A lane stands above the streams: `stream` carries it now. When its partition moves to another
broker, the lane takes its unanswered batches from the one stream to the other, in order, under
their old numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.client.sent_batch import Progress, SentBatch

if TYPE_CHECKING:
    from bowstring.client.publish_stream import PublishStream


class Lane:
    """The unanswered batches of one producer to one partition."""

    __slots__ = ("_newest", "last", "moves", "partition", "stream", "unanswered")

    def __init__(self, partition: int, stream: PublishStream) -> None:
        self.partition = partition
        self.stream: PublishStream | None = stream
        """What carries its batches; None during the pause after a broker has sent it elsewhere."""
        self.moves = 0
        """How often it was sent elsewhere since a batch was stored last."""
        self.last = 0
        """The last number that the broker is known to have."""
        self._newest = 0
        """The number of the batch that was added last."""
        self.unanswered: dict[int, SentBatch] = {}
        """By number, in the order in which they have to be stored."""

    def add(self, batch: SentBatch) -> None:
        """Takes a batch behind all others: numbers rise."""
        batch.before, self._newest = self._newest, batch.number
        self.unanswered[batch.number] = batch
        if self.stream is not None:
            self.stream.window.add(batch)

    def previous(self, batch: SentBatch) -> int:
        """The number that the batch names now."""
        before = batch.before
        if before not in self.unanswered:
            before = 0
            for number in self.unanswered:
                if number >= batch.number:
                    break
                before = number
        return max(before, self.last if self.last < batch.number else 0)

    def stored(self, batch: SentBatch) -> None:
        """The broker has the batch. Answers may come in any order."""
        if batch.number > self.last:
            self.last = batch.number
        self.moves = 0
        self.dropped(batch)

    def dropped(self, batch: SentBatch) -> None:
        """The batch is decided; if it is refused or given up, those behind it name another one."""
        self.unanswered.pop(batch.number, None)
        if self.stream is not None:
            self.stream.window.answered(batch)

    def rewind(self, last: int) -> list[SentBatch]:
        """The broker's last batch is this one: returns what has to be written again, in order."""
        self.last = last
        return [batch for batch in self.unanswered.values() if batch.progress is Progress.WRITTEN]

    def leave(self) -> None:
        """Takes all its batches from its stream."""
        if self.stream is not None:
            self.stream.window.withdraw(self.unanswered)
            self.stream = None
        for batch in self.unanswered.values():
            batch.withdraw()

    def enter(self, stream: PublishStream) -> None:
        """Gives all its batches to a stream, in order."""
        self.stream = stream
        for batch in self.unanswered.values():
            stream.window.add(batch)
