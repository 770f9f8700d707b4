"""The ledgers of one partition, one for each subscription of its topic.

Deletions and floors of the partition concern all of them; everything else concerns one. A partition
owns its ledgers, so that a delete, a lease and a floor cannot pass each other.

A ledger that was loaded stays as it was at rest until a change or a question comes to it. What is
asked of all of them, who they are and when a lease ends, their heads tell.

At load the head of the partition says which subscriptions there were as of its flush. Ledgers are
written before that head, and the rows of a subscription that is gone are removed after it. So all
that it names are there; what is there beside them is newer than it, or is to be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from bowstring.core.changes import Delete, Floor
from bowstring.core.leases import LeasedRows
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import (
    AlterSubscription,
    Bury,
    Condemn,
    Expire,
    Extend,
    GiveBack,
    Grant,
    Join,
    LedgerChange,
    OneLedgerChange,
    Overtake,
    PassBy,
    Redrive,
    Reset,
    SetAside,
    Settle,
    Skip,
    Subscribe,
    Unsubscribe,
)
from bowstring.core.ledger_state import HEAD, LedgerHead, LedgerState, LedgerStatePart, RestingLedger
from bowstring.core.machine import NEVER, LedgerParts, Machine
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings


class SubscriptionLease(NamedTuple):
    """Rows under an active lease of a subscription."""

    subscription: int
    leased: LeasedRows
    name: str = ""
    """The subscription's."""


class NamedSubscription(NamedTuple):
    """A subscription of the partition's topic."""

    number: int
    name: str
    settings: SubscriptionSettings
    created: int
    lane: bool = False
    """It is one of another topic, whose dead letters are here."""


class LedgerFigures(NamedTuple):
    """How far a subscription is in the partition, in rows."""

    floor: int
    cursor: int
    backlog: int
    leased: int
    later: int = 0
    """Those that come at a time of their own, and are not here yet."""
    overtaken: int = 0
    """Those that expired before they were settled."""


class LedgersParts(NamedTuple):
    """The state of the ledgers at rest."""

    next_number: int
    ledgers: dict[int, LedgerParts]


class Ledgers(Machine[LedgerChange | Delete | Floor, LedgersParts]):
    """By the number of the subscription."""

    def __init__(self, topic: int, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.next_number = 1
        """The number of the next subscription. Durable: none is ever used again, so that one that
        was deleted and made anew is another.
        """
        self._ledgers: dict[int, Ledger] = {}
        self._states: dict[int, LedgerState] = {}
        """What of these is at rest."""
        self._resting: dict[int, RestingLedger] = {}
        """Ledgers that were not needed yet."""
        self._early: dict[int, RestingLedger] = {}
        """At load: chunks of ledgers whose `Subscribe` is still to come."""
        self._gone: dict[int, set[int]] = {}
        """The rows in the catalog of subscriptions that are gone."""
        self._named: tuple[int, ...] = ()
        """The subscriptions that the head of the partition names."""
        self._named_below = 1
        """The number of the next subscription, as of that head."""
        self._named_sequence = 0
        """The flush of that head."""

    # Applying: live and at load

    def apply(self, change: LedgerChange | Delete | Floor) -> None:
        match change:
            case Subscribe():
                self._subscribe(change)
            case Unsubscribe():
                self._unsubscribe(change.subscription)
            case Delete() | Floor():
                for ledger in self:
                    ledger.apply(change)
            case (
                Grant()
                | Settle()
                | GiveBack()
                | Extend()
                | Expire()
                | Reset()
                | Join()
                | AlterSubscription()
                | SetAside()
                | PassBy()
                | Skip()
            ):
                self[change.subscription].apply(change)
            case Condemn() | Bury() | Redrive() | Overtake():
                self[change.subscription].apply(change)
            case _:
                assert_never(change)

    def _subscribe(self, change: Subscribe) -> None:
        """A number below the next one is a creation that was cut off, and is finished here."""
        number = change.subscription
        assert number not in self, f"subscription {number} is there already"
        self.next_number = max(self.next_number, number + 1)
        self._ledgers[number] = Ledger.of(change)
        self._states[number] = LedgerState(self._ledgers[number], self._rows_of_none(number))

    def _rows_of_none(self, number: int) -> set[int]:
        """Parts in the catalog that no ledger has, until now. They are written anew."""
        early = self._early.pop(number, None)
        return self._gone.pop(number, set()) | (set[int]() if early is None else early.parts())

    def _unsubscribe(self, number: int) -> None:
        if number in self._resting:
            self._gone[number] = self._resting.pop(number).parts()
        elif number in self._ledgers:
            del self._ledgers[number]
            self._gone[number] = self._states.pop(number).parts()

    def replay(self, change: LedgerChange | Delete | Floor, sequence: int) -> None:
        """Each ledger knows which flush it was at rest with: what its head has already passes it
        by. What the head of the partition does not name, and its flush is later, is gone since.
        """
        match change:
            case Subscribe():
                if sequence > self._named_sequence and change.subscription not in self:
                    self.apply(change)
                self.next_number = max(self.next_number, change.subscription + 1)
            case Unsubscribe():
                if sequence > self._named_sequence:
                    self.apply(change)
            case Delete() | Floor():
                for number in sorted(self.numbers()):
                    self._replay_one(number, change, sequence)
            case _:
                if change.subscription in self:
                    self._replay_one(change.subscription, change, sequence)
                else:
                    assert sequence <= self._named_sequence, f"subscription {change.subscription} is not there"

    def _replay_one(self, number: int, change: OneLedgerChange | Delete | Floor, sequence: int) -> None:
        resting = self._resting.get(number)
        if resting is None or sequence > resting.sequence:
            self[number].replay(change, sequence)

    # Looking

    def numbers(self) -> set[int]:
        """Of the subscriptions that there are."""
        return {*self._ledgers, *self._resting}

    def __contains__(self, subscription: int) -> bool:
        return subscription in self._ledgers or subscription in self._resting

    def get(self, subscription: int) -> Ledger | None:
        """None if there is no such subscription."""
        ledger = self._ledgers.get(subscription)
        return self._awake(subscription) if ledger is None and subscription in self._resting else ledger

    def __getitem__(self, subscription: int) -> Ledger:
        ledger = self._ledgers.get(subscription)
        return self._awake(subscription) if ledger is None else ledger

    def _awake(self, subscription: int) -> Ledger:
        ledger = Ledger(self.topic, self.partition, subscription)
        state = LedgerState(ledger)
        state.wake(self._resting.pop(subscription))
        self._ledgers[subscription], self._states[subscription] = ledger, state
        return ledger

    def __iter__(self) -> Iterator[Ledger]:
        """By number. Those that rest are needed from here on: for who they are, `subscriptions` is
        enough.
        """
        return iter([self[number] for number in sorted(self.numbers())])

    def __len__(self) -> int:
        return len(self._ledgers) + len(self._resting)

    def subscriptions(self) -> Iterator[NamedSubscription]:
        """Who they are, in any order."""
        for number, one in (*self._ledgers.items(), *self._heads()):
            yield NamedSubscription(number, one.name, one.settings, one.created, one.lane)

    def figures(self, subscription: int, end: int) -> LedgerFigures:
        """Of rows before `end`. Most ledgers that rest need not be woken for it."""
        resting = self._resting.get(subscription)
        if resting is not None and resting.head is not None and not resting.chunks and resting.head.is_plain:
            head = resting.head
            return LedgerFigures(head.floor, head.cursor, max(0, end - head.floor), 0, 0, head.overtaken)
        ledger = self[subscription]
        places = ledger.floor, ledger.cursor, ledger.backlog(end)
        return LedgerFigures(*places, ledger.leases.rows_held, ledger.not_yet, ledger.overtaken)

    def _heads(self) -> Iterator[tuple[int, LedgerHead]]:
        for number, resting in self._resting.items():
            assert resting.head is not None
            yield number, resting.head

    def leased(self, rows: RowSet, now: int) -> Iterator[SubscriptionLease]:
        """Those of the rows that are under an active lease, of any subscription: their owner may not
        delete them.
        """
        for ledger in self._with_leases():
            for leased in ledger.leased(rows, now):
                yield SubscriptionLease(ledger.subscription, leased, ledger.name)

    def kept(self, below: int) -> RowSet:
        """Rows before the offset that are kept from retention: by leases, whether or not they have
        ended by the clock, because what ends a lease is a change; and until their dead letters are
        written.
        """
        return RowSet.union([ledger.kept(below) for ledger in self._with_leases()])

    def _with_leases(self) -> Iterator[Ledger]:
        """And those with condemned rows."""
        for number in sorted(self.numbers()):
            resting = self._resting.get(number)
            if resting is None or resting.head is None or not resting.head.is_plain:
                yield self[number]

    def behind(self, end: int) -> Iterator[Ledger]:
        """Those with rows before the offset that are not settled, by number. Lanes are not among them:
        what waits there was not redriven.
        """
        for number in sorted(self.numbers()):
            resting = self._resting.get(number)
            if resting is None or resting.head is None or (resting.head.floor < end and not resting.head.lane):
                ledger = self[number]
                if ledger.floor < end and not ledger.lane:
                    yield ledger

    def has_condemned(self, subscription: int) -> bool:
        """Whether rows of it are to be dead letters."""
        resting = self._resting.get(subscription)
        if resting is not None and resting.head is not None:
            return bool(resting.head.condemned)
        return bool(self[subscription].condemned)

    def next_deadline(self) -> int:
        """When the next lease ends, in the time by which leases run."""
        deadline = NEVER
        for ledger in self._ledgers.values():
            deadline = min(deadline, ledger.next_deadline())
        for resting in self._resting.values():
            deadline = min(deadline, resting.next_end)
        return deadline

    @property
    def moment(self) -> int:
        """The last moment that a change of any of them named, in the time by which leases run."""
        moments = [ledger.moment for ledger in self._ledgers.values()]
        return max([*moments, *(head.moment for _, head in self._heads())], default=0)

    @property
    def end(self) -> int:
        """No row from here on was granted by those that do not rest."""
        return max([ledger.cursor for ledger in self._ledgers.values()], default=0)

    # At rest

    @property
    def is_behind(self) -> bool:
        """Whether rows in the catalog are of subscriptions that are gone."""
        return bool(self._gone)

    def capture(self) -> Iterator[tuple[int, LedgerStatePart]]:
        """Parts of the ledgers that have changed, of each first chunks and then the head. They count
        as written from here on.
        """
        for number, state in sorted(self._states.items()):
            if state.is_behind:
                for part in state.capture():
                    yield number, part

    def capture_gone(self) -> list[tuple[int, int]]:
        """Subscriptions that are gone, and parts of them that are to be removed. They count as
        removed from here on.
        """
        gone, self._gone = self._gone, {}
        return [(number, part) for number, parts in sorted(gone.items()) for part in sorted(parts)]

    def put_back(self, number: int, part: int, *, is_gone: bool) -> None:
        """A part was captured and could not be written, or not be removed."""
        state = self._states.get(number)
        if state is not None and not is_gone:
            state.put_back((part,))
        elif state is None:
            self._gone.setdefault(number, set()).add(part)

    def restore_named(self, named: Iterable[int], next_number: int, sequence: int) -> None:
        """At load, before anything else: what the head of the partition says."""
        self._named = tuple(named)
        self.next_number = self._named_below = next_number
        self._named_sequence = sequence

    def restore_part(self, number: int, part: int, data: bytes, sequence: int) -> None:
        """At load, after that: a row of a ledger. Raises `UnreadableState`."""
        if number < self._named_below and number not in self._named:
            self._gone.setdefault(number, set()).add(part)
        elif part == HEAD:
            resting = self._resting[number] = self._early.pop(number, None) or RestingLedger()
            resting.restore_head(data, sequence)
            self.next_number = max(self.next_number, number + 1)
        else:
            resting = self._resting.get(number) or self._early.setdefault(number, RestingLedger())
            resting.restore_chunk(part - 1, data)

    def add(self, ledger: Ledger) -> None:
        """One that was made anew, because the one that was at rest is damaged."""
        number = ledger.subscription
        self._ledgers[number], self._states[number] = ledger, LedgerState(ledger, self._rows_of_none(number))
        self.next_number = max(self.next_number, number + 1)

    @property
    def missing(self) -> set[int]:
        """At load, when all rows are restored: subscriptions of which there is no head."""
        return set(self._named) - self._resting.keys() if len(self._resting) < len(self._named) else set()

    def snapshot(self) -> LedgersParts:
        return LedgersParts(self.next_number, {ledger.subscription: ledger.snapshot() for ledger in self})

    def restore(self, parts: LedgersParts) -> None:
        self.next_number = parts.next_number
        for number, rest in parts.ledgers.items():
            resting = self._resting[number] = RestingLedger()
            resting.restore_head(rest.head, rest.sequence)
            for chunk, data in rest.chunks.items():
                resting.restore_chunk(chunk, data)

    def state(self) -> object:
        return self.next_number, {ledger.subscription: ledger.state() for ledger in self}

    def check(self) -> None:
        """Of those that were needed; the others are as they were."""
        numbers = self.numbers()
        assert max(numbers, default=0) < self.next_number, "a subscription has a number that comes again"
        assert numbers.isdisjoint(self._gone), "the rows of a subscription would be removed"
        for ledger in self._ledgers.values():
            ledger.check()
