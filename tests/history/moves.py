"""When a message may be due: as it was published, or as its owner has moved it.

A move that was acknowledged says where its message is. One that was refused or not answered may have
been carried out all the same, on any message of its id. A moment that has passed when the broker
decides means now: so the due time is the one that was asked for, or a later one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tests.history.events import Row
from tests.history.facts import Facts, Moved, Send

Place = tuple[int, int]


def moves_of(facts: Facts, send: Send, place: Place) -> list[Moved]:
    """Those that may have moved a message, in the order in which they were asked for."""
    if not send.sent.due:
        return []
    mine = [move for move in facts.moves if (move.id, move.group) == (send.id, send.sent.group)]
    return [move for move in mine if not move.offset or (move.partition, move.offset) == place]


def in_force(facts: Facts, send: Send, place: Place, since: float, until: float) -> list[Moved]:
    """Moves that may have decided when a message is due, all the time from `since` to `until`. The first one has the due time of
    the publish, unless a move was certainly carried out.
    """
    published = Moved(-inf, send.invoked, send.id, send.sent.group, send.sent.due, *place)
    moves = [published, *(move for move in moves_of(facts, send, place) if move.invoked <= until)]
    done = [move for move in moves if move.offset and move.ended <= since]
    return [move for move in moves if not any(other.invoked > move.ended for other in done)]


def due_between(facts: Facts, send: Send, place: Place, latest: Callable[[float], float] | None = None) -> tuple[float, float]:
    """The earliest and the latest moment that a message may ever have been due. `latest` is the latest that it may have been by the
    broker's clock at a moment.
    """
    moves = moves_of(facts, send, place)
    dues = [float(send.sent.due), *(move.due for move in moves)]
    reached = [latest(min(move.ended, facts.over)) for move in moves] if latest is not None else []
    return min(dues), max([*dues, *reached])


def may_be_due(facts: Facts, send: Send, row: Row) -> bool:
    """Whether a message may show this due time."""
    return row.due == send.sent.due or any(move.due <= row.due for move in moves_of(facts, send, (row.partition, row.offset)))
