"""What a history notes of a consumer: a new credit, and a decision of its application."""

from __future__ import annotations

from typing import NamedTuple

from tests.history.lease_events import Delivery


class Wrote(NamedTuple):
    """A kit changed its credit."""

    time: float
    stream: int
    credit: int


class Decision(NamedTuple):
    """What an application said of a row, and what it was told."""

    session: str
    invoked: float
    ended: float
    row: Delivery
    told: str
    """Empty for done; "?" if it is not known."""
