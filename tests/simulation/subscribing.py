"""The subscriptions of a seed, and the operator who makes, alters and deletes them, and takes leases
away.

Every topic has a subscription from the beginning on. A second one begins at the latest, and is made
when messages are under way. A fleeting one is deleted and made anew all the time. Subscriptions of
mortal topics go with them; consumers make those anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.core.subscription_settings import DEAD_LETTER, DROP, KEEP
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.events import FAIL, OK
from tests.history.filtering import FILTERS
from tests.history.lease_events import AMEND, BEGINNING, KEY_SHARED, LATEST, SEEK, SUBSCRIBE, TAKE_AWAY, UNSUBSCRIBE, Consuming
from tests.simulation.options import after
from tests.simulation.plain_kit import PlainKit
from tests.simulation.server import ADDRESS

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

ALL, LATE, FLEETING, SOME, SOUGHT, KEYED = "all", "late", "fleeting", "some", "sought", "keyed"
FATES = (DROP, DEAD_LETTER, KEEP)
RETRY_SECONDS = 0.3
AGAIN = (errors.Unavailable, errors.OutcomeUnknown)


class Queues:
    """The subscriptions of a seed."""

    def __init__(self, workload: Workload) -> None:
        self._workload, self._world, self._load = workload, workload.world, workload.load
        self._history = workload.history
        self._random = workload.world.source("subscriptions")
        self.made: asyncio.Event = asyncio.Event()
        """Those from the beginning on are there."""
        self.handed: dict[tuple[str, str], list[str]] = {}
        """The ids of messages that consumers of a subscription have got lately."""
        self._late: list[tuple[str, str]] = []
        topics = sorted(workload.topics.all)
        self.fleeting = [(topic, FLEETING) for topic in topics[:1] if self._load.fleeting_seconds]
        lasting = [topic for topic in topics if topic not in workload.topics.mortal]
        self.some = [(topic, SOME) for topic in lasting if self._load.chosen]
        """Those with a filter."""
        self.sought = [(topic, SOUGHT) for topic in lasting[:1] if self._load.seek_every]
        """Those that are set to other places."""
        self.keyed = [(topic, KEYED) for topic in lasting if self._load.ordered]
        """Those that are key-shared."""

    def names(self) -> list[tuple[str, str]]:
        """Topics and subscriptions to consume from."""
        first = [(topic, ALL) for topic in sorted(self._workload.topics.all)]
        return first + self._late + self.fleeting + self.some + self.sought + self.keyed

    def lasting(self) -> list[tuple[str, str]]:
        """Those that are there at the end."""
        return [(topic, name) for topic, name in self.names() if topic not in self._workload.topics.mortal]

    # ---- the operator

    async def operate(self, life: Incarnation) -> None:
        """Makes the subscriptions, and then whatever the load says, until the end."""
        await self._workload.made.wait()
        kit = PlainKit(life, ADDRESS)
        for topic in sorted(self._workload.topics.all):
            await self._create(life, kit, topic, ALL, BEGINNING)
        for topic, name in self.fleeting + self.some + self.sought + self.keyed:
            await self._create(life, kit, topic, name, BEGINNING)
        self.made.set()
        tasks = [self._make_late(life, kit), self._amend(life, kit), self._flee(life, kit), self._take_away(life, kit)]
        tasks.append(self._seek(life, kit))
        for task in [asyncio.create_task(each) for each in tasks]:
            await task
        await kit.close()

    async def _create(self, life: Incarnation, kit: PlainKit, topic: str, name: str, start: str) -> None:
        lease = round(self._load.lease_seconds * 1e6)
        request = pb.CreateSubscriptionRequest(topic=topic, name=name, lease=lease, latest=start == LATEST)
        if start != LATEST:
            request.ClearField("start")
        if name == KEYED:
            request.mode = KEY_SHARED
        if self._load.deliveries and topic not in self._workload.topics.mortal:
            request.max_deliveries = self._load.deliveries
        if self._load.chosen and (name == SOME or (name == KEYED and self._load.ordered > 1)):
            request.where = list(FILTERS)[self._load.chosen - 1]
        backoff = self._load.backoff_seconds if topic not in self._workload.topics.mortal else 0.0  # consumers make those anew
        if backoff:
            request.backoff.first, request.backoff.factor, request.backoff.most = round(backoff * 1e6), 3.0, round(backoff * 9e6)
        if name == ALL and topic not in self._workload.topics.mortal:
            request.unsettled = FATES[self._load.unsettled]
            if request.unsettled == KEEP:
                request.keep_max = round(self._load.keep_seconds * 1e6)
        given = (request.backoff.first, request.backoff.factor, request.backoff.most)
        about = Consuming(
            name, span=lease, start=start, where=request.where, backoff=given, unsettled=request.unsettled, keep_max=request.keep_max
        )
        await self._call(life, SUBSCRIBE, topic, about, lambda: kit.call("CreateSubscription", request, pb.Subscription))

    async def _call(self, life: Incarnation, operation: str, topic: str, about: Consuming, act: Callable[[], Awaitable[Any]]) -> None:
        """Repeats until it is done. What is there already was done by an attempt before; a mortal
        topic may be gone.
        """
        call = self._history.invoke(life.name, operation, topic, queue=about)
        while True:
            try:
                await act()
            except AGAIN:
                await self._workload.pause(life, RETRY_SECONDS)
                continue
            except errors.TopicNotFound as error:
                self._history.ended(FAIL, life.name, call, operation, topic, error=error.kind, queue=about)
                return
            except (errors.SubscriptionExists, errors.SubscriptionNotFound):
                pass
            self._history.ended(OK, life.name, call, operation, topic, queue=about)
            self._world.sometimes(f"{operation} done")
            return

    async def _make_late(self, life: Incarnation, kit: PlainKit) -> None:
        """One after the other, while messages are under way."""
        topics = sorted(set(self._workload.topics.all) - set(self._workload.topics.mortal)) if self._load.subscriptions > 1 else []
        for topic in topics:
            await asyncio.sleep(self._random.random() * self._load.seconds / (2 * len(topics)))
            await self._create(life, kit, topic, LATE, LATEST)
            self._late.append((topic, LATE))

    async def _amend(self, life: Incarnation, kit: PlainKit) -> None:
        while self._load.amend_every and not self._workload.over:
            await asyncio.sleep(after(self._random, self._load.amend_every))
            topic, name = self._random.choice(self.names())
            lease = round(self._random.choice((1.0, 1.5, 2.0)) * self._load.lease_seconds * 1e6)
            request = pb.AlterSubscriptionRequest(topic=topic, name=name, lease=lease)
            about = Consuming(name, span=lease)
            await self._call(life, AMEND, topic, about, lambda r=request: kit.call("AlterSubscription", r, pb.Subscription))

    async def _flee(self, life: Incarnation, kit: PlainKit) -> None:
        while self.fleeting and not self._workload.over:
            await asyncio.sleep(after(self._random, self._load.fleeting_seconds))
            topic, name = self._random.choice(self.fleeting)
            request = pb.DeleteSubscriptionRequest(topic=topic, name=name)
            about = Consuming(name)
            await self._call(
                life, UNSUBSCRIBE, topic, about, lambda r=request: kit.call("DeleteSubscription", r, pb.DeleteSubscriptionAnswer)
            )
            await asyncio.sleep(self._random.random() * 0.3)
            await self._create(life, kit, topic, name, self._random.choice((BEGINNING, LATEST)))

    async def _take_away(self, life: Incarnation, kit: PlainKit) -> None:
        while self._load.take_away_every and not self._workload.over:
            await asyncio.sleep(after(self._random, self._load.take_away_every))
            topic, name = self._random.choice(self.names())
            request = pb.ReleaseLeasesRequest(topic=topic, subscription=name)
            about = Consuming(name)
            await self._call(life, TAKE_AWAY, topic, about, lambda r=request: kit.call("ReleaseLeases", r, pb.ReleaseLeasesAnswer))

    async def _seek(self, life: Incarnation, kit: PlainKit) -> None:
        while self.sought and not self._workload.over:
            await asyncio.sleep(after(self._random, self._load.seek_every))
            topic, name = self._random.choice(self.sought)
            await self.seek(life, kit, topic, name, self._random.choice((BEGINNING, LATEST)))

    async def seek(self, life: Incarnation, kit: PlainKit, topic: str, name: str, start: str) -> None:
        """Sets a subscription to another place."""
        request = pb.SeekSubscriptionRequest(topic=topic, name=name)
        setattr(request, start, True)
        await self._call(
            life, SEEK, topic, Consuming(name, start=start), lambda: kit.call("SeekSubscription", request, pb.SeekSubscriptionAnswer)
        )
