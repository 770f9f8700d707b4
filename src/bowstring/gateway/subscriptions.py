"""The calls about subscriptions, and about the leases of their consumers."""

from __future__ import annotations

from typing import Final

from bowstring.broker.broker import Broker
from bowstring.broker.queue import key_facts, lease_list, peeking, seeking, subscription_facts, subscriptions
from bowstring.broker.queue.key_facts import KeyExplanation
from bowstring.broker.queue.lease_list import LeasePage
from bowstring.broker.queue.lease_requests import SoughtFacts
from bowstring.broker.queue.subscription_facts import SubscriptionFacts
from bowstring.broker.reading.fetched import Fetched
from bowstring.gateway import requests
from bowstring.gateway.requests import SubscriptionPage
from bowstring.ports.transport import Caller

PAGE_SUBSCRIPTIONS_MAX: Final = 1000
PAGE_LEASES_MAX: Final = 1000


async def create(broker: Broker, request: requests.CreateSubscriptionRequest, caller: Caller) -> SubscriptionFacts:
    queues = broker.serving.queues
    subscription, _ = await subscriptions.create(queues, request.wanted, caller, exists_ok=request.exists_ok)
    return await subscription_facts.facts_of(queues, subscription)


async def alter(broker: Broker, request: requests.AlterSubscriptionRequest, caller: Caller) -> SubscriptionFacts:
    """Changes the settings that are given, and no others."""
    queues = broker.serving.queues
    subscription = await subscriptions.alter(queues, request.topic, request.name, request.given, caller)
    return await subscription_facts.facts_of(queues, subscription)


async def describe(broker: Broker, request: requests.DescribeSubscriptionRequest, caller: Caller) -> SubscriptionFacts:
    return await subscription_facts.describe(broker.serving.queues, request.topic, request.name)


async def list_page(broker: Broker, request: requests.ListSubscriptionsRequest, caller: Caller) -> SubscriptionPage:
    """Gives a page of subscriptions.
    The caller asks for the next page with the last topic and name of this one."""
    limit = min(request.limit or PAGE_SUBSCRIPTIONS_MAX, PAGE_SUBSCRIPTIONS_MAX)
    return SubscriptionPage(*await subscription_facts.list_page(broker.serving.queues, request.topic, request.after, limit))


async def delete(broker: Broker, request: requests.DeleteSubscriptionRequest, caller: Caller) -> bool:
    """Deletes a subscription, and says whether there was one."""
    return await subscriptions.delete(broker.serving.queues, request.topic, request.name, caller, missing_ok=request.missing_ok)


async def seek(broker: Broker, request: requests.SeekSubscriptionRequest, caller: Caller) -> list[SoughtFacts]:
    """Sets a subscription to another place, or says what that would come to."""
    return await seeking.seek(broker.serving.queues, request.wanted, caller)


async def peek(broker: Broker, request: requests.PeekRequest, caller: Caller) -> list[Fetched]:
    """Gives the messages that would come next."""
    return await peeking.peek(broker.serving.queues, request.wish)


async def list_leases(broker: Broker, request: requests.ListLeasesRequest, caller: Caller) -> LeasePage:
    """Gives a page of leases by partition and grant."""
    limit = min(request.limit or PAGE_LEASES_MAX, PAGE_LEASES_MAX)
    return await lease_list.list_page(broker.serving.queues, request.wanted, request.after, limit)


async def release_leases(broker: Broker, request: requests.ReleaseLeasesRequest, caller: Caller) -> int:
    """Takes messages away from those who hold them, and says how many."""
    return await lease_list.release(broker.serving.queues, request.wanted)


async def explain_key(broker: Broker, request: requests.ExplainKeyRequest, caller: Caller) -> KeyExplanation:
    """Says where a key stands."""
    return await key_facts.explain(broker.serving.queues, request.topic, request.subscription, request.key)
