"""The requests by which dead letters are written: the one settles rows, the other stores their letters.
They are asked together, so both are in one flush. And those by which letters are redriven, or deleted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bowstring.broker.log.requests import Question
from bowstring.broker.queue.letter import PRODUCER, DyingRows, Letters
from bowstring.core import settling, subscribing
from bowstring.core.changes import Append, Change, Reason
from bowstring.core.decisions import Decided, Decision, Found, NewIds
from bowstring.core.pages import Origin, PageHeader, encode_header
from bowstring.core.partition import Partition
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.messages.hashing import id_hashes
from bowstring.messages.schema import BYTES_SCHEMA
from bowstring.ports.store import Page


class BuryRows(Question[int]):
    """Condemned rows are settled. The answer is how many."""

    def __init__(self, subscription: int, dying: DyingRows) -> None:
        super().__init__()
        self._subscription = subscription
        self._rows = dying.all
        self._dying = dying

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[int]:
        del now, found
        ledger = partition.ledgers.get(self._subscription)
        change = None if ledger is None else settling.bury(ledger, self._rows, self._dying.damaged, self._dying.others)
        return Decided(() if change is None else (change,), len(self._rows))


class AppendLetters(Question[int]):
    """Dead letters are stored. The answer is the offset of the first one. The first letter of a
    partition begins its lane there.
    """

    def __init__(self, lane: int, name: str, settings: SubscriptionSettings, letters: Letters) -> None:
        super().__init__()
        self._lane = lane
        self._name = name
        self._settings = settings
        self._letters = letters

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[int]:
        del found
        first, encoded = partition.next_offset, self._letters.encoded
        append = Append(
            topic=partition.topic,
            partition=partition.number,
            first_offset=first,
            rows=encoded.rows,
            arrived=max(now, partition.arrived),
            columns=encoded.mask,
            producer=PRODUCER,
            number=first,  # rises with each batch
        )
        begins: tuple[Change, ...] = ()
        if self._lane not in partition.ledgers:
            begins = (subscribing.begin_lane(partition, self._lane, self._name, self._settings, now),)
        hashes = id_hashes(self._letters.ids)
        offsets = RowSet(first, first + encoded.rows).offsets()
        return Decided((*begins, append), first, ids=NewIds(hashes, offsets))

    def page(self, change: Change, decided: Decided[int]) -> Page | None:
        del decided
        if not isinstance(change, Append):
            return None
        encoded, origins, first = self._letters.encoded, list[Origin](), 0
        for rows, group in self._letters.owners:
            origins.append(Origin(rows, change.producer, change.number, first, group))
            first += rows
        header = PageHeader(change.topic, change.partition, BYTES_SCHEMA, encoded.mask, encoded.rows, tuple(origins))
        return Page(encode_header(header), encoded.data)


# Letters that are there


class RowsKept(NamedTuple):
    """What became of letters of one partition."""

    changed: int
    """So many were redriven, or deleted."""
    others: RowSet = NO_ROWS
    """Those that could not be."""


class RedriveLetters(Question[RowsKept]):
    """Letters are delivered again. Those that were redriven before are left alone; the answer names
    those that are gone.
    """

    def __init__(self, lane: int, letters: RowSet) -> None:
        super().__init__()
        self._lane = lane
        self._letters = letters

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[RowsKept]:
        del now, found
        ledger, there = partition.ledgers.get(self._lane), _there(partition, self._letters)
        if ledger is None:
            return Decided((), RowsKept(0, self._letters))
        change = settling.redrive(ledger, there)
        count = 0 if change is None else sum(change.rows[1::2])
        return Decided(() if change is None else (change,), RowsKept(count, self._letters - there))


class PurgeLetters(Question[RowsKept]):
    """Letters are deleted, but for those that a consumer holds: the answer names them."""

    def __init__(self, lane: int, letters: RowSet, lease_now: int) -> None:
        super().__init__()
        self._lane = lane
        self._letters = letters
        self._lease_now = lease_now

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[RowsKept]:
        del now, found
        ledger, there = partition.ledgers.get(self._lane), _there(partition, self._letters)
        if ledger is None:
            return Decided((), RowsKept(0))
        held = RowSet.union([leased.rows for leased in ledger.leased(there, self._lease_now)])
        going = there - held - ledger.settled.of(there)
        return Decided((partition.delete(going.runs(), Reason.OWNER),) if going else (), RowsKept(len(going), held))


def _there(partition: Partition, rows: RowSet) -> RowSet:
    """Those of the rows that are neither deleted nor taken by retention."""
    offsets = partition.retained.of(rows.below(partition.next_offset).offsets())
    return RowSet.of_offsets(offsets[~partition.deletions.of(offsets)].astype(np.int64)) if len(offsets) else NO_ROWS
