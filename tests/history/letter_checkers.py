"""All promises about dead letters, over one history."""

from __future__ import annotations

from collections.abc import Iterator

from tests.history import promises_of_letters as promises
from tests.history import subscriptions
from tests.history.events import Event
from tests.history.facts import facts_of, topics_of
from tests.history.keeping import Clocks, Keeping
from tests.history.lease_facts import QueueFacts, queues_of
from tests.history.lease_time import LeaseClocks
from tests.history.letter_facts import letters_of
from tests.history.violations import Cases, Violation


def check_letters(events: list[Event], leases: LeaseClocks, clocks: Clocks | None = None, *, rotten: bool = False) -> list[Violation]:
    """Every broken promise. Where bytes rot, letters may be lost."""
    kept = {topic: Keeping(facts_of(events, topic), clocks) for topic in topics_of(events)}
    broken: list[Violation] = []
    for queue in queues_of(events):
        for checker, cases in _of_a_queue(queue, kept[queue.topic], events, leases, rotten):
            broken += [Violation(checker, case) for case in cases]
    return broken


def _of_a_queue(queue: QueueFacts, kept: Keeping, events: list[Event], leases: LeaseClocks, rotten: bool) -> Iterator[tuple[str, Cases]]:
    letters = letters_of(events, queue.topic, queue.subscription)
    for alone in (promises.a_dead_message_comes_only_as_a_letter, promises.a_letter_is_redriven_once):
        yield alone.__name__, alone(queue)
    for asked in (promises.a_redrive_reaches_one_subscription_only, promises.an_acked_letter_leaves_the_list):
        yield asked.__name__, asked(queue, letters)
    opened = min((time for session in queue.sessions.values() for time, _, _ in session.opened), default=0.0)
    if kept.facts.deleted or opened < kept.facts.acknowledged:
        return
    yield promises.a_letter_is_what_died.__name__, promises.a_letter_is_what_died(queue, kept)
    made = subscriptions.subscribed(events, queue.topic, queue.subscription)
    if not (rotten or made.is_deleted or opened < made.invoked):
        once, comes = promises.each_dead_letter_exactly_once, promises.what_was_redriven_comes
        yield once.__name__, once(queue, letters, kept)
        yield comes.__name__, comes(queue, letters, made, kept, leases)
