"""Where a reader is in one partition, and what it must not miss there."""

from __future__ import annotations

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.reading.visibility import Moments
from bowstring.core.partition import Partition


class Cursor:
    """Where a reader is in one partition."""

    def __init__(self, actor: PartitionActor, offset: int, end: int, until: int, moments: Moments) -> None:
        retained = actor.partition.retained
        self.actor = actor
        self.offset = max(offset, retained.first)
        self.end = end
        """The first offset that is not wanted any more; 0 to follow for ever."""
        self.until = until
        """The reader does not want messages that arrive at this moment or later; 0 once that is an
        `end`, or if there is none.
        """
        self.upto = 0
        """What could be delivered when pages were looked for: none that came since may go out with
        them.
        """
        self.has_delivered = offset != 0
        """From then on nothing may be missing; a reader from the beginning begins with what is
        there.
        """
        self.floor = 0 if self.has_delivered else retained.floor
        self.horizon = 0 if self.has_delivered else moments.horizon
        """What retention had taken when it began it does not miss: what was below the floor and not kept there,
        and what had arrived before the horizon.
        """
        self._kept_since = max(self.horizon, retained.releases.latest + 1)
        """Rows that are due then or later were kept below the floor."""
        self._shed_to = retained.releases.shed_to
        """So far kept rows had gone that were too many bytes."""

    @property
    def done(self) -> bool:
        return self.end != 0 and self.offset >= self.end

    @property
    def limit(self) -> int:
        """The first offset that cannot be delivered, now or ever."""
        readable = self.actor.partition.readable_upto(self.offset)
        return min(readable, self.end or readable)

    def check_overtaken(self, topic: str) -> None:
        """Raises OutOfRange when retention has overtaken a reader, instead of skipping messages. A
        reader that begins starts where it can.
        """
        retained = self.actor.partition.retained
        if retained.lacks(max(self.offset, self.floor)) or self._lacks_kept():
            if self.has_delivered:
                raise out_of_range(topic, self.actor.partition, self.offset)
            self.floor = retained.floor
            self._kept_since = max(self._kept_since, retained.releases.latest + 1)
            self._shed_to = retained.releases.shed_to
        self.offset = max(self.offset, retained.first)

    def _lacks_kept(self) -> bool:
        """Whether a row is gone that was kept below the floor when the reader began."""
        releases = self.actor.partition.retained.releases
        return releases.any(self._kept_since, self.offset) or releases.shed_to > max(self._shed_to, self.offset)


def cursor_at(topic: str, actor: PartitionActor, offset: int, end: int, until: int, moments: Moments) -> Cursor:
    """A reader that begins there. An offset of 0 means the beginning, wherever that is by now. Raises OutOfRange."""
    partition = actor.partition
    if offset not in (0, end) and not partition.retained.first <= offset <= partition.committed_offset:
        raise out_of_range(topic, partition, offset)
    return Cursor(actor, offset, end, until, moments)


def out_of_range(topic: str, partition: Partition, offset: int, argument: str = "start") -> errors.OutOfRange:
    """The error for an offset that is not there any more, or not yet."""
    first, last = partition.retained.first, partition.committed_offset - 1
    held = f"holds offsets {first}..{last}" if last >= first else "is empty"
    return errors.OutOfRange(
        f"{topic}/{partition.number} {held}, {offset} was asked for.",
        hint=f"Use {argument}='beginning', or an offset in {first}..{partition.committed_offset}.",
        details={"partition": str(partition.number), "first": str(first), "next": str(partition.committed_offset)},
    )
