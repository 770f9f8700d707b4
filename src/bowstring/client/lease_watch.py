"""Watches when leases end: extends them in time, and has ended ones checked.

When half of a lease is over and it has rows that are not settled, the kit extends it, if the program
is alive (`alive=`) and for at most `extend_max` since the program got the row. A row that the program
has not seen counts from its arrival. Rows that are not extended end at their time; those that the
program has not seen are given back, which does not count as a delivery.

Leases lie in the order of their next deadline, because all of a consumer's last equally long: one
timer is enough. A settled lease leaves at once. With a manual clock nothing happens by itself: the
rows in hand are checked one by one, and tests extend by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import numpy as np

from bowstring.client.lease_extension import Extension
from bowstring.client.lease_marks import Rows
from bowstring.client.lease_time import LeaseTime
from bowstring.client.leased_page import HeldLease, LeasedPage

LATE_SECONDS: Final = 0.001
"""How much later than its moment the timer fires: then the moment has passed, however the loop
rounds."""

_NO_ROWS: Final[Rows] = np.zeros(0, np.intp)

Alive = Callable[[], Awaitable[bool]]


class LeaseWatch:
    """The leases of one consumer by their next deadline. On the loop."""

    def __init__(
        self,
        lease_time: LeaseTime,
        *,
        alive: Alive,
        extend_max: float,
        seen: Callable[[LeasedPage], int],
        extend: Callable[[list[Extension]], object],
        give_back: Callable[[list[LeasedPage]], object],
        doubted: Callable[[], object],
    ) -> None:
        self.span = 0
        """How long the consumer's leases last, in microseconds; 0 until it is known."""
        self._lease_time = lease_time
        self._loop = asyncio.get_running_loop()
        self._alive = alive
        self._extend_max = extend_max
        self._seen = seen
        """How many rows of a page the program has got."""
        self._extend = extend
        self._give_back = give_back
        """Gives the rows of pages back that the program has not seen."""
        self._doubted = doubted
        self._leases: dict[HeldLease, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._due: list[HeldLease] = []
        """Half of these is over."""

    def add(self, lease: HeldLease) -> None:
        """Watches a lease from now on, or anew after its end has moved."""
        lease.due = lease.until - self.span // 2
        self._leases.pop(lease, None)
        newest = next(reversed(self._leases), None)
        self._leases[lease] = None
        if newest is not None and newest.due > lease.due:
            self._leases = dict.fromkeys(sorted(self._leases, key=lambda each: each.due))
        if self._timer is None or next(iter(self._leases)) is lease:
            self._set_timer()

    def drop(self, lease: HeldLease) -> None:
        """Nothing of the lease is held any more."""
        self._leases.pop(lease, None)

    def close(self) -> None:
        """Watches nothing any more."""
        self._leases.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        first = next(iter(self._leases), None)
        if first is not None and not self._lease_time.is_followed:
            seconds = (first.due - self._lease_time.latest()) / 1e6
            self._timer = self._loop.call_later(max(0.0, seconds) + LATE_SECONDS, self._fire)

    def _fire(self) -> None:
        self._timer, now = None, self._lease_time.latest()
        due: list[HeldLease] = []
        while (lease := next(iter(self._leases), None)) is not None and lease.due <= now:
            del self._leases[lease]
            if lease.until <= now:
                self._doubted()
            elif lease.pages:
                due.append(lease)
        for lease in due:  # from here on it is looked at again only when it has ended
            lease.due = lease.until
            self._leases[lease] = None
        if due:
            self._leases = dict.fromkeys(sorted(self._leases, key=lambda each: each.due))
            self._ask(due)
        self._set_timer()

    def _ask(self, due: list[HeldLease]) -> None:
        """Asks whether the program is alive, one question at a time."""
        self._due += due
        if self._asking is None or self._asking.done():
            self._asking = self._loop.create_task(self._act(), name="bowstring lease extension")

    async def _act(self) -> None:
        while self._due:
            is_alive = await self._alive()
            due, self._due = self._due, []
            now = self._lease_time.monotonic()
            whole: dict[int, list[HeldLease]] = {}
            some: list[Extension] = []
            unseen: list[LeasedPage] = []
            for lease in due:
                parts: list[tuple[LeasedPage, Rows]] = [(page, self._extended(page, now) if is_alive else _NO_ROWS) for page in lease.pages]
                if all(rows is None for _, rows in parts):
                    whole.setdefault(lease.partition, []).append(lease)
                else:
                    unseen += [page for page, rows in parts if rows is not None and not np.any(rows >= self._seen(page))]
                    if extended := [(page, rows) for page, rows in parts if rows is None or len(rows)]:
                        some.append(Extension(lease.partition, extended, leases=(lease,)))
            if unseen:
                self._give_back(unseen)
            self._extend([*(Extension(partition, [], leases=tuple(leases)) for partition, leases in whole.items()), *some])

    def _extended(self, page: LeasedPage, now: float) -> Rows:
        """The rows of a page to extend; None for all that are not settled."""
        seen = self._seen(page)
        if seen > (page.progress[-1][0] if page.progress else 0):
            page.progress.append((seen, now))
        over = max((rows for rows, since in page.progress if since + self._extend_max <= now), default=0)
        unseen_over = page.came + self._extend_max <= now and seen < page.rows
        if not over and not unseen_over:
            return None
        unsettled = page.unsettled()
        rows = np.arange(page.rows) if unsettled is None else unsettled
        return rows[(rows >= over) & ((rows < seen) | (not unseen_over))]

    def extended(self, leases: Iterable[HeldLease]) -> None:
        """The broker has extended these."""
        for lease in leases:
            if lease.pages and not lease.is_lost:
                self.add(lease)
