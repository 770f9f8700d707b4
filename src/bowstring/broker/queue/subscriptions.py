"""Creating, altering and deleting subscriptions.

A subscription is a change of every partition of its topic, and all of them go into one flush: it is
created, altered and deleted as a whole. Where it begins is decided in that step; "latest" is then
the next offset of each partition at one moment.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable
from typing import Final, NamedTuple

from bowstring import errors
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.queue.companions import companion_name
from bowstring.broker.queue.given_settings import GivenSettings, mode_of, settings_of
from bowstring.broker.queue.lease_requests import AlterLedger, SubscribePartition, UnsubscribePartition
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.subscription_filter import check_filter
from bowstring.broker.reading.places import TopicPlace, offset_at
from bowstring.broker.topics import NAME, Topic
from bowstring.core.subscription_settings import SubscriptionSettings
from bowstring.ports.transport import Caller

FUTURE_MAX: Final = 1_000_000
"""A start may be so far in the future, in microseconds: clocks differ."""
BEGINNING: Final = TopicPlace(beginning=True)


class NewSubscription(NamedTuple):
    """A subscription that is to be created."""

    topic: str
    name: str
    place: TopicPlace = BEGINNING
    given: GivenSettings = GivenSettings()


async def create(queues: Queues, wanted: NewSubscription, caller: Caller, *, exists_ok: bool) -> tuple[LiveSubscription, bool]:
    """The subscription, and whether it was created now. Durable when it returns. Raises
    SubscriptionExists, and Conflict if the one that exists has another mode or filter.
    """
    topic = queues.log.topics.topic(wanted.topic)
    check_name(wanted.name, "subscription")
    settings = settings_of(wanted.given)
    offsets = await _offsets(queues, topic, wanted.place)
    existing = queues.of(topic).get(wanted.name)
    if existing is None:
        return await _create(queues, topic, wanted.name, settings, offsets, caller), True
    await queues.log.durable()
    check_mode(existing, wanted.given.mode or "")
    check_filter(existing, wanted.given.where or "")
    if not exists_ok:
        raise errors.SubscriptionExists(
            f"'{topic.row.name}' has a subscription '{wanted.name}' already.", hint="Use exists_ok=True if that is fine."
        )
    return existing, False


async def _offsets(queues: Queues, topic: Topic, place: TopicPlace) -> list[int | None]:
    """Where it begins in each partition; None for what comes next."""
    if place.latest:
        return [None] * len(topic.actors)
    if place.moment is None:
        return [0] * len(topic.actors)
    now = queues.log.clock.now()
    if place.moment > now + FUTURE_MAX:
        raise errors.InvalidArgument(
            f"a start {(place.moment - now) / 1e6:.0f} s from now is in the future.", hint="Use start='latest', or a moment in the past."
        )
    return [await offset_at(queues.reading, actor, place.moment) for actor in topic.actors]


async def _create(
    queues: Queues,
    topic: Topic,
    name: str,
    settings: SubscriptionSettings,
    offsets: list[int | None],
    caller: Caller,
) -> LiveSubscription:
    queues.log.room.check(0)
    queues.letters.companions.check(topic, name, settings)
    number = max(actor.partition.ledgers.next_number for actor in topic.actors)
    created = queues.log.clock.now()
    asked = [
        (actor, SubscribePartition(number, name, settings, created, offset)) for actor, offset in zip(topic.actors, offsets, strict=True)
    ]
    answered = PartitionActor.ask_together(asked)
    subscription = queues.add(topic, number, name, settings, created)
    await answered
    await queues.letters.companions.created(subscription)
    told = {"mode": settings.mode, "lease": settings.lease / 1e6, "client": caller.address}
    queues.observer.note("subscription-created", topic=topic.row.name, subscription=name, **told)
    return subscription


async def alter(queues: Queues, topic: str, name: str, given: GivenSettings, caller: Caller) -> LiveSubscription:
    """Changes what is given, durably."""
    subscription = find(queues, topic, name)
    if not given.is_empty:
        settings = settings_of(given, subscription.settings)
        if companion_name(topic, name, settings) != subscription.dead_letters:
            raise errors.NotSupported(
                f"the dead letters of '{name}' stay in '{subscription.dead_letters}'.",
                hint="Create another subscription for another topic.",
            )
        queues.log.room.check(0)
        asked = [(actor, AlterLedger(subscription.number_in(actor), settings)) for actor, _ in subscription.ledgers()]
        answered = PartitionActor.ask_together(asked)
        subscription.settings = settings
        await answered
        queues.observer.note("subscription-altered", topic=topic, subscription=name, lease=settings.lease / 1e6, client=caller.address)
    await queues.log.durable()
    return subscription


async def delete(queues: Queues, topic: str, name: str, caller: Caller, *, missing_ok: bool) -> bool:
    """Says whether there was one. Its consumers are ended when that is durable, also if the caller goes."""
    queue = queues.of(queues.log.topics.topic(topic))
    subscription = queue.get(name)
    if subscription is None:
        await queues.log.durable()
        if missing_ok:
            return False
        raise not_found(queues, queue.topic, name)
    asked = [(actor, UnsubscribePartition(subscription.number_in(actor))) for actor in subscription.actors()]
    answered = PartitionActor.ask_together(asked)
    queue.remove(subscription)
    queues.letters.companions.leave(subscription)
    if subscription.companion is not None:
        queues.of(subscription.companion).remove_lane(subscription)
    subscription.leaving = asyncio.create_task(_end(queues, subscription, answered))
    subscription.leaving.add_done_callback(_drop_error)
    await asyncio.shield(subscription.leaving)
    queues.observer.note("subscription-deleted", topic=topic, subscription=name, client=caller.address)
    return True


async def _end(queues: Queues, subscription: LiveSubscription, answered: Awaitable[object]) -> None:
    """The rest of a deletion, once it is durable."""
    await answered
    await queues.letters.companions.release(subscription)
    subscription.detach()
    subscription.closed(deleted(subscription))


def _drop_error(task: asyncio.Task[None]) -> None:
    """Its error is for its caller; if the caller has gone, the error is dropped."""
    if not task.cancelled():
        task.exception()


# Looking and checking


def find(queues: Queues, topic: str, name: str) -> LiveSubscription:
    """Raises TopicNotFound, and SubscriptionNotFound with the name that was probably meant."""
    found = queues.log.topics.topic(topic)
    subscription = queues.of(found).get(name)
    if subscription is None:
        raise not_found(queues, found, name)
    return subscription


def not_found(queues: Queues, topic: Topic, name: str) -> errors.SubscriptionNotFound:
    close = difflib.get_close_matches(name, [each.name for each in queues.of(topic)], n=1)
    meant = f" Did you mean '{close[0]}'?" if close else ""
    return errors.SubscriptionNotFound(
        f"'{topic.row.name}' has no subscription '{name}'.{meant}",
        hint=f"client.create_subscription('{topic.row.name}', '{name}') makes it.",
        details={"topic": topic.row.name, "subscription": name},
    )


def deleted(subscription: LiveSubscription) -> errors.SubscriptionNotFound:
    """The error for its consumers."""
    return errors.SubscriptionNotFound(
        f"the subscription '{subscription.name}' of '{subscription.topic.row.name}' was deleted.",
        details={"topic": subscription.topic.row.name, "subscription": subscription.name},
    )


def check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise errors.InvalidArgument(
            f"{name!r} is not a name for a {what}.",
            hint="Names have 1 to 249 letters, digits, dots, dashes and underscores, and begin with a letter or a digit.",
        )


def check_mode(subscription: LiveSubscription, mode: str) -> None:
    """Raises Conflict if another mode is asked for than it has."""
    if mode and mode_of(mode) != subscription.settings.mode:
        raise errors.Conflict(
            f"the subscription '{subscription.name}' has the mode '{subscription.settings.mode}', not '{mode}'.",
            hint="Omit mode=, or use another subscription.",
        )
