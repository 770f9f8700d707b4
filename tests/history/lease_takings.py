"""What ends leases before their time: an operator who takes them away, and a seek."""

from __future__ import annotations

from typing import NamedTuple


class Sought(NamedTuple):
    """The subscription was set to another place."""

    invoked: float
    ended: float
    start: str


class Taken(NamedTuple):
    """An operator took leases away."""

    invoked: float
    ended: float
    consumer: str
    """Whose; empty for all."""
