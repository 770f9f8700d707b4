"""What a kit tells its application in addition to receipts of single messages: which of them are
duplicates, and what its silence means.
"""

from __future__ import annotations

from tests.history.facts import Facts
from tests.history.keeping import Keeping
from tests.history.violations import Cases

NOWHERE = (-1, 0)
"""The place of a message whose place no client knows."""


def only_given_ids_are_duplicates(facts: Facts) -> Cases:
    """A message whose id the kit generated cannot have been published before: however often the kit
    resends it, it is not a duplicate.
    """
    for send in facts.sends.values():
        if send.acknowledged and send.answer.duplicate and not send.sent.natural:
            where = f"{facts.topic}/{send.answer.partition}@{send.answer.offset}"
            yield f"{send.label} was sent once, and answered as a duplicate at {where}"


def silence_means_stored(kept: Keeping) -> Cases:
    """Messages whose receipts the client ignores are stored when `flush` or `close` has ended
    without an error.
    """
    facts = kept.facts
    if any(held.settings.retention_bytes for held in facts.held):
        return  # without a place, whether there was too much behind it is unknown
    stored, ids = facts.stored(), {row.id for row in facts.rows.values()}
    for label in sorted(facts.silent):
        send = facts.sends.get(label)
        if send is None or send.invoked < facts.acknowledged or label in stored or (send.id and send.id in ids):
            continue
        same = [other for other in facts.sends.values() if other is send or (send.id and other.id == send.id)]
        if not any(kept.may_be_gone(NOWHERE, facts.over, other) for other in same):
            yield f"{label} was sent to {facts.topic} at {send.invoked:.3f} s, nothing was said about it, and it is not there"
