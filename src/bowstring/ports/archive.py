"""A backup in the making: a directory on the broker's own host, filled by a thread of its own.

begin ──► the catalog is copied to `catalog` ──► needed ──► fill ──► finish
                                                    └────── give_up: whatever is there does not look like a backup
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Filled(NamedTuple):
    """The contents of a finished backup."""

    segments: int
    bytes: int
    """Of all its files."""
    damaged: tuple[str, ...]
    """What was damaged in the data directory, and so in the backup."""


class Archive(Protocol):
    """One backup. Raises `bowstring.Error` where its directory is the reason of a failure."""

    done: int
    """Bytes that are copied, of `total`."""
    total: int

    async def begin(self, proof: str) -> str:
        """Checks that the caller may write there: the directory is empty except for a file of the
        caller with this proof in it. Gives the path for the copy of the catalog."""
        ...

    async def needed(self) -> frozenset[int]:
        """Gives the segments that the copied catalog refers to. Keep them until `fill` is done."""
        ...

    async def fill(self) -> Filled:
        """Copies everything that the catalog refers to, checks it, and makes it durable."""
        ...

    async def finish(self) -> None:
        """Makes the directory a backup."""
        ...

    async def give_up(self) -> None:
        """Stops the work. May be called at any time; after `finish` it does nothing."""
        ...
