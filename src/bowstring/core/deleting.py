"""An owner deletes messages by their ids: `delete` decides about the ids of one request, for one
partition.

A message belongs to the producer group that published it, and only that may delete it. Whose it is
stands in its page, so there is always something to look up. Nothing changes here. It gives one of:

- `Decided`: what became of each id, with a change if there is something to delete.
- `Lookup`: some of the ids may be known.
- `Wait`: one of the messages is not committed yet.

A message that a consumer of any subscription holds is not deleted: the owner learns who holds it,
and until when.

A deleted message is not delivered any more, and its id stays taken for the deduplication window, so
that a late resend does not bring it back. For as long as its page is there a delete can be
repeated: it is answered as it was the first time.

A request looks within the window first. Ids that are not found there are asked for again with
`old`, and lead to messages until retention takes them. When several messages of an id are found,
published a window apart, the newest one that is live is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from bowstring.core import known_messages
from bowstring.core.changes import Reason
from bowstring.core.decisions import Decided, Decision, Deleted, Found, Ids, Lookup, Wait
from bowstring.core.ledgers import SubscriptionLease
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet


def delete(
    partition: Partition,
    wanted: Ids,
    group: str,
    now: int,
    found: Found | None = None,
    *,
    old: bool = False,
    lease_now: int | None = None,
    scheduled: Mapping[int, int] | None = None,
) -> Decision[Deleted]:
    """Deletes what belongs to the group; see above. `lease_now` is the time by which leases run:
    without it every lease counts that no change has ended. With `scheduled`, due times by offset, only
    messages are deleted that are due later.
    """
    offsets = np.zeros(len(wanted.hashes), np.int64)
    others: dict[int, str] = {}
    if found is None or found.moves != partition.moves:
        lookup = look_for(partition, wanted, old)
        return Decided((), Deleted(offsets, others)) if lookup is None else lookup
    mine: dict[int, list[int]] = {}
    for row, offset, owner in messages_of(partition, wanted, now, found, old):
        if owner == group:
            mine.setdefault(row, []).append(offset)
        else:
            others[row] = owner
    for row, places in mine.items():
        offsets[row] = known_messages.newest(partition, places)
    new = {offset for offset in offsets[offsets > 0].tolist() if not partition.deletions.is_gone(offset)}
    due: dict[int, int] = {}
    if scheduled is not None:
        ripe = {offset for offset in new if partition.moved_rows.due_of(offset, scheduled.get(offset, 0)) <= now}
        due = {row: offset for row, offset in enumerate(offsets.tolist()) if offset in ripe}
        offsets[list(due)] = 0
        new -= ripe
    held = _held(partition, new, 0 if lease_now is None else lease_now)
    leased = {row: held[offset] for row, offset in enumerate(offsets.tolist()) if offset in held}
    offsets[list(leased)] = 0
    runs = tuple(runs_of(np.array(sorted(new - held.keys()), np.int64)))
    return Decided((partition.delete(runs, Reason.OWNER),) if runs else (), Deleted(offsets, others, leased, due))


def _held(partition: Partition, offsets: set[int], lease_now: int) -> dict[int, SubscriptionLease]:
    """Those of the offsets that are under an active lease."""
    held: dict[int, SubscriptionLease] = {}
    if offsets and len(partition.ledgers):
        rows = RowSet.of_runs(runs_of(np.array(sorted(offsets), np.int64)))
        for lease in sorted(partition.ledgers.leased(rows, lease_now), key=lambda lease: lease.leased.until):
            held |= dict.fromkeys(lease.leased.rows.offsets().tolist(), lease)
    return held


def look_for(partition: Partition, wanted: Ids, old: bool) -> Lookup | Wait | None:
    """What has to be looked up before it is known whose messages these are; None if none of the ids is known."""
    lookup = known_messages.look_for(partition, wanted, old=old)
    generated = {known_messages.offset_of(partition, given, None, old=old) for given in wanted.given_back} - {0}
    if lookup is None or max(generated, default=0) >= partition.committed_offset:
        return Wait()
    if not generated and not len(lookup.hits.rows) and not lookup.sealed and not lookup.batches:
        return None
    return lookup._replace(owned=np.array(sorted(generated), np.int64))


def messages_of(partition: Partition, wanted: Ids, now: int, found: Found, old: bool) -> Iterator[tuple[int, int, str]]:
    """The row of the request, the offset and the owner of each message that was found and that
    retention has not taken.
    """
    natural = known_messages.recognised(partition, found, now, old=old)
    places = [(row, at, found.groups.get(at)) for row, at in zip(natural.rows.tolist(), natural.offsets.tolist(), strict=True)]
    for given in wanted.given_back:
        offset, sealed = known_messages.offset_of(partition, given, found, old=old), found.batches.get(known_messages.name_of(given))
        places.append((given.row, offset, found.groups.get(offset) if sealed is None else sealed.group))
    for row, offset, owner in places:
        if offset and owner is not None and len(partition.retained.of(np.array([offset], np.int64))):
            yield row, offset, owner  # one that was published while the lookup went on has no owner yet: it is not found
