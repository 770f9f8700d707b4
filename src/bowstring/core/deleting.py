"""An owner deletes messages by their ids: `delete` decides about the ids of one request, for one partition.

A message belongs to the producer group that published it, and only that may delete it. Whose it is stands in its page, so there is
always something to look up. It gives one of:

- `Deleted`: the change to persist, and what became of each id. The change is applied already; whoever calls holds the answer until the
  flush that it rests on is committed.
- `Lookup`: some of the ids may be known. Read, compare, and call again with what was `Found`.
- `Wait`: one of the messages is not committed yet. Call again after the next commit.

A deleted message is delivered to nobody, and its id stays taken for the deduplication window, so that a late resend does not bring it
back. For as long as its page is there a delete can be repeated: it is answered as it was the first time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bowstring.core import known_messages
from bowstring.core.changes import Reason
from bowstring.core.decisions import Deleted, Deletion, Found, Ids, Lookup, Wait
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition


def delete(partition: Partition, wanted: Ids, group: str, now: int, found: Found | None = None) -> Deletion:
    """Deletes what belongs to the group; see above."""
    offsets = np.zeros(len(wanted.hashes), np.int64)
    others: dict[int, str] = {}
    if found is None or found.moves != partition.moves:
        lookup = _look_for(partition, wanted)
        return Deleted(None, offsets, others) if lookup is None else lookup
    for row, offset, owner in _messages(partition, wanted, now, found):
        if owner == group:
            offsets[row] = offset
        else:
            others[row] = owner
    new = sorted({offset for offset in offsets[offsets > 0].tolist() if not partition.deletions.is_gone(offset)})
    runs = tuple(runs_of(np.array(new, np.int64)))
    return Deleted(partition.delete(runs, Reason.OWNER) if runs else None, offsets, others)


def _look_for(partition: Partition, wanted: Ids) -> Lookup | Wait | None:
    """None if nobody knows any of these ids."""
    lookup = known_messages.look_for(partition, wanted)
    generated = {known_messages.offset_of(partition, given, None) for given in wanted.given_back} - {0}
    if lookup is None or max(generated, default=0) >= partition.committed_offset:
        return Wait()
    if not generated and not len(lookup.hits.rows) and not lookup.sealed and not lookup.batches:
        return None
    return lookup._replace(owned=np.array(sorted(generated), np.int64))


def _messages(partition: Partition, wanted: Ids, now: int, found: Found) -> Iterator[tuple[int, int, str]]:
    """The row of the request, the offset and the owner of each message that was found and that retention has not taken."""
    natural = known_messages.recognised(partition, found, now)
    places = [(row, at, found.groups.get(at)) for row, at in zip(natural.rows.tolist(), natural.offsets.tolist(), strict=True)]
    for given in wanted.given_back:
        offset, sealed = known_messages.offset_of(partition, given, found), found.batches.get(known_messages.name_of(given))
        places.append((given.row, offset, found.groups.get(offset) if sealed is None else sealed.group))
    for row, offset, owner in places:
        if offset and owner is not None and len(partition.retained.of(np.array([offset], np.int64))):
            yield row, offset, owner  # one that was published while the lookup went on has no owner yet: it is not found
