"""The state of a partition at rest: a head, and chunks of deletions, of rows kept below the floor, and of moved rows. Pages are in extents.

A capture is made at the boundary between two flushes, in a moment: copies of what has changed since
the last one. It is turned into bytes afterwards, part by part, while the partition goes on. Chunks
are written first and the head last. After a crash between them chunks are newer than the head: then
the journal still has all that the head does not know, and replaying it over them comes to the same
(`offset_set`).

The head is MessagePack with a version of its own; the catalog keeps a CRC-32C beside every part.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bowstring.core.addresses import Runs
from bowstring.core.deletions import Encode
from bowstring.core.machine import UnreadableState as UnreadableState
from bowstring.core.partition import Partition
from bowstring.core.producers import BatchesState

PARTITION, DELETIONS, KEPT, MOVED, LEDGER = "partition", "deletions", "kept", "moved", "ledger-"
"""The machines whose states are at rest. A partition has a head only, the next three have chunks only: chunk n is part n + 1. The ledger of
each subscription is a machine of its own, by its number, with a head and chunks.
"""

VERSION = 4
VERSIONS_READ = (1, 2, 3, 4)
"""The first had no positions; the second had the kept rows as runs, which the third has in chunks. The fourth names subscriptions."""


class StatePart(NamedTuple):
    """Part of a partition's state, as it was when it was captured."""

    machine: str
    number: int
    encode: Encode
    is_gone: bool = False
    """Whether it is removed, because its subscription is gone."""

    @property
    def turn(self) -> int:
        """In which order parts are written: chunks, heads of ledgers, the head that names those, and then what is gone."""
        return 3 if self.is_gone else 0 if self.number else 1 if self.machine != PARTITION else 2


class _State(msgspec.Struct, array_like=True, gc=False):
    version: int
    next_offset: int
    arrived: int
    blind_until: int
    sealed_end: int
    retained: tuple[int, Runs]
    producers: list[BatchesState]
    positions: list[tuple[str, int, int]] = []
    blind_end: int = 1
    next_subscription: int = 1
    subscriptions: tuple[int, ...] = ()
    """The numbers of those that there are. Each has a ledger at rest, as of the same flush or a later one."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)


def capture(partition: Partition) -> list[StatePart]:
    """The state as it is, uncommitted changes included, in the order in which it is to be written: chunks that have changed, the heads
    of ledgers that have, the head of the partition, and what is to be removed.
    """
    captured = (DELETIONS, partition.deletions.capture()), (KEPT, partition.retained.capture()), (MOVED, partition.moved_rows.capture())
    parts = [StatePart(machine, number + 1, encode) for machine, changed in captured for number, encode in changed.items()]
    parts += [StatePart(f"{LEDGER}{number}", part.number, part.encode) for number, part in partition.ledgers.capture()]
    parts.append(StatePart(PARTITION, 0, _head(partition)))
    parts += [StatePart(f"{LEDGER}{number}", part, bytes, is_gone=True) for number, part in partition.ledgers.capture_gone()]
    return sorted(parts, key=lambda part: part.turn)


def put_back(partition: Partition, parts: list[StatePart]) -> None:
    """These parts were captured and are not in the catalog: they come with the next capture."""
    partition.deletions.mark_changed(part.number - 1 for part in parts if part.machine == DELETIONS)
    partition.retained.mark_changed(part.number - 1 for part in parts if part.machine == KEPT)
    partition.moved_rows.mark_changed(part.number - 1 for part in parts if part.machine == MOVED)
    for part in parts:
        if (number := ledger_number(part.machine)) is not None:
            partition.ledgers.put_back(number, part.number, is_gone=part.is_gone)


def snapshot(partition: Partition) -> bytes:
    """The head as it is."""
    return _head(partition)()


def _head(partition: Partition) -> Encode:
    producers, positions = partition.producers.rest(), partition.positions.snapshot()
    numbers = partition.next_offset, partition.arrived, partition.unread.until, partition.sealed_end
    subscriptions = partition.ledgers.next_number, tuple(sorted(partition.ledgers.numbers()))
    state = _State(VERSION, *numbers, (partition.retained.floor, ()), producers, positions, partition.unread.end, *subscriptions)
    return lambda: _encoder.encode(state)


def restore(partition: Partition, data: bytes, sequence: int) -> None:
    """At load, before anything else: the head as of a flush. Raises Unreadable."""
    try:
        state = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise UnreadableState(f"a snapshot cannot be read: {error}") from error
    if state.version not in VERSIONS_READ:
        raise UnreadableState(f"a snapshot has version {state.version}, this release reads {VERSION} and before")
    partition.next_offset = partition.committed_offset = state.next_offset
    partition.arrived, partition.unread.until, partition.sealed_end = state.arrived, state.blind_until, state.sealed_end
    partition.unread.end = state.blind_end
    partition.retained.restore(state.retained)
    partition.producers.restore(state.producers)
    partition.positions.restore(state.positions)
    partition.ledgers.restore_named(state.subscriptions, state.next_subscription, sequence)
    partition.snapshot_sequence = partition.changed_sequence = sequence
    partition.snapshot_end = state.sealed_end


def ledger_number(machine: str) -> int | None:
    """The number of the subscription, if the machine is a ledger."""
    number = machine[len(LEDGER) :]
    return int(number) if machine.startswith(LEDGER) and number.isdecimal() else None


def restore_chunk(partition: Partition, machine: str, part: int, data: bytes, sequence: int = 0) -> None:
    """At load, after the head of the partition: a chunk, or the head of a ledger, as of a flush. Raises Unreadable."""
    try:
        if (number := ledger_number(machine)) is not None:
            partition.ledgers.restore_part(number, part, data, sequence)
        elif machine == DELETIONS:
            partition.deletions.load(part - 1, data)
        elif machine == KEPT:
            partition.retained.load(part - 1, data)
        elif machine == MOVED:
            partition.moved_rows.load(part - 1, data)
        else:
            raise UnreadableState(f"there is state of {machine!r}, which this release does not know")
    except (msgspec.DecodeError, ValueError) as error:
        raise UnreadableState(f"a chunk of {machine} cannot be read: {error}") from error
