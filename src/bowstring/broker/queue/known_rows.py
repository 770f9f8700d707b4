"""What is known of rows that a consumer has asked for: whether they are due, pass the filter and have a
free key. The schedule, the scout and the keys find that out; here it is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.granter import pass_by
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.page_looks import AHEAD_ROWS
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.ledger import Ledger
from bowstring.core.naming import KnownRows
from bowstring.core.row_set import RowSet

KNOWN_SECONDS: Final = 5.0
"""So long it waits until more is known of rows."""
ALL_ROWS: Final = 1 << 62


class RowsAhead:
    """The rows of one partition from the cursor on."""

    def __init__(self, subscription: LiveSubscription, actor: PartitionActor, clock: LeaseClock) -> None:
        self._subscription = subscription
        self._actor = actor
        self._clock = clock

    def known(self, ledger: Ledger) -> KnownRows:
        """What is known now. Rows that are not due are passed by first."""
        subscription, actor = self._subscription, self._actor
        pass_by(subscription, actor, ledger, self._clock)
        end = subscription.end(actor, ledger)
        if subscription.scout is None:
            return KnownRows(end)
        scouted = subscription.scout.eligible(actor, ledger, ALL_ROWS)
        return KnownRows(min(end, scouted.end), RowSet.of_offsets(scouted.offsets).below(end))

    async def until_known(self, rows: RowSet, found: Callable[[], Ledger | None]) -> None:
        """Waits until these rows are known, or as long as that may take. There is nothing to wait for
        when no ledger is found.
        """
        subscription, woken = self._subscription, asyncio.Event()
        subscription.awaiting.add(woken)
        sleeping = asyncio.ensure_future(self._clock.sleep(KNOWN_SECONDS))
        try:
            while not sleeping.done() and (ledger := found()) is not None and not self._knows(ledger, rows):
                waiting = asyncio.ensure_future(woken.wait())
                await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                woken.clear()
        finally:
            sleeping.cancel()
            subscription.awaiting.discard(woken)

    def _knows(self, ledger: Ledger, rows: RowSet) -> bool:
        known, keys = self.known(ledger), self._subscription.keys
        if keys is not None:
            return keys.partition(self._actor).knows(ledger, rows, known.end)
        ahead = rows - RowSet(0, ledger.cursor)
        return not ahead or ahead.stop <= known.end or (known.passing is not None and len(known.passing) >= AHEAD_ROWS)
