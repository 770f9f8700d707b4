"""What all machines have in common: how state changes, comes to rest and comes back.

A machine owns some kinds of changes, and nothing else changes its durable state. A new one (leases,
transactions) says what its changes are, fills in these methods, and is driven, loaded, inspected
and compared like those that are there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

NEVER = 1 << 62
"""A deadline that does not come."""

Owned = TypeVar("Owned")
"""The changes that a machine owns."""
Parts = TypeVar("Parts")
"""What it is at rest."""


class Machine(ABC, Generic[Owned, Parts]):
    """Durable state and the changes that make it."""

    @abstractmethod
    def apply(self, change: Owned) -> None:
        """A change was decided. The one place where durable state changes, live and at load."""

    def committed(self, change: Owned, sequence: int) -> None:
        """The flush of a change was committed."""
        del change, sequence

    def replay(self, change: Owned, sequence: int) -> None:
        """At load: a change out of the journal."""
        self.apply(change)
        self.committed(change, sequence)

    @abstractmethod
    def snapshot(self) -> Parts:
        """Durable state as it is, uncommitted changes included."""

    @abstractmethod
    def restore(self, parts: Parts) -> None:
        """At load, before anything else: the state of a snapshot."""

    @abstractmethod
    def state(self) -> object:
        """Everything durable in a form that can be compared: what was loaded against what runs."""

    def check(self) -> None:
        """The machine's own invariants, for tests and for the end of a load."""

    def next_deadline(self) -> int:
        """When it wants to be woken if nothing happens before, in microseconds; `NEVER` if it does not."""
        return NEVER
