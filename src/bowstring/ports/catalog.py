"""The catalog: the durable truth, and who may change it. This port has what brokers share;
`ports.journal` has what belongs to one.

A broker has a number. At its start it registers under its number and gets an epoch, from one
counter for all brokers, so no two incarnations of any broker ever have the same epoch. A fence is a
number with its epoch. Each call that changes something takes one, and changes nothing once the
number has a later epoch.

Topics and their partitions are common. Each partition has an owner, the broker in whose journal its
changes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bowstring.ports.journal import Fence as Fence
from bowstring.ports.journal import Journal


class Registered(NamedTuple):
    """What a new incarnation starts from: its fence, and the sequence of its journal's last row (0
    if there is none). Rows up to `trimmed` are gone: extents and states hold their contents.
    """

    fence: Fence
    sequence: int
    trimmed: int = 0


class TopicRow(NamedTuple):
    """A topic at rest. A deleted one stays as a tombstone (`deleted` is the moment), so that its
    changes are skipped at load.
    """

    id: int
    name: str
    partitions: int
    created: int
    settings: bytes
    deleted: int | None


class PartitionRow(NamedTuple):
    """A partition, and the broker that owns it. Those of a deleted topic stay as long as its
    tombstone.
    """

    topic: int
    number: int
    broker: int


class Catalog(Protocol):
    """Agreement, fencing and topics. All calls raise DiskFull, Fenced or StorageFailed; reads of
    bad rows raise Damaged.
    """

    async def open(self) -> None:
        """Opens or makes the catalog, brings an older format up to this one, and refuses a newer
        one with NotSupported.
        """
        ...

    async def cluster(self) -> bytes:
        """16 bytes that name the data, the same for as long as it lives."""
        ...

    async def register(self, broker: int) -> Registered:
        """Gives the broker a new epoch: commits of an earlier incarnation of this number that are
        still under way can no longer land.
        """
        ...

    def journal(self, fence: Fence) -> Journal:
        """The journal of one broker, as its incarnation with this fence reads and writes it."""
        ...

    async def topics(self) -> list[TopicRow]:
        """All topics, tombstones too, by id."""
        ...

    async def partitions(self, broker: int | None = None) -> list[PartitionRow]:
        """The partitions that the broker owns, or all, by topic and number."""
        ...

    async def create_topic(self, fence: Fence, topic: TopicRow, owners: Sequence[int] = (), *, dormant: bool = False) -> TopicRow:
        """Makes it under a fresh id (the row's own id is ignored). Raises errors.TopicExists if a
        live one has the name. `owners` are the brokers that own its partitions, in order; without
        them the one that makes it owns all. A dormant topic has no partitions until it is awoken.
        """
        ...

    async def awaken_topic(self, fence: Fence, topic_id: int) -> None:
        """A dormant topic has its partitions from here on; the one that wakes it owns them. Does
        nothing if it has them already. Raises errors.TopicNotFound.
        """
        ...

    async def delete_topic(self, fence: Fence, topic_id: int, deleted: int) -> None:
        """Turns it into a tombstone, which goes when no broker's journal has a row left that may
        speak of the topic, and no extent or state is left of it.
        """
        ...

    async def alter_topic(self, fence: Fence, topic_id: int, settings: bytes) -> None:
        """Replaces a live topic's settings. Raises errors.TopicNotFound."""
        ...

    async def back_up(self, path: str) -> None:
        """Writes a copy of everything to a new file, in steps that flushes do not wait for: as it
        is at one moment before this returns. Not synced. Raises DiskFull or StorageFailed where the
        copy is concerned: the catalog goes on.
        """
        ...

    async def close(self) -> None: ...
