"""Retry counts: they rise by exactly one for each delivery that ended without an ack, and stay where
they are for a row that was released or taken away.

A delivery may be hidden: its push was lost, and its lease ran to its end. That takes at least the
shortest lease there is. So between two deliveries that consumers know there can only be as many
hidden ones as fit, and where a row comes back within that time the count is exact.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import NamedTuple

from tests.history.facts import Facts
from tests.history.lease_events import ACK, NACK, REJECT, RELEASE, SETTLE
from tests.history.lease_facts import QueueFacts, Stay
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases

SHORTEST = 1_000_000
"""The shortest lease, in microseconds."""


class Bounds(NamedTuple):
    """By how much a count has risen."""

    least: int
    most: int


def counts_rise_by_one(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """Each row, from delivery to delivery."""
    labels = {(row.partition, row.offset): row.label for _, row in queue.rows}
    for stays in queue.in_order():
        send = facts.sends.get(labels[stays[0].place])
        if send is not None:
            begun = clocks.earliest(send.invoked, stays[0].first.time)
            yield from _risen(queue, stays[0], 0, Bounds(0, _hidden(begun, _granted(stays[0], clocks))))
        for before, after in pairwise(stays):
            if not before.settled(ACK):
                yield from _risen(queue, after, before.first.retries, _bounds(queue, before, after, clocks))


def a_count_stays_within_a_lease(queue: QueueFacts, facts: Facts, clocks: LeaseClocks) -> Cases:
    """However often a lease is pushed, its rows have the same counts."""
    del facts, clocks
    for stay in queue.each_stay():
        counts = {push.retries for push in stay.pushes}
        if len(counts) > 1:
            yield f"{_row(queue, stay)} was pushed by grant {stay.grant} with retry counts {sorted(counts)}"


def _risen(queue: QueueFacts, stay: Stay, before: int, bounds: Bounds) -> Cases:
    count = stay.first.retries
    if not before + bounds.least <= count <= before + bounds.most:
        fits = f"{before + bounds.least} to {before + bounds.most}" if bounds.least < bounds.most else str(before + bounds.least)
        yield f"{_row(queue, stay)} came by grant {stay.grant} with retry count {count} at {stay.first.time:.3f} s, and {fits} is right"


def _bounds(queue: QueueFacts, before: Stay, after: Stay, clocks: LeaseClocks) -> Bounds:
    """The delivery before may count, and so may those that nobody has seen."""
    taken = queue.taken_since(before, clocks)
    end = _end(before, taken, after.first.time, clocks)
    hidden = _hidden(end, _granted(after, clocks))
    if before.settled(NACK) or before.settled(REJECT):
        return Bounds(1, 1 + hidden)
    if before.settled(RELEASE):
        return Bounds(0, hidden)
    released = any(outcome == RELEASE and not ask.answers for ask, outcome in before.asks)
    return Bounds(0 if taken <= after.first.time or released else 1, 1 + hidden)


def _end(stay: Stay, taken: float, until: float, clocks: LeaseClocks) -> float:
    """The earliest that it can have ended, by the clock of leases up to a moment."""
    back = min((ask.written for ask, outcome in stay.asks if ask.operation == SETTLE and outcome != ACK), default=inf)
    if min(back, taken) < inf:
        return max(stay.first.granted, min(clocks.earliest(min(back, taken), until), stay.until()))
    return stay.until()


def _granted(stay: Stay, clocks: LeaseClocks) -> float:
    push = stay.first
    return clocks.latest(push.time) if push.again else push.granted


def _hidden(since: float, until: float) -> int:
    """How many leases can have begun and ended between."""
    return max(0, int((until - since) // SHORTEST))


def _row(queue: QueueFacts, stay: Stay) -> str:
    return f"{queue.topic}/{stay.place[0]}@{stay.place[1]} for {queue.subscription}"


CHECKERS = (counts_rise_by_one, a_count_stays_within_a_lease)
