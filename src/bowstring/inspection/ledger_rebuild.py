"""What can be put in the place of damaged rows of subscriptions. Nothing here writes.

A ledger that lacks something is written anew, as of the journal's end, so that no change of the
journal counts for it any more. Nothing is forgotten by that: a message of which it is not known that
it was settled is delivered again.

    chunk      the rows of its range that were settled before their predecessors are delivered again, without their retry counts
    head       the subscription begins again with the first message that is there; its name and settings are those that it has in
               other partitions
    change     as far as the journal could be followed; leases end, and numbers of grants go on far behind those that are known
"""

from __future__ import annotations

from collections.abc import Iterator

from bowstring.core import ledger_state, subscribing
from bowstring.core.ledger import Ledger
from bowstring.core.ledgers import NamedSubscription
from bowstring.core.partition import Partition
from bowstring.core.snapshots import LEDGER, PARTITION, ledger_number
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.inspection.contents import Contents, Key
from bowstring.inspection.findings import Finding
from bowstring.ports.extents import StateRow

GRANTS_BEYOND = 1 << 32
"""So many numbers of grants are passed over: one that was given out never comes again."""


def rebuild_ledgers(contents: Contents, now: int) -> tuple[list[StateRow], list[tuple[object, ...]], list[Finding]]:
    """Rows to write, keys of rows to remove before, and what is to be told. Partitions whose own
    head is damaged have all their subscriptions written, because the new head is later than they.
    """
    heads = {bad.key[:2] for bad in contents.bad_states if bad.key[2] == PARTITION}
    chunks = {(bad.key[:2], number) for bad in contents.bad_states if (number := ledger_number(str(bad.key[2]))) is not None}
    keys = heads | {key for key, _ in (*contents.lost_ledgers, *chunks)}
    rows: list[StateRow] = []
    told: list[Finding] = []
    for key in sorted(key for key in keys if key in contents.partitions):
        partition = contents.partitions[key]
        lost = sorted(number for place, number in contents.lost_ledgers if place == key)
        for number in lost:
            told.append(_mended(contents, key, _lost(contents, partition, number, now)))
        for number in sorted({number for place, number in chunks if place == key} - set(lost)):
            told.append(_mended(contents, key, partition.ledgers[number]))
        rows += _rows(contents, key, partition)
    return rows, [row for key in keys for row in contents.ledger_rows.get(key, ())], told


def _lost(contents: Contents, partition: Partition, number: int, now: int) -> Ledger:
    ledger = partition.ledgers.get(number)
    if ledger is None:
        _, name, settings, created, lane = _named(contents, partition, number, now)
        begun = subscribing.subscribe(partition, number, name, settings, 1, created)
        begun.lane = lane
        ledger = Ledger.of(begun)
        partition.ledgers.add(ledger)
    ledger.leases.clear()
    ledger.next_grant += GRANTS_BEYOND
    return ledger


def _named(contents: Contents, partition: Partition, number: int, now: int) -> NamedSubscription:
    """Who it is, by the other partitions of its topic."""
    for key, other in contents.partitions.items():
        if key[0] == partition.topic:
            for found in other.ledgers.subscriptions():
                if found.number == number:
                    return found
    return NamedSubscription(number, f"recovered-{number}", SubscriptionSettings(), now)


def _mended(contents: Contents, key: Key, ledger: Ledger) -> Finding:
    """What the log does not have any more counts as settled."""
    partition = contents.partitions[key]
    ledger.retained = partition.retained.floor
    ledger.settled.add(subscribing.rows_gone(partition, ledger.floor))
    ledger.cursor = min(max(ledger.cursor, 1), partition.next_offset)
    ledger.forget_returned()
    text = f"subscription {ledger.name!r} is made anew: messages from offset {ledger.floor} on that were settled may be delivered again"
    return Finding("ledger", text, damaged=False, topic=contents.name(key[0]), partition=key[1])


def _rows(contents: Contents, key: Key, partition: Partition) -> Iterator[StateRow]:
    broker = contents.owners[key]
    for ledger in partition.ledgers:
        parts = ledger_state.snapshot(ledger)
        states = {0: parts.head, **{chunk + 1: data for chunk, data in parts.chunks.items() if data}}
        for part, state in states.items():
            yield StateRow(*key, f"{LEDGER}{ledger.subscription}", part, broker, contents.last_sequence(broker), state)
