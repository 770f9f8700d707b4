"""Messages that a partition knows by their ids: what has to be read to tell, where they are, and whether they still count.

Two kinds of ids lead to a message. A natural one is looked for by its hash, among those in memory and in the sections of the store; what
has that hash is a candidate until it was compared with what is stored. A generated one names its producer's batch and a row of it, so it
is enough to know where the batch is. Publishing, finding and deleting all ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bowstring.core.answers import Stored
from bowstring.core.decisions import BatchName, Found, GivenBack, Ids, Lookup
from bowstring.core.natural_ids import NO_HITS, Hits
from bowstring.core.producers import Absent

if TYPE_CHECKING:
    from bowstring.core.partition import Partition


def look_for(partition: Partition, ids: Ids) -> Lookup | None:
    """What has to be read to tell which of these ids are known; None while that rests on something uncommitted."""
    hits = partition.ids.find(ids.hashes)
    if len(hits.offsets) and int(hits.offsets.max()) >= partition.committed_offset:
        return None
    names = [name_of(given) for given in ids.given_back]
    sealed = tuple(dict.fromkeys(name for name in names if _batch(partition, name) is Absent.SEALED))
    return Lookup(hits, partition.sealed_end > 1, sealed)


def recognised(partition: Partition, found: Found, now: int) -> Hits:
    """Of the messages that have been found those that still count: within the window, and not taken back."""
    counts = found.arrived >= max(now, partition.arrived) - partition.window
    if len(counts) and len(partition.deletions):
        freed = partition.deletions.freed(int(found.ids.offsets.min()), int(found.ids.offsets.max()) + 1)
        counts &= ~np.isin(found.ids.offsets, freed)
    return Hits(found.ids.rows[counts], found.ids.offsets[counts])


def offset_of(partition: Partition, given: GivenBack, found: Found | None) -> int:
    """The offset of a message by the id that its kit generated, 0 if it is not known."""
    known = _batch(partition, name_of(given))
    if known is Absent.SEALED:
        sealed = found.batches.get(name_of(given)) if found is not None else None
        stored = None if sealed is None else Stored(sealed.first_offset, sealed.rows)
    else:
        stored = getattr(known, "stored", None)
    if stored is None or given.batch_row >= stored.rows or stored.repeats or partition.deletions.is_freed(stored.first_offset):
        return 0
    return stored.first_offset + given.batch_row


def find_generated(partition: Partition, given: GivenBack, found: Found | None) -> int | Lookup | None:
    """The offset of a generated id, 0 if it is not stored, None if that is not decided yet, Lookup if sections have to be asked."""
    name = name_of(given)
    if _batch(partition, name) is Absent.SEALED and (found is None or found.moves != partition.moves):
        return Lookup(NO_HITS, sealed=False, batches=(name,))
    offset = offset_of(partition, given, found)
    if offset >= partition.committed_offset:
        return None
    return 0 if not offset or partition.is_gone(offset) else offset


def name_of(given: GivenBack) -> BatchName:
    """The batch that a generated id names a row of."""
    return BatchName(given.producer, given.number)


def _batch(partition: Partition, name: BatchName) -> object:
    batches = partition.producers.get(name.producer)
    return batches.find(name.number) if batches is not None and name.number <= batches.last else None
