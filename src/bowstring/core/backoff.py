"""When rows come again that failed, in a subscription with a backoff.

The wait depends on how often a row was delivered before. That is in a chunk of the state at rest,
which may be newer than the head, so replay must not ask for it: the moments are decided here and
stand in the change.
"""

from __future__ import annotations

import math

import numpy as np

from bowstring.core.addresses import Spans
from bowstring.core.key_rows import once
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import LaterPart
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import Backoff


def wait_of(backoff: Backoff, failures: int) -> int:
    """How long a row waits after so many failures, in microseconds."""
    first, factor, most = backoff
    if first >= most or factor <= 1:
        return min(first, most)
    steps = min(failures - 1, math.ceil(math.log(most / max(first, 1), factor)))
    return min(most, round(first * factor**steps))


def backed_off(ledger: Ledger, rows: RowSet, now: int, spans: Spans | None = None) -> tuple[LaterPart, ...]:
    """When rows come again that are given back and counted now; nothing if there is no backoff. `spans`
    are all of them as a change has them, if that is known.
    """
    backoff = ledger.settings.backoff
    if backoff is None or not rows:
        return ()
    if not ledger.counts.reaching(rows, 1):
        return (LaterPart(now + wait_of(backoff, 1), rows.spans() if spans is None else spans),)
    counts = ledger.retry_counts(rows)
    different = once(counts.astype(np.int64)).tolist()  # np.unique imports numpy.ma, which holds up the loop
    if len(different) == 1:
        return (LaterPart(now + wait_of(backoff, different[0] + 1), rows.spans() if spans is None else spans),)
    offsets = rows.offsets()
    parts = [(count, RowSet.of_offsets(offsets[counts == count])) for count in different]
    return tuple(LaterPart(now + wait_of(backoff, count + 1), some.spans()) for count, some in parts)
