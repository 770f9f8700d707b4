"""Messages that a partition knows by their ids: what has to be read to tell, where they are, and
whether they still count.

Two kinds of ids lead to a message. A natural one is looked for by its hash, among those in memory
and in the sections of the store; what has that hash is a candidate until it was compared with what
is stored. A generated one names its producer's batch and a row of it, so it is enough to know where
the batch is. Publishing, finding and deleting all ask here.

Publishing asks only about the deduplication window. Finding and deleting ask about the window
first, because that is in memory, and then, with `old`, about everything that retention has left.
The same id may then lead to several messages; the newest one that is live counts (`newest`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from bowstring.core.answers import Stored
from bowstring.core.decisions import BatchName, Found, GivenBack, Ids, Lookup
from bowstring.core.natural_ids import NO_HITS, Hits
from bowstring.core.producers import Absent, Known

if TYPE_CHECKING:
    from bowstring.core.partition import Partition


def look_for(partition: Partition, ids: Ids, *, old: bool = False) -> Lookup | None:
    """The lookup that tells which of these ids are known; None while that rests on something
    uncommitted.
    """
    hits = partition.ids.find(ids.hashes)
    if len(hits.offsets) and int(hits.offsets.max()) >= partition.committed_offset:
        return None
    names = [name_of(given) for given in ids.given_back]
    batches = tuple(dict.fromkeys(name for name in names if _is_to_be_read(partition, name, old)))
    return Lookup(hits, partition.sealed_end > 1, batches, old=old)


def recognised(partition: Partition, found: Found, now: int, *, old: bool = False) -> Hits:
    """Of the messages that have been found those that still count: not taken back, and unless `old`
    within the window.
    """
    counts = np.full(len(found.arrived), old) | (found.arrived >= max(now, partition.arrived) - partition.window)
    if len(counts) and len(partition.deletions):
        freed = partition.deletions.freed(int(found.ids.offsets.min()), int(found.ids.offsets.max()) + 1)
        counts &= ~np.isin(found.ids.offsets, freed)
    return Hits(found.ids.rows[counts], found.ids.offsets[counts])


def newest(partition: Partition, offsets: Iterable[int]) -> int:
    """Of the messages that have one id the newest that is live; the newest of all if none is, 0 if
    retention has taken them.
    """
    retained = partition.retained.of(np.array(sorted(offsets), np.int64)).tolist()
    live = [offset for offset in retained if not partition.deletions.is_gone(offset)]
    return (live or retained or [0])[-1]


def offset_of(partition: Partition, given: GivenBack, found: Found | None, *, old: bool = False) -> int:
    """The offset of a message by the id that its kit generated, 0 if it is not known."""
    known = _batch(partition, name_of(given))
    if _is_to_be_read(partition, name_of(given), old):
        sealed = found.batches.get(name_of(given)) if found is not None else None
        stored = None if sealed is None else Stored(sealed.first_offset, sealed.rows)
    else:
        stored = getattr(known, "stored", None)
    if stored is None or given.batch_row >= stored.rows or stored.repeats or partition.deletions.is_freed(stored.first_offset):
        return 0
    return stored.first_offset + given.batch_row


def find_generated(partition: Partition, given: GivenBack, found: Found | None, *, old: bool) -> int | Lookup | None:
    """The offset of a generated id, 0 if it is not stored, None if that is not decided yet, Lookup
    if sections have to be asked.
    """
    name = name_of(given)
    if _is_to_be_read(partition, name, old) and (found is None or found.moves != partition.moves):
        return Lookup(NO_HITS, sealed=False, batches=(name,), old=old)
    offset = offset_of(partition, given, found, old=old)
    if offset >= partition.committed_offset:
        return None
    return 0 if not offset or partition.is_gone(offset) else offset


def is_partly_blind(partition: Partition, now: int) -> bool:
    """May a message be there whose id could not be read at load?"""
    return partition.is_blind(now) or partition.retained.floor < partition.unread.end


def name_of(given: GivenBack) -> BatchName:
    """The batch that a generated id names a row of."""
    return BatchName(given.producer, given.number)


def _batch(partition: Partition, name: BatchName) -> object:
    batches = partition.producers.get(name.producer)
    return batches.find(name.number) if batches is not None and name.number <= batches.last else None


def _is_to_be_read(partition: Partition, name: BatchName, old: bool) -> bool:
    """Whether the store has to tell about the batch. Within the window memory knows what is sealed;
    of what is older it knows nothing.
    """
    known = _batch(partition, name)
    if not old:
        return known is Absent.SEALED
    batches = partition.producers.get(name.producer)
    return (batches is None or name.number <= batches.last) and not isinstance(known, Known)
