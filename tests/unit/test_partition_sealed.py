"""A partition whose pages are sealed: memory forgets what sections tell, and nothing is forgotten that they do not."""

from __future__ import annotations

import copy
from typing import get_args

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.core import known_messages, publishing
from bowstring.core.answers import Repeat, Stored
from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason, Reschedule
from bowstring.core.decisions import BatchName, Decided, Found, GivenBack, Ids, Lookup, Refused, SealedBatch
from bowstring.core.journal import decode, encode
from bowstring.core.natural_ids import Hits
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.core.snapshots import capture, put_back, restore, restore_chunk
from tests.unit.test_changes import LEDGER
from tests.unit.test_partition import ADA, BOB, NOW, SECOND, WINDOW, Log, appended, batch, natural

NONE = np.empty(0, np.int64)


def nothing_found(partition: Partition) -> Found:
    return Found(partition.moves, Hits(NONE, NONE), NONE, {})


def sealed_log(*rows: int) -> Log:
    """A log of committed batches of ADA's with so many rows, all of them sealed."""
    log = Log()
    for number, count in enumerate(rows, start=1):
        log.publish(batch(number, number - 1, rows=count))
    log.commit()
    log.partition.sealed(log.partition.committed_offset, 1000)
    return log


def test_sealed_pages_are_forgotten_and_counted():
    log = sealed_log(3, 4)
    partition = log.partition
    assert (len(partition.pages), partition.sealed_end, partition.bytes, partition.messages) == (0, 8, 1000, 7)
    partition.check()


def test_a_resend_of_a_sealed_batch_is_looked_up():
    log = sealed_log(3, 4)
    decision = log.publish(batch(1, 0, rows=3))
    assert isinstance(decision, Lookup)
    assert decision.batches == (BatchName(ADA, 1),)
    found = nothing_found(log.partition)._replace(batches={BatchName(ADA, 1): SealedBatch(1, 3)})
    assert publishing.publish(log.partition, batch(1, 0, rows=3), NOW, found) == Decided((), Stored(1, 3, (), duplicate=True))


def test_a_number_that_no_section_has_was_passed_over():
    log = Log()
    log.publish(batch(1, 0))
    log.publish(batch(5, 1))
    log.commit()
    log.partition.sealed(3, 100)
    decision = publishing.publish(log.partition, batch(3, 1), NOW, nothing_found(log.partition))
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.DeadlinePassed)


def test_what_was_looked_up_before_a_seal_does_not_count_after_it():
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    log.commit()
    before = nothing_found(log.partition)
    log.partition.sealed(2, 100)
    decision = publishing.publish(log.partition, batch(1, 0, producer=BOB, ids=natural(7)), NOW, before)
    assert isinstance(decision, Lookup)
    assert decision.sealed


def test_a_batch_with_repeats_is_remembered_for_a_minute_after_its_seal():
    log = Log()
    log.publish(batch(1, 0, ids=natural(7)))
    log.commit()
    same = Hits(np.array([0]), np.array([1]))
    log.publish(batch(1, 0, rows=2, producer=BOB, ids=natural(7, 8)), confirmed=same)
    log.commit()
    log.partition.sealed(3, 100)
    answered = publishing.publish(log.partition, batch(1, 0, rows=2, producer=BOB, ids=natural(7, 8)), NOW, None)
    assert answered == Decided((), Stored(2, 1, (Repeat(0, 1, 1),), duplicate=True))
    later = NOW + 61 * SECOND
    log.publish(batch(2, 1, producer=BOB, sent=later), now=later)
    log.commit()
    decision = publishing.publish(log.partition, batch(1, 0, rows=2, producer=BOB, ids=natural(7, 8)), later, nothing_found(log.partition))
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.OutcomeUnknown)


def test_numbers_are_forgotten_when_the_window_has_passed_their_seal():
    log = sealed_log(1, 1)
    later = NOW + WINDOW + 2 * SECOND
    log.publish(batch(3, 2, sent=later), now=later)
    log.commit()
    decision = log.publish(batch(1, 0, sent=later), now=later)
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.OutcomeUnknown)


def test_a_generated_id_that_is_given_back_is_found_in_a_section():
    log = sealed_log(3)
    ids = natural(99, given=(GivenBack(0, ADA, 1, 2),))
    decision = log.publish(batch(1, 0, producer=BOB, ids=ids))
    assert isinstance(decision, Lookup)
    assert decision.batches == (BatchName(ADA, 1),)
    found = nothing_found(log.partition)._replace(batches={BatchName(ADA, 1): SealedBatch(1, 3)})
    accepted = publishing.publish(log.partition, batch(1, 0, producer=BOB, ids=ids), NOW, found)
    assert appended(accepted).repeats == (Repeat(0, 1, 3),)


def test_a_row_that_was_taken_back_is_not_recognised_by_its_section():
    log = sealed_log(1)
    log.delete(1, 1, Reason.DEADLINE)
    log.commit()
    found = nothing_found(log.partition)._replace(batches={BatchName(ADA, 1): SealedBatch(1, 1)})
    decision = publishing.publish(log.partition, batch(1, 0), NOW, found)
    assert isinstance(decision, Refused)
    assert isinstance(decision.error, errors.DeadlinePassed)
    hits = Found(log.partition.moves, Hits(np.array([0]), np.array([1])), np.array([NOW]), {})
    assert not len(known_messages.recognised(log.partition, hits, NOW).rows)


def test_a_floor_takes_everything_below_it_but_what_is_kept():
    log = Log()
    for number in range(1, 6):
        log.publish(batch(number, number - 1, rows=10))
    log.commit()
    log.take(log.partition.raise_floor(31, ((12, 2), (25, 1))))
    log.commit()
    partition = log.partition
    assert (partition.retained.first, partition.retained.floor, partition.messages) == (12, 31, 23)
    assert partition.live(1, 35).tolist() == [12, 13, 25, 31, 32, 33, 34]
    assert not partition.is_whole(25, 40)
    assert partition.is_whole(31, 51)
    assert partition.pages.start == 11
    log.take(log.partition.raise_floor(51, released=((12, 2), (25, 1))))
    log.commit()
    assert (partition.messages, len(partition.pages)) == (0, 0)
    partition.check()
    assert log.loaded().state() == partition.state()


def test_changes_of_every_kind_come_back_from_the_journal():
    changes: list[Change] = [
        Append(1, 0, 1, 2, NOW, 2, ADA, 1, expires=5, due=6, segment=7, position=8, length=9),
        Delete(1, 0, ((1, 1),), Reason.OWNER),
        Floor(1, 0, 9, ((3, 2),), ((1, 1),)),
        Position(1, 0, "name", 3, NOW),
        Reschedule(1, 0, ((1, 1),), NOW),
        *LEDGER,
    ]
    assert {type(change) for change in changes} == set(get_args(Change))
    assert decode(encode(changes)) == changes


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from((ADA, BOB)), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("commit")),
        st.tuples(st.just("seal")),
        st.tuples(st.just("snapshot"), st.booleans()),
        st.tuples(st.just("delete"), st.integers(1, 30), st.booleans()),
        st.tuples(st.just("floor"), st.integers(1, 30), st.lists(st.integers(1, 30), max_size=4), st.lists(st.integers(1, 30), max_size=4)),
    ),
    max_size=40,
)


@example([("publish", ADA, 1, False), ("commit",), ("seal",), ("delete", 1, True)])
@given(STEPS)
def test_whatever_is_sealed_and_when_what_runs_is_what_loads(steps: list[tuple]):
    """The catalog in small: a journal, what extents span, a snapshot of some sequence."""
    log, numbers, sealed, taken, chunks = Log(), {ADA: 0, BOB: 0}, 1, None, {}
    partition = log.partition
    for moment, (what, *given_) in enumerate(steps):
        now = NOW + moment * SECOND
        if what == "publish":
            producer, rows, named = given_
            ids = Ids(np.arange(rows, dtype=np.uint64) + np.uint64(moment * 100), None) if named else None
            decision = publishing.publish(
                partition,
                batch(numbers[producer] + 1, numbers[producer], rows, producer=producer, sent=now, ids=ids),
                now,
                nothing_found(partition),
            )
            assert isinstance(decision, Decided)
            partition.take(decision)
            log.pending.append(change := appended(decision))
            if ids is not None:
                log.ids[change.first_offset] = ids.hashes
            numbers[producer] += 1
        elif what == "commit":
            log.commit()
        elif what == "seal":
            sealed = max(sealed, partition.committed_offset)
            partition.sealed(sealed, 0)
        elif what == "snapshot" and not log.pending:
            parts = capture(partition)
            chunks.update({(part.machine, part.number): part.encode() for part in parts if part.number})
            if given_[0]:
                taken = len(log.journal), parts[-1].encode()  # else it dies before the head is written
            else:
                put_back(partition, parts)
        elif what == "delete" and partition.next_offset > given_[0]:
            log.delete(given_[0], 1, Reason.DEADLINE if given_[1] else Reason.OWNER)
        elif what == "floor" and partition.retained.floor < given_[0] <= partition.committed_offset:
            offset, kept, released = given_
            passed = np.array(sorted({row for row in kept if partition.retained.floor <= row < offset}), np.int64)
            log.take(partition.raise_floor(offset, tuple(runs_of(passed)), tuple((row, 1) for row in released)))
    log.commit()
    assert _loaded(log, sealed, taken, chunks).state() == partition.state()
    partition.check()


def _loaded(log: Log, sealed: int, taken: tuple[int, bytes] | None, chunks: dict[tuple[str, int], bytes]) -> Partition:
    loaded = Partition(1, 0, WINDOW)
    if taken is not None:
        restore(loaded, taken[1], taken[0])
    for (machine, part), data in chunks.items():
        if data:
            restore_chunk(loaded, machine, part, data)
    loaded.sealed_end = max(loaded.sealed_end, sealed)
    for sequence, change in enumerate(copy.deepcopy(log.journal), start=1):
        loaded.replay(change, sequence)
    loaded.sealed(loaded.sealed_end, 0)
    for first, hashes in sorted(log.ids.items()):
        if loaded.pages.start is not None and first >= loaded.pages.start:
            loaded.restore_ids(first, hashes)
    loaded.check()
    return loaded
