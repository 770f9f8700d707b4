"""Named positions of a partition, and the window of a reader that goes by commits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bowstring import errors
from bowstring.client.commit_window import CommitWindow
from bowstring.core import changes, journal
from bowstring.core.partition import Partition
from bowstring.core.positions import NAMES_MAX, Positions
from bowstring.core.snapshots import restore, snapshot


def at(name: str, offset: int, moved: int = 7) -> changes.Position:
    return changes.Position(1, 0, name, offset, moved)


def test_a_position_is_where_it_was_moved_last_until_it_is_deleted():
    positions = Positions()
    for offset in (3, 9, 5):
        positions.apply(at("a", offset))
    held = positions.get("a")
    assert held is not None
    assert (held.offset, held.moved) == (5, 7)
    positions.apply(at("a", 0))
    positions.apply(at("a", 0))
    assert positions.get("a") is None
    assert list(positions.names()) == []


def test_a_commit_goes_forward_or_stays_and_ends_at_the_end():
    positions = Positions()
    positions.apply(at("a", 5))
    for offset in (5, 6, 10):
        assert positions.refusal("a", offset, 10, forward=True) is None
    back = positions.refusal("a", 4, 10, forward=True)
    assert isinstance(back, errors.Conflict)
    assert "at offset 5, committing 4" in back.message
    assert positions.refusal("a", 4, 10, forward=False) is None
    for offset in (0, 11):
        assert isinstance(positions.refusal("a", offset, 10, forward=False), errors.OutOfRange)


def test_there_are_not_more_names_than_a_snapshot_should_hold():
    positions = Positions()
    for number in range(NAMES_MAX):
        positions.apply(at(f"{number}", 1))
    assert positions.refusal("0", 2, 10, forward=True) is None
    refused = positions.refusal("one more", 1, 10, forward=True)
    assert refused is not None
    assert "positions already" in refused.message


def test_what_is_loaded_is_what_was_there():
    live, loaded = Partition(1, 0, 600), Partition(1, 0, 600)
    for number, change in enumerate((at("a", 1), at("b", 1), at("a", 0))):
        live.apply(change)
        live.committed(change, number + 1)
    restore(loaded, snapshot(live), 3)
    assert loaded.state() == live.state()
    assert loaded.positions.snapshot() == [("b", 1, 7)]
    live.apply(late := live.move("c", 1, 9))
    loaded.replay(journal.decode(journal.encode([late]))[0], 4)
    loaded.replay(at("b", 1, 5), 2)
    assert loaded.state() == live.state()


def test_a_snapshot_of_before_has_no_positions():
    import msgspec

    partition = Partition(1, 0, 600)
    state = msgspec.msgpack.decode(snapshot(partition))
    before = msgspec.msgpack.encode([1, *state[1:-1]])
    restore(partition, before, 1)
    assert partition.positions.snapshot() == []


@given(
    rows=st.integers(1, 50),
    share=st.floats(0.01, 1.0),
    takes=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), max_size=40),
)
def test_a_window_never_has_more_uncommitted_and_always_opens_again(rows: int, share: float, takes: list[tuple[int, int]]):
    window = CommitWindow(rows, share)
    taken = committed = 0
    for wanted, back in takes:
        count = min(wanted, window.room)
        window.handed_out("t", 0, np.arange(taken + 1, taken + 1 + count))
        taken += count
        assert taken - committed <= rows
        committed = max(committed, taken - back)
        window.committed("t", {0: committed + 1, 5: 3})
        assert window.room <= rows - (taken - committed)
    window.committed("t", {0: taken + 1})
    assert window.room > 0, "whoever has committed everything gets more"
