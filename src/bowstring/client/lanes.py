"""The order of a producer's batches in one partition, over resends.

The broker takes a batch only right after the one that it names as the one before, so nothing is ever stored out of order. Each batch
names the last one before it that is not known to be refused. That is decided when it is written, never earlier, because refusals change it.

When a batch in the middle of the pipeline is refused, those behind it name one that is not there. The broker answers each of them with the
number of the last one that it has, and this lane is rewound: everything unanswered is written again, in order. The answers to the writes
before the rewind are still to come, one for each; `writes` counts them, and only the answer to the last write of a batch rewinds again.
"""

from __future__ import annotations

from bowstring.client.outgoing import Outgoing


class Lane:
    """What one producer has under way to one partition."""

    __slots__ = ("last", "unanswered")

    def __init__(self) -> None:
        self.last = 0
        """The last number that the broker is known to have."""
        self.unanswered: dict[int, Outgoing] = {}
        """By number, in the order in which they have to be stored."""

    def add(self, batch: Outgoing) -> None:
        """Numbers rise: this one comes behind all others."""
        self.unanswered[batch.number] = batch

    def previous(self, batch: Outgoing) -> int:
        """The number that the batch has to name now."""
        before = 0
        for number in self.unanswered:
            if number >= batch.number:
                break
            before = number
        return max(before, self.last if self.last < batch.number else 0)

    def stored(self, batch: Outgoing) -> None:
        """It is at the broker. Answers may come in any order."""
        self.last = max(self.last, batch.number)
        self.unanswered.pop(batch.number, None)

    def dropped(self, batch: Outgoing) -> None:
        """It is refused or given up: those behind it name another one."""
        self.unanswered.pop(batch.number, None)

    def rewind(self, last: int) -> list[Outgoing]:
        """The broker's last batch is this one: what has to be written again, in order."""
        self.last = last
        return [batch for batch in self.unanswered.values() if batch.first_stream and not batch.queued]
