"""Converts changes of formats 1 to 3 into today's.

The first format had no floors, and appends without `expires` and `due`; the second no positions.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from bowstring.core.addresses import Runs
from bowstring.core.answers import Repeat
from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason


class OldAppend(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Its page fields came before the fields that were added later."""

    topic: int
    partition: int
    first_offset: int
    rows: int
    arrived: int
    columns: int
    producer: bytes
    number: int
    repeats: tuple[Repeat, ...] = ()
    segment: int = 0
    position: int = 0
    length: int = 0
    expires: int = 0
    due: int = 0


class OldDelete(msgspec.Struct, array_like=True, tag=2, gc=False):
    """It said whether the ids are free again, which is true only after a missed deadline."""

    topic: int
    partition: int
    runs: Runs
    freed: bool


class OldFloor(msgspec.Struct, array_like=True, tag=3, gc=False):
    """It held all rows that are kept below the floor."""

    topic: int
    partition: int
    offset: int
    kept: Runs = ()


OldChange = OldAppend | OldDelete | OldFloor | Position

_decoder = msgspec.msgpack.Decoder(list[OldChange])


def decode(data: msgspec.Raw) -> list[Change]:
    """Raises msgspec.DecodeError."""
    return [_converted(change) for change in _decoder.decode(data)]


def _converted(change: OldChange) -> Change:
    match change:
        case OldAppend():
            return Append(**{name: getattr(change, name) for name in OldAppend.__struct_fields__})
        case OldDelete():
            return Delete(change.topic, change.partition, change.runs, Reason.DEADLINE if change.freed else Reason.OWNER)
        case OldFloor():
            everything = ((1, change.offset - 1),) if change.offset > 1 else ()
            return Floor(change.topic, change.partition, change.offset, change.kept, everything)
        case Position():
            return change
        case _:
            assert_never(change)
