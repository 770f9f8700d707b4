"""All durable state is made of changes. A journal row holds the changes of one flush, in the order
in which they were decided.

Live, a machine decides, and the change is applied at once; at load the same `apply` runs over the
journal. So live state is what loading gives (invariant 6), and replay asks no clock: every moment
that matters is written in the change.

The vocabulary is closed. `Change` names every kind, each has an `address` and belongs to the
machine there, and code that takes changes apart uses `match` and `assert_never`, so that the type
checker shows where a new kind is missing. A kind that has bytes of its own in the store inherits
from `Paged`.

`journal` puts changes on disk and reads them back. The changes of subscriptions are in
`ledger_changes`; tags are unique over both.
"""

from __future__ import annotations

import enum

import msgspec

from bowstring.core.addresses import Address, PartitionAddress, Runs
from bowstring.core.answers import Repeat
from bowstring.core.ledger_changes import LedgerChange


class Reason(enum.IntEnum):
    """Why rows are deleted."""

    DEADLINE = 1
    """The publish was committed after its deadline, so it must count as never made."""
    OWNER = 2
    """The owner deleted it. The id stays taken, so that a late resend does not bring the message
    back.
    """

    @property
    def frees_ids(self) -> bool:
        """Whether the ids may be used again, as if the rows had never been published."""
        return self is not Reason.OWNER


class Paged(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """A change with a page in the store, if `length` is not 0. The flush that writes the page fills
    these in.
    """

    segment: int = 0
    position: int = 0
    length: int = 0


class Append(Paged, tag=1, array_like=True, gc=False):
    """A batch was accepted: its rows, if any are new, are a page; rows that were there already are
    repeats.

    `first_offset` is 0 and there is no page when every row was a repeat. Such a batch is written
    down all the same: its number is what the producer's next batch follows on.
    """

    topic: int
    partition: int
    first_offset: int
    rows: int
    arrived: int
    columns: int
    producer: bytes
    number: int
    repeats: tuple[Repeat, ...] = ()
    expires: int = 0
    """When the last of the rows expires; 0 if one of them does not."""
    due: int = 0
    """The latest due time among the rows; 0 if none has one."""

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


class Delete(msgspec.Struct, array_like=True, tag=2, gc=False):
    """Rows are not delivered any more. Their offsets stay as holes."""

    topic: int
    partition: int
    runs: Runs
    reason: Reason

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


class Floor(msgspec.Struct, array_like=True, tag=5, gc=False):
    """Retention has come to `offset`: rows below it are gone, but for those that are kept because
    their due time is still to come, or because a consumer holds them.

    The change carries differences; `released` counts before `kept`.
    """

    topic: int
    partition: int
    offset: int
    kept: Runs = ()
    """Rows that are kept below the floor from here on."""
    released: Runs = ()
    """Rows that are kept no longer."""

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


class Position(msgspec.Struct, array_like=True, tag=4, gc=False):
    """A reader's named position in the partition was committed or set: `offset` is the next one to
    read, 0 if it was deleted.
    """

    topic: int
    partition: int
    name: str
    offset: int
    moved: int
    """When."""

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


class Reschedule(msgspec.Struct, array_like=True, tag=27, gc=False):
    """The owner of rows that were not due has given them another due time."""

    topic: int
    partition: int
    runs: Runs
    due: int

    @property
    def address(self) -> Address:
        return PartitionAddress(self.topic, self.partition)


Change = Append | Delete | Floor | Position | Reschedule | LedgerChange
