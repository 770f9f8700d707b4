"""A ledger over a log of a thousand rows, with consumers that number their requests: for stories."""

from __future__ import annotations

from bowstring.core import granting, ledger_changes, settling
from bowstring.core.granting import Granted
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Settlement
from bowstring.core.row_set import RowSet
from bowstring.core.settling import OutcomeRows, SettleRequest

SECOND = 1_000_000
LEASE = 30 * SECOND
ACK, NACK, REJECT, RELEASE, CONDEMN = Settlement


def run(first: int, rows: int = 1) -> RowSet:
    return RowSet(first, first + rows)


class Queue:
    """One subscription, told from outside."""

    def __init__(self, ledger: Ledger | None = None, end: int = 1_001) -> None:
        self.ledger = ledger or Ledger(1, 0, 7)
        self.end = end
        self.now = 100 * SECOND
        self.requests: dict[str, int] = {}
        self.last: SettleRequest | None = None

    def grant(self, most: int = 10, name: str = "ada", lease: int = LEASE) -> Granted:
        granted = granting.grant(self.ledger, name, most, self.end, lease, self.now)
        assert granted is not None
        self.apply(granted.changes)
        return granted

    def apply(self, changes: tuple[ledger_changes.OneLedgerChange, ...]) -> None:
        for change in changes:
            self.ledger.apply(change)
        self.ledger.check()

    def settle(self, outcome: Settlement, grant: int, rows: RowSet | None = None, name: str = "ada") -> settling.RowsDone:
        number = self.requests[name] = self.requests.get(name, 0) + 1
        self.last = SettleRequest(name, number, [OutcomeRows(grant, outcome, rows)])
        return self.send(self.last)

    def send(self, request: SettleRequest) -> settling.RowsDone:
        done = settling.settle(self.ledger, request, self.now)
        self.apply(done.changes)
        return done

    def expire(self) -> None:
        change = settling.expire(self.ledger, self.now)
        assert change is not None
        self.apply((change,))

    def retries(self, first: int, rows: int = 1) -> list[int]:
        return self.ledger.retry_counts(run(first, rows)).tolist()
