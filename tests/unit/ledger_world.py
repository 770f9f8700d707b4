"""A world that drives the ledger and a model side by side, step by step.

It publishes, grants, settles, repeats, extends, expires, deletes, raises floors, seeks, captures,
crashes between the parts of a capture, and loads. After every step each message is compared, and
after every load all of the state. Steps are picked by hypothesis or by a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
import pytest

from bowstring.core import due_rows, granting, journal, leases, offset_set, settling, timeline
from bowstring.core.changes import Delete, Floor, Reason
from bowstring.core.granting import ChosenRows
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import AlterSubscription, LedgerChange, SetAsideReason, Settlement, Subscribe
from bowstring.core.ledger_state import HEAD
from bowstring.core.ledgers import Ledgers
from bowstring.core.machine import NEVER
from bowstring.core.row_set import RowSet
from bowstring.core.settling import GrantRows, LostRows, OutcomeRows, RowStanding, SettleRequest
from bowstring.core.subscription_settings import Backoff, SubscriptionSettings
from tests.unit.ledger_model import DELIVERIES_MAX, GRANTS_MAX, ORDERED_ROWS_MAX, NaiveLedger
from tests.unit.ledger_rows import offsets, pairs, rows, runs
from tests.unit.pickers import Picker, Seeded

NAMES = ["ada", "bob", "eve"]
Choice = TypeVar("Choice")
BEGIN = Subscribe(1, 0, 7, "billing", SubscriptionSettings(max_deliveries=DELIVERIES_MAX), 5, 1)
OUTCOMES = [outcome for outcome in Settlement if outcome is not Settlement.CONDEMN]


class LedgerWorld:
    """One partition with one subscription, and what the catalog has of it."""

    def __init__(self, picker: Picker) -> None:
        self.picker = picker
        self.now = 1_000
        self.end = 1
        self.floor = 1
        self.kept: set[int] = set()
        self.gone: set[int] = set()
        self.model = NaiveLedger()
        self.ledgers = Ledgers(1, 0)
        self.journal: list[bytes] = []
        self.head: tuple[bytes, int] | None = None
        self.chunks: dict[int, bytes] = {}
        self.given: list[tuple[int, str, set[int]]] = []
        self.requests: dict[str, list[tuple[SettleRequest, Any]]] = {}
        self.numbers: dict[str, int] = {}
        self.answered: dict[str, int] = {}
        self.write(BEGIN)

    @property
    def ledger(self) -> Ledger:
        found = self.ledgers.get(7)
        assert found is not None
        return found

    def write(self, *changes: Any) -> None:
        """Applies changes and puts each into a row of the journal."""
        for change in changes:
            self.journal.append(journal.encode([change]))
            self.ledgers.apply(change)

    def number(self, low: int, high: int) -> int:
        return self.picker.number(low, high)

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.number(0, len(choices) - 1)]

    def step(self) -> None:
        """Something happens; every message is compared."""
        name = self.one_of(STEPS)
        if self.given or name not in NEED_A_GRANT:
            getattr(self, name)()
            self.every_message_is_where_the_model_has_it()

    # The log

    def publish(self) -> None:
        for _ in range(self.number(1, 30)):
            self.model.append(self.end)
            self.end += 1

    def wait(self) -> None:
        self.now += self.number(1, 12)

    def delete(self) -> None:
        reason = self.one_of(list(Reason))
        if self.end > 1:
            chosen = self.some(set(range(self.floor, self.end)) | self.kept) - self.gone
            if reason is Reason.OWNER:
                chosen -= self.model.leased(self.now).keys()
            if chosen:
                self.write(Delete(1, 0, runs(chosen), reason))
                self.gone |= chosen
                self.model.leave(chosen)

    def raise_floor(self) -> None:
        floor = min(self.floor + self.number(0, self.one_of([3, 40])), self.end)
        leased = offsets(self.ledgers.kept(floor))
        passed = set(range(self.floor, floor))
        kept = (self.some(passed) | leased) & passed
        released = self.some(self.kept) - leased
        self.write(Floor(1, 0, floor, runs(kept), runs(released)))
        self.floor = floor
        self.kept = (self.kept - released) | kept
        self.model.leave((passed - kept) | released)

    # Consumers

    def grant(self) -> None:
        name, most, lease = self.one_of(NAMES), self.number(1, self.one_of([2, 25])), self.one_of([10, 10, 25])
        granted = granting.grant(self.ledger, name, most, self.end, lease, self.now)
        self.granted(granted, self.model.grant(name, most, lease, self.now), name)

    def grant_apart(self) -> None:
        name, most = self.one_of(NAMES), self.number(1, 25)
        granted = granting.grant_apart(self.ledger, name, most, 10, self.now)
        self.granted(granted, self.model.grant_apart(name, most, 10, self.now), name)

    def choose(self) -> None:
        """A grant of rows that a filter lets pass, of those that were looked at."""
        name, most, lease = self.one_of(NAMES), self.number(1, 25), self.one_of([10, 10, 25])
        start = max(self.ledger.cursor, self.ledger.floor)
        scouted = self.number(start, self.end) if start < self.end else start
        free = {offset for offset in range(start, scouted) if not self.model.rows[offset].settled}
        eligible = self.some(free)
        chosen = granting.choose(self.ledger, np.array(sorted(eligible), np.int64), scouted, most, self.now)
        granted = granting.grant_chosen(self.ledger, name, chosen, lease, self.now)
        self.granted(granted, self.model.grant_filtered(name, most, lease, self.now, eligible, scouted), name)

    def granted(self, granted: Any, expected: Any, name: str) -> None:
        assert (granted and (granted.number, granted.rows.offsets().tolist())) == expected
        if granted is not None:
            self.write(*granted.changes)
            self.given.append((granted.number, name, offsets(granted.rows)))

    def skip(self) -> None:
        """Nothing passes the filter for a while."""
        cursor = self.ledger.cursor
        upto = min(self.end, cursor + self.number(0, 20))
        if (change := granting.skip(self.ledger, cursor, upto)) is not None:
            self.write(change)
            self.model.skip(cursor, upto)

    def pass_by(self) -> None:
        """The cursor passes rows that are not due."""
        ahead = {offset for offset in range(self.ledger.cursor, self.end) if not self.model.rows[offset].settled}
        undue, cursor = self.some(ahead), self.ledger.cursor
        if undue and (change := granting.pass_by(self.ledger, rows(undue))) is not None:
            self.write(change)
            self.model.pass_by(cursor, undue)

    def come_due(self) -> None:
        """Some rows are due, in any order; also others than the ledger has passed by."""
        due = sorted(self.some(set(range(1, self.end))), key=lambda _: self.number(0, 1000))
        self.ledger.later.come_due(np.array(due, np.int64), RowSet.of_offsets(np.array(due, np.int64)))
        self.model.come_due(due)

    def pass_over(self) -> None:
        """The cursor passes rows that are not granted and not left out: they are returned."""
        start = max(self.ledger.cursor, self.ledger.floor)
        free = {offset for offset in range(start, self.end) if not self.model.rows[offset].settled}
        if free:
            upto = self.number(min(free) + 1, self.end)
            taken = self.some({offset for offset in free if offset < upto}) or {min(free)}
            granted = granting.grant_chosen(self.ledger, "eve", ChosenRows(rows(taken), upto), 10, self.now)
            expected = self.model.grant_these("eve", taken, upto, 10, self.now)
            assert (granted and (granted.number, granted.rows.offsets().tolist())) == expected
            if granted is not None:
                self.write(*granted.changes)
                self.given.append((granted.number, "eve", taken))

    def some(self, among: set[int]) -> set[int]:
        """Some of them: a stretch, every second one, or any."""
        ordered = sorted(among)
        if not ordered:
            return set()
        low, high = sorted((self.number(0, len(ordered)), self.number(0, len(ordered))))
        return set(ordered[low : high : self.one_of([1, 1, 2, 3])])

    def part(self) -> tuple[int, set[int] | None]:
        """Rows of a grant, mostly of a recent one; sometimes wrong ones."""
        place = self.number(1, min(len(self.given), 8))
        grant, _, held = self.given[-place]
        if self.number(0, 3) == 0:
            return grant, None
        wrong = self.some(set(range(1, self.end + 3))) if self.number(0, 5) == 0 else set[int]()
        return grant, self.some(held) | wrong

    def settle(self) -> None:
        count, name = self.number(1, 3), self.one_of([None, None, None, *NAMES])
        parts = [
            (grant, self.one_of(OUTCOMES), wanted, self.one_of([0, 0, self.now - 1, self.now + self.number(1, 40)]))
            for grant, wanted in (self.part() for _ in range(count))
        ]
        holders = {grant: holder for grant, holder, _ in self.given}
        name = name or holders[parts[0][0]]
        number = self.numbers[name] = self.numbers.get(name, 0) + self.number(1, 2)
        answered = self.number(self.answered.get(name, 0), number - 1)
        self.answered[name] = answered
        asked = [OutcomeRows(grant, outcome, None if wanted is None else rows(wanted), moment) for grant, outcome, wanted, moment in parts]
        request = SettleRequest(name, number, asked, answered)
        known = name in self.model.requests
        done = settling.settle(self.ledger, request, self.now)
        assert not done.repeated
        self.check_standing(done.refused)
        refused = self.model.settle(name, number, parts, self.now)
        assert pairs(done.refused) == refused
        self.write(*done.changes)
        if known:
            self.requests.setdefault(name, []).append((request, refused))

    def check_standing(self, lost: tuple[LostRows, ...]) -> None:
        """For each row that was refused, the ledger tells where it is now."""
        leased = self.model.leased(self.now)
        for one in lost:
            assert (one.standing is RowStanding.SOUGHT) == (0 < one.grant < self.model.sought)
            if one.standing is RowStanding.SOUGHT:
                continue
            for row in offsets(one.rows) - {0}:
                message = self.model.rows.get(row)
                if one.standing is RowStanding.LEASED:
                    assert leased[row] == (one.holder, one.until)
                elif one.standing is RowStanding.SETTLED:
                    assert message is None or message.settled or message.condemned
                else:
                    assert row not in leased
                    assert message is None or not message.settled

    def repeat(self) -> None:
        """The answer was lost: the consumer sends the same again."""
        known = [(one, refused) for sent in self.requests.values() for one, refused in sent if one.number > self.answered[one.consumer]]
        if known:
            request, refused = self.one_of(known)
            done = settling.settle(self.ledger, request, self.now)
            assert done.repeated
            assert not done.changes
            assert pairs(done.refused) == refused
            self.check_standing(done.refused)

    def extend(self) -> None:
        name, span = self.one_of(NAMES), self.number(1, 40)
        grant, wanted = self.part()
        holder = {grant: holder for grant, holder, _ in self.given}[grant] if self.number(0, 3) else name
        held = {at for at, row in self.model.rows.items() if self.model.holds(holder, row.grant, at, self.now) and row.grant == grant}
        asked = [(grant, row) for row in (wanted if wanted is not None else held or {0})]
        done = settling.extend(self.ledger, holder, [GrantRows(grant, None if wanted is None else rows(wanted))], self.now + span, self.now)
        self.check_standing(done.refused)
        assert pairs(done.refused) == self.model.extend(holder, asked, self.now + span, self.now)
        self.write(*done.changes)

    def give_back(self) -> None:
        grant, wanted = self.part()
        held = {at for at, row in self.model.rows.items() if row.grant == grant}
        self.write(*settling.give_back(self.ledger, [GrantRows(grant, None if wanted is None else rows(wanted))], self.now).changes)
        self.model.give_back([(grant, row) for row in (held if wanted is None else wanted)], self.now)

    def set_aside(self) -> None:
        grant, wanted = self.part()
        held = {at for at, row in self.model.rows.items() if row.grant == grant}
        aside = held if wanted is None else held & wanted
        reason = self.one_of(list(SetAsideReason))
        change = settling.set_aside(self.ledger, [GrantRows(grant, None if wanted is None else rows(wanted))], reason, self.now)
        assert (change is not None) == bool(aside)
        if change is not None:
            self.write(change)
            self.model.set_aside(aside, is_condemned=reason is SetAsideReason.OVERTAKEN)

    def expire(self) -> None:
        change = settling.expire(self.ledger, self.now)
        ended = any(row.grant and row.until <= self.now for row in self.model.rows.values())
        assert (change is not None) == ended
        if change is not None:
            self.write(change)
            self.model.expire(self.now)

    def condemn(self) -> None:
        chosen = self.some(set(range(1, self.end)) - self.gone) if self.number(0, 3) == 0 else set[int]()
        self.named(settling.condemn(self.ledger, rows(chosen), "too old", self.now), self.model.condemn(chosen, "too old"))

    def bury(self) -> None:
        chosen = self.some(set(range(1, self.end)))
        self.named(settling.bury(self.ledger, rows(chosen)), self.model.bury(chosen))

    def named(self, change: Any, expected: set[int]) -> None:
        assert (set() if change is None else offsets(RowSet.of_spans(change.rows))) == expected
        if change is not None:
            self.write(change)

    def alter(self) -> None:
        """The subscription gets a backoff, another one, or none."""
        backoff = self.one_of([None, Backoff(2, 1.5, 9), Backoff(5, 3.0, 60), Backoff(0, 2.0, 10), Backoff(7, 1.0, 7)])
        self.write(AlterSubscription(1, 0, 7, SubscriptionSettings(max_deliveries=DELIVERIES_MAX, backoff=backoff)))
        self.model.backoff = backoff

    def seek(self) -> None:
        if self.number(0, 3) == 0:
            offset = self.number(min([*self.kept, self.floor]), self.end)
            gone = {row for row in range(offset, self.end) if row in self.gone or (row < self.floor and row not in self.kept)}
            self.write(settling.reset(self.ledger, offset, rows(gone)))
            self.model.reset(offset, gone)

    # At rest

    def seal(self) -> None:
        """Some of the parts come to the catalog, in their order. If not all do, either the broker
        crashes, or they are put back.
        """
        written, crashed = self.one_of([0, 1, 2, 3, 99, 99, 99]), self.number(0, 1)
        parts = [part for _, part in self.ledgers.capture()]
        assert not parts or parts[-1].number == HEAD
        for part in parts[:written]:
            data = part.encode()
            if part.number == HEAD:
                self.head = data, len(self.journal)
            elif data:
                self.chunks[part.number - 1] = data
            else:
                self.chunks.pop(part.number - 1, None)
        if crashed:
            self.load()
        else:
            for part in parts[written:]:
                self.ledgers.put_back(7, part.number, is_gone=False)

    def load(self) -> None:
        """A broker loads what the catalog has, and goes on with that."""
        loaded = Ledgers(1, 0)
        for chunk, data in self.chunks.items():
            loaded.restore_part(7, chunk + 1, data, 0)
        if self.head is not None:
            loaded.restore_part(7, HEAD, *self.head)
        for number, data in enumerate(self.journal, start=1):
            for change in journal.decode(data):
                loaded.replay(cast("LedgerChange | Delete | Floor", change), number)
        assert loaded.state() == self.ledgers.state()
        self.ledgers = loaded
        self.model.forget_due()

    def a_snapshot_has_everything(self) -> None:
        other = Ledger(1, 0, 7)
        other.restore(self.ledger.snapshot())
        other.check()
        assert other.state() == self.ledger.state()

    # Each message

    def every_message_is_where_the_model_has_it(self) -> None:
        ledger, everything = self.ledger, RowSet(1, self.end)
        self.ledgers.check()
        settled = offsets(ledger.settled.of(everything))
        assert settled == {offset for offset, row in self.model.rows.items() if row.settled}
        leased = {row: (one.consumer, one.until) for one in ledger.leased(everything, self.now) for row in offsets(one.rows)}
        assert leased == self.model.leased(self.now)
        if self.end > 1:
            assert ledger.retry_counts(everything).tolist() == [row.retries for _, row in sorted(self.model.rows.items())]
        free = sum(row.is_free(self.now) for row in self.model.rows.values())
        assert ledger.waiting(self.end, self.now) == free
        condemned = {at: (last.reason, last.consumer) for last, some in ledger.condemned.groups(everything) for at in offsets(some)}
        assert condemned == {offset: row.condemned for offset, row in self.model.rows.items() if row.condemned}
        moments, later = ledger.timeline.arrays()
        still = {(moment, row) for moment, row in zip(moments.tolist(), later.tolist(), strict=True) if moment > self.now}
        assert still == {(row.later, offset) for offset, row in self.model.rows.items() if row.later > self.now}
        assert ledger.backlog(self.end) == len(self.model.rows) - len(settled)
        assert ledger.next_deadline() == min((row.until for row in self.model.rows.values() if row.grant), default=NEVER)


OFTEN = ["publish", "wait", "grant", "grant", "grant", "settle", "settle", "settle", "settle", "expire", "extend", "seal", "load"]
RARELY = "alter grant_apart expire condemn bury bury delete raise_floor repeat repeat give_back set_aside seek choose choose".split()
SCHEDULED = ["pass_by", "pass_by", "come_due", "come_due", "come_due"]
STEPS = [*OFTEN, *OFTEN, *RARELY, *SCHEDULED, "skip", "pass_over", "a_snapshot_has_everything"]
NEED_A_GRANT = {"settle", "repeat", "extend", "give_back", "set_aside"}


def live_through(seed: int, steps: int) -> None:
    """So many steps, decided by a seed."""
    world = LedgerWorld(Seeded(seed))
    for _ in range(steps):
        world.step()


@pytest.fixture(autouse=True, scope="module")
def small_world():
    """Chunks of 16 offsets are small, four grants, five due rows and two ends are many, so that borders are common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_set, "CHUNK_BITS", 4)
        patch.setattr(offset_set, "MANY_RUNS", 5)
        patch.setattr(granting, "GRANTS_MAX", GRANTS_MAX)
        patch.setattr(due_rows, "ORDERED_ROWS_MAX", ORDERED_ROWS_MAX)
        patch.setattr(leases, "MANY_DUE", 2)
        patch.setattr(timeline, "GATHERED_MAX", 3)
        yield
