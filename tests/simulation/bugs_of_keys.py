"""Planted bugs of key-shared subscriptions: the order of keys, and who has them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.keyed_partition import KeyedPartition
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.suspects import Suspects
from bowstring.client import key_order
from bowstring.core import key_expiry
from bowstring.core.key_barrier import none_are
from bowstring.core.key_expiry import Expired
from bowstring.core.key_rows import KeyRows, Numbers
from bowstring.core.keys import KeyedRows
from bowstring.core.ledger import Ledger
from bowstring.core.offset_set import Offsets
from bowstring.core.row_set import NO_ROWS, RowSet
from bowstring.core.settling import Behind
from tests.simulation.planting import CALM, CRASHES, KEEPING, QUEUE, bug

KEYS = QUEUE.only(ordered=1, keyed=1.0, partitions_max=1, producers=3, nacks=0.3)
CRASHING = KEYS.only(poison=0.03, deliveries=3, nacks=0.1, seconds=10.0, abandons=0.3)
CHURN = KEYS.only(consumers=4, consume_seconds=1.0, work_seconds=0.1, abandons=0.3)

# ---- who has a key -----------------------------------------------------------------------------------------------------


@bug(CALM, KEYS.only(credit_max=3))
def a_busy_key_is_granted_again() -> Generator[None]:
    """Rows of a key go out while earlier ones of it are leased."""

    def are_free(self: KeyedRows, rows: KeyRows) -> NDArray[np.bool_]:
        return np.ones(len(rows.offsets), np.bool_)

    with patch.object(KeyedRows, "_are_free", are_free):
        yield


@bug(CALM, CHURN)
def a_key_is_at_two_consumers_after_its_slot_has_moved() -> Generator[None]:
    """The new owner of a slot gets its keys, busy or not."""
    original = KeyedRows.own

    def own(self: KeyedRows, owners: Any) -> None:
        if (owners != self.owners).any():
            self._grants[:] = 0  # pyright: ignore[reportPrivateUsage]
        original(self, owners)

    with patch.object(KeyedRows, "own", own):
        yield


@bug(CRASHES, CHURN.only(seconds=10.0, holds=0.3, lease_seconds=5.0))
def keys_of_leased_rows_are_not_busy_after_a_load() -> Generator[None]:
    """What was leased before a crash is not looked at."""
    with patch.object(KeyedPartition, "_meet_leased", lambda self, ledger, found: setattr(self, "is_prepared", True)):
        yield


@bug(CRASHES, CHURN.only(seconds=10.0))
def rows_that_waited_before_a_load_are_not_looked_at() -> Generator[None]:
    """The search goes on at the cursor, and leaves out rows before it that were given back."""
    original = KeyedPartition.look

    def look(self: KeyedPartition, ledger: Ledger, end: int) -> Any:
        if not self._looked and self.is_prepared:  # pyright: ignore[reportPrivateUsage]
            self._looked = max(ledger.cursor, ledger.floor)  # pyright: ignore[reportPrivateUsage]
        return original(self, ledger, end)

    with patch.object(KeyedPartition, "look", look):
        yield


@bug(CALM, KEEPING.only(topics=0, brief_topics=1, consumers=3, ordered=1, keyed=1.0, holds=0.7, lease_seconds=5.0, partitions_max=1))
def the_floor_frees_a_key_under_lease() -> Generator[None]:
    """Retention passes a row that is leased, and the others of its key are free."""
    original = KeyedPartition.rows_left

    def rows_left(self: KeyedPartition, ledger: Ledger) -> None:
        original(self, ledger)
        keys: Any = self.keys
        for grant in keys.grants:
            rows = keys.leased(grant)
            keys._grants[rows.numbers[rows.offsets < self.actor.partition.retained.floor]] = 0

    with patch.object(KeyedPartition, "rows_left", rows_left):
        yield


# ---- the order of a key ------------------------------------------------------------------------------------------------


@bug(CALM, KEYS)
def a_nack_revokes_nothing() -> Generator[None]:
    """The later rows of a key stay where they are, while an earlier one comes again."""
    with patch.object(KeyedPartition, "behind", lambda self, grant, rows: NO_ROWS):
        yield


@bug(CALM, KEYS.only(nacks=0.0, holds=0.6, abandons=0.8))
def an_expiry_leaves_later_rows_of_its_key() -> Generator[None]:
    """Revocation is not in the change of an expiry: those behind count as delivered in vain, too."""

    original = key_expiry.expire_by_key

    def expire(ledger: Ledger, now: int, behind: Behind) -> Expired | None:
        del behind
        return original(ledger, now, lambda grant, rows: NO_ROWS)

    with patch.object(key_expiry, "expire_by_key", expire):
        yield


# ---- suspects of a crash ---------------------------------------------------------------------------------------------


@bug(CALM, CRASHING)
def a_suspect_does_not_hold_its_key_back() -> Generator[None]:
    """Later rows of the key go on while it waits for a consumer that holds nothing else."""

    def held_back_from(self: KeyedRows, numbers: Numbers) -> Offsets:
        return self._later.first[numbers]  # pyright: ignore[reportPrivateUsage]

    with patch.object(KeyedRows, "_held_back_from", held_back_from):
        yield


@bug(CALM, CRASHING)
def an_expiry_condemns_a_whole_group() -> Generator[None]:
    """What was apart from others counts as alone, however many they were."""

    def dying_alone(ledger: Ledger, now: int) -> RowSet:
        apart = RowSet.union(lease.rows for lease in ledger.leases.apart() if lease.until <= now)
        return ledger.counts.reaching(apart, ledger.settings.max_deliveries - 1)

    with patch.object(key_expiry, "dying_alone", dying_alone):
        yield


@bug(CALM, CRASHING.only(partitions_max=3))
def suspects_of_keys_stand_beside_rows_of_other_partitions() -> Generator[None]:
    """A consumer gets them while it holds rows of another partition."""

    def holds_here(consumer: LiveConsumer, actor: PartitionActor) -> int:
        return len(consumer.holdings.grants_in(actor))

    original = Suspects.share_out

    def share_out(self: Suspects, subscription: LiveSubscription) -> bool:
        if subscription.keys is not None:
            for actor, ledger in subscription.ledgers():
                for consumer in subscription.consumers.values():
                    if consumer.is_ready and not holds_here(consumer, actor) and subscription.keys.has_suspects(actor, ledger):
                        return self._grant(subscription, consumer, actor, ledger)  # pyright: ignore[reportPrivateUsage]
        return original(self, subscription)

    with patch.object(Suspects, "share_out", share_out):
        yield


@bug(CALM, CRASHING)
def suspects_of_keys_come_with_all_others() -> Generator[None]:
    """Nobody knows who is suspected when rows come back."""
    with patch.object(KeyedPartition, "_are_suspects", lambda self, offsets: none_are(offsets)):
        yield


# ---- the kit -----------------------------------------------------------------------------------------------------------


@bug(CALM, KEYS.only(plain_consumers=0.0, credit_max=30, masks=1.0))
def the_kit_hands_out_rows_behind_one_that_was_given_back() -> Generator[None]:
    """It waits until the broker says which rows are revoked."""
    with patch.object(key_order, "revoke_behind", lambda page, rows: None):
        yield
