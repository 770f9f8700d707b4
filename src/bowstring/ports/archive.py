"""A backup in the making: a directory on the broker's own host that a thread of its own fills while
the broker serves.

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
    """The damage in the directory, which the backup has too."""


class Archive(Protocol):
    """One backup. Problems with its directory are raised as `bowstring.Error`."""

    done: int
    """Bytes copied so far, of `total`."""
    total: int

    async def begin(self, proof: str) -> str:
        """Checks that the caller may write there: the directory is empty except for the caller's
        file with this proof in it. Returns the path to copy the catalog to.
        """
        ...

    async def needed(self) -> frozenset[int]:
        """The segments that the copied catalog refers to. Keep them until `fill` is done."""
        ...

    async def fill(self) -> Filled:
        """Copies the frames that the catalog refers to, checks them, and makes them durable."""
        ...

    async def finish(self) -> None:
        """Makes the directory a backup."""
        ...

    async def give_up(self) -> None:
        """Ends the work under way. May be called at any time; after `finish` it does nothing."""
        ...
