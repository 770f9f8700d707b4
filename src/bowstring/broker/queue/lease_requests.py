"""The requests to one ledger: they ask a partition's actor to grant, settle, extend and give back.

None of them waits or looks anything up: each is decided in the step in which the actor receives it.
`told` is called when that is committed. Leases run by their own clock, so the moment is asked there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from bowstring import errors
from bowstring.broker.log.requests import Question, Request
from bowstring.broker.reading.cursor import out_of_range
from bowstring.core import granting, key_expiry, settling, subscribing
from bowstring.core.decisions import Decided, Decision, Found, Refused
from bowstring.core.granting import ChosenRows, Granted
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import SetAsideReason, Settle, Settlement
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.settling import Behind, GrantRows, RevokedRows, RowsDone, SettleRequest
from bowstring.core.subscription_settings import SubscriptionSettings

Told = TypeVar("Told")

Now = Callable[[], int]
"""The time of leases."""


def subscription_gone() -> errors.SubscriptionNotFound:
    """The error for those who use a subscription that was deleted."""
    return errors.SubscriptionNotFound("the subscription was deleted.", hint="Create it anew, or use another one.")


class LeaseRequest(Request[Told]):
    """Something that is asked of one ledger."""

    __slots__ = ("_is_settled", "_now", "_subscription", "_told")

    def __init__(self, subscription: int, now: Now, told: Callable[[Told | Exception], None]) -> None:
        self._subscription = subscription
        self._now = now
        self._told = told
        self._is_settled = False

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[Told]:
        del now, found
        ledger = partition.ledgers.get(self._subscription)
        if ledger is None:
            return Refused(subscription_gone())
        try:
            return self.decide_lease(partition, ledger, self._now())
        except errors.Error as error:
            return Refused(error)

    @abstractmethod
    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[Told]:
        """Decides, by the time of leases. May raise what the asker has done wrong."""

    @property
    def is_settled(self) -> bool:
        return self._is_settled

    def settle(self, outcome: Told | Exception) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._told(outcome)


class GrantToConsumer(LeaseRequest[Granted | None]):
    """A consumer gets at most so many rows, or those that were chosen for it."""

    __slots__ = ("_chosen", "_consumer", "_end", "_lease", "_most", "granted")

    def __init__(
        self,
        subscription: int,
        now: Now,
        told: Callable[[Granted | Exception | None], None],
        consumer: str,
        most: int,
        lease: int,
        chosen: ChosenRows | None = None,
        end: int = 1 << 62,
    ) -> None:
        super().__init__(subscription, now, told)
        self._consumer = consumer
        self._most = most
        self._lease = lease
        self._chosen = chosen
        self._end = end
        self.granted: Granted | None = None
        """What was decided."""

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[Granted | None]:
        if self._chosen is None:
            granted = granting.grant(ledger, self._consumer, self._most, min(partition.next_offset, self._end), self._lease, now)
        else:
            granted = granting.grant_chosen(ledger, self._consumer, self._chosen, self._lease, now)
        self.granted = granted
        return Decided(() if granted is None else granted.changes, granted)


class GrantSuspects(GrantToConsumer):
    """A consumer that holds nothing gets rows that are suspected of a crash: the first ones, or those
    that were chosen by their keys.
    """

    __slots__ = ()

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[Granted | None]:
        del partition
        if self._chosen is None:
            granted = granting.grant_apart(ledger, self._consumer, self._most, self._lease, now)
        else:
            granted = granting.grant_chosen(ledger, self._consumer, self._chosen, self._lease, now, apart=True)
        self.granted = granted
        return Decided(() if granted is None else granted.changes, granted)


class PassRows(LeaseRequest[None]):
    """The cursor passes rows that are not due."""

    __slots__ = ("_skipped", "_undue")

    def __init__(self, subscription: int, now: Now, undue: RowSet, skipped: RowSet) -> None:
        super().__init__(subscription, now, _nothing)
        self._undue = undue
        self._skipped = skipped

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[None]:
        change = granting.pass_by(ledger, self._undue, self._skipped)
        return Decided(() if change is None else (change,), None)


class SettleForConsumer(LeaseRequest[RowsDone]):
    """A consumer says what became of its rows."""

    __slots__ = ("_behind", "_request", "acked", "nacked", "released")

    def __init__(
        self,
        subscription: int,
        now: Now,
        told: Callable[[RowsDone | Exception], None],
        request: SettleRequest,
        behind: Behind | None = None,
    ) -> None:
        super().__init__(subscription, now, told)
        self._request = request
        self._behind = behind
        self.acked = self.nacked = self.released = 0
        """How many rows were settled so."""

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[RowsDone]:
        done = settling.settle(ledger, self._request, now, self._behind)
        for change in done.changes:
            if isinstance(change, Settle):
                self._count(ledger, change)
        return Decided(done.changes, done)

    def _count(self, ledger: Ledger, change: Settle) -> None:
        """Counts before the change is applied: a part without rows is all that its grant has left."""
        named: dict[int, int] = {}
        for grant, outcome, spans, _ in change.parts:
            before = named.get(grant, 0)
            rows = sum(spans[1::2]) if spans else sum(len(lease.rows) for lease in ledger.leases.of_grant(grant)) - before
            named[grant] = before + rows
            if outcome is Settlement.ACK:
                self.acked += rows
            elif outcome is Settlement.RELEASE:
                self.released += rows
            else:
                self.nacked += rows


class ExtendForConsumer(LeaseRequest[RowsDone]):
    """A consumer holds rows for longer: for a span from now on."""

    __slots__ = ("_consumer", "_lease", "_parts")

    def __init__(
        self,
        subscription: int,
        now: Now,
        told: Callable[[RowsDone | Exception], None],
        consumer: str,
        parts: Sequence[GrantRows],
        lease: int,
    ) -> None:
        super().__init__(subscription, now, told)
        self._consumer = consumer
        self._parts = parts
        self._lease = lease

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[RowsDone]:
        done = settling.extend(ledger, self._consumer, self._parts, now + self._lease, now)
        return Decided(done.changes, done)


class ExpireEnded(LeaseRequest[None]):
    """Leases that have ended give their rows back, and count it."""

    __slots__ = ("_behind", "_revoked", "held_before", "revoked_told")

    def __init__(self, subscription: int, now: Now, behind: Behind | None = None) -> None:
        super().__init__(subscription, now, self._commit)
        self._behind = behind
        self._revoked: tuple[RevokedRows, ...] = ()
        self.revoked_told: Callable[[tuple[RevokedRows, ...]], None] = _nothing
        """Called with the rows that were revoked before their end, when that is committed."""
        self.held_before = 0
        """How many rows were held before."""

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[None]:
        self.held_before = ledger.leases.rows_held
        if self._behind is None:
            change = settling.expire(ledger, now)
            return Decided(() if change is None else (change,), None)
        expired = key_expiry.expire_by_key(ledger, now, self._behind)
        if expired is None:
            return Decided((), None)
        self._revoked = expired.revoked
        return Decided((expired.change,), None)

    def _commit(self, outcome: object) -> None:
        if self._revoked and not isinstance(outcome, Exception):
            self.revoked_told(self._revoked)


class GiveBackGrants(LeaseRequest[RowsDone]):
    """Rows are given back, uncounted, from any consumer."""

    __slots__ = ("_parts",)

    def __init__(self, subscription: int, now: Now, told: Callable[[RowsDone | Exception], None], parts: Sequence[GrantRows]) -> None:
        super().__init__(subscription, now, told)
        self._parts = parts

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[RowsDone]:
        done = settling.give_back(ledger, self._parts, now)
        return Decided(done.changes, done)


class ReleaseGrants(Question[RowsDone]):
    """The same for an operator, who waits for the answer."""

    def __init__(self, subscription: int, now: Now, parts: Sequence[GrantRows]) -> None:
        super().__init__()
        self._subscription = subscription
        self._now = now
        self._parts = parts

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[RowsDone]:
        del now, found
        ledger = partition.ledgers.get(self._subscription)
        if ledger is None:
            return Refused(subscription_gone())
        done = settling.give_back(ledger, self._parts, self._now())
        return Decided(done.changes, done)


class SetAsideRows(LeaseRequest[None]):
    """Rows that cannot be delivered count as settled, or are condemned."""

    __slots__ = ("_parts", "_reason")

    def __init__(self, subscription: int, now: Now, parts: Sequence[GrantRows], reason: SetAsideReason) -> None:
        super().__init__(subscription, now, _nothing)
        self._parts = parts
        self._reason = reason

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[None]:
        change = settling.set_aside(ledger, self._parts, self._reason, now)
        return Decided(() if change is None else (change,), None)


class SkipRows(LeaseRequest[None]):
    """The filter leaves out all rows of [cursor, upto): the cursor passes them."""

    __slots__ = ("_cursor", "_upto")

    def __init__(self, subscription: int, now: Now, cursor: int, upto: int) -> None:
        super().__init__(subscription, now, _nothing)
        self._cursor = cursor
        self._upto = upto

    def decide_lease(self, partition: Partition, ledger: Ledger, now: int) -> Decision[None]:
        change = granting.skip(ledger, self._cursor, self._upto)
        return Decided(() if change is None else (change,), None)


def _nothing(outcome: object) -> None:
    """For requests without a waiting caller."""


# Subscriptions


class SoughtFacts(NamedTuple):
    """What it comes to, in one partition, that a subscription is set to another place."""

    partition: int
    offset: int
    again: int
    """Rows that were settled and come again."""
    skipped: int
    """Rows that were not settled and do not come any more."""
    leased: int
    """Rows whose lease ends."""


class SubscribePartition(Question[int]):
    """The partition has a subscription from here on, which begins at an offset. The answer is where
    that is.
    """

    def __init__(self, number: int, name: str, settings: SubscriptionSettings, created: int, offset: int | None) -> None:
        """Without an offset it begins with what is published next."""
        super().__init__()
        self._number = number
        self._name = name
        self._settings = settings
        self._created = created
        self._offset = offset

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[int]:
        del now, found
        offset = partition.next_offset if self._offset is None else max(self._offset, partition.retained.first)
        return Decided((subscribing.subscribe(partition, self._number, self._name, self._settings, offset, self._created),), offset)


class AlterLedger(Question[None]):
    """The subscription has other settings from here on."""

    def __init__(self, number: int, settings: SubscriptionSettings) -> None:
        super().__init__()
        self._number = number
        self._settings = settings

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        del now, found
        if partition.ledgers.get(self._number) is None:
            return Refused(subscription_gone())
        return Decided((subscribing.alter(partition, self._number, self._settings),), None)


class SeekPartition(Question[SoughtFacts]):
    """The subscription goes on at an offset, or would if it is only asked."""

    def __init__(self, number: int, topic: str, offset: int | None, *, dry_run: bool) -> None:
        """Without an offset it goes on with what is published next; at 0 with the first row that is
        there.
        """
        super().__init__()
        self._number = number
        self._topic = topic
        self._offset = offset
        self._dry_run = dry_run

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[SoughtFacts]:
        del now, found
        ledger = partition.ledgers.get(self._number)
        if ledger is None:
            return Refused(subscription_gone())
        first, end = partition.retained.first, partition.next_offset
        offset = end if self._offset is None else self._offset or first
        if not first <= offset <= end:
            return Refused(out_of_range(self._topic, partition, offset, "to"))
        gone = subscribing.rows_gone(partition, offset)
        again, leased = ledger.resettled(offset, gone, end), sum(len(lease.rows) for lease in ledger.leases)
        facts = SoughtFacts(partition.number, offset, again, ledger.backlog(offset), leased)
        return Decided(() if self._dry_run else (settling.reset(ledger, offset, gone),), facts)


class UnsubscribePartition(Question[None]):
    """The partition forgets the subscription."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[None]:
        del now, found
        if partition.ledgers.get(self._number) is None:
            return Decided((), None)
        return Decided((subscribing.unsubscribe(partition, self._number),), None)
