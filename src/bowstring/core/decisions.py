"""The questions to a partition and its decisions, as values. `publishing` and `deleting` make the
decisions.

Time. `now` is the broker's clock. It may jump ahead, but within an incarnation it never falls
(`broker.steady_clock`), so what came too late once is too late for ever. Arrival never falls: it is
`now` or the last arrival, whichever is later. What is remembered for deduplication is what arrived
within the window before the *last arrival*, so that replay forgets just what was forgotten; a
question also looks at `now`. A batch first sent before what is remembered could have been stored
and forgotten: its outcome is unknown, and it is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bowstring import errors
from bowstring.core.changes import Change
from bowstring.core.ledgers import SubscriptionLease
from bowstring.core.natural_ids import Hits
from bowstring.core.sieve import Hashes

Rows = NDArray[np.int64]
Answer = TypeVar("Answer")


class BatchName(NamedTuple):
    """A batch, by its producer and number."""

    producer: bytes
    number: int


class GivenBack(NamedTuple):
    """A row whose id is one that a kit generated: the caller gives it back to repeat a publish."""

    row: int
    producer: bytes
    number: int
    batch_row: int


class Ids(NamedTuple):
    """The ids of a batch, as far as the machine sees them."""

    hashes: Hashes
    firsts: Rows | None
    """For each row the first row with the very same id, or None if all differ."""
    given_back: tuple[GivenBack, ...] = ()
    order: Rows | None = None
    """The rows sorted by their hashes, if the caller has sorted them already."""


class Publish(NamedTuple):
    """A batch that wants to be stored. Moments are microseconds."""

    producer: bytes
    number: int
    previous: int
    sent: int
    timeout: int
    rows: int
    columns: int
    ids: Ids | None
    expires: int = 0
    """When the last row expires; 0 if one of them does not."""
    due: int = 0
    """The latest due time; 0 if no row has one."""


class SealedBatch(NamedTuple):
    """A batch that was found in a section and compared with its page."""

    first_offset: int
    rows: int
    group: str = ""
    """Its owner."""


class Found(NamedTuple):
    """The result of a `Lookup`."""

    moves: int
    """The partition's `moves` when the looking began: if they have gone on since, something may
    have been missed.
    """
    ids: Hits
    """Rows of the batch and the offsets of messages that have the very same id."""
    arrived: Rows
    """When those messages arrived."""
    batches: Mapping[BatchName, SealedBatch]
    complete: bool = True
    """Whether everything that was ever sealed is still there: then a batch that was not found never
    was.
    """
    groups: Mapping[int, str] = MappingProxyType({})
    """The owners of messages by their offsets, where the lookup asked for them."""


class NewIds(NamedTuple):
    """Ids that are known from here on."""

    hashes: Hashes
    offsets: Rows
    order: Rows | None = None
    """The rows sorted by their hashes, if the caller has sorted them already."""


class Decided(NamedTuple, Generic[Answer]):
    """What a request comes to. The changes are applied and written as one; the answer goes out when
    everything that was decided up to here is committed.
    """

    changes: tuple[Change, ...]
    answer: Answer
    kept: Rows | None = None
    """Of a batch: the rows that are new, or None for all of them."""
    ids: NewIds | None = None
    """Of a batch: the ids of its rows, if it has any."""


class Refused(NamedTuple):
    """Nothing changes. A refusal rests on earlier decisions, and waits for their commit as an
    answer does.
    """

    error: errors.Error


class Lookup(NamedTuple):
    """Compare the ids at these offsets with those of the request; with `sealed`, look for its ids
    in the sections too; and for batches. Then decide again, with what was `Found`.
    """

    hits: Hits
    sealed: bool
    batches: tuple[BatchName, ...] = ()
    owned: Rows | None = None
    """Not None if it matters whose messages these are: those that are found, and beside them those
    at these offsets.
    """
    old: bool = False
    """Whether messages count that the window has passed. The sections are searched newest first,
    for each id until a message of it is found that is not deleted.
    """


class Wait(NamedTuple):
    """It depends on something that is not committed yet. Decide again after the next commit."""


Decision = Decided[Answer] | Refused | Lookup | Wait
"""The decision of a machine about a request. Deciding changes nothing: the actor applies the
decision.
"""


class Rescheduled(NamedTuple):
    """What became of the ids of a move in one partition."""

    offsets: Rows
    """For each id the offset of its message, which has the new due time now; 0 if there is none that
    may be moved.
    """
    others: Mapping[int, str]
    """Rows of the request whose messages belong to another group, and to which."""
    due: dict[int, int]
    """Rows whose messages are due, or not known to be scheduled, and their offsets."""
    expired: dict[int, int]
    """Rows whose messages expire before they would be due, and when."""
    full: set[int]
    """Rows for which there is no room: too many messages of the partition are moved."""


class Deleted(NamedTuple):
    """What became of the ids of a delete in one partition."""

    offsets: Rows
    """For each id the offset of its message, deleted now or before; 0 if there is none that may be
    deleted.
    """
    others: Mapping[int, str]
    """Rows of the request whose messages belong to another group, and to which."""
    leased: Mapping[int, SubscriptionLease] = MappingProxyType({})
    """Rows of the request whose messages a consumer holds: they are not deleted. Of several leases
    the one that ends last.
    """
    due: Mapping[int, int] = MappingProxyType({})
    """Rows of a cancellation whose messages are due, or not known to be scheduled, and their offsets:
    they are not deleted.
    """
