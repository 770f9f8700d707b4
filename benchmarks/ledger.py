"""What the ledger costs by itself, without broker, network or disk: `python -m benchmarks.ledger`.

CPU time of one thread, the best of several rounds, over ten million pending rows. A grant or a
settlement here is the whole way of a change: the decision, and the change applied. With `--encoded`
the change is written as the journal has it, too.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bowstring.core import granting, journal, settling
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import OneLedgerChange, Settlement
from bowstring.core.row_set import RowSet
from bowstring.core.settling import OutcomeRows, SettleRequest

PENDING = 10_000_000
LEASE = 30_000_000


class Worker:
    """A consumer of one ledger."""

    def __init__(self, *, encoded: bool = False, pending: int = PENDING) -> None:
        self.ledger = Ledger(300, 0, 20)
        self.end = pending + 1
        self.now = 1_700_000_000_000_000
        self.encoded = encoded
        self.bytes = 0
        self._request = 0

    def _apply(self, changes: tuple[OneLedgerChange, ...]) -> None:
        if self.encoded:
            self.bytes += len(journal.encode(changes)) - 3
        for change in changes:
            self.ledger.apply(change)

    def grant(self, rows: int, name: str = "worker") -> granting.Granted:
        self.now += 50
        granted = granting.grant(self.ledger, name, rows, self.end, LEASE, self.now)
        assert granted is not None
        self._apply(granted.changes)
        return granted

    def settle(self, *parts: OutcomeRows) -> None:
        self._request += 1
        done = settling.settle(self.ledger, SettleRequest("worker", self._request, parts, self._request - 1), self.now)
        assert not done.refused
        self._apply(done.changes)


def in_order(worker: Worker, rows: int, grants: int) -> None:
    for _ in range(grants):
        worker.settle(OutcomeRows(worker.grant(rows).number, Settlement.ACK))


def out_of_order(worker: Worker, rows: int, grants: int) -> None:
    """So many grants are held, and acked in any order."""
    held, source = [worker.grant(rows).number for _ in range(64)], random.Random(1)
    for _ in range(grants):
        place = source.randrange(64)
        worker.settle(OutcomeRows(held[place], Settlement.ACK))
        held[place] = worker.grant(rows).number


def in_masks(worker: Worker, rows: int, grants: int) -> None:
    """Each grant in two requests: every other row, then the rest."""
    for _ in range(grants):
        granted = worker.grant(rows)
        half = RowSet.of_offsets(np.arange(granted.rows.first, granted.rows.stop, 2))
        worker.settle(OutcomeRows(granted.number, Settlement.ACK, half))
        worker.settle(OutcomeRows(granted.number, Settlement.ACK))


def a_tenth_nacked(worker: Worker, rows: int, grants: int) -> None:
    """Every tenth row fails the first time, and comes again with the next grant."""
    for _ in range(grants):
        granted = worker.grant(rows)
        offsets = granted.rows.offsets()
        failed = RowSet.of_offsets(offsets[(offsets % 10 == 3) & (worker.ledger.retry_counts(granted.rows) == 0)])
        nacked = OutcomeRows(granted.number, Settlement.NACK, failed)
        acked = OutcomeRows(granted.number, Settlement.ACK)
        worker.settle(nacked, acked) if failed else worker.settle(acked)


def nanoseconds(work: Callable[[Worker, int, int], None], rows: int, rounds: int, *, encoded: bool) -> tuple[float, float]:
    """CPU time of a row, and bytes of a grant with its settlement."""
    grants = max(300, min(20_000, 2_000_000 // rows))
    best, size = float("inf"), 0.0
    for _ in range(rounds):
        worker = Worker(encoded=encoded)
        work(worker, rows, 100)
        worker.bytes = 0
        gc.collect()
        begun = time.process_time()
        work(worker, rows, grants)
        best = min(best, (time.process_time() - begun) / grants / rows * 1e9)
        size = worker.bytes / grants
    return best, size


def expiry(rows: int, rounds: int) -> float:
    """Milliseconds in which all leases over ten million rows expire."""
    best = float("inf")
    for _ in range(rounds):
        worker = Worker()
        for number in range(PENDING // rows):
            worker.grant(rows, f"worker {number // 1_000}")
        worker.now += 2 * LEASE
        begun = time.process_time()
        change = settling.expire(worker.ledger, worker.now)
        assert change is not None
        worker.ledger.apply(change)
        best = min(best, (time.process_time() - begun) * 1e3)
        assert worker.ledger.waiting(worker.end) == PENDING
    return best


def memory() -> dict[str, float]:
    """Bytes of memory for a row, by the growth of the process: leases of rows in order, and rows
    that have failed once and wait, among others that are settled.
    """
    figures = {"leased in order, 1,000 a grant": _grown(lambda: _leased(1_000), 1_000_000)}
    for each, retries in ((10, 1_000_000), (1_000, 200_000)):
        figures[f"with a retry, one in {each:,}"] = _grown(lambda each=each, retries=retries: _retried(each, retries), retries)
    return figures


def _grown(work: Callable[[], Worker], rows: int) -> float:
    work()  # what is grown once and used again is not counted
    gc.collect()
    before = _resident()
    kept = [work() for _ in range(4)]
    gc.collect()
    return max(0, _resident() - before) / rows / len(kept)


def _leased(grants: int) -> Worker:
    worker = Worker()
    for _ in range(grants):
        worker.grant(1_000)
    return worker


def _retried(each: int, retries: int) -> Worker:
    worker = Worker(pending=each * retries)
    granted = worker.grant(each * retries)
    failed = RowSet.of_offsets(np.arange(1, each * retries + 1, each))
    worker.settle(OutcomeRows(granted.number, Settlement.NACK, failed), OutcomeRows(granted.number, Settlement.ACK))
    return worker


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the ledger costs by itself.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoded", action="store_true", help="write the changes, too")
    parser.add_argument("--memory", action="store_true", help="only what a pending row takes, as JSON")
    options = parser.parse_args()
    if options.memory:
        print(json.dumps(memory()))
        return
    works = {"in order": in_order, "grants in any order": out_of_order, "in masks": in_masks, "a tenth nacked": a_tenth_nacked}
    for name, work in works.items():
        for rows in (100, 1_000) if work is in_masks else (1, 100, 1_000):
            cost, size = nanoseconds(work, rows, options.rounds, encoded=options.encoded)
            told = f", {size:.0f} B a grant with its settlement" if options.encoded else ""
            print(f"{name}, {rows:,} a grant: {cost:,.1f} ns a row, {cost * rows / 1e3:,.1f} µs a grant{told}")
    for rows in (1_000, 100):
        print(f"ten million rows expire, {rows:,} a grant: {expiry(rows, options.rounds):,.0f} ms")
    for name, held in memory().items():
        print(f"memory of a row, {name}: {held:.2f} B")


if __name__ == "__main__":
    main()
