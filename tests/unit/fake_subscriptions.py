"""What the fake broker knows of subscriptions: the calls about them, and who serves a Consume stream."""

from __future__ import annotations

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit import fake_queue
from tests.unit.fake_queue import FakeLedger, FakeQueue
from tests.unit.fake_stream import FakeStream
from tests.unit.fake_topic import FakeTopic
from tests.unit.virtual_time import FakeClock


class FakeSubscriptions:
    """A part of the fake broker."""

    topics: dict[str, FakeTopic]
    clock: FakeClock
    delay: float

    def __init__(self) -> None:
        self.subscriptions: dict[tuple[str, str], pb.Subscription] = {}
        """What calls have made."""
        self.queues: dict[tuple[str, str], FakeQueue] = {}
        """Subscriptions by topic and name."""
        self.consume_errors: list[errors.Error] = []
        """The next Consume streams end with these errors."""

    def queue(self, topic: str, name: str) -> FakeQueue:
        found = self.topics[topic]
        self.queues[topic, name] = FakeQueue(found, len(self.queues) + 1, [FakeLedger() for _ in found.partitions])
        return self.queues[topic, name]

    async def consume(self, stream: FakeStream) -> None:
        if self.consume_errors:
            raise self.consume_errors.pop(0)
        await fake_queue.consume(self, stream)

    def _CreateSubscription(self, request: bytes) -> pb.Subscription:
        asked = pb.CreateSubscriptionRequest.FromString(request)
        place = asked.topic, asked.name
        known = self.queues.get(place)
        if known is not None and not asked.exists_ok:
            raise errors.SubscriptionExists(f"'{asked.name}' exists already.")
        made = pb.Subscription(topic=asked.topic, name=asked.name, lease=asked.lease, mode="shared", max_deliveries=asked.max_deliveries)
        self.subscriptions.setdefault(place, made)
        if known is None:
            self.queue(asked.topic, asked.name)
        return self.subscriptions[place]

    def _DescribeSubscription(self, request: bytes) -> pb.Subscription:
        asked = pb.DescribeSubscriptionRequest.FromString(request)
        if (asked.topic, asked.name) not in self.subscriptions:
            raise errors.SubscriptionNotFound(f"there is no subscription '{asked.name}'.")
        return self.subscriptions[asked.topic, asked.name]

    def _AlterSubscription(self, request: bytes) -> pb.Subscription:
        asked = pb.AlterSubscriptionRequest.FromString(request)
        self.subscriptions[asked.topic, asked.name].lease = asked.lease
        return self.subscriptions[asked.topic, asked.name]

    def _ListSubscriptions(self, request: bytes) -> pb.ListSubscriptionsAnswer:
        asked = pb.ListSubscriptionsRequest.FromString(request)
        names = [name for name in sorted(self.subscriptions) if name > (asked.after_topic, asked.after_name)]
        names = [name for name in names if asked.topic in ("", name[0])]
        return pb.ListSubscriptionsAnswer(subscriptions=[self.subscriptions[name] for name in names[:2]], more=len(names) > 2)

    def _DeleteSubscription(self, request: bytes) -> pb.DeleteSubscriptionAnswer:
        asked = pb.DeleteSubscriptionRequest.FromString(request)
        self.subscriptions.pop((asked.topic, asked.name), None)
        if self.queues.pop((asked.topic, asked.name), None) is None and not asked.missing_ok:
            raise errors.SubscriptionNotFound(f"there is no subscription '{asked.name}'.")
        return pb.DeleteSubscriptionAnswer(deleted=True)

    def _ListLeases(self, request: bytes) -> pb.ListLeasesAnswer:
        asked = pb.ListLeasesRequest.FromString(request)
        found: dict[tuple[int, int], pb.LeaseFacts] = {}
        for number, ledger in enumerate(self.queues[asked.topic, asked.subscription].ledgers):
            for offset, lease in ledger.leases.items():
                if asked.consumer in ("", lease.consumer):
                    told = pb.LeaseFacts(partition=number, grant=lease.grant, consumer=lease.consumer, until=lease.until)
                    facts = found.setdefault((number, lease.grant), told)
                    facts.offsets.append(offset)
                    facts.rows.append(1)
        behind = [lease for place, lease in sorted(found.items()) if place > (asked.after_partition, asked.after_grant)]
        return pb.ListLeasesAnswer(leases=behind[:2], more=len(behind) > 2, now=self.clock.now())

    def _ReleaseLeases(self, request: bytes) -> pb.ReleaseLeasesAnswer:
        asked = pb.ReleaseLeasesRequest.FromString(request)
        queue = self.queues[asked.topic, asked.subscription]
        many = sum(len(ledger.leases) for ledger in queue.ledgers)
        queue.release()
        return pb.ReleaseLeasesAnswer(messages=many)
