"""A world that drives one partition with its subscriptions, and what the catalog has of it.

It publishes, deletes, raises floors, creates, alters and deletes subscriptions, grants and settles,
captures, crashes between the parts of a capture, trims the journal, and loads. After every load all
of the state is compared with what ran before. What a step does is up to who picks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from bowstring.core import granting, journal, settling, snapshots, subscribing
from bowstring.core.changes import Append, Change, Reason
from bowstring.core.decisions import Decided
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import SetAsideReason, Settlement
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, OutcomeRows, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings
from tests.unit.pickers import Picker, Seeded

NAMES = ["ada", "bob"]
WINDOW = 600
ADA = b"a" * 16
Choice = TypeVar("Choice")


class PartitionWorld:
    """One partition, its journal and its states at rest."""

    def __init__(self, picker: Picker) -> None:
        self.picker = picker
        self.now = 1_000
        self.partition = Partition(1, 0, WINDOW)
        self.sequence = 0
        self.journal: dict[int, bytes] = {}
        self.states: dict[tuple[str, int], tuple[bytes, int]] = {}
        self.sealed = 1
        self.requests = 0
        self.numbers: set[int] = set()
        """Those that were ever given to a subscription."""

    def number(self, low: int, high: int) -> int:
        return self.picker.number(low, high)

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.number(0, len(choices) - 1)]

    def step(self) -> None:
        """Something happens."""
        getattr(self, self.one_of(STEPS))()
        self.partition.check()

    def write(self, *changes: Change | None) -> None:
        """A flush with these changes."""
        made = tuple(change for change in changes if change is not None)
        if made:
            self.partition.take(Decided(made, None))
            self.sequence += 1
            self.journal[self.sequence] = journal.encode(made)
            for change in made:
                self.partition.committed(change, self.sequence)

    # The log

    def publish(self) -> None:
        rows, number = self.number(1, 20), self.sequence + 1
        self.write(Append(1, 0, self.partition.next_offset, rows, self.now, 2, ADA, number, segment=7, length=100))

    def wait(self) -> None:
        self.now += self.number(1, 12)

    def some(self, first: int, end: int) -> set[int]:
        if first >= end:
            return set()
        low, high = sorted((self.number(first, end), self.number(first, end)))
        return set(range(low, high, self.one_of([1, 1, 2, 3])))

    def delete(self) -> None:
        chosen, reason = self.some(self.partition.retained.first, self.partition.next_offset), self.one_of(list(Reason))
        if chosen:
            self.write(self.partition.delete(_runs(chosen), reason))

    def raise_floor(self) -> None:
        retained = self.partition.retained
        floor = min(retained.floor + self.number(0, 12), self.partition.committed_offset)
        leased = set(self.partition.ledgers.kept(floor).offsets().tolist())
        kept = (self.some(retained.floor, floor) | leased) & set(range(retained.floor, floor))
        released = {row for row in self.some(1, retained.floor) if retained.kept.any(row, row + 1)} - leased
        self.write(self.partition.raise_floor(floor, _runs(kept), _runs(released)))

    # Subscriptions

    def subscribe(self) -> None:
        if len(self.partition.ledgers) < 3:
            number, settings = self.partition.ledgers.next_number, SubscriptionSettings(lease=self.number(1, 9))
            assert number not in self.numbers, "a number is used again"
            self.numbers.add(number)
            offset = self.number(1, self.partition.next_offset)
            self.write(subscribing.subscribe(self.partition, number, self.one_of(NAMES), settings, offset, self.now))

    def unsubscribe(self) -> None:
        if len(self.partition.ledgers) and self.number(0, 1):
            self.write(subscribing.unsubscribe(self.partition, self.one_of(sorted(self.partition.ledgers.numbers()))))

    def ledger(self) -> Ledger | None:
        numbers = sorted(self.partition.ledgers.numbers())
        return self.partition.ledgers.get(self.one_of(numbers)) if numbers else None

    def alter(self) -> None:
        if (ledger := self.ledger()) is not None:
            self.write(subscribing.alter(self.partition, ledger.subscription, SubscriptionSettings(lease=self.number(1, 9))))

    def grant(self) -> None:
        if (ledger := self.ledger()) is not None:
            granted = granting.grant(ledger, self.one_of(NAMES), self.number(1, 25), self.partition.next_offset, 10, self.now)
            self.write(*(granted.changes if granted is not None else ()))

    def held(self, ledger: Ledger) -> GrantRows | None:
        """Some rows of a grant, or all."""
        leases = [lease for lease in ledger.leases if lease.until > self.now]
        if not leases:
            return None
        lease = self.one_of(leases)
        chosen = self.some(lease.rows.first, lease.rows.stop) if self.number(0, 1) else set[int]()
        return GrantRows(lease.number, lease.rows & RowSet.of_runs(_runs(chosen)) if chosen else None)

    def settle(self) -> None:
        if (ledger := self.ledger()) is not None and (part := self.held(ledger)) is not None:
            self.requests += 1
            holder = ledger.consumers[ledger.leases.of_grant(part.grant)[0].consumer].name
            outcome = OutcomeRows(part.grant, self.one_of(list(Settlement)), part.rows)
            self.write(*settling.settle(ledger, SettleRequest(holder, self.requests, [outcome], self.requests - 1), self.now).changes)

    def extend(self) -> None:
        if (ledger := self.ledger()) is not None and (part := self.held(ledger)) is not None:
            holder = ledger.consumers[ledger.leases.of_grant(part.grant)[0].consumer].name
            self.write(*settling.extend(ledger, holder, [part], self.now + self.number(1, 30), self.now).changes)

    def set_aside(self) -> None:
        if (ledger := self.ledger()) is not None and (part := self.held(ledger)) is not None:
            self.write(settling.set_aside(ledger, [part], SetAsideReason.EXPIRED))

    def expire(self) -> None:
        self.write(*(settling.expire(ledger, self.now) for ledger in self.partition.ledgers))

    def seek(self) -> None:
        if (ledger := self.ledger()) is not None and self.number(0, 2) == 0:
            offset = self.number(self.partition.retained.first, self.partition.next_offset)
            self.write(settling.reset(ledger, offset, subscribing.rows_gone(self.partition, offset)))

    # At rest

    def seal(self) -> None:
        """A capture is written, up to some part. If not all of it is, the broker crashes, or puts
        the rest back.
        """
        self.sealed = self.partition.committed_offset
        self.partition.sealed(self.sealed, 0)
        parts = snapshots.capture(self.partition)
        written = self.number(0, 2 * len(parts))
        for part in parts[:written]:
            key, data = (part.machine, part.number), part.encode()
            if data:
                self.states[key] = data, self.sequence
            else:
                self.states.pop(key, None)
        if written >= len(parts):
            self.partition.snapshot_sequence, self.partition.snapshot_end = self.sequence, self.partition.sealed_end
        elif self.number(0, 1):
            self.load()
        else:
            snapshots.put_back(self.partition, parts[written:])

    def trim(self) -> None:
        """The last row stays."""
        upto = min(self.partition.oldest_needed(), self.sequence)
        self.journal = {sequence: row for sequence, row in self.journal.items() if sequence >= upto}

    def load(self) -> None:
        """A broker loads what the catalog has, and goes on with that."""
        loaded = Partition(1, 0, WINDOW)
        heads = sorted(self.states.items(), key=lambda item: item[0][0] != snapshots.PARTITION)
        for (machine, part), (data, sequence) in heads:
            if machine == snapshots.PARTITION:
                snapshots.restore(loaded, data, sequence)
            else:
                snapshots.restore_chunk(loaded, machine, part, data, sequence)
        assert not loaded.ledgers.missing, "the head of a ledger is missing"
        loaded.sealed_end = max(loaded.sealed_end, self.sealed)
        for sequence, row in self.journal.items():
            for change in journal.decode(row):
                loaded.replay(change, sequence)
        loaded.sealed(loaded.sealed_end, 0)
        loaded.check()
        resting = set(loaded.ledgers._resting)
        assert {one.number for one in loaded.ledgers.subscriptions()} == self.partition.ledgers.numbers()
        assert loaded.ledgers.next_deadline() == self.partition.ledgers.next_deadline()
        assert loaded.ledgers.moment == self.partition.ledgers.moment
        assert resting == set(loaded.ledgers._resting), "somebody has woken a ledger for nothing"
        assert loaded.state() == self.partition.state()
        self.partition = loaded

    def only_what_is_there_is_at_rest(self) -> None:
        """When all is written, the catalog has no rows of subscriptions that are gone."""
        if not self.partition.is_ahead_of_snapshot:
            at_rest = {snapshots.ledger_number(machine) for machine, _ in self.states} - {None}
            assert at_rest == self.partition.ledgers.numbers()


def _runs(offsets: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple(runs_of(np.array(sorted(offsets), np.int64)))


OFTEN = ["publish", "wait", "grant", "grant", "grant", "settle", "settle", "settle", "expire", "extend", "seal", "seal", "load", "trim"]
SELDOM = ["delete", "raise_floor", "alter", "set_aside", "seek", "only_what_is_there_is_at_rest"]
STEPS = [*OFTEN, *OFTEN, "subscribe", "subscribe", "unsubscribe", "unsubscribe", *SELDOM]


def live_through(seed: int, steps: int) -> None:
    """So many steps, decided by a seed."""
    world = PartitionWorld(Seeded(seed))
    for _ in range(steps):
        world.step()
