"""Everything durable is a change. A journal row is the changes of one flush, in the order in which they were decided.

Live, a machine decides, makes the change and applies it at once; at load the same `apply` runs over the journal. So live state is
what loading gives (invariant 6), and replay asks no clock: every moment that matters is written in the change.

On disk a row is MessagePack: a format version and a list of tagged arrays. An unknown version or tag refuses to load, because a
change that is skipped is a message that is lost. The catalog keeps a CRC-32C beside the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bowstring.core.answers import Repeat

FORMAT = 4
FORMATS_READ = (1, 2, 3, 4)
"""The third had floors with all that is kept."""


class Unreadable(Exception):
    """A journal row that this version does not understand."""


class Append(msgspec.Struct, array_like=True, tag=1, gc=False):
    """A batch was accepted: its rows, if any are new, are a page; rows that were there already are repeats.

    `first_offset` is 0 and there is no page when every row was a repeat. Such a batch is written down all the same: its number is
    what the producer's next batch follows on. `segment` and `position` are filled in by the flush that writes the page.
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
    segment: int = 0
    position: int = 0
    length: int = 0
    expires: int = 0
    """When the last of the rows expires; 0 if one of them does not."""
    due: int = 0
    """The latest due time among the rows; 0 if none has one."""


class Delete(msgspec.Struct, array_like=True, tag=2, gc=False):
    """Rows are delivered to nobody any more. Their offsets stay as holes.

    `freed` says that their ids may be used again: the publish was rolled back, or was committed after its deadline and so must count
    as never made. An owner's delete leaves the ids taken, so that a late resend does not bring the message back.
    """

    topic: int
    partition: int
    runs: tuple[tuple[int, int], ...]
    freed: bool


class Floor(msgspec.Struct, array_like=True, tag=5, gc=False):
    """Retention has come to `offset`: rows below it are gone, but for those that are kept because their due time is still to come.

    What is kept is told by its differences, and `released` counts before `kept`.
    """

    topic: int
    partition: int
    offset: int
    kept: tuple[tuple[int, int], ...] = ()
    """Rows that are kept below the floor from here on."""
    released: tuple[tuple[int, int], ...] = ()
    """Rows that are kept no longer."""


class OldFloor(msgspec.Struct, array_like=True, tag=3, gc=False):
    """It had all that is kept below the floor."""

    topic: int
    partition: int
    offset: int
    kept: tuple[tuple[int, int], ...] = ()


class Position(msgspec.Struct, array_like=True, tag=4, gc=False):
    """A reader's named position in the partition was committed or set: `offset` is the next one to read, 0 if it was deleted."""

    topic: int
    partition: int
    name: str
    offset: int
    moved: int
    """When."""


Change = Append | Delete | Floor | Position


class _Row(msgspec.Struct, array_like=True, gc=False):
    format: int
    changes: list[Change | OldFloor]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Row)


def encode(changes: Sequence[Change]) -> bytes:
    """The bytes of one journal row."""
    return _encoder.encode((FORMAT, changes))


def decode(data: bytes) -> list[Change]:
    """The changes of one journal row. Raises Unreadable for anything that this version does not understand."""
    try:
        row = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Unreadable(f"the changes of a journal row cannot be read: {error}") from error
    if row.format not in FORMATS_READ:
        raise Unreadable(f"the changes of a journal row have format {row.format}, this version reads {FORMAT} and before")
    return [_converted(change) if isinstance(change, OldFloor) else change for change in row.changes]


def _converted(change: OldFloor) -> Floor:
    everything = ((1, change.offset - 1),) if change.offset > 1 else ()
    return Floor(change.topic, change.partition, change.offset, change.kept, everything)
