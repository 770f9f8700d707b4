"""The requests to a partition: each says how it is decided, and the actor does the rest.

`decide` has no await and changes nothing. Whatever has to be read first comes as `Found`: the
request says with a `Lookup` what that is. A request that is to be decided in the order in which it
came is `in_order`, and then those behind it wait for it. A `Question` has a future for its answer.
The one that brings messages is in `publish_request`: it calls back, because a future costs as much
as deciding.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from bowstring import errors
from bowstring.core import deleting, known_messages, moving, rescheduling
from bowstring.core.changes import Change
from bowstring.core.decisions import BatchName, Decided, Decision, Deleted, Found, GivenBack, Ids, Lookup, Refused, Rescheduled, Rows, Wait
from bowstring.core.machine import NEVER
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page

Told = TypeVar("Told")
"""The answer to the caller."""


class Request(ABC, Generic[Told]):
    """Something that is asked of one partition."""

    __slots__ = ()

    in_order = False
    """Whether others of the same kind wait while this one does."""
    ids: Ids | None = None
    """The ids that a `Lookup` of it is about."""
    deadline: int = NEVER
    """When it is too late to decide it otherwise than with a no."""
    name: BatchName | None = None
    """The batch, if it is one: by this it is recognised when it comes again."""

    @abstractmethod
    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Told]:
        """Decides. Changes nothing, and may be called again: after a `Wait`, or with the result of
        a `Lookup`.
        """

    def texts(self, rows: Rows) -> pa.Array:
        """The ids of some rows."""
        raise NotImplementedError

    def page(self, change: Change, decided: Decided[Told]) -> Page | None:
        """The page of the change."""
        del change, decided
        return None

    def not_compared(self, partition: Partition, lookup: Lookup, error: Damaged) -> errors.Error:
        """The refusal if stored messages cannot be read."""
        del lookup
        return errors.Corrupt(f"topic {partition.topic}, partition {partition.number}: {error}")

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """Whether there was a last word."""

    @abstractmethod
    def settle(self, outcome: Told | Exception) -> None:
        """The last word, unless there was one. Called when everything that it rests on is
        committed.
        """


class Question(Request[Told]):
    """A request whose caller awaits the answer."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    @property
    def is_settled(self) -> bool:
        return self.answer.done()

    def settle(self, outcome: Told | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class DeleteMessages(Question[Deleted]):
    """Deletes what of these ids belongs to the group; with `old` also what the deduplication window
    has passed.
    """

    def __init__(self, wanted: Ids, group: str, column: pa.Array, *, old: bool, scheduled: Mapping[int, int] | None = None) -> None:
        """With `scheduled`, due times by offset, only what is due later."""
        super().__init__()
        self.ids = wanted
        self._wanted = wanted
        self._group = group
        self._scheduled = scheduled
        self._column = column
        self._old = old

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Deleted]:
        return deleting.delete(partition, self._wanted, self._group, now, found, old=self._old, scheduled=self._scheduled)

    def texts(self, rows: Rows) -> pa.Array:
        return self._column.take(pa.array(rows))


class MoveMessages(Question[Rescheduled]):
    """Gives what of these ids belongs to the group and is not due another due time."""

    def __init__(
        self, wanted: Ids, group: str, column: pa.Array, due: int, *, old: bool, stored: rescheduling.Stored | None = None
    ) -> None:
        super().__init__()
        self.ids = wanted
        self._wanted = wanted
        self._group = group
        self._due = due
        self._stored = stored
        self._column = column
        self._old = old

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Rescheduled]:
        return rescheduling.move(partition, self._wanted, self._group, self._due, now, found, old=self._old, stored=self._stored)

    def texts(self, rows: Rows) -> pa.Array:
        return self._column.take(pa.array(rows))


class FindGenerated(Question[int]):
    """The offset of the message that has an id that its kit generated; 0 if there is none."""

    def __init__(self, given: GivenBack, *, old: bool) -> None:
        super().__init__()
        self._given = given
        self._old = old

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[int]:
        offset = known_messages.find_generated(partition, self._given, found, old=self._old)
        if offset is None:
            return Wait()
        return offset if isinstance(offset, Lookup) else Decided((), offset)


class LiveMessage(NamedTuple):
    """A message that can be read: when it arrived, and where."""

    arrived: int
    offset: int


class FindNatural(Question[LiveMessage | None]):
    """The newest message that has an id that its producer gave."""

    def __init__(self, wanted: Ids, column: pa.Array, *, old: bool) -> None:
        super().__init__()
        self.ids = wanted
        self._wanted = wanted
        self._column = column
        self._old = old

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[LiveMessage | None]:
        if found is None or found.moves != partition.moves:
            return known_messages.look_for(partition, self._wanted, old=self._old) or Wait()
        offsets = known_messages.recognised(partition, found, now, old=self._old).offsets.tolist()
        offset = known_messages.newest(partition, offsets)
        if not offset or partition.is_gone(offset):
            return Decided((), None)
        return Decided((), LiveMessage(int(found.arrived[found.ids.offsets == offset][0]), offset))

    def texts(self, rows: Rows) -> pa.Array:
        return self._column.take(pa.array(rows))


class AwaitCommit(Question[None]):
    """Changes nothing, and is answered when everything that was decided before is committed."""

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        del partition, now, found
        return Decided((), None)


class MovePosition(Question[None]):
    """Moves a reader's named position; to 0 deletes it."""

    def __init__(self, topic: str, name: str, offset: int, *, forward: bool) -> None:
        super().__init__()
        self._topic = topic
        self._name = name
        self._offset = offset
        self._forward = forward

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        del found
        decision = moving.move(partition, self._name, self._offset, now, forward=self._forward)
        if not isinstance(decision, Refused):
            return decision
        error = decision.error
        named = f"{self._topic}/{partition.number}: {error.message}"
        return Refused(type(error)(named, hint=error.hint, details=error.details))


class RaiseFloor(Question[None]):
    """Retention has come further. What it has come to is decided by a function of `core`, after
    everything was read for it.
    """

    def __init__(self, changes: Callable[[Partition, int], tuple[Change, ...]]) -> None:
        super().__init__()
        self._changes = changes

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        del found
        return Decided(self._changes(partition, now), None)
