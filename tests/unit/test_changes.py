"""The vocabulary of changes: closed, addressed, and read from every format that was ever written."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.broker.log.flusher import Flush
from bowstring.core.addresses import PartitionAddress, Runs
from bowstring.core.answers import Repeat
from bowstring.core.changes import Append, Change, Delete, Floor, Position, Reason, Reschedule
from bowstring.core.journal import Replay, UnreadableJournal, decode, encode
from bowstring.core.ledger_changes import (
    AlterSubscription,
    Bury,
    Condemn,
    Expire,
    Extend,
    GiveBack,
    Grant,
    GrantPart,
    Join,
    LedgerChange,
    Overtake,
    PassBy,
    Redrive,
    Reset,
    SetAside,
    SetAsideReason,
    Settle,
    SettledPart,
    Settlement,
    Skip,
    Subscribe,
    Unsubscribe,
)
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.core.retained import Retained
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.ports.store import Page

ADA = b"a" * 16
APPEND = Append(7, 3, 1, 2, 5, 2, ADA, 1, segment=9, position=64, length=100)
LEDGER: list[LedgerChange] = [
    Subscribe(7, 3, 4, "billing", SubscriptionSettings(), 5, 1, 2, (1, 1)),
    Join(7, 3, 4, 1, "ada", 30, 1000),
    Grant(7, 3, 4, 1, 1, 5, 3, (2, 1), (1, 1, 1, 1)),
    Settle(7, 3, 4, 1, 1, (SettledPart(1, Settlement.NACK, (2, 1)),), (GrantPart(9, (3, 1)),)),
    GiveBack(7, 3, 4, (GrantPart(1, (2, 1)),)),
    Extend(7, 3, 4, 2000, (GrantPart(1),)),
    SetAside(7, 3, 4, (GrantPart(1),), SetAsideReason.DAMAGED),
    Skip(7, 3, 4, 5),
    PassBy(7, 3, 4, 5, (2, 1), (1, 1)),
    Expire(7, 3, 4, 2000),
    Condemn(7, 3, 4, (2, 1), "too old", 2000),
    Bury(7, 3, 4, (2, 1)),
    Redrive(7, 3, 4, (2, 1)),
    Overtake(7, 3, 4, 1),
    Reset(7, 3, 4, 2, (1, 1)),
    AlterSubscription(7, 3, 4, SubscriptionSettings(lease=5)),
    Unsubscribe(7, 3, 4),
]
ALL: list[Change] = [
    APPEND,
    Delete(7, 3, ((1, 1),), Reason.OWNER),
    Floor(7, 3, 2),
    Position(7, 3, "name", 2, 5),
    Reschedule(7, 3, ((1, 1),), 9),
    *LEDGER,
]


class Stranger(msgspec.Struct, array_like=True, tag=99):
    """A kind of change that nobody knows."""

    topic: int = 7
    partition: int = 3


def test_every_kind_of_change_says_where_it_belongs():
    assert {type(change) for change in ALL} == set(get_args(Change))
    assert {change.address for change in ALL} == {PartitionAddress(7, 3)}
    assert len({type(change).__struct_config__.tag for change in ALL}) == len(ALL)


def test_every_change_comes_back_from_the_journal():
    assert decode(encode(ALL)) == ALL


def test_a_change_that_nobody_knows_is_refused_and_is_no_floor():
    partition, stranger = Partition(7, 3, 600), Stranger()
    before = partition.state()
    for take in (partition.apply, lambda change: partition.committed(change, 1), lambda change: partition.replay(change, 1)):
        with pytest.raises(AssertionError):
            take(stranger)  # type: ignore[arg-type]
    assert partition.state() == before
    with pytest.raises(UnreadableJournal):
        decode(encode([stranger]))  # type: ignore[list-item]


def test_a_page_is_not_dropped_because_of_what_carries_it():
    flush, page = Flush(), Page(b"header", b"body")
    flush.add(APPEND, page)
    assert flush.pages == [(APPEND, page)]
    for change in ALL[1:]:
        with pytest.raises(TypeError, match="carries no page"):
            flush.add(change, page)
        flush.add(change, None)
    assert flush.changes == ALL


def old_row(version: int, *changes: list[Any]) -> bytes:
    return msgspec.msgpack.encode([version, list(changes)])


def test_what_older_formats_wrote_is_read_as_todays_changes():
    first = old_row(1, [1, 7, 3, 1, 2, 5, 2, ADA, 1, [[0, 1, 4]], 9, 64, 100], [2, 7, 3, [[1, 2]], True], [2, 7, 3, [[5, 1]], False])
    assert decode(first) == [
        Append(7, 3, 1, 2, 5, 2, ADA, 1, (Repeat(0, 1, 4),), segment=9, position=64, length=100),
        Delete(7, 3, ((1, 2),), Reason.DEADLINE),
        Delete(7, 3, ((5, 1),), Reason.OWNER),
    ]
    third = old_row(3, [1, 7, 3, 1, 2, 5, 2, ADA, 1, [], 0, 0, 100, 11, 12], [3, 7, 3, 1], [4, 7, 3, "name", 2, 5])
    append = Append(7, 3, 1, 2, 5, 2, ADA, 1, length=100, expires=11, due=12)
    assert decode(third) == [append, Floor(7, 3, 1), Position(7, 3, "name", 2, 5)]
    fourth = old_row(4, [1, 7, 3, 1, 2, 5, 2, ADA, 1, [], 11, 12, 9, 64, 100], [2, 7, 3, [[1, 1]], 2], [5, 7, 3, 2, [[1, 1]], []])
    append = Append(7, 3, 1, 2, 5, 2, ADA, 1, expires=11, due=12, segment=9, position=64, length=100)
    assert decode(fourth) == [append, Delete(7, 3, ((1, 1),), Reason.OWNER), Floor(7, 3, 2, ((1, 1),))]
    with pytest.raises(UnreadableJournal, match="format 7"):
        decode(old_row(7))
    with pytest.raises(UnreadableJournal):
        decode(old_row(4, [3, 7, 3, 1]))


def test_an_old_floor_replaces_what_was_kept():
    retained = Retained()
    for row in ([3, 7, 3, 10, [[2, 1], [5, 2]]], [3, 7, 3, 20, [[6, 1], [12, 3]]]):
        for change in decode(old_row(3, row)):
            assert isinstance(change, Floor)
            retained.apply(change)
        assert retained.snapshot() == (row[3], tuple(map(tuple, row[4])))


SETS = st.sets(st.integers(1, 40))


def as_runs(offsets: set[int]) -> Runs:
    return tuple(runs_of(np.array(sorted(offsets), np.int64)))


@given(SETS, SETS)
def test_a_floor_carries_only_what_differs_and_comes_to_the_same(before: set[int], after: set[int]):
    retained = Retained()
    retained.apply(Floor(7, 3, 50, as_runs(before)))
    retained.apply(Floor(7, 3, 60, as_runs(after - before), as_runs(before - after)))
    assert retained.snapshot() == (60, as_runs(after))
    assert retained.of(np.arange(1, 60)).tolist() == sorted(after)


def test_the_journals_reader_skips_deleted_topics_but_knows_their_segments():
    partition = Partition(7, 3, 600)
    replay = Replay({(7, 3): partition}, {8})
    replay.row(1, encode([APPEND, Append(8, 0, 1, 2, 5, 2, ADA, 1, segment=11, length=100)]))
    assert replay.mentioned == {9, 11}
    assert partition.committed_offset == 3
    with pytest.raises(UnreadableJournal, match="row 2 changes partition 0 of topic 9"):
        replay.row(2, encode([Position(9, 0, "name", 1, 5)]))
    with pytest.raises(UnreadableJournal, match="row 3"):
        replay.row(3, b"?")
