"""What a ledger writes: its changes, and its state at rest."""

from __future__ import annotations

import msgspec
import pytest

from bowstring.core import journal, ledger_state, settling
from bowstring.core.journal import UnreadableJournal
from bowstring.core.ledger import Ledger
from bowstring.core.ledger_changes import Expire
from bowstring.core.ledger_state import LedgerState
from bowstring.core.machine import LedgerParts
from bowstring.core.settling import OutcomeRows, SettleRequest
from bowstring.core.snapshots import UnreadableState
from tests.unit.ledger_queue import ACK, NACK, Queue, run


def test_only_chunks_that_have_changed_are_captured_and_the_head_comes_last():
    queue = Queue(end=5 << 20)
    rest = LedgerState(queue.ledger)
    granted = queue.grant(5 << 20)
    queue.settle(NACK, granted.number, run((1 << 20) + 5))
    queue.settle(ACK, granted.number, run((3 << 20) + 5))
    assert [part.number for part in rest.capture()] == [2, 4, 0]
    queue.settle(ACK, granted.number, run(1, 100))
    assert [part.number for part in rest.capture()] == [0]
    queue.settle(ACK, granted.number, run((3 << 20) + 7))
    parts = rest.capture()
    assert [part.number for part in parts] == [4, 0]
    rest.put_back(part.number for part in parts)
    assert [part.number for part in rest.capture()] == [4, 0]


def test_the_row_of_a_passed_chunk_is_removed_when_a_head_says_so():
    queue = Queue(end=5 << 20)
    rest = LedgerState(queue.ledger)
    granted = queue.grant((3 << 20) - 1)
    queue.settle(ACK, granted.number, run(100))
    assert [part.number for part in rest.capture()] == [1, 0]
    queue.settle(ACK, granted.number)
    head = rest.capture()
    assert [part.number for part in head] == [0]
    rest.put_back(part.number for part in head)
    assert [part.number for part in rest.capture()] == [0]
    removal = rest.capture()
    assert [(part.number, bool(part.encode())) for part in removal] == [(1, False), (0, True)]


def test_pending_rows_cost_nothing_and_leases_in_order_next_to_nothing():
    queue = Queue(end=10_000_001)
    for _ in range(100):
        granted = queue.grant(1_000)
        queue.settle(ACK, granted.number)
    assert len(queue.ledger.snapshot().head) < 200
    assert not queue.ledger.snapshot().chunks
    assert len(queue.ledger.leases._ends) < 1_000


def test_a_seek_back_is_at_rest_too():
    """A chunk at rest has bits for the rows below the floor. When the floor falls, they go."""
    queue, chunks = Queue(), dict[int, bytes]()
    rest = LedgerState(queue.ledger)
    granted = queue.grant(100)
    for outcome, rows in ((ACK, run(50)), (NACK, run(60)), (ACK, run(1, 49))):
        queue.settle(outcome, granted.number, rows)
    for _ in range(2):
        *parts, head = rest.capture()
        chunks |= {part.number - 1: part.encode() for part in parts}
        queue.apply((settling.reset(queue.ledger, 10),))
    loaded = Ledger(1, 0, 7)
    loaded.restore(LedgerParts(head.encode(), chunks, 1))
    assert loaded.floor == 10
    assert loaded.next_rows(100, 101) == run(10, 91)


def test_changes_are_small():
    queue = Queue(Ledger(300, 0, 200), end=1 << 40)
    for _ in range(200):
        queue.settle(ACK, queue.grant(1_000, name="a worker of some name").number, name="a worker of some name")
        queue.now += 20_000
    queue.ledger.next_grant = 70_000
    granted = queue.grant(1_000, name="a worker of some name")
    assert len(journal.encode(granted.changes)) - 3 <= 23
    number = queue.requests["a worker of some name"] + 1
    done = settling.settle(
        queue.ledger, SettleRequest("a worker of some name", number, [OutcomeRows(granted.number, ACK)], number - 1), queue.now
    )
    assert len(journal.encode(done.changes)) - 3 <= 25


def test_a_grant_number_is_never_used_again():
    queue = Queue()
    granted = queue.grant(10)
    queue.settle(ACK, granted.number)
    loaded = Queue()
    loaded.ledger.restore(queue.ledger.snapshot())
    assert loaded.grant(1).number == granted.number + 1


def test_state_that_cannot_be_read_is_refused():
    queue = Queue()
    queue.settle(ACK, queue.grant(10).number, run(5))
    head, chunks, sequence = queue.ledger.snapshot()
    newer = msgspec.msgpack.encode([ledger_state.VERSION + 1, *msgspec.msgpack.decode(head)[1:]])
    for wrong in (LedgerParts(b"\xc1", chunks, sequence), LedgerParts(newer, chunks, sequence), LedgerParts(head, {0: b"\x93"}, sequence)):
        with pytest.raises(UnreadableState):
            Ledger(1, 0, 7).restore(wrong)


def test_an_unknown_change_is_refused():
    data = journal.encode([Expire(1, 0, 7, 5)])
    assert journal.decode(data) == [Expire(1, 0, 7, 5)]
    with pytest.raises(UnreadableJournal):
        journal.decode(data.replace(b"\x0a", b"\x63", 1))
