"""How a consumer comes, and comes back: its subscription is found or created, its name becomes its own,
and it gets the leases that it still has.
"""

from __future__ import annotations

from typing import NamedTuple

from bowstring import errors
from bowstring.broker.queue import subscriptions
from bowstring.broker.queue.consumer import LiveConsumer
from bowstring.broker.queue.delivery import Delivery
from bowstring.broker.queue.given_settings import check_lease
from bowstring.broker.queue.pushes import Grants, PushReceiver
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.broker.queue.subscription_filter import check_filter
from bowstring.broker.queue.subscriptions import NewSubscription
from bowstring.core.settling import RowStanding
from bowstring.ports.transport import Caller

INSTANCE_BYTES = 16


class ConsumerOpening(NamedTuple):
    """The wish of a consumer to consume."""

    topic: str
    subscription: str
    consumer: str
    instance: bytes
    lease: int
    """Microseconds; 0 for the subscription's own."""
    mode: str
    """Empty for whichever it has."""
    where: str
    """The filter; empty likewise."""
    topic_id: int
    """0 for whichever topic has the name."""
    subscription_id: int
    create: NewSubscription | None
    """How to create the subscription if there is none."""
    held: Grants
    """The grants of which it has rows, by partition."""


class OpenedConsumer(NamedTuple):
    """A consumer that is connected."""

    consumer: LiveConsumer
    created: bool
    """Whether its subscription was created for it."""


async def open_consumer(queues: Queues, opening: ConsumerOpening, receiver: PushReceiver, caller: Caller) -> OpenedConsumer:
    """Raises TopicNotFound, SubscriptionNotFound, Conflict, NameInUse, InvalidArgument."""
    subscriptions.check_name(opening.consumer, "consumer")
    if len(opening.instance) != INSTANCE_BYTES:
        raise errors.InvalidArgument(f"an instance has {INSTANCE_BYTES} bytes, this one has {len(opening.instance)}.")
    if opening.lease:
        check_lease(opening.lease)
    subscription, created = await _subscription(queues, opening, caller)
    if subscription.keys is not None:
        await subscription.keys.prepare(subscription.actors())
    await _claim(subscription, opening)
    if subscription.ended is not None:
        raise subscription.ended.with_traceback(None)
    lease = opening.lease or subscription.settings.lease
    consumer = LiveConsumer(subscription, opening.consumer, opening.instance, lease, caller.address, receiver, queues.clock)
    consumer.delivery = Delivery(consumer, queues.reading)
    subscription.join(consumer)
    queues.joined(subscription)
    try:
        await queues.log.durable()
    except BaseException:
        consumer.close()
        raise
    return OpenedConsumer(consumer, created)


async def _subscription(queues: Queues, opening: ConsumerOpening, caller: Caller) -> tuple[LiveSubscription, bool]:
    topic = queues.log.topics.topic(opening.topic)
    if opening.topic_id not in (0, topic.row.id):
        raise errors.TopicNotFound(
            f"the topic '{opening.topic}' was deleted and made again: it is another one now.",
            hint="Make another consumer for the new one.",
            details={"topic": opening.topic},
        )
    subscription = queues.of(topic).get(opening.subscription)
    created = False
    if subscription is None and opening.create is not None and not opening.subscription_id:
        given = opening.create.given
        given = given._replace(mode=given.mode or opening.mode, where=given.where or opening.where)
        wanted = opening.create._replace(topic=opening.topic, name=opening.subscription, given=given)
        subscription, created = await subscriptions.create(queues, wanted, caller, exists_ok=True)
    if subscription is None:
        await queues.log.durable()
        raise subscriptions.not_found(queues, topic, opening.subscription)
    if opening.subscription_id not in (0, subscription.number):
        await queues.log.durable()
        raise subscriptions.deleted(subscription)
    subscriptions.check_mode(subscription, opening.mode)
    check_filter(subscription, opening.where)
    return subscription, created


async def _claim(subscription: LiveSubscription, opening: ConsumerOpening) -> None:
    """The name is free for this instance when it returns. Raises NameInUse."""
    while (live := subscription.consumers.get(opening.consumer)) is not None:
        if live.instance == opening.instance:
            live.end(errors.Unavailable("a newer stream of this consumer has taken over."))
        elif await live.answers():
            raise _in_use(opening.consumer, live)
        else:
            live.end(_in_use(opening.consumer, None))


def _in_use(name: str, live: LiveConsumer | None) -> errors.NameInUse:
    if live is None:
        return errors.NameInUse(
            f"another consumer has the name '{name}' now: this one did not answer when it was asked.", hint="Use another name."
        )
    return errors.NameInUse(
        f"a consumer '{name}' is connected from {live.address or 'elsewhere'} already, and answers.",
        hint="Use another name, or end that one.",
    )


# Coming back


def resume(queues: Queues, consumer: LiveConsumer, held: Grants) -> None:
    """A consumer has sent again what was not answered. The broker says which of the leases that it holds
    have ended, is sent those that it does not hold, and then new ones: each when everything that it
    rests on is committed.
    """
    lost, others = consumer.leases(held)
    for number, grants in held.items():
        for grant in grants if number < len(consumer.subscription.actors()) else ():
            consumer.holdings.has(consumer.subscription.actor(number), grant)
    queues.log.flusher.answer(lambda: _resume(consumer, lost, others))
    consumer.ready()


def _resume(consumer: LiveConsumer, lost: Grants, others: Grants) -> None:
    if consumer.ended is not None or consumer.delivery is None:
        return
    _tell_lost(consumer, lost)
    for number, grants in others.items():
        for grant in grants:
            consumer.delivery.add(consumer.subscription.actor(number), grant, again=True)


def _tell_lost(consumer: LiveConsumer, lost: Grants) -> None:
    """Leases that ended while it was away: some when the subscription was set to another place."""
    sought, others = dict[int, list[int]](), dict[int, list[int]]()
    for actor, ledger in consumer.subscription.ledgers():
        place = consumer.subscription.place(actor)
        for grant in lost.get(place, ()):
            (sought if 0 < grant < ledger.sought else others).setdefault(place, []).append(grant)
    unknown = {number: list(grants) for number, grants in lost.items() if number >= len(consumer.subscription.actors())}
    if sought:
        consumer.receiver.lost(sought, RowStanding.SOUGHT)
    if others or unknown:
        consumer.receiver.lost(others | unknown)
