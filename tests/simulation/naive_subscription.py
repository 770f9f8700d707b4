"""One subscription in one partition, as the journal tells it: a record for each message, and a loop over
all of them for every change (`naive_journal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bowstring.core.changes import Delete, Floor
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
    Overtake,
    PassBy,
    Redrive,
    Reset,
    SetAside,
    SetAsideReason,
    Settle,
    Settlement,
    Skip,
    Subscribe,
)
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import KEY_SHARED
from tests.simulation.key_journal import KeyedGrant
from tests.unit.ledger_model import Message


def offsets_of(spans: Iterable[int]) -> list[int]:
    """Skipped, rows, skipped, rows, and so on."""
    found: list[int] = []
    at = 0
    numbers = list(spans)
    for skipped, rows in zip(numbers[::2], numbers[1::2], strict=True):
        found += range(at + skipped, at + skipped + rows)
        at += skipped + rows
    return found


class NaiveSubscription:
    """One subscription in one partition."""

    def __init__(self, change: Subscribe, end: int) -> None:
        self.name = change.name
        self.settings = change.settings
        gone = set(offsets_of(change.gone))
        self.rows = {offset: Message(settled=offset < change.offset or offset in gone) for offset in range(1, end)}
        self.held: set[int] = set()
        """The rows that somebody holds: looked through more often than all rows are."""
        self.scheduled: set[int] = set()
        """The rows that were not due when the cursor passed them."""
        self.later: set[int] = set()
        """The rows that come again later."""
        self.lane = change.lane
        self.redriven: set[int] = set()
        """Rows of a lane that are delivered again."""
        self.overtaken = 0
        self.cursor = change.offset
        self.grants = 0
        self.moment = 0
        self.retained = change.floor
        self.consumers: dict[int, tuple[str, int]] = {}
        """By their numbers: names, and spans of leases."""
        self.requests: dict[int, int] = {}
        self._keyed: list[KeyedGrant] = []
        """The grants of a key-shared subscription."""
        self._aside: set[tuple[int, int]] = set()
        """Rows with their grants that were set aside instead of delivered."""
        self._place = f"{change.topic}.{change.subscription}", change.partition
        self.wrong: list[str] = []
        """Changes that make no sense."""

    def append(self, offset: int) -> None:
        self.rows[offset] = Message()

    def apply(self, change: LedgerChange | Delete | Floor) -> None:
        match change:
            case Grant():
                self._grant(change)
            case Settle():
                self._settle(change)
            case GiveBack():
                for part in change.parts:
                    for offset in self.of(part.grant, part.rows):
                        self._end(offset, part.grant, Settlement.RELEASE)
            case SetAside():
                self._set_aside(change)
            case Extend():
                for part in change.parts:
                    for offset in self.of(part.grant, part.rows):
                        self._extend(offset, part.grant, change.until)
            case Expire():
                self._reach(change.moment)
                self._revoke(change)
                for moment, spans in change.later:
                    for offset in offsets_of(spans):
                        if offset not in self.held or self.rows[offset].until > change.moment:
                            self.wrong.append(f"row {offset} is backed off, which is {self.rows.get(offset)}")
                        else:
                            self._end(offset, self.rows[offset].grant, Settlement.NACK, moment)
                            self.rows[offset].expiries += 1
                for offset in offsets_of(change.condemned):
                    self._may_be_condemned(offset)
                    self._end(offset, self.rows[offset].grant, Settlement.CONDEMN)
                for offset in [offset for offset in self.held if self.rows[offset].until <= change.moment]:
                    self._end(offset, self.rows[offset].grant, Settlement.NACK)
                    self.rows[offset].expiries += 1
            case Join():
                self._reach(change.moment)
                self.consumers[change.consumer] = change.name, change.lease
            case AlterSubscription():
                self.settings = change.settings
            case PassBy():
                self._pass_by(change)
            case Skip():
                self._skip(range(self.cursor, self.cursor + change.passed), self.cursor + change.passed)
                self.cursor += change.passed
            case Reset():
                self._reset(change)
            case Condemn() | Bury() | Redrive() | Overtake():
                self._letters(change)
            case Delete():
                for first, rows in change.runs:
                    self._leave(range(first, first + rows))
            case Floor():
                self._floor(change)
            case _:
                raise AssertionError(f"nobody knows {change}")

    def _set_aside(self, change: SetAside) -> None:
        """Rows that are not delivered are settled, or become dead letters."""
        for part in change.parts:
            for offset in self.of(part.grant, part.rows):
                self._aside.add((offset, part.grant))
                if change.reason is SetAsideReason.OVERTAKEN:
                    self._end(offset, part.grant, Settlement.RELEASE)
                    row = self.rows[offset]
                    self.rows[offset] = Message(granted=True, retries=row.retries, expiries=row.expiries, condemned=("", ""))
                else:
                    self._end(offset, part.grant, Settlement.ACK)
                    self.overtaken += change.reason is SetAsideReason.EXPIRED

    def _revoke(self, change: Expire) -> None:
        """Rows behind others of their key that end are given back before, uncounted."""
        for part in change.revoked:
            ending = any(self.rows[offset].grant == part.grant and self.rows[offset].until <= change.moment for offset in self.held)
            if not ending or self.settings.mode != KEY_SHARED:
                self.wrong.append(f"rows of grant {part.grant} are revoked, and none of it has ended by {change.moment}")
            for offset in self.of(part.grant, part.rows):
                self._end(offset, part.grant, Settlement.RELEASE)

    def _may_be_condemned(self, offset: int) -> None:
        """By an expiry: it was alone with its consumer, and was delivered as often as it may be."""
        row, most = self.rows[offset], self.settings.max_deliveries
        if row.apart != 1 or not 0 < most <= row.retries + 1:
            self.wrong.append(f"row {offset} is condemned by an expiry, which is {row}")

    def of(self, grant: int, spans: tuple[int, ...]) -> list[int]:
        """Rows that a change names; without a name, all that the grant has."""
        return offsets_of(spans) if spans else sorted(offset for offset in self.held if self.rows[offset].grant == grant)

    def _grant(self, change: Grant) -> None:
        self.grants += 1
        self._reach(self.moment + change.after)
        if change.number != self.grants:
            self.wrong.append(f"grant {change.number} follows on {self.grants - 1}")
        if change.consumer not in self.consumers:
            self.wrong.append(f"grant {change.number} is for consumer {change.consumer}, who never came")
        _, lease = self.consumers.get(change.consumer, ("", 0))
        chosen = offsets_of(change.rows) if change.rows else range(self.cursor, self.cursor + change.passed)
        self._skip(offsets_of(change.skipped), self.cursor + change.passed)
        self.cursor += change.passed
        for offset in chosen:
            row = self.rows.get(offset)
            if row is None or row.settled or row.grant or row.later or row.condemned or (self.lane and offset not in self.redriven):
                self.wrong.append(f"grant {change.number} has row {offset}, which is {row}")
                continue
            self.rows[offset] = Message(granted=True, grant=change.number, until=self.moment + lease, retries=row.retries)
            self.rows[offset].consumer, self.rows[offset].expiries = str(change.consumer), row.expiries
            self.rows[offset].apart = len(chosen) if change.apart else 0
            self.held.add(offset)
            self.scheduled.discard(offset)
        if self.settings.mode == KEY_SHARED:
            self._note_keys(change.number, frozenset(chosen))

    def _note_keys(self, number: int, chosen: frozenset[int]) -> None:
        """What `key_journal` compares."""
        idle = (offset for offset in range(1, max(chosen, default=0)) if self.rows[offset].idle and offset not in self.scheduled)
        held = frozenset((offset, self.rows[offset].grant) for offset in self.held - chosen)
        self._keyed.append(KeyedGrant(*self._place, number, chosen, held, frozenset(idle)))

    def keyed(self) -> list[KeyedGrant]:
        """The grants of a key-shared subscription. Rows that are over are granted without a look at
        their keys, to be set aside: no consumer gets them.
        """
        aside = self._aside
        return [
            each._replace(rows=frozenset(row for row in each.rows if (row, each.number) not in aside), held=each.held - aside)
            for each in self._keyed
        ]

    def _pass_by(self, change: PassBy) -> None:
        upto = self.cursor + change.passed
        self._skip(offsets_of(change.skipped), upto)
        for offset in offsets_of(change.later):
            row = self.rows.get(offset)
            if row is None or row.grant or row.later or not self.cursor <= offset < upto:
                self.wrong.append(f"row {offset} is not due, which is {row}, when the cursor goes from {self.cursor} to {upto}")
            elif not row.settled:
                self.scheduled.add(offset)
        self.cursor = upto

    def _skip(self, offsets: Iterable[int], upto: int) -> None:
        """The filter leaves these out, of those that the cursor passes."""
        for offset in offsets:
            row = self.rows.get(offset)
            if row is None or row.grant or not self.cursor <= offset < upto:
                self.wrong.append(f"row {offset} is left out, which is {row}, when the cursor goes from {self.cursor} to {upto}")
            self.rows[offset] = Message(settled=True)

    def _settle(self, change: Settle) -> None:
        if change.request <= self.requests.get(change.consumer, 0):
            self.wrong.append(f"request {change.request} of consumer {change.consumer} is carried out twice")
        self.requests[change.consumer] = change.request
        for grant, outcome, spans, moment in change.parts:
            for offset in self.of(grant, spans):
                row = self.rows.get(offset)
                if row is None or row.grant != grant or row.consumer != str(change.consumer):
                    self.wrong.append(f"request {change.request} of consumer {change.consumer} settles row {offset}, which is {row}")
                else:
                    self._end(offset, grant, outcome, moment)

    def _reach(self, moment: int) -> None:
        """A change names a moment: rows that come again by then are free."""
        self.moment = moment
        for offset in [offset for offset in self.later if self.rows[offset].later <= moment]:
            self.rows[offset].later = 0
            self.later.discard(offset)

    def _end(self, offset: int, grant: int, outcome: Settlement, moment: int = 0) -> None:
        row = self.rows[offset]
        if row.grant != grant:
            self.wrong.append(f"row {offset} of grant {grant} is {row}")
            return
        self.held.discard(offset)
        if outcome is Settlement.ACK:
            self._leave([offset])
        elif outcome is Settlement.CONDEMN:
            self.rows[offset] = Message(granted=True, retries=row.retries + 1, expiries=row.expiries, condemned=("", ""))
        else:
            later, retries = moment if moment > self.moment else 0, row.retries + (outcome is not Settlement.RELEASE)
            self.rows[offset] = Message(granted=True, retries=retries, expiries=row.expiries, later=later)
            if later:
                self.later.add(offset)

    def _extend(self, offset: int, grant: int, until: int) -> None:
        row = self.rows[offset]
        if row.grant != grant:
            self.wrong.append(f"row {offset} of grant {grant} is extended, which is {row}")
        row.until = max(row.until, until)

    def _leave(self, offsets: Iterable[int]) -> None:
        """The log does not have these any more."""
        for offset in offsets:
            if offset in self.rows:
                self.held.discard(offset)
                self.later.discard(offset)
                self.redriven.discard(offset)
                self.scheduled.discard(offset)
                self.rows[offset] = Message(settled=True)

    def _letters(self, change: Condemn | Bury | Redrive | Overtake) -> None:
        """Rows are to be dead letters, are, or are sent again."""
        if isinstance(change, Overtake):
            self.overtaken += change.count
            self._leave(offsets_of(change.rows))
            return
        for offset in offsets_of(change.rows):
            row = self.rows.get(offset)
            if isinstance(change, Redrive):
                if row is None or row.settled or not self.lane or offset in self.redriven:
                    self.wrong.append(f"row {offset} is redriven, which is {row}")
                self.redriven.add(offset)
            elif row is None or row.grant or (row.condemned is None) is isinstance(change, Bury):
                self.wrong.append(f"{change} has row {offset}, which is {row}")
            elif isinstance(change, Bury):
                self._leave([offset])
            else:
                self.later.discard(offset)
                self.scheduled.discard(offset)
                self.rows[offset] = Message(granted=True, retries=row.retries, expiries=row.expiries, condemned=("", ""))
        if not isinstance(change, Bury):
            upto = max(offsets_of(change.rows)) + 1
            if isinstance(change, Condemn):  # whether other rows on the way are due is looked up later
                self.scheduled |= {offset for offset in range(self.cursor, upto) if self.rows[offset].idle}
            self.cursor = max(self.cursor, upto)

    def _floor(self, change: Floor) -> None:
        kept = {offset for first, rows in change.kept for offset in range(first, first + rows)}
        released = {offset for first, rows in change.released for offset in range(first, first + rows)}
        passed = set(range(self.retained, max(change.offset, self.retained)))
        self._leave((released | passed) - kept)
        self.retained = max(change.offset, self.retained)

    def _reset(self, change: Reset) -> None:
        gone = set(offsets_of(change.gone))
        self.held, self.later, self.scheduled, self.cursor = set(), set(), set(), change.offset
        for offset, row in self.rows.items():
            settled = offset < change.offset or offset in gone
            condemned = row.condemned if offset < change.offset else None
            self.rows[offset] = Message(settled=settled, retries=0 if settled else row.retries, condemned=condemned)

    # ---- the comparison

    def differences(self, ledger: Ledger) -> Iterator[str]:
        """Where a ledger of the product says something else."""
        end = max(self.rows, default=0) + 1
        everything = RowSet(1, end)
        settled = set(ledger.settled.of(everything).offsets().tolist()) if end > 1 else set()
        yield from _differ("settled", {offset for offset, row in self.rows.items() if row.settled}, settled)
        leases = {
            offset: (lease.number, str(lease.consumer), lease.until) for lease in ledger.leases for offset in lease.rows.offsets().tolist()
        }
        held = {offset: (row.grant, row.consumer, row.until) for offset, row in self.rows.items() if row.grant}
        yield from _differ("leased", set(held.items()), set(leases.items()))
        if end > 1:
            counts = dict(zip(range(1, end), ledger.retry_counts(everything).tolist(), strict=True))
            expected = {(offset, row.retries) for offset, row in self.rows.items() if row.retries}
            yield from _differ("delivered before", expected, {(offset, count) for offset, count in counts.items() if count})
            expiries = set(enumerate(ledger.expiries.of(everything).tolist(), 1))
            yield from _differ("expired", {(offset, row.expiries) for offset, row in self.rows.items()}, expiries)
        condemned = set(ledger.condemned.rows().offsets().tolist())
        yield from _differ("condemned", {offset for offset, row in self.rows.items() if row.condemned}, condemned)
        yield from _differ("redriven", self.redriven, set(ledger.redriven.rows().offsets().tolist()))
        moments, offsets = ledger.timeline.arrays()
        found = {(row, moment) for moment, row in zip(moments.tolist(), offsets.tolist(), strict=True)}
        yield from _differ("later", {(offset, self.rows[offset].later) for offset in self.later}, found)
        yield from _differ("scheduled", self.scheduled, set(ledger.later.rows().offsets().tolist()))
        known = {one.number: (one.name, one.lease) for one in ledger.consumers}
        yield from _differ("consumers", {(number, self.consumers.get(number)) for number in known}, set(known.items()))
        requests = {(one.number, one.request) for one in ledger.consumers if one.request}
        yield from _differ("requests", {(number, last) for number, last in self.requests.items() if number in known}, requests)
        mine = self.name, self.settings, self.cursor, self.grants + 1, self.moment, self.lane, self.overtaken
        theirs = ledger.name, ledger.settings, ledger.cursor, ledger.next_grant, ledger.moment, ledger.lane, ledger.overtaken
        if mine != theirs:
            yield f"the journal says (name, settings, cursor, next grant, moment, lane, overtaken) {mine}, and the ledger {theirs}"


def _differ(what: str, expected: set, found: set) -> Iterator[str]:
    if expected != found:
        only, strange = sorted(expected - found)[:5], sorted(found - expected)[:5]
        yield f"{what}: by the journal also {only}, by the ledger also {strange}"
