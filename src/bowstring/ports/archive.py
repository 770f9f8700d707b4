"""A backup in the making: a directory on the broker's own host that is filled beside everything else, by a thread of its own.

begin ──► the catalog is copied to `catalog` ──► needed ──► fill ──► finish
                                                    └────── give_up: whatever is there does not look like a backup
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Filled(NamedTuple):
    """What went into a backup."""

    segments: int
    bytes: int
    """Of all its files."""
    damaged: tuple[str, ...]
    """What was damaged in the directory already, and so is in the backup."""


class Archive(Protocol):
    """One backup. What cannot be done for reasons of its directory is raised as `bowstring.Error`."""

    done: int
    """Bytes that are copied, of `total`."""
    total: int

    async def begin(self, proof: str) -> str:
        """Checks that the caller may write there: the directory is empty but for a file that he has put there, with this proof in it.
        Gives the path that the catalog is to be copied to."""
        ...

    async def needed(self) -> frozenset[int]:
        """The segments that the copied catalog refers to: to be kept until `fill` is done."""
        ...

    async def fill(self) -> Filled:
        """Copies what the catalog refers to, checks it, and makes it durable."""
        ...

    async def finish(self) -> None:
        """From here on it is a backup."""
        ...

    async def give_up(self) -> None:
        """Ends what is under way. May be called at any time, and after `finish`, where it does nothing."""
        ...
