"""A partition's state at rest: everything durable but deletions, which are kept in chunks, and pages, which are in extents.

MessagePack with a version of its own; the catalog keeps a CRC-32C beside it.
"""

from __future__ import annotations

import msgspec

from bowstring.core.changes import Runs
from bowstring.core.partition import Partition
from bowstring.core.producers import BatchesState

PARTITION, DELETIONS = "partition", "deletions"
"""The machines whose states are at rest. A partition has a head only, deletions have chunks only: chunk n is part n + 1."""

VERSION = 2
VERSIONS_READ = (1, 2)
"""The first had no positions."""


class Unreadable(Exception):
    """A snapshot that this version does not understand."""


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


def snapshot(partition: Partition) -> bytes:
    """The state as it is, uncommitted changes included."""
    retained, producers = partition.retained.snapshot(), partition.producers.rest()
    numbers = partition.next_offset, partition.arrived, partition.unread.until, partition.sealed_end
    positions, blind_end = partition.positions.snapshot(), partition.unread.end
    return _encoder.encode(_State(VERSION, *numbers, retained, producers, positions, blind_end))


def restore(partition: Partition, data: bytes, sequence: int) -> None:
    """At load, before anything else: the state as of a flush. Raises Unreadable."""
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
