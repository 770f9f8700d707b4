"""The ways in which storage fails, as far as the broker has to tell them apart (invariant 2).

`DiskFull` and `Fenced` end the incarnation but not the process: the broker drops uncommitted
changes and loads the state under a new epoch. (A store that finds no room for an append has written
nothing of it, and goes on: there the caller may have a better answer.) `StorageFailed` (a failed
sync, an I/O error on writing, an unknown outcome) ends the server process, or the embedded Broker
object: after a failed sync no process can know what is on the disk, and the broker never tries it
again. `Damaged` is about bytes that were read: the reader gets `Corrupt`, the broker goes on.
"""

from __future__ import annotations


class DiskFull(Exception):
    """No room. Nothing of the write counts."""


class Fenced(Exception):
    """Another incarnation has raised the epoch: this one may not commit any more."""


class StorageFailed(Exception):
    """A sync or a write failed, or its outcome is unknown."""


class Damaged(Exception):
    """Stored bytes do not verify: wrong checksum, another segment's frame, a missing file, a short
    read.
    """
