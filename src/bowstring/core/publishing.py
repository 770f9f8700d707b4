"""A producer publishes a batch: `publish` decides about it, for one partition. Nothing changes here.

- `Decided` with a change: the batch, or the part of it that is new, is stored.
- `Decided` without one: the batch, or its number, is known. The answer rests on committed state only.
- `Refused`: an error.
- `Lookup`: some ids, or the batch itself, may be known. Later batches of the partition wait meanwhile.
- `Wait`: it depends on something that is not committed yet. (An answer "duplicate of offset 7" must
  not be given, nor even decided, while the publish of offset 7 can still miss its deadline and be
  taken back.)
"""

from __future__ import annotations

import numpy as np

from bowstring import errors
from bowstring.core import known_messages
from bowstring.core.answers import Answer, Repeat, ResendAfter, Stored, repeats_of
from bowstring.core.changes import Append
from bowstring.core.decisions import BatchName, Decided, Decision, Found, Ids, Lookup, NewIds, Publish, Refused, Rows, Wait
from bowstring.core.natural_ids import NO_HITS
from bowstring.core.partition import MINUTE, Partition
from bowstring.core.producers import Absent, Batches


def publish(partition: Partition, batch: Publish, now: int, found: Found | None = None) -> Decision[Answer]:
    """Decides about a batch; see above."""
    if found is not None and found.moves != partition.moves:
        found = None
    known = partition.producers.get(batch.producer)
    if known is not None and batch.number <= known.last:
        return _repeated(partition, batch, known, found)
    refusal = _too_late(partition, batch, now)
    if refusal is not None:
        return refusal
    last = known.last if known is not None else 0
    if batch.previous != last:
        return Decided((), ResendAfter(last))
    if batch.ids is None:
        return _accept(partition, batch, now, None, ())
    return _publish_ids(partition, batch, batch.ids, now, found)


def is_new(partition: Partition, batch: Publish, now: int) -> bool:
    """Whether it would be stored, as far as its ids do not matter: nothing of that number is known, and it is in time."""
    known = partition.producers.get(batch.producer)
    return (known is None or batch.number > known.last) and _too_late(partition, batch, now) is None


def _repeated(partition: Partition, batch: Publish, batches: Batches, found: Found | None) -> Decision[Answer]:
    known = batches.find(batch.number)
    if known is Absent.SEALED:
        name = BatchName(batch.producer, batch.number)
        if found is None:
            return Lookup(NO_HITS, sealed=False, batches=(name,))
        sealed = found.batches.get(name)
        if sealed is not None and not partition.deletions.is_freed(sealed.first_offset):
            return Decided((), Stored(sealed.first_offset, sealed.rows, (), duplicate=True))
        known = Absent.PASSED_OVER if sealed is not None else batches.unfound(batch.number) if found.complete else Absent.FORGOTTEN
    if known is Absent.FORGOTTEN:
        return Refused(errors.OutcomeUnknown(f"batch {batch.number} is older than the deduplication window of this topic."))
    if isinstance(known, Absent):
        return Refused(errors.DeadlinePassed(f"batch {batch.number} was not stored: {known.value}."))
    if known.end > partition.committed_offset:
        return Wait()
    return Decided((), known.stored)


def _too_late(partition: Partition, batch: Publish, now: int) -> Refused | None:
    memory = max(partition.window, MINUTE)
    if batch.sent < max(now, partition.arrived) - memory:
        return Refused(
            errors.OutcomeUnknown(
                f"batch {batch.number} was first sent before the deduplication window of {memory / 1e6:g} s began.",
                hint="It is not stored now, but may have been stored then: ask find(id).",
            )
        )
    if now > batch.sent + batch.timeout:
        late = (now - batch.sent - batch.timeout) / 1e6
        return Refused(errors.DeadlinePassed(f"the timeout passed {late:.3f} s before the batch arrived; it is not stored."))
    return None


def _publish_ids(partition: Partition, batch: Publish, ids: Ids, now: int, found: Found | None) -> Decision[Answer]:
    if partition.is_blind(now):
        return Refused(errors.Corrupt("stored ids could not be read, so a repeated id could not be recognised; it is not stored."))
    if found is None:  # what was found rests on committed rows only, and batches come one after the other
        lookup = known_messages.look_for(partition, ids)
        if lookup is None:
            return Wait()
        if len(lookup.hits.rows) or lookup.sealed or lookup.batches:
            return lookup
    offsets = np.zeros(batch.rows, np.int64)
    if found is not None:
        recent = known_messages.recognised(partition, found, now)
        offsets[recent.rows] = recent.offsets
    for given in ids.given_back:
        offset = known_messages.offset_of(partition, given, found)
        if offset >= partition.committed_offset:
            return Wait()
        offsets[given.row] = offset or offsets[given.row]
    return _accept_new(partition, batch, ids, now, offsets)


def _accept_new(partition: Partition, batch: Publish, ids: Ids, now: int, offsets: Rows) -> Decided[Answer]:
    """`offsets` has the offset of each row that is known, and 0 for the others."""
    if ids.firsts is None and not offsets.any():
        offsets = partition.next_offset + np.arange(batch.rows)
        return _accept(partition, batch, now, None, (), NewIds(ids.hashes, offsets, ids.order))
    firsts = ids.firsts if ids.firsts is not None else np.arange(batch.rows)
    new = (offsets == 0) & (firsts == np.arange(batch.rows))
    kept = np.flatnonzero(new)
    offsets[kept] = partition.next_offset + np.arange(len(kept))
    offsets = np.where(offsets == 0, offsets[firsts], offsets)
    repeats = repeats_of(np.flatnonzero(~new), offsets)
    known = NewIds(ids.hashes[kept], offsets[kept]) if len(kept) else None
    return _accept(partition, batch, now, None if new.all() else kept, repeats, known)


def _accept(
    partition: Partition, batch: Publish, now: int, kept: Rows | None, repeats: tuple[Repeat, ...], ids: NewIds | None = None
) -> Decided[Answer]:
    rows = batch.rows if kept is None else len(kept)
    first = partition.next_offset if rows else 0
    change = Append(
        topic=partition.topic,
        partition=partition.number,
        first_offset=first,
        rows=rows,
        arrived=max(now, partition.arrived),
        columns=batch.columns,
        producer=batch.producer,
        number=batch.number,
        repeats=repeats,
        expires=batch.expires,
        due=batch.due,
    )
    return Decided((change,), Stored(first, rows, repeats), kept, ids)
