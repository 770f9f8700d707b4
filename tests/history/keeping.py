"""How long a message is kept, computed from what its clients know: what may be gone at a moment,
and what must be.

Retention counts from the later of arrival and due time; `expires` is a moment of its own; a limit
of bytes takes the oldest. The broker's clock may be wrong, and the run knows by how much at most
(`Clocks`): a message may be gone early by as much as that clock was ahead, and be delivered late by
as much as it was behind. Without `Clocks` nothing may be gone at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.history.events import Row
from tests.history.facts import Facts, Send
from tests.history.moves import due_between

ROW_BYTES = 1200
"""The most that a message takes in addition to its own bytes, alone in a page."""

PAGE_BYTES = 128 * 1024
PAGE_ROWS = 12
"""Messages go by pages: as much as a page may have before them."""


class Clocks(NamedTuple):
    """How wrong the broker's clock can be. Moments of a history are seconds; 0 is the moment
    `origin`, in microseconds.
    """

    origin: int
    ahead: Callable[[float], float]
    """By how many seconds it may have been ahead, up to a moment of the history."""
    behind: float
    late: float = 0.0
    """How many seconds a kit's knowledge of that clock may be late: as long as answers travel."""
    notice: float | None = None
    """Within how many seconds a kit learns of another client's deletion; None if connections break."""
    steady: Callable[[float], float] | None = None
    """By how many seconds the clock of schedules may have been ahead. It follows jumps that retention
    does not believe. None: as `ahead`.
    """

    def earliest(self, time: float) -> float:
        """The earliest that it may have been by the broker's clock, in microseconds."""
        return self.origin + (time - self.behind) * 1e6

    def latest(self, time: float) -> float:
        return self.origin + (time + self.ahead(time)) * 1e6

    def latest_due(self, time: float) -> float:
        """The latest that it may have been by the clock of schedules, in microseconds."""
        return self.origin + (time + (self.steady or self.ahead)(time)) * 1e6


class Keeping:
    """The messages of one topic, and how long each is kept."""

    def __init__(self, facts: Facts, clocks: Clocks | None) -> None:
        self.facts = facts
        self.clocks = clocks
        self._places: dict[tuple[int, int], Send] = {}
        """The message at a place: known from an answer, or because a reader has read it."""
        for place, row in facts.rows.items():
            if row.label in facts.sends:
                self._places[place] = facts.sends[row.label]
        for send in facts.sends.values():
            if send.acknowledged and not send.answer.duplicate:
                self._places.setdefault((send.answer.partition, send.answer.offset), send)
        self._sizes: dict[int, list[tuple[int, int]]] = {}
        self._asked: dict[tuple[str, str], float] = {}
        """When a client first asked to delete the messages of an id that belong to a group."""
        for deletion in facts.deletions:
            key = deletion.id, deletion.group
            self._asked[key] = min(deletion.invoked, self._asked.get(key, deletion.invoked))

    def at(self, partition: int, offset: int) -> Send | None:
        """The message of a place, if it is known."""
        return self._places.get((partition, offset))

    def places(self) -> dict[tuple[int, int], Send]:
        return self._places

    def may_be_gone(self, place: tuple[int, int], time: float, send: Send | None = None) -> bool:
        """Whether retention, the sender's own wish or a delete may have taken it by then."""
        known = send or self._places.get(place)
        return (known is not None and self.may_be_deleted(known, time)) or self.may_have_aged(place, time, send)

    def may_be_deleted(self, send: Send, time: float) -> bool:
        """Whether its owner may have deleted it by then: whatever the answer was, an earlier
        attempt may have done it.
        """
        return self._asked.get((send.id, send.sent.group), time + 1) <= time

    def may_have_aged(self, place: tuple[int, int], time: float, send: Send | None = None) -> bool:
        """Whether retention or the moment that its sender named may have taken it by then."""
        if self.clocks is None:
            return False
        send = send or self._places.get(place)
        if send is None:
            return True
        return self.has_expired(send, time) or self.too_old(place, send, time) or self._too_much(place, time)

    def has_expired(self, send: Send, time: float) -> bool:
        """Whether the moment that the sender named may have come."""
        return self.clocks is not None and 0 < send.sent.expires <= self.clocks.latest(time)

    def too_old(self, place: tuple[int, int], send: Send, time: float, longer: float = 0.0) -> bool:
        """Whether it may have been older than its topic keeps messages, and than that by `longer`."""
        if self.clocks is None:
            return False
        shortest = min(settings.retention for settings in self.facts.settings(send.invoked, time))
        return self._age_from(place, send) + shortest * 1e6 + longer <= self.clocks.latest(time)

    def _age_from(self, place: tuple[int, int], send: Send) -> float:
        """The earliest moment that its age may count from."""
        assert self.clocks is not None
        row = self.facts.rows.get(place)
        return max(row.arrived if row is not None else self.clocks.earliest(send.invoked), due_between(self.facts, send, place)[0])

    def _too_much(self, place: tuple[int, int], time: float) -> bool:
        """Whether there was more than the topic may have, from this message's page on. Holes take
        space, too: as much as the largest.
        """
        held = self.facts.settings(0.0, time)
        shares = [settings.retention_bytes // settings.partitions for settings in held if settings.retention_bytes]
        return bool(shares) and self._bytes_from(*place) > min(shares)

    def _bytes_from(self, partition: int, offset: int) -> int:
        if partition not in self._sizes:
            known = {at: bytes_of(send.sent) for (number, at), send in self._places.items() if number == partition}
            largest, total, sums = max(known.values(), default=0), 0, []
            for at in range(max(known, default=0), 0, -1):
                total += known.get(at, largest)
                sums.append((at, total + max(PAGE_BYTES, PAGE_ROWS * largest)))
            self._sizes[partition] = sums[::-1]
        sizes = self._sizes[partition]
        return sizes[offset - 1][1] if 0 < offset <= len(sizes) else 0

    def due_at_most(self, place: tuple[int, int], send: Send) -> float:
        """The latest moment that it may ever have been due."""
        latest = due_between(self.facts, send, place, self.clocks.latest_due if self.clocks is not None else None)
        return latest[1]

    def must_be_gone(
        self, place: tuple[int, int], send: Send, time: float, since: float | None = None, until: float | None = None, longer: float = 0.0
    ) -> bool:
        """Whether no reader may get it any more, by any clock that the broker may have had, and by
        any settings since a moment, and until another: a longer retention keeps what is still there.
        Some get it for `longer` than its topic keeps it, in microseconds.
        """
        if self.clocks is None:
            return False
        now = self.clocks.earliest(time)
        row = self.facts.rows.get(place)
        if row is not None and 0 < row.expires < now:
            return True
        held = self.facts.settings(time if since is None else since, time if until is None else until)
        longest = max(settings.retention for settings in held)
        return row is not None and max(row.arrived, self.due_at_most(place, send)) + longest * 1e6 + longer < now


def bytes_of(row: Row) -> int:
    """The most that a message takes."""
    value = row.value.split(":")[0]
    return ROW_BYTES + (int(value) if value.isdigit() else 0) + len(row.key) + len(row.id) + 4 * len(row.attributes)
