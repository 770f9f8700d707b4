"""Messages that the program asks for by their ids, and the broker's answers.

A request is sent again after a break until it is answered: the broker says then which of the messages
this consumer holds already. Messages that were pushed for a request wait here for its answer; they
are not handed out otherwise. If the program does not wait any more they are given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from bowstring import errors
from bowstring.client.arguments import message_ids
from bowstring.client.leased_page import LeasedPage
from bowstring.client.pages import Chunk
from bowstring.messages.limits import LEASED_IDS_MAX
from bowstring.wire.error_messages import from_message
from bowstring.wire.generated import bowstring_pb2 as pb


def checked_ids(given: object) -> list[str]:
    """Ids, each once. Raises InvalidArgument."""
    ids = list(dict.fromkeys(message_ids(given)))
    if len(ids) > LEASED_IDS_MAX:
        raise errors.InvalidArgument(f"{len(ids)} ids are too many.", hint=f"Lease at most {LEASED_IDS_MAX} at once.")
    return ids


def closed_consumer() -> errors.Conflict:
    """The error for a program that asks after the consumer's end."""
    return errors.Conflict("this consumer is closed.", hint="Make another with client.consumer().")


class LeaseAsk:
    """One request."""

    def __init__(self, number: int, ids: Sequence[str]) -> None:
        self.message = pb.LeaseIds(number=number, ids=ids)
        self.chunks: list[Chunk] = []
        """Rows that were pushed for it."""
        self.own: list[pb.OwnLease] = []
        """Rows that the consumer holds already."""
        self.refused: dict[str, errors.Error] = {}
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def refuse_others(self, picked: Iterable[Chunk], topic: str, name: str) -> None:
        """Of the messages that the consumer holds already these were picked: the program has the
        others.
        """
        mine = {(chunk.page.partition, offset) for chunk in (*picked, *self.chunks) for offset in chunk.offsets.tolist()}
        for own in self.own:
            if (own.partition, own.offset) not in mine:
                self.refused[self.message.ids[own.row]] = errors.LeaseTaken(
                    f"this consumer holds {topic}/{own.partition}@{own.offset} already.",
                    hint="Settle the message that it handed out.",
                    details={"topic": topic, "partition": str(own.partition), "offset": str(own.offset), "consumer": name},
                )


class LeaseAsks:
    """The requests of one consumer that are not answered. On the loop."""

    def __init__(self, send: Callable[[pb.ConsumeRequest], object], give_back: Callable[[Iterable[Chunk]], object]) -> None:
        self._send = send
        """Writes a request if a stream is open."""
        self._give_back = give_back
        self._asks: dict[int, LeaseAsk] = {}
        self._last = 0
        self._error: errors.Error | None = None

    async def ask(self, ids: Sequence[str], seconds: float) -> LeaseAsk:
        """Waits for the answer to a request. Raises Unavailable when it does not come in time."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        self._last += 1
        ask = self._asks[self._last] = LeaseAsk(self._last, ids)
        self._send(pb.ConsumeRequest(lease=[ask.message]))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.shield(ask.answered)
                    return ask
        finally:
            if self._asks.pop(ask.message.number, None) is not None or ask.answered.cancelled():
                self._give_back(ask.chunks)
        raise errors.Unavailable(
            f"the broker has not answered within {seconds:g} s which of {len(ids)} messages are leased.",
            hint="Wait and repeat. Messages that were leased meanwhile are given back.",
        )

    def unanswered(self) -> list[pb.ConsumeRequest]:
        """What a new stream sends again."""
        return [pb.ConsumeRequest(lease=[ask.message]) for ask in self._asks.values()]

    def came(self, number: int, chunks: list[Chunk]) -> None:
        """Rows were pushed for a request."""
        ask = self._asks.get(number)
        if ask is None:
            self._give_back(chunks)
        else:
            ask.chunks += chunks

    def answer(self, told: pb.IdsLeased) -> None:
        """The broker has answered."""
        ask = self._asks.pop(told.number, None)
        if ask is not None:
            ask.own = list(told.own)
            ask.refused = {ask.message.ids[each.row]: from_message(each.error) for each in told.refused}
            if not ask.answered.done():
                ask.answered.set_result(None)

    def fail(self, error: errors.Error) -> None:
        """The consumer has ended: no answer comes any more."""
        self._error = error
        asks, self._asks = self._asks, {}
        for ask in asks.values():
            self._give_back(ask.chunks)
            if not ask.answered.done():
                ask.answered.set_exception(error.with_traceback(None))


def held_rows(own: Iterable[pb.OwnLease], pages: Iterable[LeasedPage]) -> dict[LeasedPage, list[int]]:
    """The offsets of messages by the pages of the consumer that may have them."""
    offsets: dict[tuple[int, int], list[int]] = {}
    for each in own:
        offsets.setdefault((each.partition, each.grant), []).append(each.offset)
    found = {page: offsets.get((page.lease.partition, page.lease.grant)) for page in pages}
    return {page: wanted for page, wanted in found.items() if wanted}
