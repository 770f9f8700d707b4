"""An owner gives messages that are not due yet another due time: `move` decides about the ids of one
request, for one partition.

Whose a message is and when it is due stands in its page, so it is looked up first, as for a delete
(`deleting`). Nothing changes here.

A moment that has passed means now. A message that is due cannot be moved any more, with one exception:
a request whose answer got lost comes again when its messages may be due, and is answered as it was the
first time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bowstring.core import known_messages
from bowstring.core.decisions import Decided, Decision, Found, Ids, Rescheduled
from bowstring.core.deleting import look_for, messages_of
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.messages.limits import MOVED_MAX

Stored = Mapping[int, tuple[int, int]]
"""By offset, when a message was to be due when it was published, and when it expires; 0 for never."""


def move(
    partition: Partition, wanted: Ids, group: str, due: int, now: int, found: Found | None, *, old: bool, stored: Stored | None
) -> Decision[Rescheduled]:
    """Moves what belongs to the group and is not due. Without `stored` it only says which messages
    these may be: they are all `due`.
    """
    offsets = np.zeros(len(wanted.hashes), np.int64)
    others: dict[int, str] = {}
    if found is None or found.moves != partition.moves:
        lookup = look_for(partition, wanted, old)
        return Decided((), Rescheduled(offsets, others, {}, {}, set())) if lookup is None else lookup
    mine: dict[int, list[int]] = {}
    for row, offset, owner in messages_of(partition, wanted, now, found, old):
        if owner == group:
            mine.setdefault(row, []).append(offset)
        else:
            others[row] = owner
    asked = Rescheduled(offsets, others, {}, {}, set())
    moved: set[int] = set()
    for row, places in mine.items():
        offset = known_messages.newest(partition, places)
        if not offset or partition.deletions.is_gone(offset):
            continue
        published, expires = (stored or {}).get(offset, (0, 0))
        present, is_moved = partition.moved_rows.due_of(offset, published), partition.moved_rows.any(offset, offset + 1)
        if stored is None or (present <= now and not (is_moved and due <= present)):
            asked.due[row] = offset
        elif present <= now or present == due:
            offsets[row] = offset
        elif expires and max(due, now) >= expires:
            asked.expired[row] = expires
        elif not is_moved and offset not in moved and len(partition.moved_rows) + len(moved) >= MOVED_MAX:
            asked.full.add(row)
        else:
            offsets[row] = offset
            moved.add(offset)
    runs = tuple(runs_of(np.array(sorted(moved), np.int64)))
    return Decided((partition.reschedule(runs, max(due, now)),) if runs else (), asked)
