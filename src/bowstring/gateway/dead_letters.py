"""The calls about dead letters."""

from __future__ import annotations

from bowstring.broker.broker import Broker
from bowstring.broker.queue import letter_list, redriving
from bowstring.broker.queue.letter_list import LetterPage, LetterWish
from bowstring.broker.queue.redriving import LetterRequest, LettersDone
from bowstring.ports.transport import Caller


async def list_page(broker: Broker, request: LetterWish, caller: Caller) -> LetterPage:
    """Gives a page of dead letters, or tells where those of some ids are."""
    return await letter_list.list_page(broker.serving.queues, request)


async def redrive(broker: Broker, request: LetterRequest, caller: Caller) -> LettersDone:
    """Sends dead letters back to their subscription."""
    return await redriving.redrive(broker.serving.queues, request, caller)


async def purge(broker: Broker, request: LetterRequest, caller: Caller) -> LettersDone:
    """Deletes dead letters."""
    return await redriving.purge(broker.serving.queues, request, caller)
