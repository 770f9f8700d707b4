"""A search for the messages of one key among those that wait, for `explain`.

A key-shared subscription looks at messages while it has consumers, and only so far that it can hand
some out (`keyed_partition`). Who asks about a key wants to know about all of it, so this reads the
rest, and keeps nothing of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from bowstring.broker.queue.keyed_partition import KeyedPartition, hashes_of
from bowstring.core.ledger import Ledger
from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import RowSet

SEARCHED_MAX: Final = 1 << 21
"""So many messages of a partition are looked at for one answer."""


class KeySearch(NamedTuple):
    """Messages of a key that wait, of those that the subscription has not looked at."""

    offsets: Offsets
    """Ascending."""
    end: int
    """The search has come to here."""
    is_whole: bool
    """Whether that is the end of what is committed."""

    def beyond(self, looked: int) -> Offsets:
        """Those that the subscription has not looked at meanwhile, by how far it has come."""
        return self.offsets[self.offsets >= looked]


class KeyStanding(NamedTuple):
    """Where a key stands in one partition."""

    partition: int
    consumer: str
    """Who holds it; empty if no consumer does."""
    since: int
    """Since when, by the clock of leases."""
    until: int
    """When its leases end; of a key that no consumer holds, when the message comes back that holds it back. 0
    for neither.
    """
    held: int
    """How many messages of it are held."""
    waiting: int
    first: int
    """The first of its messages that waits; 0 if none does."""
    later: int
    """The message that comes back later and holds the others back; 0 if there is none."""
    preferred: str
    """The consumer that gets it when it is free."""
    looked: int
    """Messages from this offset on were not looked at yet."""
    stopped: bool
    """Whether the search has stopped there because too many messages wait."""
    suspect: int = 0
    """The message that waits for a consumer which holds nothing else; 0 if there is none."""


async def search(known: KeyedPartition, ledger: Ledger, key: int) -> KeySearch:
    """Raises Unavailable if messages cannot be read."""
    actor, first = known.actor, max(known.looked, ledger.cursor, ledger.floor)
    committed = actor.partition.committed_offset
    ahead = ledger.settled.unsettled(first, max(first, committed), SEARCHED_MAX)
    is_whole = len(ahead) < SEARCHED_MAX
    end = committed if is_whole else ahead.stop
    behind = known.not_looked_at(ledger)
    found: list[Offsets] = []
    for rows in (behind, ahead):
        todo = rows
        while todo:
            some = known.scout.again_at_once(actor, todo) or await known.scout.again(actor, todo)
            found.append(some.offsets[hashes_of(some) == np.uint64(key)])
            todo = todo - RowSet(0, some.end)
    return KeySearch(np.sort(np.concatenate(found)) if found else np.empty(0, np.int64), end, is_whole)


def standing(known: KeyedPartition, ledger: Ledger, key: int, sought: KeySearch, preferred: str) -> KeyStanding | None:
    """What the subscription knows about the key, and what the search has found beyond; None if no
    message of it waits or is held.
    """
    facts, beyond = known.keys.facts(key), sought.beyond(known.looked)
    if facts is None and not len(beyond) and sought.is_whole:
        return None
    grant, held, waits, later = (0, 0, beyond, 0) if facts is None else (*facts[:2], np.union1d(facts.waiting, beyond), facts.later)
    leases = ledger.leases.of_grant(grant) if grant else []
    holder = ledger.consumers[leases[0].consumer].name if leases else ""
    since, until = (leases[0].granted, max(lease.until for lease in leases)) if leases else (0, ledger.timeline.moment_of(later))
    counts = held, len(waits), int(waits[0]) if len(waits) else 0, later
    looked = known.looked if known.keys.is_full else sought.end
    is_stopped = known.keys.is_full or not sought.is_whole
    suspect = 0 if facts is None else facts.suspect
    return KeyStanding(known.actor.partition.number, holder, since, until, *counts, preferred, looked, is_stopped, suspect)
