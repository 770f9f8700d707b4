"""A subscription is created, altered or deleted: here is what that changes in one partition. The
broker does it in all partitions of a topic together, and says whether it may be.
"""

from __future__ import annotations

from bowstring.core.ledger_changes import AlterSubscription, Subscribe, Unsubscribe
from bowstring.core.offset_set import runs_of
from bowstring.core.partition import Partition
from bowstring.core.row_set import RowSet
from bowstring.core.subscription_settings import SubscriptionSettings


def subscribe(partition: Partition, number: int, name: str, settings: SubscriptionSettings, offset: int, created: int) -> Subscribe:
    """It delivers from the offset on. `partition.next_offset` is the end of all rows that are
    decided, those of the same flush included: for a subscription that begins with what comes next.
    The number has to be unused in all partitions of the topic.
    """
    retained = partition.retained
    offset = min(max(offset, retained.first), partition.next_offset)
    gone = rows_gone(partition, offset)
    return Subscribe(partition.topic, partition.number, number, name, settings, created, offset, retained.floor, gone.spans())


def begin_lane(partition: Partition, number: int, name: str, settings: SubscriptionSettings, created: int) -> Subscribe:
    """The partition gets its first dead letter of a subscription of another topic."""
    retained, offset = partition.retained, partition.next_offset
    return Subscribe(partition.topic, partition.number, number, name, settings, created, offset, retained.floor, lane=True)


def alter(partition: Partition, number: int, settings: SubscriptionSettings) -> AlterSubscription:
    """It has these settings from here on."""
    return AlterSubscription(partition.topic, partition.number, number, settings)


def unsubscribe(partition: Partition, number: int) -> Unsubscribe:
    """It is gone, with all its leases."""
    return Unsubscribe(partition.topic, partition.number, number)


def rows_gone(partition: Partition, offset: int) -> RowSet:
    """The rows from the offset on that are deleted, or that retention has taken."""
    floor = partition.retained.floor
    parts = [RowSet.of_runs(runs_of(partition.deletions.between(offset, partition.next_offset)))]
    if offset < floor:
        parts.append(RowSet(offset, floor) - RowSet.of_runs(runs_of(partition.retained.kept.within(offset, floor))))
    return RowSet.union(parts)
