"""A second reading of the journal: its own rows, as they lie in the catalog, replayed through a model
that keeps one record for each message of each subscription.

The model is `tests.unit.ledger_model`'s record, and a loop over all of them for every change. It
shares nothing with the ledgers of the product but the changes themselves. Rows are read when they
have landed, before a seal can trim them, so the model has seen the journal from its first row on,
over all incarnations. Whatever is loaded from the disk has to be the same, message by message; and
no row of the journal may say what makes no sense: grant what is held or settled, settle what its
consumer does not hold, use a number again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bowstring.core import journal
from bowstring.core.changes import Append, Change, Delete, Floor, Reason
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import (
    AlterSubscription,
    Expire,
    Extend,
    GiveBack,
    Grant,
    Join,
    LedgerChange,
    PassBy,
    Reset,
    SetAside,
    SetAsideReason,
    Settle,
    Settlement,
    Skip,
    Subscribe,
    Unsubscribe,
)
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from tests.history.violations import Violation
from tests.unit.ledger_model import Message

Key = tuple[int, int]
"""Topic id and partition number."""
LATE = "late"
"""Subscriptions of this name begin at the latest: at the end of every partition, as it is in their
flush.
"""


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
        self.cursor = change.offset
        self.grants = 0
        self.moment = 0
        self.retained = change.floor
        self.consumers: dict[int, tuple[str, int]] = {}
        """By their numbers: names, and spans of leases."""
        self.requests: dict[int, int] = {}
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
            case GiveBack() | SetAside():
                for part in change.parts:
                    for offset in self.of(part.grant, part.rows):
                        self._end(offset, part.grant, Settlement.ACK if isinstance(change, SetAside) else Settlement.RELEASE)
            case Extend():
                for part in change.parts:
                    for offset in self.of(part.grant, part.rows):
                        self._extend(offset, part.grant, change.until)
            case Expire():
                self._reach(change.moment)
                for moment, spans in change.later:
                    for offset in offsets_of(spans):
                        if offset not in self.held or self.rows[offset].until > change.moment:
                            self.wrong.append(f"row {offset} is backed off, which is {self.rows.get(offset)}")
                        else:
                            self._end(offset, self.rows[offset].grant, Settlement.NACK, moment)
                for offset in [offset for offset in self.held if self.rows[offset].until <= change.moment]:
                    self._end(offset, self.rows[offset].grant, Settlement.NACK)
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
            case Delete():
                for first, rows in change.runs:
                    self._leave(range(first, first + rows))
            case Floor():
                self._floor(change)
            case _:
                raise AssertionError(f"nobody knows {change}")

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
            if row is None or row.settled or row.grant or row.later:
                self.wrong.append(f"grant {change.number} has row {offset}, which is {row}")
                continue
            self.rows[offset] = Message(granted=True, grant=change.number, until=self.moment + lease, retries=row.retries)
            self.rows[offset].consumer = str(change.consumer)
            self.held.add(offset)
            self.scheduled.discard(offset)

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
            self.rows[offset] = Message(settled=True)
        else:
            later = moment if moment > self.moment else 0
            self.rows[offset] = Message(granted=True, retries=row.retries + (outcome is not Settlement.RELEASE), later=later)
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
                self.scheduled.discard(offset)
                self.rows[offset] = Message(settled=True)

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
            self.rows[offset] = Message(settled=settled, retries=0 if settled else row.retries)

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
        moments, offsets = ledger.timeline.arrays()
        found = {(row, moment) for moment, row in zip(moments.tolist(), offsets.tolist(), strict=True)}
        yield from _differ("later", {(offset, self.rows[offset].later) for offset in self.later}, found)
        yield from _differ("scheduled", self.scheduled, set(ledger.later.rows().offsets().tolist()))
        known = {one.number: (one.name, one.lease) for one in ledger.consumers}
        yield from _differ("consumers", {(number, self.consumers.get(number)) for number in known}, set(known.items()))
        requests = {(one.number, one.request) for one in ledger.consumers if one.request}
        yield from _differ("requests", {(number, last) for number, last in self.requests.items() if number in known}, requests)
        mine = self.name, self.settings, self.cursor, self.grants + 1, self.moment
        theirs = ledger.name, ledger.settings, ledger.cursor, ledger.next_grant, ledger.moment
        if mine != theirs:
            yield f"the journal says (name, settings, cursor, next grant, moment) {mine}, and the ledger {theirs}"


def _differ(what: str, expected: set, found: set) -> Iterator[str]:
    if expected != found:
        only, strange = sorted(expected - found)[:5], sorted(found - expected)[:5]
        yield f"{what}: by the journal also {only}, by the ledger also {strange}"


class NaiveJournal:
    """The journal of one broker, from its first row on."""

    def __init__(self, sometimes: Callable[[str, int], None] = lambda name, times: None) -> None:
        self._sometimes = sometimes
        """Marks rare states that were reached."""
        self._position = 0
        self._ends: dict[Key, int] = {}
        self._ledgers: dict[Key, dict[int, NaiveSubscription]] = {}
        self._used: dict[Key, int] = {}
        """The number of the last subscription of a partition."""
        self._appended = 0
        self.damaged: set[tuple[str, int, int]] = set()
        """Rows that were set aside because their pages could not be read: subscription, partition, offset."""
        """How many appends are in the row that is read."""
        self.wrong: list[Violation] = []
        self.compared = 0

    def catch_up(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Reads the rows behind those that it has read, by their positions."""
        for position, data in rows:
            if position > self._position:
                self._position = position
                changes = journal.decode(data)
                self._appended = sum(isinstance(change, Append) for change in changes)
                for change in changes:
                    self._apply(change)

    @property
    def position(self) -> int:
        """That of the last row that was read."""
        return self._position

    def _apply(self, change: Change) -> None:
        key = change.topic, change.partition
        ledgers = self._ledgers.setdefault(key, {})
        end = self._ends.get(key, 1)
        match change:
            case Append():
                self._ends[key] = max(end, change.first_offset + change.rows)
                for ledger in ledgers.values():
                    for offset in range(change.first_offset, change.first_offset + change.rows):
                        ledger.append(offset)
            case Subscribe():
                if change.subscription <= self._used.get(key, 0):
                    self._breaks(key, f"subscription {change.subscription} has a number that was used before")
                self._used[key] = change.subscription
                if change.name == LATE and change.offset != end:
                    self._breaks(key, f"a subscription from the latest on begins at {change.offset}, and the end is {end}")
                ledgers[change.subscription] = NaiveSubscription(change, end)
            case Unsubscribe():
                ledgers.pop(change.subscription, None)
            case Delete() | Floor():
                for ledger in ledgers.values():
                    self._count(ledger, change)
                    ledger.apply(change)
            case _:
                number = getattr(change, "subscription", None)
                if number in ledgers:
                    self._count(ledgers[number], change)
                    ledgers[number].apply(change)
                elif number is not None:
                    self._breaks(key, f"{change} is of a subscription that is not there")

    def _count(self, ledger: NaiveSubscription, change: Change) -> None:
        """Rare states, as they are before the change."""
        match change:
            case Grant():
                self._sometimes("rows were granted again", bool(change.rows) and not change.skipped)
                self._sometimes("rows were left out by a grant", bool(change.skipped))
                self._sometimes("rows were granted by the flush that stores them", self._appended > 0 and not change.rows)
            case PassBy():
                self._sometimes("rows that are not due were passed by", len(change.later) // 2)
            case Skip():
                self._sometimes("rows were left out without a grant", change.passed)
            case Expire():
                ended = sum(ledger.rows[offset].until <= change.moment for offset in ledger.held)
                self._sometimes("lease of a row expired", ended)
            case Extend():
                self._sometimes("lease was made longer", len(change.parts))
            case GiveBack():
                self._sometimes("lease was taken away", len(change.parts))
            case SetAside():
                self._sometimes("row was set aside", len(change.parts))
                if change.reason is SetAsideReason.DAMAGED:
                    offsets = [offset for part in change.parts for offset in ledger.of(part.grant, part.rows)]
                    self.damaged |= {(f"{change.topic}.{change.subscription}", change.partition, offset) for offset in offsets}
            case Delete():
                taken = any(offset in ledger.held for first, rows in change.runs for offset in range(first, first + rows))
                self._sometimes("late publish took its grant with it", taken and change.reason is Reason.DEADLINE)
            case Floor():
                kept = any(offset in ledger.held for first, rows in change.kept for offset in range(first, first + rows))
                self._sometimes("lease kept a row below the floor", kept)

    def _breaks(self, key: Key, case: str) -> None:
        self.wrong.append(Violation("the_journal_makes_sense", f"topic {key[0]}/{key[1]}: {case}"))

    def nonsense(self) -> list[Violation]:
        """Changes that make no sense and were not told yet."""
        for key, ledgers in self._ledgers.items():
            for ledger in ledgers.values():
                for case in ledger.wrong:
                    self._breaks(key, case)
                ledger.wrong = []
        broken, self.wrong = self.wrong, []
        return broken

    def compare(self, partitions: Iterable[Partition]) -> list[Violation]:
        """What was loaded from the disk, ledger by ledger."""
        broken = self.nonsense()
        for partition in partitions:
            key = partition.topic, partition.number
            mine, theirs = self._ledgers.get(key, {}), {ledger.subscription: ledger for ledger in partition.ledgers}
            if mine.keys() != theirs.keys():
                case = f"topic {key[0]}/{key[1]} has subscriptions {sorted(theirs)}, and by the journal {sorted(mine)}"
                broken.append(Violation("a_ledger_is_what_the_journal_says", case))
            for number in mine.keys() & theirs.keys():
                self.compared += 1
                where = f"topic {key[0]}/{key[1]}, subscription {number}"
                cases = mine[number].differences(theirs[number])
                broken += [Violation("a_ledger_is_what_the_journal_says", f"{where}: {case}") for case in cases]
        return broken
