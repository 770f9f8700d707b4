"""Sessions and handlers take and give values: here the messages are Python values themselves, and
nothing is encoded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bowstring import errors
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.broker.reading.fetched import Fetched
from bowstring.core.answers import ResendAfter, Stored
from bowstring.gateway import requests
from bowstring.gateway.fetch_session import FetchedRows, FetchOpening, MoreCredit
from bowstring.gateway.gateway import Gateway
from bowstring.gateway.publish_session import BatchAnswer, PublishOpening
from bowstring.ports.calls import CALLS
from bowstring.ports.codec import CallForm
from bowstring.ports.transport import Caller
from bowstring.settings import Settings
from tests.unit.virtual_time import FakeClock, on_virtual_time

AS_IT_IS: Any = {name: CallForm(lambda message: message, lambda answer: answer) for name in CALLS}
CALLER = Caller(address="here", transport="none")
OPENING = PublishOpening("t", b"p" * 16, 1, "g")


class Values:
    """`ports.transport.Inbound` of values instead of bytes: gives some, then ends."""

    def __init__(self, *given: Any) -> None:
        self._given = list(given)
        self.taken: list[Any] = []

    async def read(self) -> Any:
        await asyncio.sleep(0)
        return self._given.pop(0) if self._given else None

    async def write(self, message: Any) -> None:
        self.taken.append(message)


class SettledPublisher:
    """Answers the batches with these outcomes, one after the other."""

    def __init__(self, outcomes: list[Any]) -> None:
        self.fenced = asyncio.Event()
        self._outcomes = outcomes

    async def admit(self, size: int) -> None:
        await asyncio.sleep(0)

    def publish(self, batch: PublishedBatch) -> asyncio.Future[Any]:
        future, outcome = asyncio.get_running_loop().create_future(), self._outcomes.pop(0)
        if isinstance(outcome, errors.Error):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return future

    def close(self) -> None:
        """Nothing is held."""


class OnePage:
    """A fetcher that finds one page."""

    def __init__(self, page: Fetched) -> None:
        self._pages = [page]

    async def next(self, credit: int) -> list[Fetched]:
        pages, self._pages = self._pages, []
        return pages

    def keeping_time(self) -> int:
        return 7

    def close(self) -> None:
        """Nothing is held."""


def gateway(**methods: Any) -> Gateway:
    clock = FakeClock()
    broker: Any = SimpleNamespace(clock=clock, **methods)
    return Gateway(broker, Settings(), clock, codec=AS_IT_IS)


def publishing(*outcomes: Any) -> Gateway:
    async def publisher(*opening: Any) -> SettledPublisher:
        assert opening == ("t", b"p" * 16, 1, "g", CALLER)
        return SettledPublisher(list(outcomes))

    return gateway(publisher=publisher)


def batch(number: int) -> PublishedBatch:
    return PublishedBatch(0, number, number - 1, 0, 10**6, 1, 2, 1, b"rows")


@on_virtual_time
async def test_a_publish_session_gives_an_answer_for_each_batch():
    refusal = errors.Corrupt("damaged.")
    inbound = Values(OPENING, batch(1), batch(2), batch(3))
    await publishing(Stored(5, 1), ResendAfter(1), refusal).stream("Publish", inbound, CALLER)
    assert [type(answer) for answer in inbound.taken] == [BatchAnswer] * 3
    assert [(answer.number, answer.outcome) for answer in inbound.taken] == [(1, Stored(5, 1)), (2, ResendAfter(1)), (3, refusal)]


@on_virtual_time
async def test_an_error_that_is_worth_repeating_ends_a_publish_session():
    inbound = Values(OPENING, batch(1), batch(2))
    with pytest.raises(errors.Full):
        await publishing(Stored(5, 1), errors.Full("the disk is full.")).stream("Publish", inbound, CALLER)
    assert [answer.number for answer in inbound.taken] == [1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((batch(1),), "has to open it"),
        ((OPENING, OPENING), "open already"),
        ((OPENING, batch(0)), "has no number"),
    ],
)
@on_virtual_time
async def test_a_publish_session_refuses_what_comes_in_the_wrong_order(given: tuple[Any, ...], said: str):
    with pytest.raises(errors.InvalidArgument, match=said):
        await publishing(Stored(1, 1)).stream("Publish", Values(*given), CALLER)


@on_virtual_time
async def test_a_fetch_session_gives_rows_with_the_keeping_time():
    page = Fetched(0, 2, 1, 1, 2, 1, [(1, 1, 1)], [], b"rows", 4)
    opening = FetchOpening("t", [(0, 1, 2)], until=0, columns=None, where="", held=None, topic_id=0, credit=0)
    inbound = Values(opening, MoreCredit(100))
    await gateway(fetcher=lambda *_, **__: OnePage(page)).stream("Fetch", inbound, CALLER)
    assert inbound.taken == [FetchedRows(page, 7)]


@on_virtual_time
async def test_a_handler_takes_and_gives_values_and_is_told_who_calls():
    told: list[Any] = []

    async def delete(name: str, missing_ok: bool, caller: Caller) -> int:
        told.append((name, missing_ok, caller))
        return 17

    request: Any = requests.DeleteTopicRequest("t", missing_ok=True)
    assert await gateway(topics=SimpleNamespace(delete=delete)).call("DeleteTopic", request, CALLER) == 17
    assert told == [("t", True, CALLER)]
