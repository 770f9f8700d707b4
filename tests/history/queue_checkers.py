"""All promises about queues, over one history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tests.history import (
    promises_of_choosing,
    promises_of_draining,
    promises_of_handing_out,
    promises_of_keys,
    promises_of_leasing,
    promises_of_peeking,
    promises_of_pushing,
    promises_of_retrying,
    promises_of_schedules,
    promises_of_settling,
    subscriptions,
)
from tests.history.events import Event
from tests.history.facts import Facts, facts_of, topics_of
from tests.history.keeping import Clocks, Keeping
from tests.history.lease_facts import QueueFacts, queues_of
from tests.history.lease_time import LeaseClocks
from tests.history.violations import Cases, Violation

OF_LEASES = (
    *promises_of_leasing.CHECKERS,
    *promises_of_settling.CHECKERS,
    *promises_of_handing_out.CHECKERS,
    promises_of_choosing.a_seek_ends_leases,
    *promises_of_keys.CHECKERS,
)
NOT_AFTER_A_SEEK = (promises_of_settling.acked_never_comes_again,)
"""A seek has acked messages come again, and their counts begin anew."""
OF_ROWS = (*promises_of_pushing.CHECKERS, *promises_of_retrying.CHECKERS)
OF_DELETING = (promises_of_leasing.a_delete_under_a_lease_is_refused, promises_of_leasing.a_deleted_row_is_not_delivered)


def check_queues(events: list[Event], leases: LeaseClocks, clocks: Clocks | None = None, *, drained: bool = True) -> list[Violation]:
    """Every broken promise. `leases` says what the time of leases can have been, `clocks` what may be
    gone; without a drain what is left at the end is not known.
    """
    queues = queues_of(events)
    facts = {topic: facts_of(events, topic) for topic in topics_of(events)}
    broken: list[Violation] = []
    for queue in queues:
        for checker, cases in chain(_of_leases(queue, leases), _of_the_topic(queue, facts[queue.topic], events, leases, clocks, drained)):
            broken += [Violation(checker, case) for case in cases]
        for peeking in promises_of_peeking.CHECKERS:
            broken += [Violation(peeking.__name__, case) for case in peeking(queue, events, leases)]
    return broken


def _of_leases(queue: QueueFacts, leases: LeaseClocks) -> Iterator[tuple[str, Cases]]:
    for checker in OF_LEASES:
        if not queue.sought or checker not in NOT_AFTER_A_SEEK:
            yield checker.__name__, checker(queue, leases)


def _of_the_topic(
    queue: QueueFacts, facts: Facts, events: list[Event], leases: LeaseClocks, clocks: Clocks | None, drained: bool
) -> Iterator[tuple[str, Cases]]:
    """What needs the messages: those of the last topic of the name, if that is the one."""
    opened = min((time for session in queue.sessions.values() for time, _, _ in session.opened), default=0.0)
    if facts.deleted or opened < facts.acknowledged:
        return
    whole, queue = queue, queue.of_the_topic()
    for checker in OF_ROWS:
        if not queue.sought or checker not in promises_of_retrying.CHECKERS:
            yield checker.__name__, checker(whole if checker in promises_of_pushing.OF_STREAMS else queue, facts, leases)
    only = promises_of_choosing.only_what_passes_the_filter_comes
    yield only.__name__, only(queue, facts, promises_of_choosing.filter_of(events, queue.topic, queue.subscription))
    for promise in OF_DELETING:
        yield promise.__name__, promise(queue, facts, leases)
    kept = Keeping(facts, clocks)
    over = promises_of_leasing.what_is_over_is_not_pushed
    made = subscriptions.subscribed(events, queue.topic, queue.subscription)
    yield over.__name__, over(queue, made, kept, leases)
    order = promises_of_keys.a_key_is_in_order
    yield order.__name__, order(queue, kept, leases)
    for promise in promises_of_schedules.CHECKERS:
        yield promise.__name__, promise(queue, kept, leases)
    backoff = promises_of_schedules.backoff_of(events, queue.topic, queue.subscription)
    yield "a_backoff_grows", promises_of_schedules.a_backoff_grows(queue, backoff, leases)
    if drained and not made.is_deleted and opened >= made.invoked:
        for last in promises_of_draining.CHECKERS:
            yield last.__name__, last(queue, made, kept, leases)
