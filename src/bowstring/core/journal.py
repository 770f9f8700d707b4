"""The journal: how the changes of a flush are written, read back, and handed to their machines.

On disk a row is MessagePack: a format version and a list of tagged arrays. An unknown version or
tag refuses to load, because a change that is skipped is a message that is lost. The catalog keeps a
CRC-32C beside the row. What older formats wrote is converted when it is read (`old_changes`).

`Replay` is the one reader. The loader refuses to go on at the first problem; `inspect` writes it
down and goes on. Both override the methods that are called for each problem.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec

from bowstring.core import old_changes
from bowstring.core.changes import Change, Paged
from bowstring.core.partition import Partition

FORMAT = 6
FORMATS_READ = (1, 2, 3, 4, 5, 6)
"""The fourth gives deletions a reason, floors differences, and puts a change's page last. The fifth
adds the changes of subscriptions, the sixth that of due times; all others are as in the fourth.
"""


class UnreadableJournal(Exception):
    """A journal row that this version does not understand, or that does not fit what is there."""


class _Row(msgspec.Struct, array_like=True, gc=False):
    format: int
    changes: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_row = msgspec.msgpack.Decoder(_Row)
_changes = msgspec.msgpack.Decoder(list[Change])


def encode(changes: Sequence[Change]) -> bytes:
    """The bytes of one journal row."""
    return _encoder.encode((FORMAT, changes))


def decode(data: bytes) -> list[Change]:
    """The changes of one journal row. Raises Unreadable for anything that this version does not
    understand.
    """
    try:
        row = _row.decode(data)
        if row.format in (FORMAT, 5, 4):
            return _changes.decode(row.changes)
        if row.format in FORMATS_READ:
            return old_changes.decode(row.changes)
    except msgspec.DecodeError as error:
        raise UnreadableJournal(f"the changes of a journal row cannot be read: {error}") from error
    raise UnreadableJournal(f"the changes of a journal row have format {row.format}, this version reads {FORMAT} and before")


class Replay:
    """Hands the changes of a journal, row by row, to the machines that own them."""

    def __init__(self, machines: Mapping[tuple[int, int], Partition], deleted: Container[int]) -> None:
        self._machines = machines
        self._deleted = deleted
        """Deleted topics: the journal may still have changes of them, which are skipped."""
        self.mentioned: set[int] = set()
        """Segments that the journal mentions, whether or not anything in them lives."""

    def row(self, sequence: int, data: bytes) -> None:
        """The next row."""
        try:
            changes = decode(data)
        except UnreadableJournal as error:
            self.unreadable(sequence, data, error)
            return
        for change in changes:
            if isinstance(change, Paged) and change.segment:
                self.mentioned.add(change.segment)
            if change.topic in self._deleted:
                continue
            machine = self._machines.get(change.address)
            if machine is None:
                self.unaddressed(sequence, change)
            else:
                self.change(machine, change, sequence)

    def change(self, machine: Partition, change: Change, sequence: int) -> None:
        """A change of that machine."""
        machine.replay(change, sequence)

    def unreadable(self, sequence: int, data: bytes, error: UnreadableJournal) -> None:
        """Called for an unreadable row. None of it was applied."""
        del data
        raise UnreadableJournal(f"journal row {sequence}: {error}") from error

    def unaddressed(self, sequence: int, change: Change) -> None:
        """Called for a change whose machine does not exist."""
        raise UnreadableJournal(nobody(sequence, change))


def nobody(sequence: int, change: Change) -> str:
    """The error for a change whose machine does not exist."""
    return f"journal row {sequence} changes partition {change.partition} of topic {change.topic}, which is not there"
