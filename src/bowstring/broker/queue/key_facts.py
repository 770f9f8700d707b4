"""Where a key of a key-shared subscription stands: who holds it, since when, and what it waits for."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from bowstring import errors
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.key_search import KeyStanding, search, standing
from bowstring.broker.queue.key_share import KeyShare
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.messages.hashing import id_hashes


class KeyExplanation(NamedTuple):
    """What is known about a key."""

    now: int
    """By the clock of leases."""
    standings: list[KeyStanding]
    """In the partitions that have messages of it."""
    consumers: int


async def explain(queues: Queues, topic: str, name: str, key: bytes) -> KeyExplanation:
    """Raises TopicNotFound, SubscriptionNotFound, and Conflict if the subscription has no keys."""
    subscription = subscriptions.find(queues, topic, name)
    if subscription.keys is None:
        raise errors.Conflict(
            f"'{name}' of '{topic}' is shared: its messages go to any consumer, whatever their key.",
            hint="Only subscriptions with mode='key_shared' have keys to explain.",
        )
    await subscription.keys.prepare(subscription.topic.actors)
    hashed = max(1, int(id_hashes(pa.array([key], pa.binary()))[0]))
    standings = await _standings(subscription, subscription.keys, hashed)
    await queues.log.durable()
    if not standings:
        raise _unknown(subscription, key)
    return KeyExplanation(queues.clock.now(), standings, len(subscription.consumers))


async def _standings(subscription: LiveSubscription, keys: KeyShare, key: int) -> list[KeyStanding]:
    """In the partitions that have unsettled messages of the key."""
    found: list[KeyStanding] = []
    for actor, ledger in list(subscription.ledgers()):
        known = keys.partition(actor)
        sought = await search(known, ledger, key)
        if (told := standing(known, ledger, key, sought, keys.preferred(key))) is not None:
            found.append(told)
    return found


def _unknown(subscription: LiveSubscription, key: bytes) -> errors.NotFound:
    """All messages of the key are settled, or there never were any."""
    name = f"'{subscription.name}' of '{subscription.topic.row.name}'"
    return errors.NotFound(
        f"no message of the key {key!r} waits in {name}, and no consumer holds one.",
        hint="All that it has are settled, or it never had any.",
    )
