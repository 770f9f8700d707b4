"""The state of a partition at rest: a head, chunks of deletions, and chunks of rows kept below the floor. Pages are in extents.

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

from bowstring.core.changes import Runs
from bowstring.core.deletions import Encode
from bowstring.core.partition import Partition
from bowstring.core.producers import BatchesState

PARTITION, DELETIONS, KEPT = "partition", "deletions", "kept"
"""The machines whose states are at rest. A partition has a head only, the others have chunks only: chunk n is part n + 1."""

VERSION = 3
VERSIONS_READ = (1, 2, 3)
"""The first had no positions; the second had the kept rows as runs, which the third has in chunks."""


class Unreadable(Exception):
    """A snapshot that this version does not understand."""


class Part(NamedTuple):
    """Part of a partition's state, as it was when it was captured."""

    machine: str
    number: int
    encode: Encode


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)


def capture(partition: Partition) -> list[Part]:
    """The state as it is, uncommitted changes included: chunks that have changed, and at last the head."""
    captured = (DELETIONS, partition.deletions.capture()), (KEPT, partition.retained.capture())
    chunks = [Part(machine, number + 1, encode) for machine, changed in captured for number, encode in changed.items()]
    return [*chunks, Part(PARTITION, 0, _head(partition))]


def put_back(partition: Partition, parts: list[Part]) -> None:
    """These parts were captured and are not in the catalog: they come with the next capture."""
    partition.deletions.mark_changed(part.number - 1 for part in parts if part.machine == DELETIONS)
    partition.retained.mark_changed(part.number - 1 for part in parts if part.machine == KEPT)


def snapshot(partition: Partition) -> bytes:
    """The head as it is."""
    return _head(partition)()


def _head(partition: Partition) -> Encode:
    producers, positions = partition.producers.rest(), partition.positions.snapshot()
    numbers = partition.next_offset, partition.arrived, partition.unread.until, partition.sealed_end
    state = _State(VERSION, *numbers, (partition.retained.floor, ()), producers, positions, partition.unread.end)
    return lambda: _encoder.encode(state)


def restore(partition: Partition, data: bytes, sequence: int) -> None:
    """At load, before anything else: the head as of a flush. Raises Unreadable."""
    try:
        state = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Unreadable(f"a snapshot cannot be read: {error}") from error
    if state.version not in VERSIONS_READ:
        raise Unreadable(f"a snapshot has version {state.version}, this release reads {VERSION} and before")
    partition.next_offset = partition.committed_offset = state.next_offset
    partition.arrived, partition.unread.until, partition.sealed_end = state.arrived, state.blind_until, state.sealed_end
    partition.unread.end = state.blind_end
    partition.retained.restore(state.retained)
    partition.producers.restore(state.producers)
    partition.positions.restore(state.positions)
    partition.snapshot_sequence = partition.changed_sequence = sequence
    partition.snapshot_end = state.sealed_end


def restore_chunk(partition: Partition, machine: str, part: int, data: bytes) -> None:
    """At load, after the head: a chunk. Raises Unreadable."""
    try:
        if machine == DELETIONS:
            partition.deletions.load(part - 1, data)
        elif machine == KEPT:
            partition.retained.load(part - 1, data)
        else:
            raise Unreadable(f"there is state of {machine!r}, which this release does not know")
    except (msgspec.DecodeError, ValueError) as error:
        raise Unreadable(f"a chunk of {machine} cannot be read: {error}") from error
