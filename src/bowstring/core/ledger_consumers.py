"""The consumers that a ledger knows: their numbers, their spans of lease, and their last requests.

A consumer numbers its requests to settle, in each partition, upwards. A request whose number is not
above the last one is a repeat: it changes nothing, and gets the answer that it got the first time,
also when the leases have ended since. For that the ledger keeps what it refused, until the consumer
says that it has the answer.

Consumers come and go under names that never return. Those that hold nothing are forgotten an hour
after they were active, and earlier if there are too many. Every 64th that joins has the others
looked through: the moment is the ledger's own and the number is durable, so replay forgets the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bowstring.core.ledger_changes import GrantPart, Join, Settle

REMEMBERED = 3_600_000_000
"""For so many microseconds a consumer is known after it was active."""
CONSUMERS_MAX = 10_000
"""So many that hold nothing are known at most, give or take 64."""
JOINS_BETWEEN = 64

ConsumerRest = tuple[int, str, int, int, int, list[tuple[int, tuple[GrantPart, ...]]]]


class LedgerConsumer:
    """One consumer in one partition."""

    __slots__ = ("active", "lease", "name", "number", "refused", "request")

    def __init__(self, number: int, name: str, lease: int, active: int) -> None:
        self.number = number
        self.name = name
        self.lease = lease
        """How long its leases last, in microseconds."""
        self.active = active
        """When it last got or settled something."""
        self.request = 0
        """The number of its last request."""
        self.refused: dict[int, tuple[GrantPart, ...]] = {}
        """What was refused by request, for as long as the answer may be asked for again."""


class LedgerConsumers:
    """The consumers of one ledger."""

    def __init__(self) -> None:
        self._by_number: dict[int, LedgerConsumer] = {}
        self._by_name: dict[str, LedgerConsumer] = {}
        self.next_number = 1

    def join(self, change: Join, is_busy: Callable[[int], bool]) -> None:
        """A consumer comes, or has another span from here on; `is_busy` says who holds a lease."""
        known = self._by_number.get(change.consumer)
        if known is not None:
            known.lease, known.active = change.lease, change.moment
            return
        assert change.consumer == self.next_number, f"consumer {change.consumer} after {self.next_number - 1}"
        self.next_number += 1
        self._add(LedgerConsumer(change.consumer, change.name, change.lease, change.moment))
        if change.consumer % JOINS_BETWEEN == 0:
            self._forget(change.moment - REMEMBERED, is_busy)

    def _add(self, consumer: LedgerConsumer) -> None:
        self._by_number[consumer.number] = self._by_name[consumer.name] = consumer

    def _forget(self, before: int, is_busy: Callable[[int], bool]) -> None:
        idle = sorted((one for one in self if not is_busy(one.number)), key=lambda one: (one.active, one.number))
        spare = len(idle) - CONSUMERS_MAX
        for place, consumer in enumerate(idle):
            if consumer.active < before or place < spare:
                del self._by_number[consumer.number], self._by_name[consumer.name]

    def settle(self, change: Settle, moment: int) -> None:
        """A request of a consumer was carried out."""
        consumer = self._by_number[change.consumer]
        consumer.request, consumer.active = change.request, moment
        if change.answered:
            consumer.refused = {request: parts for request, parts in consumer.refused.items() if request > change.answered}
        if change.refused:
            consumer.refused[change.request] = change.refused

    def named(self, name: str) -> LedgerConsumer | None:
        """None if it has never got anything here, or was forgotten."""
        return self._by_name.get(name)

    def __getitem__(self, number: int) -> LedgerConsumer:
        return self._by_number[number]

    def __iter__(self) -> Iterator[LedgerConsumer]:
        return iter(self._by_number.values())

    def rest(self) -> list[ConsumerRest]:
        """As they are at rest, by number."""
        known = sorted(self._by_number.items())
        return [(number, one.name, one.lease, one.active, one.request, sorted(one.refused.items())) for number, one in known]

    def restore(self, rest: Iterable[ConsumerRest], next_number: int) -> None:
        """What `rest` gave."""
        self.next_number = next_number
        for number, name, lease, active, request, refused in rest:
            consumer = LedgerConsumer(number, name, lease, active)
            consumer.request, consumer.refused = request, dict(refused)
            self._add(consumer)
