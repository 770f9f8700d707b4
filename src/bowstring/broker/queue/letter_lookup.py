"""Where the dead letters of some ids are, or why they cannot be redriven."""

from __future__ import annotations

from collections.abc import Sequence

from bowstring import errors
from bowstring.broker.log import message_lookup
from bowstring.broker.log.message_lookup import MessagePlace
from bowstring.broker.queue.queues import Queues
from bowstring.broker.queue.subscription import LiveSubscription
from bowstring.core.row_set import RowSet
from bowstring.messages.limits import DELETED_IDS_MAX


async def found(
    queues: Queues, subscription: LiveSubscription, ids: Sequence[str], *, redriven_too: bool
) -> list[MessagePlace | errors.Error]:
    """Where the dead letters of these ids are, or why they cannot be redriven. With `redriven_too`
    only those that are settled are refused.
    """
    if len(ids) > DELETED_IDS_MAX:
        raise errors.InvalidArgument(f"{len(ids)} ids were given.", hint=f"One request takes 1 to {DELETED_IDS_MAX}.")
    places = [await _place(queues, subscription, text, redriven_too=redriven_too) for text in ids]
    await queues.log.durable()
    return places


async def _place(queues: Queues, subscription: LiveSubscription, text: str, *, redriven_too: bool) -> MessagePlace | errors.Error:
    name, companion = subscription.topic.row.name, subscription.companion
    place = None if companion is None else await message_lookup.find(queues.log, companion.row.name, text)
    ledger = None if place is None or companion is None else subscription.ledger(companion.actors[place.partition])
    if place is None or ledger is None:
        if await message_lookup.find(queues.log, name, text) is None:
            return errors.MessageNotFound(f"there is no message {text!r} in '{name}'.", hint="Take an id from the list of dead letters.")
        return errors.Conflict(
            f"message {text!r} is no dead letter of '{subscription.name}'.", hint="Only dead letters of the subscription can be sent back."
        )
    row = RowSet(place.offset, place.offset + 1)
    if redriven_too and not ledger.settled.of(row):
        return place
    if holder := next(iter(ledger.leased(row, queues.clock.now())), None):
        held = f"message {text!r} was redriven already, and '{holder.consumer}' holds it."
        return errors.Conflict(held, hint="Wait until it is settled.")
    if ledger.settled.of(row):
        return errors.Conflict(f"message {text!r} was redriven already, and is settled.", hint="Publish it anew if it is to come again.")
    if ledger.redriven.among(row):
        return errors.Conflict(f"message {text!r} was redriven already, and waits for a consumer.", hint="Start a consumer.")
    return place
