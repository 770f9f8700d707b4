"""A reader's named position moves: `move` decides about it, for one partition. Nothing changes here.

A commit goes only forward; setting a position is for people, and goes anywhere. Where it is already
there is nothing to write.
"""

from __future__ import annotations

from bowstring.core.decisions import Decided, Decision, Refused
from bowstring.core.partition import Partition


def move(partition: Partition, name: str, offset: int, now: int, *, forward: bool) -> Decision[None]:
    """Moves it to the offset; at 0 it is deleted."""
    held = partition.positions.get(name)
    if offset:
        refusal = partition.positions.refusal(name, offset, partition.committed_offset, forward=forward)
        if refusal is not None:
            return Refused(refusal)
    if (held.offset if held is not None else 0) == offset:
        return Decided((), None)
    return Decided((partition.move(name, offset, now),), None)
