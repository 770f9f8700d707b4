"""The interface of all machines: how state changes, is saved and is restored.

A machine owns some kinds of changes, and nothing else changes its durable state. A new machine
(leases, transactions) names its changes, implements these methods, and is then driven, loaded,
inspected and compared like the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

NEVER = 1 << 62
"""A deadline that does not come."""

Owned = TypeVar("Owned")
"""The changes that a machine owns."""
Parts = TypeVar("Parts")
"""Its state at rest."""


class LedgerParts(NamedTuple):
    """A ledger's state at rest: its head, chunks by their number, and the flush of the head."""

    head: bytes
    chunks: dict[int, bytes]
    sequence: int


class UnreadableState(Exception):
    """State at rest that this version does not understand."""


class Machine(ABC, Generic[Owned, Parts]):
    """Durable state and the changes that make it."""

    @abstractmethod
    def apply(self, change: Owned) -> None:
        """Applies a decided change. This is the one place where durable state changes, live and at
        load.
        """

    def committed(self, change: Owned, sequence: int) -> None:
        """Notes that the flush of a change was committed."""
        del change, sequence

    def replay(self, change: Owned, sequence: int) -> None:
        """Applies a change from the journal, at load."""
        self.apply(change)
        self.committed(change, sequence)

    @abstractmethod
    def snapshot(self) -> Parts:
        """The durable state as it is, uncommitted changes included."""

    @abstractmethod
    def restore(self, parts: Parts) -> None:
        """Takes over the state of a snapshot, at load, before anything else."""

    @abstractmethod
    def state(self) -> object:
        """All durable state in a form that can be compared: loaded state with live state."""

    def check(self) -> None:
        """Checks the machine's own invariants, for tests and at the end of a load."""

    def next_deadline(self) -> int:
        """When it wants to be woken if nothing happens before, in microseconds; `NEVER` if it does
        not.
        """
        return NEVER
