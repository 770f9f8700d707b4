"""The request to one ledger for rows that a consumer has named."""

from __future__ import annotations

from collections.abc import Callable

from bowstring.broker.queue.lease_requests import GrantToConsumer, Now
from bowstring.core import granting, naming
from bowstring.core.decisions import Decided, Decision
from bowstring.core.granting import Granted
from bowstring.core.ledger import Ledger
from bowstring.core.naming import KnownRows, NamedChoice
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet


class GrantNamed(GrantToConsumer):
    """A consumer gets the rows that it has named, as far as they can be granted."""

    __slots__ = ("_known", "_named", "choice")

    def __init__(
        self,
        subscription: int,
        now: Now,
        told: Callable[[Granted | Exception | None], None],
        consumer: str,
        lease: int,
        named: RowSet,
        known: KnownRows,
    ) -> None:
        super().__init__(subscription, now, told, consumer, len(named), lease)
        self._named = named
        self._known = known
        self.choice: NamedChoice | None = None
        """Where the rows were found; None if nothing was decided."""

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[Granted | None]:
        self.choice = naming.choose_named(ledger, self._named, self._known, now)
        self.granted = granted = granting.grant_chosen(ledger, self._consumer, self.choice.chosen, self._lease, now)
        return Decided(() if granted is None else granted.changes, granted)
