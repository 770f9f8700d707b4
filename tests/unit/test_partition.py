"""The partition machine, event by event: no broker, no disk, no clock."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.core import publishing
from bowstring.core.answers import Answer, Repeat, ResendAfter, Stored
from bowstring.core.changes import Append, Change, Reason
from bowstring.core.decisions import Decided, Decision, Found, GivenBack, Ids, Lookup, Publish, Refused, Wait
from bowstring.core.journal import decode, encode
from bowstring.core.natural_ids import Hits
from bowstring.core.partition import Partition

SECOND = 1_000_000
WINDOW = 600 * SECOND
NOW = 1_800_000_000 * SECOND
ADA = b"a" * 16
BOB = b"b" * 16


class Log:
    """A partition whose changes are committed on demand, and that can be loaded again from them."""

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window
        self.partition = Partition(1, 0, window)
        self.journal: list[Change] = []
        self.pending: list[Change] = []
        self.ids: dict[int, np.ndarray] = {}

    def publish(self, batch: Publish, now: int = NOW, confirmed: Hits | None = None) -> Decision[Answer]:
        found = None if confirmed is None else Found(self.partition.moves, confirmed, self.arrived(confirmed), {})
        decision = publishing.publish(self.partition, batch, now, found)
        if isinstance(decision, Decided):
            self.partition.take(decision)
            self.pending += decision.changes
            change = next(iter(decision.changes), None)
            if batch.ids is not None and isinstance(change, Append) and change.rows:
                kept = decision.kept if decision.kept is not None else np.arange(batch.rows)
                self.ids[change.first_offset] = batch.ids.hashes[kept]
        return decision

    def arrived(self, hits: Hits) -> np.ndarray:
        """What a lookup reads beside the ids."""
        entries = [self.partition.pages[self.partition.pages.at(int(offset))] for offset in hits.offsets]
        return np.array([entry.arrived for entry in entries], np.int64)

    def commit(self) -> None:
        for change in self.pending:
            self.journal.append(change)
            self.partition.committed(change, len(self.journal))
        self.pending.clear()

    def delete(self, first: int, rows: int, reason: Reason) -> None:
        self.take(self.partition.delete(((first, rows),), reason))

    def take(self, change: Change) -> None:
        self.partition.take(Decided((change,), None))
        self.pending.append(change)

    def loaded(self) -> Partition:
        partition = Partition(1, 0, self.window)
        for number, change in enumerate(decode(encode(self.journal)), start=1):
            partition.replay(change, number)
        for first_offset, hashes in sorted(self.ids.items()):
            if first_offset < partition.next_offset:
                partition.restore_ids(first_offset, hashes)
        return partition


def appended(decision: Decision[Answer]) -> Append:
    """The change of a batch that was accepted."""
    assert isinstance(decision, Decided)
    (change,) = decision.changes
    assert isinstance(change, Append)
    return change


def batch(number: int, previous: int, rows: int = 1, *, producer: bytes = ADA, sent: int = NOW, ids: Ids | None = None) -> Publish:
    return Publish(producer, number, previous, sent, 30 * SECOND, rows, 2, ids)


def natural(*hashes: int, firsts: list[int] | None = None, given: tuple[GivenBack, ...] = ()) -> Ids:
    return Ids(np.array(hashes, np.uint64), None if firsts is None else np.array(firsts, np.int64), given)


def test_offsets_are_dense_from_one() -> None:
    log = Log()
    first = log.publish(batch(1, 0, rows=3))
    second = log.publish(batch(1, 0, rows=2, producer=BOB))
    assert (appended(first).first_offset, appended(second).first_offset, log.partition.next_offset) == (1, 4, 6)


def test_nothing_is_visible_before_its_commit() -> None:
    log = Log()
    log.publish(batch(1, 0, rows=3))
    assert log.partition.committed_offset == 1
    log.commit()
    assert (log.partition.committed_offset, log.partition.messages) == (4, 3)


def test_arrival_never_falls_when_the_clock_does() -> None:
    log = Log()
    log.publish(batch(1, 0))
    decision = log.publish(batch(2, 1), now=NOW - 3 * SECOND)
    assert appended(decision).arrived == NOW


def test_a_resend_of_a_committed_batch_gets_its_first_answer() -> None:
    log = Log()
    log.publish(batch(1, 0, rows=3))
    log.commit()
    assert log.publish(batch(1, 0, rows=3)) == Decided((), Stored(1, 3, (), duplicate=True))


def test_a_resend_of_an_uncommitted_batch_waits_for_it() -> None:
    log = Log()
    log.publish(batch(1, 0))
    assert isinstance(log.publish(batch(1, 0)), Wait)


def test_a_batch_that_does_not_follow_is_sent_back_to_the_last_one() -> None:
    log = Log()
    log.publish(batch(1, 0))
    assert log.publish(batch(3, 2)) == Decided((), ResendAfter(1))
    assert log.publish(batch(3, 2, producer=BOB)) == Decided((), ResendAfter(0))


def test_a_number_that_was_passed_over_is_certainly_not_stored() -> None:
    log = Log()
    log.publish(batch(1, 0))
    log.publish(batch(3, 1))
    log.commit()
    decision = log.publish(batch(2, 1))
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.DeadlinePassed)


def test_a_batch_after_its_timeout_is_refused() -> None:
    log = Log()
    decision = log.publish(batch(1, 0), now=NOW + 31 * SECOND)
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.DeadlinePassed)


def test_a_batch_first_sent_before_the_memory_begins_has_an_unknown_outcome() -> None:
    log = Log()
    late = Publish(ADA, 1, 0, NOW, 86_400 * SECOND, 1, 2, None)
    decision = log.publish(late, now=NOW + WINDOW + SECOND)
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.OutcomeUnknown)


def with_a_deleted_id(reason: Reason) -> Log:
    """Its one message has the id 7, and was deleted."""
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    log.commit()
    log.delete(1, 1, reason)
    log.commit()
    return log


def test_a_batch_taken_back_after_its_deadline_frees_its_number_and_ids() -> None:
    log = with_a_deleted_id(Reason.DEADLINE)
    decision = log.publish(batch(1, 0, ids=natural(7)))
    assert isinstance(decision, Refused)
    again = log.publish(batch(2, 1, ids=natural(7)))
    assert appended(again).first_offset == 2
    assert log.partition.messages == 0


def test_readers_do_not_pass_a_deletion_before_it_is_committed() -> None:
    log = Log()
    log.publish(batch(1, 0, rows=3))
    log.publish(batch(2, 1, rows=2))
    log.commit()
    log.delete(4, 2, Reason.DEADLINE)
    assert (log.partition.committed_offset, log.partition.readable_offset) == (6, 4)
    log.commit()
    assert log.partition.readable_offset == 6


def test_an_owners_delete_leaves_the_id_taken() -> None:
    log = with_a_deleted_id(Reason.OWNER)
    assert isinstance(log.publish(batch(2, 1, ids=natural(7))), Lookup)


def test_a_known_hash_is_looked_up_before_it_is_called_a_duplicate() -> None:
    log = Log()
    log.publish(batch(1, 0, 2, ids=natural(7, 8)))
    log.commit()
    second = batch(2, 1, 3, ids=natural(9, 8, 7))
    decision = log.publish(second)
    assert isinstance(decision, Lookup)
    assert sorted(zip(decision.hits.rows.tolist(), decision.hits.offsets.tolist(), strict=True)) == [(1, 2), (2, 1)]
    confirmed = Hits(np.array([1]), np.array([2]))
    accepted = log.publish(second, confirmed=confirmed)
    assert isinstance(accepted, Decided)
    assert accepted.kept is not None
    assert (accepted.kept.tolist(), appended(accepted).repeats) == ([0, 2], (Repeat(1, 1, 2),))


def test_an_id_of_an_uncommitted_batch_is_waited_for() -> None:
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    assert isinstance(log.publish(batch(1, 0, producer=BOB, ids=natural(7))), Wait)


def test_the_same_id_twice_in_one_batch_is_stored_once() -> None:
    log = Log()
    decision = log.publish(batch(1, 0, 4, ids=natural(7, 8, 7, 9, firsts=[0, 1, 0, 3])))
    assert isinstance(decision, Decided)
    assert decision.kept is not None
    assert decision.kept.tolist() == [0, 1, 3]
    assert appended(decision).repeats == (Repeat(2, 1, 1),)


def test_a_batch_of_nothing_but_repeats_is_remembered_by_its_number() -> None:
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    log.commit()
    decision = log.publish(batch(2, 1, ids=natural(7)), confirmed=Hits(np.array([0]), np.array([1])))
    assert appended(decision).rows == 0
    log.commit()
    assert log.publish(batch(2, 1, ids=natural(7))) == Decided((), Stored(0, 0, (Repeat(0, 1, 1),), duplicate=True))
    assert appended(log.publish(batch(3, 2)))


def test_a_generated_id_that_is_given_back_is_recognised() -> None:
    log = Log()
    log.publish(batch(1, 0, 5))
    log.commit()
    decision = log.publish(batch(1, 0, producer=BOB, ids=natural(99, given=(GivenBack(0, ADA, 1, 3),))))
    assert appended(decision).repeats == (Repeat(0, 1, 4),)


def test_an_id_is_free_again_after_the_window() -> None:
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    log.commit()
    later = NOW + WINDOW + SECOND
    same = Hits(np.array([0]), np.array([1]))
    assert appended(log.publish(batch(1, 0, producer=BOB, sent=later, ids=natural(7)), now=later, confirmed=same))


def test_memory_of_a_silent_producer_ends_with_the_window() -> None:
    log = Log()
    log.publish(batch(1, 0))
    later = NOW + WINDOW + SECOND
    log.publish(batch(1, 0, producer=BOB, sent=later), now=later)
    assert len(log.partition.producers) == 1


def test_offsets_out_of_place_are_refused_by_apply() -> None:
    log = Log()
    decision = log.publish(batch(1, 0))
    with pytest.raises(AssertionError, match="dense"):
        log.partition.apply(appended(decision))


@given(st.lists(st.tuples(st.sampled_from("pprcdw"), st.integers(0, 3), st.integers(1, 4), st.integers(0, 400)), max_size=60))
def test_what_runs_is_what_loads(steps: list[tuple[str, int, int, int]]) -> None:
    """Random publishes with ids from a small set, resends, commits, deletions and passing time: live state equals loaded state."""
    log = Log()
    now, numbers, lasts = NOW, {bytes([65 + n]) * 16: 0 for n in range(4)}, {bytes([65 + n]) * 16: 0 for n in range(4)}
    for step, who, rows, seconds in steps:
        producer = bytes([65 + who]) * 16
        if step == "p":
            numbers[producer] += 1
            ids = natural(*[(seconds + row) % 9 for row in range(rows)], firsts=None) if seconds % 2 else None
            publish = batch(numbers[producer], lasts[producer], rows, producer=producer, sent=now, ids=ids)
            decision = log.publish(publish, now)
            if isinstance(decision, Lookup):
                newest = {int(row): int(offset) for row, offset in zip(*decision.hits, strict=True)}
                decision = log.publish(publish, now, Hits(np.array(list(newest)), np.array(list(newest.values()))))
            if isinstance(decision, Decided) and isinstance(decision.answer, ResendAfter):
                lasts[producer] = decision.answer.number
            elif isinstance(decision, Decided) and decision.changes:
                lasts[producer] = numbers[producer]
        elif step == "c":
            log.commit()
        elif step == "d" and log.partition.committed_offset > 1:
            log.delete(1 + seconds % (log.partition.committed_offset - 1), 1, Reason.DEADLINE if who % 2 else Reason.OWNER)
        elif step == "w":
            now += seconds * SECOND
    log.commit()
    log.partition.check()
    loaded = log.loaded()
    loaded.check()
    assert loaded.state() == log.partition.state()
    assert loaded.pages.state() == log.partition.pages.state()


def test_the_log_ends_before_what_is_being_taken_back_at_its_end():
    log = Log()
    for number in range(1, 5):
        log.publish(batch(number, number - 1, rows=10))
    log.commit()
    assert log.partition.readable_offset == 41
    log.delete(31, 10, Reason.DEADLINE)
    assert log.partition.readable_offset == 31
    log.delete(21, 10, Reason.DEADLINE)
    assert log.partition.readable_offset == 21
    log.commit()
    assert log.partition.readable_offset == 41


def test_taking_back_an_old_row_does_not_take_back_the_end_of_the_log():
    log = Log()
    for number in range(1, 5):
        log.publish(batch(number, number - 1, rows=10))
    log.commit()
    log.delete(5, 1, Reason.DEADLINE)
    log.delete(11, 10, Reason.DEADLINE)
    assert log.partition.readable_offset == 41
    log.delete(31, 10, Reason.DEADLINE)
    assert log.partition.readable_offset == 31


def test_an_owners_delete_at_the_end_does_not_move_the_end():
    log = Log()
    log.publish(batch(1, 0, rows=10))
    log.commit()
    log.delete(6, 5, Reason.OWNER)
    assert log.partition.readable_offset == 11
