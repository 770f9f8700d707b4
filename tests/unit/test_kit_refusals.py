"""A refused row is never seen as done, not even for a moment: programs look in threads of their own."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from bowstring import errors
from bowstring.client.broker_time import BrokerTime
from bowstring.client.lease_marks import ACK, DONE, NACK, REFUSED
from bowstring.client.lease_time import LeaseTime
from bowstring.client.leased_page import HeldLease, LeasedPage
from bowstring.client.settlements import Settlements
from bowstring.host.clock import SystemClock
from bowstring.wire.generated import bowstring_pb2 as pb


class SeenStates(np.ndarray[Any, np.dtype[np.uint8]]):
    """The states of rows, and how they looked after every write."""

    seen: list[bytes]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.seen.append(self.tobytes())


def page_of(rows: int, made: Settlements) -> tuple[LeasedPage, SeenStates]:
    lease = HeldLease(0, 7, 1)
    header = pb.FetchAnswer(rows=rows, next_offset=1 + rows)
    header.runs.add(offset=1, rows=rows)
    page = LeasedPage("t", header, None, pb.Lease(grant=7, until=1), lease, made)
    lease.pages[page] = None
    states = cast("SeenStates", page.state_array.view(SeenStates))
    states.seen, page.state_array = [], states
    return page, states


async def test_a_refused_row_is_never_seen_as_done():
    made = Settlements("t", LeaseTime(BrokerTime(SystemClock())), lambda: None, lambda lease: None)
    page, states = page_of(6, made)
    page.mark(0, 4, ACK)
    page.mark(4, 2, NACK)
    (request,), _, _ = made.gather()
    told = pb.RowsSettled(partition=0, request=request.message.request)
    told.refused.add(grant=7, offsets=[3, 6], rows=[2, 1], standing="waiting")
    states.seen.clear()
    made.answered(told, 0)
    assert list(page.states) == [DONE, DONE, REFUSED, REFUSED, DONE, REFUSED]
    for row in (2, 3, 5):
        assert all(seen[row] != DONE for seen in states.seen)
        with pytest.raises(errors.LeaseLost):
            made.receipt(page, row)._result()
    assert page.open == 0
    assert made.is_settled()


async def test_all_rows_of_a_refused_request_are_refused_at_once():
    made = Settlements("t", LeaseTime(BrokerTime(SystemClock())), lambda: None, lambda lease: None)
    page, states = page_of(3, made)
    page.mark(0, 3, ACK)
    (request,), _, _ = made.gather()
    told = pb.RowsSettled(partition=0, request=request.message.request)
    told.refused.add(grant=7)
    states.seen.clear()
    made.answered(told, 0)
    assert set(states.seen) == {bytes([REFUSED] * 3)}
