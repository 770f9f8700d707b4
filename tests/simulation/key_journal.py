"""Invariant 9 by the journal: every grant of a key-shared subscription, in the order in which grants
were decided, with no clock to be unsure of.

The journal names rows and not their keys. Those are known from the messages that came to consumers,
so this is compared when a run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tests.history.events import Event, Row
from tests.history.lease_events import CONSUME, PUSHED
from tests.history.lease_keys import ordered_by
from tests.history.violations import Violation


class KeyedGrant(NamedTuple):
    """A grant of a key-shared subscription, and where other rows were when it was decided."""

    identity: str
    """The ids of the topic and the subscription."""
    partition: int
    number: int
    rows: frozenset[int]
    held: frozenset[tuple[int, int]]
    """Rows that others hold, or its own consumer, with their grants, which are earlier ones."""
    idle: frozenset[int]
    """Rows before the last of the grant that are neither settled nor held, and come again, now or
    later. Those that were published for later are not among them before they are due.
    """


def keys_of(events: Iterable[Event]) -> dict[tuple[str, int, int], Row]:
    """The messages that came to consumers, by the topic's id, partition and offset."""
    topics: dict[str, str] = {}
    found: dict[tuple[str, int, int], Row] = {}
    for event in events:
        if event.operation == CONSUME and event.queue.identity:
            topics[event.session] = event.queue.identity.partition(".")[0]
        elif event.operation == PUSHED and event.session in topics:
            found.update(((topics[event.session], row.partition, row.offset), row) for row in event.rows)
    return found


def readable(grants: Iterable[KeyedGrant], events: Iterable[Event]) -> Iterator[KeyedGrant]:
    """The grants with those of their rows that came to a consumer by them: where bits rot, a page may not be
    readable. Its rows are granted as if they had no key, and set aside when they are to be pushed.
    """
    came: dict[tuple[str, int, int], set[int]] = {}
    for event in events:
        for row in event.queue.rows if event.operation == PUSHED else ():
            came.setdefault((event.queue.identity, row.partition, row.grant), set()).add(row.offset)
    for grant in grants:
        yield grant._replace(rows=grant.rows & came.get((grant.identity, grant.partition, grant.number), set()))


def check_keys(
    grants: Iterable[KeyedGrant], rows: dict[tuple[str, int, int], Row], sometimes: Callable[[str, int], None]
) -> list[Violation]:
    """Every grant that breaks the order of a key."""
    return [Violation("the_journal_keeps_keys", case) for grant in grants for case in _cases(grant, rows, sometimes)]


def _cases(grant: KeyedGrant, rows: dict[tuple[str, int, int], Row], sometimes: Callable[[str, int], None]) -> Iterator[str]:
    topic = grant.identity.partition(".")[0]

    def key(offset: int) -> str:
        row = rows.get((topic, grant.partition, offset))
        return "" if row is None else ordered_by(row)

    lasts: dict[str, int] = {}
    for offset in sorted(grant.rows):
        if key(offset):
            lasts[key(offset)] = offset
    where = f"subscription {grant.identity} in partition {grant.partition}: grant {grant.number} has row"
    for offset, _ in sorted(grant.held):
        if key(offset) in lasts:
            yield f"{where} {lasts[key(offset)]} of key {key(offset)}, and row {offset} of it is held"
        sometimes("grant passed over a busy key", bool(key(offset)))
    for offset in sorted(grant.idle):
        if lasts.get(key(offset), 0) > offset and not rows[topic, grant.partition, offset].due:
            yield f"{where} {lasts[key(offset)]} of key {key(offset)}, and row {offset} of it waits"
