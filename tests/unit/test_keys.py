"""Keys: hypothesis compares `KeyedRows` with a model that keeps one record for each row."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bowstring.core import keys
from bowstring.core.keys import KEYLESS, SLOTS, KeyedRows

# Some share a slot, one pair differs in its slot only.
HASHES = [KEYLESS, 1, 2, 3, SLOTS + 1, SLOTS + 2, 77, 5 * SLOTS]


class NaiveRow:
    def __init__(self, key: int) -> None:
        self.key = key
        self.place = "waiting"
        self.grant = 0


class KeysMachine(RuleBasedStateMachine):
    """Rows come, are granted, acked, nacked, and come back later; slots move."""

    def __init__(self) -> None:
        super().__init__()
        self.suspects: set[int] = set()
        self.narrowed = False
        self.keys = KeyedRows(lambda offsets: np.isin(offsets, list(self.suspects)))
        self.rows: dict[int, NaiveRow] = {}
        self.owners = np.zeros(SLOTS, np.int16)
        self.keys.own(self.owners)
        self.next_offset, self.next_grant = 1, 1

    @initialize(unparked=st.sampled_from([1, 3, 4096]), block=st.sampled_from([1, 4, 256]))
    def sizes(self, unparked: int, block: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(keys, "UNPARKED_MAX", unparked)
        self.patch.setattr(keys, "BLOCK", block)

    def teardown(self) -> None:
        self.patch.undo()

    @rule(
        chosen=st.lists(st.sampled_from(HASHES), min_size=1, max_size=12),
        gap=st.integers(0, 3),
        how=st.sampled_from(["wait", "lease", "later"]),
    )
    def rows_come(self, chosen: list[int], gap: int, how: str) -> None:
        offsets = np.arange(self.next_offset + gap, self.next_offset + gap + len(chosen), dtype=np.int64)
        self.next_offset = int(offsets[-1]) + 1
        hashes = np.array(chosen, np.uint64)
        if how == "lease":
            free = [key == KEYLESS or not self.is_busy(key) for key in chosen]
            offsets, hashes = offsets[free], hashes[free]
            if not len(offsets):
                return
            self.keys.meet_leased(self.next_grant, offsets, hashes)
        elif how == "later":
            self.keys.meet_later(offsets, hashes)
        else:
            self.keys.meet(offsets, hashes)
        for offset, key in zip(offsets.tolist(), hashes.tolist(), strict=True):
            row = self.rows[offset] = NaiveRow(key)
            row.place = {"wait": "waiting", "lease": "leased", "later": "later"}[how]
            row.grant = self.next_grant if how == "lease" else 0
        self.next_grant += how == "lease"

    def is_busy(self, key: int) -> bool:
        return any(row.key == key and row.place == "leased" for row in self.rows.values())

    def eligible(self, owner: int) -> list[int]:
        found: list[int] = []
        for offset, row in sorted(self.rows.items()):
            if row.place != "waiting" or offset in self.suspects:
                continue
            if row.key != KEYLESS:
                earlier = any(other.key == row.key and other.place == "later" and at < offset for at, other in self.rows.items())
                earlier |= any(self.rows[at].key == row.key and self.waits_apart(at) and at < offset for at in self.rows)
                if self.is_busy(row.key) or earlier or self.owners[row.key % SLOTS] != owner:
                    continue
            found.append(offset)
        return found

    def waits_apart(self, offset: int) -> bool:
        return offset in self.suspects and self.rows[offset].place == "waiting"

    def may_come_apart(self, offset: int) -> bool:
        """A suspect without a key, or the first row of a free key."""
        row = self.rows[offset]
        if row.key == KEYLESS or not self.waits_apart(offset):
            return self.waits_apart(offset)
        return not any(other.key == row.key and (at < offset or other.place == "leased") for at, other in self.rows.items())

    @rule(kept=st.booleans(), data=st.data())
    def suspects_are_granted(self, kept: bool, data: Any) -> None:
        wanted = [offset for offset in sorted(self.rows) if self.may_come_apart(offset)]
        assert self.keys.suspects().offsets.tolist() == wanted
        taken = sorted(data.draw(st.sets(st.sampled_from(wanted)))) if wanted else []
        chosen = self.keys.take_suspects(np.array(taken, np.int64))
        assert chosen.offsets.tolist() == taken
        if kept:
            self.keys.put_back(chosen)
        elif taken:
            self.keys.grant(self.next_grant, chosen)
            for offset in taken:
                self.rows[offset].place, self.rows[offset].grant = "leased", self.next_grant
            self.next_grant += 1

    @rule(data=st.data())
    def rows_are_named(self, data: Any) -> None:
        """Suspects among them are granted like others."""
        waiting = sorted(offset for offset, row in self.rows.items() if row.place == "waiting")
        named = data.draw(st.sets(st.sampled_from(waiting))) if waiting else set[int]()
        picked, busy, behind = self.keys.pick(np.array(sorted(named), np.int64))
        for offset in named:
            key = self.rows[offset].key
            mine = {at: row for at, row in self.rows.items() if row.key == key and key != KEYLESS}
            is_busy = any(row.place == "leased" for row in mine.values())
            is_behind = any(at < offset and at not in named for at, row in mine.items() if row.place in ("waiting", "later"))
            assert (offset in busy, offset in behind) == (is_busy, is_behind and not is_busy)
        assert sorted([*picked.offsets.tolist(), *busy, *behind]) == sorted(named)
        if len(picked.offsets):
            self.keys.grant(self.next_grant, picked)
            for offset in picked.offsets.tolist():
                self.rows[offset].place, self.rows[offset].grant = "leased", self.next_grant
            self.next_grant += 1

    @rule(owner=st.integers(0, 2), most=st.integers(1, 9), wasted=st.booleans(), data=st.data())
    def a_consumer_gets_rows(self, owner: int, most: int, wasted: bool, data: Any) -> None:
        wanted = self.eligible(owner)
        chosen = self.keys.choose(owner, most)
        got = chosen.offsets.tolist()
        if most < keys.UNPARKED_MAX and not self.narrowed:
            assert got == wanted[:most]
        self.is_prefix_of_keys(got, wanted)
        if wasted:
            self.keys.put_back(chosen)
        elif got:
            gone = data.draw(st.booleans())
            if gone:
                self.keys.drop(chosen.at(slice(0, 1)))
                del self.rows[got[0]]
                chosen, got = chosen.at(slice(1, None)), got[1:]
            if got:
                self.keys.grant(self.next_grant, chosen)
                for offset in got:
                    self.rows[offset].place, self.rows[offset].grant = "leased", self.next_grant
                self.next_grant += 1

    def is_prefix_of_keys(self, got: list[int], wanted: list[int]) -> None:
        for key in {self.rows[offset].key for offset in got} - {KEYLESS}:
            mine = [offset for offset in got if self.rows[offset].key == key]
            assert mine == [offset for offset in wanted if self.rows[offset].key == key][: len(mine)]

    @precondition(lambda self: any(row.place == "leased" for row in self.rows.values()))
    @rule(data=st.data())
    def rows_of_a_grant_end(self, data: Any) -> None:
        grant = data.draw(st.sampled_from(sorted({row.grant for row in self.rows.values() if row.grant})))
        held = self.keys.leased(grant).offsets.tolist()
        assert held == sorted(offset for offset, row in self.rows.items() if row.grant == grant)
        fates = data.draw(st.lists(st.sampled_from(["leased", "acked", "waiting", "later"]), min_size=len(held), max_size=len(held)))
        masks = [np.array([fate == name for fate in fates], np.bool_) for name in ("leased", "waiting", "later")]
        nacked = masks[1] | masks[2]
        behind = self.keys.behind(grant, nacked)
        for place, offset in enumerate(held):
            key = self.rows[offset].key
            earlier = any(nacked[at] and self.rows[other].key == key and other < offset for at, other in enumerate(held))
            assert behind[place] == (earlier and key != KEYLESS)
        self.suspects |= {
            offset for offset, fate in zip(held, fates, strict=True) if fate in ("waiting", "later") and data.draw(st.booleans())
        }
        if data.draw(st.integers(0, 3)) == 0:
            self.narrowed = True
            self.keys.expired(grant, ~masks[0])
        if set(fates) == {"acked"} and data.draw(st.booleans()):
            self.keys.all_settled(grant)
        else:
            self.keys.ended(grant, ~masks[0], masks[1], masks[2])
        for offset, fate in zip(held, fates, strict=True):
            if fate == "acked":
                del self.rows[offset]
            elif fate != "leased":
                self.rows[offset].place, self.rows[offset].grant = fate, 0

    @precondition(lambda self: len(self.keys.later) > 0)
    @rule(data=st.data())
    def what_was_for_later_is_due(self, data: Any) -> None:
        later = self.keys.later.tolist()
        fates = data.draw(st.lists(st.sampled_from(["later", "waiting", "gone"]), min_size=len(later), max_size=len(later)))
        self.keys.no_longer(*[np.array([fate == name for fate in fates], np.bool_) for name in ("waiting", "gone")])
        for offset, fate in zip(later, fates, strict=True):
            if fate == "gone":
                del self.rows[offset]
            else:
                self.rows[offset].place = fate

    @rule(moved=st.dictionaries(st.sampled_from([key % SLOTS for key in HASHES]), st.integers(0, 2)))
    def slots_move(self, moved: dict[int, int]) -> None:
        self.owners = self.owners.copy()
        for slot, owner in moved.items():
            self.owners[slot] = owner
        self.keys.own(self.owners)

    @rule(data=st.data())
    def rows_are_deleted(self, data: Any) -> None:
        waiting = [offset for offset, row in self.rows.items() if row.place == "waiting"]
        gone = data.draw(st.sets(st.sampled_from(waiting))) if waiting else set[int]()
        self.keys.leave(lambda offsets: np.isin(offsets, list(gone)))
        for offset in gone:
            del self.rows[offset]

    @invariant()
    def it_is_what_the_model_says(self) -> None:
        self.keys.check()
        assert self.keys.waiting == sum(row.place == "waiting" for row in self.rows.values())
        for key in HASHES[1:]:
            of_key = {offset: row for offset, row in self.rows.items() if row.key == key}
            facts = self.keys.facts(key)
            assert (facts is None) == (not of_key)
            if facts is not None:
                assert facts.waiting.tolist() == sorted(offset for offset, row in of_key.items() if row.place == "waiting")
                assert facts.leased == sum(row.place == "leased" for row in of_key.values())
                assert facts.grant == max(row.grant for row in of_key.values())


TestKeys = KeysMachine.TestCase
TestKeys.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_suspect_holds_back_only_its_key() -> None:
    suspects = {1}
    rows = KeyedRows(lambda offsets: np.isin(offsets, list(suspects)))
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(1, 6), np.array([7, 8, 7, 8, KEYLESS], np.uint64))
    assert rows.choose(0, 10).offsets.tolist() == [2, 4, 5]
    assert rows.suspects().offsets.tolist() == [1]
    rows.grant(1, rows.take_suspects(rows.suspects().offsets))
    assert not len(rows.choose(0, 10).offsets)
    rows.ended(1, *(np.array([gone]) for gone in (True, False, False)))
    assert rows.choose(0, 10).offsets.tolist() == [3]


def test_an_earlier_row_of_its_key_comes_before_a_suspect() -> None:
    """It was published for later, and is due now."""
    rows = KeyedRows(lambda offsets: offsets == 2)
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(2, 4), np.array([7, 7], np.uint64))
    rows.meet(np.arange(1, 2), np.array([7], np.uint64))
    assert not len(rows.suspects().offsets)
    rows.grant(1, rows.choose(0, 10))
    assert rows.leased(1).offsets.tolist() == [1]
    assert not len(rows.suspects().offsets)
    rows.ended(1, *(np.array([gone]) for gone in (True, False, False)))
    assert rows.suspects().offsets.tolist() == [2]
    assert not len(rows.choose(0, 10).offsets)


def test_of_a_key_one_suspect_comes_at_a_time() -> None:
    rows = KeyedRows(lambda offsets: offsets < 5)
    rows.meet(np.arange(1, 6), np.array([7, 7, KEYLESS, KEYLESS, KEYLESS], np.uint64))
    assert rows.suspects().offsets.tolist() == [1, 3, 4]


def test_rows_that_were_lost_come_in_smaller_parts() -> None:
    rows = KeyedRows()
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(1, 25), np.array([7, 8] * 12, np.uint64))
    rows.grant(1, rows.choose(0, 17))
    back, no = np.ones(17, np.bool_), np.zeros(17, np.bool_)
    rows.expired(1, back)
    rows.ended(1, back, back, no)
    rows.grant(2, rows.choose(0, 17))
    assert len(rows.leased(2).offsets) == 17
    rows.expired(2, back)
    rows.ended(2, back, back, no)
    seen: list[list[int]] = []
    for grant in range(3, 20):
        chosen = rows.choose(0, 100)
        if not len(chosen.offsets):
            break
        seen.append(chosen.offsets.tolist())
        rows.grant(grant, chosen)
        done = np.ones(len(chosen.offsets), np.bool_)
        rows.ended(grant, done, ~done, ~done)
        rows.check()
    assert seen[:4] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    assert sorted(offset for part in seen for offset in part) == list(range(1, 25))
    assert len(seen) <= 6


def test_a_busy_key_holds_back_only_itself() -> None:
    rows = KeyedRows()
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(1, 5), np.array([7, 8, 7, 8], np.uint64))
    rows.grant(1, rows.choose(0, 1))
    assert rows.choose(0, 10).offsets.tolist() == [2, 4]


def test_rows_that_are_chosen_and_not_granted_wait_at_their_old_place() -> None:
    rows = KeyedRows()
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(1, 4), np.array([7, 8, 9], np.uint64))
    rows.put_back(rows.choose(0, 2))
    assert rows.choose(0, 10).offsets.tolist() == [1, 2, 3]


def test_many_parked_rows_leave_the_other_keys_alone() -> None:
    rows = KeyedRows()
    rows.own(np.zeros(SLOTS, np.int16))
    rows.meet(np.arange(1, 100_001), np.full(100_000, 7, np.uint64))
    rows.grant(1, rows.choose(0, 1))
    assert len(rows.choose(0, 1000).offsets) == 0
    assert rows.parked == rows.waiting == 99_999
    rows.meet(np.arange(100_001, 100_003), np.array([7, 8], np.uint64))
    assert rows.choose(0, 1000).offsets.tolist() == [100_002]
