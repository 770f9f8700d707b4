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

from collections.abc import Callable, Iterable

from bowstring.broker.queue.letter import PRODUCER
from bowstring.core import journal
from bowstring.core.changes import Append, Change, Delete, Floor, Reason
from bowstring.core.ledger_changes import (
    Bury,
    Expire,
    Extend,
    GiveBack,
    Grant,
    PassBy,
    SetAside,
    SetAsideReason,
    Skip,
    Subscribe,
    Unsubscribe,
)
from bowstring.core.partition import Partition
from bowstring.core.subscription_settings import KEY_SHARED
from tests.history.violations import Violation
from tests.simulation.key_journal import KeyedGrant
from tests.simulation.naive_subscription import NaiveSubscription, offsets_of

GROUPS = 256, 32, 4, 1
"""So many suspects may be together, by the leases of each that have expired beyond two."""
Key = tuple[int, int]
"""Topic id and partition number."""
LATE = "late"
"""Subscriptions of this name begin at the latest: at the end of every partition, as it is in their
flush.
"""


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
        self._apart: dict[tuple[int, int, str], tuple[int, int]] = {}
        """Of each topic, subscription and consumer the partition and number of its last grant of suspects."""
        self._appended = 0
        self.buried: set[tuple[str, int, int]] = set()
        """Rows that are dead letters: subscription, partition, offset."""
        self.damaged: set[tuple[str, int, int]] = set()
        """Rows that were set aside because their pages could not be read: subscription, partition, offset."""
        """How many appends are in the row that is read."""
        self._keyed: list[KeyedGrant] = []
        """Of subscriptions that are deleted."""
        self.wrong: list[Violation] = []
        self.compared = 0

    def catch_up(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Reads the rows behind those that it has read, by their positions."""
        for position, data in rows:
            if position > self._position:
                self._position = position
                changes = journal.decode(data)
                self._appended = sum(isinstance(change, Append) for change in changes)
                self._letters_are_one_flush(changes)
                for change in changes:
                    self._apply(change)

    def _letters_are_one_flush(self, changes: list[Change]) -> None:
        """A row of the journal that settles condemned rows has as many dead letters."""
        burials = [change for change in changes if isinstance(change, Bury)]
        buried = [len(offsets_of(each.rows)) - len(offsets_of(each.lost)) - len(offsets_of(each.others)) for each in burials]
        letters = [change.rows for change in changes if isinstance(change, Append) and change.producer == PRODUCER]
        if sum(buried) != sum(letters):
            case = f"row {self._position} settles {sum(buried)} condemned rows, and has {sum(letters)} dead letters"
            self.wrong.append(Violation("a_dead_letter_and_its_settlement_are_one_flush", case))
        self._sometimes("dead letter was written", sum(letters))

    def _hold_of(self, topic: int, subscription: int, name: str) -> int:
        """How many rows a consumer holds, over all partitions of a topic."""
        held = 0
        for key, ledgers in self._ledgers.items():
            if key[0] == topic and (ledger := ledgers.get(subscription)) is not None:
                mine = {str(number) for number, (known, _) in ledger.consumers.items() if known == name}
                held += sum(ledger.rows[offset].consumer in mine for offset in ledger.held)
        return held

    def _alone(self, ledger: NaiveSubscription, change: Grant) -> None:
        """A consumer gets suspects only when it holds nothing, and nothing beside them; and nothing but
        suspects is granted so, in groups as large as each of them may be in.
        """
        if change.consumer in ledger.consumers:
            name = ledger.consumers[change.consumer][0]
            self._sometimes("rows were granted apart", change.apart)
            if change.apart and self._hold_of(change.topic, change.subscription, name):
                case = f"{name} gets suspects by grant {change.number} beside others"
                self.wrong.append(Violation("suspects_are_alone", f"topic {change.topic}/{change.partition}: {case}"))
            if not change.apart and (alike := [offset for offset in offsets_of(change.rows) if ledger.rows[offset].expiries > 1]):
                case = f"{name} gets rows {alike}, whose leases expired twice, by grant {change.number}, which is not apart"
                self.wrong.append(Violation("suspects_are_alone", f"topic {change.topic}/{change.partition}: {case}"))
            if change.apart:
                expiries = [ledger.rows[offset].expiries for offset in offsets_of(change.rows)]
                if any(count < 2 or GROUPS[min(count - 2, len(GROUPS) - 1)] < len(expiries) for count in expiries):
                    case = f"{name} gets rows whose leases expired {expiries} times together, by grant {change.number}"
                    self.wrong.append(Violation("suspects_are_alone", f"topic {change.topic}/{change.partition}: {case}"))
                keyed = ledger.settings.mode == KEY_SHARED
                self._sometimes("rows of a key-shared subscription were granted apart", change.apart and keyed)
                self._apart[change.topic, change.subscription, name] = change.partition, change.number
            elif (place := self._apart.get((change.topic, change.subscription, name))) is not None:
                other = self._ledgers[change.topic, place[0]].get(change.subscription)
                if other is not None and any(other.rows[offset].grant == place[1] for offset in other.held):
                    case = f"{name} gets others by grant {change.number} beside suspects"
                    self.wrong.append(Violation("suspects_are_alone", f"topic {change.topic}/{change.partition}: {case}"))

    def keyed(self) -> list[KeyedGrant]:
        """The grants of key-shared subscriptions."""
        return self._keyed + [grant for ledgers in self._ledgers.values() for ledger in ledgers.values() for grant in ledger.keyed()]

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
                if (gone := ledgers.pop(change.subscription, None)) is not None:
                    self._keyed += gone.keyed()
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
                self._alone(ledger, change)
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
                self._sometimes("rows were revoked by an expiry", len(change.revoked))
                mode = "key-shared" if ledger.settings.mode == KEY_SHARED else "shared"
                self._sometimes(f"row of a {mode} subscription was condemned by an expiry", len(offsets_of(change.condemned)))
            case Extend():
                self._sometimes("lease was made longer", len(change.parts))
            case GiveBack():
                self._sometimes("lease was taken away", len(change.parts))
            case Bury():
                place = f"{change.topic}.{change.subscription}", change.partition
                lost, others = set(offsets_of(change.lost)), set(offsets_of(change.others))
                self.damaged |= {(*place, offset) for offset in lost}
                self.buried |= {(*place, offset) for offset in offsets_of(change.rows) if offset not in lost | others}
                self._sometimes("condemned row had no dead letter", len(others))
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
