"""One small function per promise about messages that their owner has deleted. That nothing else
goes with them is in `promises_of_keeping`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.history.events import Event
from tests.history.facts import Deletion, facts_of, topics_of
from tests.history.keeping import Keeping
from tests.history.violations import Cases, Violation


def deleted_is_what_was_asked_for(kept: Keeping) -> Cases:
    """Where a delete says that the message was, there was a message of that id, and it belonged to
    the group that asked.
    """
    for deletion in kept.facts.deletions:
        known = kept.at(deletion.partition, deletion.offset) if deletion.offset else None
        if known is not None and (known.id, known.sent.group) != (deletion.id, deletion.group):
            owner = f"id {known.id!r} of group {known.sent.group!r}"
            yield f"{_told(kept, deletion)}, and there is {known.label}, {owner}"


def deleted_is_read_by_nobody(kept: Keeping) -> Cases:
    """A reader that begins after a delete was acknowledged does not get the message, and `find`
    does not find it by its id.
    """
    facts = kept.facts
    for deletion in facts.deletions:
        place = deletion.partition, deletion.offset
        if not deletion.offset:
            continue
        for session in facts.sessions.values():
            if session.opened > deletion.ended and any((row.partition, row.offset) == place for _, row in session.seen):
                yield f"{_told(kept, deletion)}, and {session.name} has read it, which began at {session.opened:.3f} s"
        for found in facts.finds:
            if found.invoked > deletion.ended and (found.partition, found.offset) == place:
                yield f"{_told(kept, deletion)}, and find({found.id!r}) gave it at {found.ended:.3f} s"


def stored_can_be_deleted(kept: Keeping) -> Cases:
    """A delete knows messages that were acknowledged before the call, until retention takes them.
    For runs whose clocks do not jump.
    """
    facts = kept.facts
    for deletion in facts.deletions:
        if deletion.error != "message-not-found" or sum(other.id == deletion.id for other in facts.deletions) > 1:
            continue  # another delete may have taken it
        for send in facts.acknowledged_before(deletion.invoked, deletion.id):
            place = send.answer.partition, send.answer.offset
            if kept.at(*place) is not None and not kept.may_have_aged(place, deletion.ended):
                yield f"delete({deletion.id!r}) found nothing at {deletion.ended:.3f} s, and it was acknowledged at {send.ended:.3f} s"


CHECKERS: tuple[Callable[[Keeping], Cases], ...] = (deleted_is_what_was_asked_for, deleted_is_read_by_nobody)


def deleted_bytes_are_not_taken(fetched: Iterable[tuple[float, str, frozenset[str]]], events: list[Event]) -> list[Violation]:
    """No bytes of a message are taken for any reader once its delete was acknowledged: not in
    padding, and not for readers that began before. `fetched` are the moments at which the broker
    took messages for a reader, with the topic and the labels in their bytes.
    """
    gone: dict[tuple[str, str], float] = {}
    for topic in topics_of(events):
        kept = Keeping(facts_of(events, topic), None)
        for deletion in kept.facts.deletions:
            known = kept.at(deletion.partition, deletion.offset) if deletion.offset else None
            if known is not None and not kept.facts.deleted:
                gone[topic, known.label] = min(deletion.ended, gone.get((topic, known.label), deletion.ended))
    return [
        Violation("deleted_bytes_are_not_taken", f"{label} of {topic} was taken for a reader at {time:.3f} s, and was deleted before")
        for time, topic, labels in fetched
        for label in sorted(labels)
        if time > gone.get((topic, label), time)
    ]


def _told(kept: Keeping, deletion: Deletion) -> str:
    where = f"{kept.facts.topic}/{deletion.partition}@{deletion.offset}"
    return f"delete({deletion.id!r}) by group {deletion.group!r} was acknowledged for {where} at {deletion.ended:.3f} s"
