"""Sessions and handlers take and give values: here the messages are Python values themselves, and
nothing is encoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bowstring import errors
from bowstring.broker.log.published_batch import PublishedBatch
from bowstring.broker.reading.fetched import Fetched
from bowstring.core.answers import ResendAfter, Stored
from bowstring.gateway import requests
from bowstring.gateway.fetch_session import FetchedRows, FetchOpening, MoreCredit
from bowstring.gateway.gateway import Gateway
from bowstring.gateway.publish_session import BATCH_COST, BatchAnswer, PublishOpening
from bowstring.ports.calls import CALLS
from bowstring.ports.codec import CallForm
from bowstring.ports.transport import Caller, Inbound, Take
from bowstring.settings import Settings
from tests.unit.virtual_time import FakeClock, on_virtual_time

AS_IT_IS: Any = {name: CallForm(lambda message: message, lambda answer: answer) for name in CALLS}
CALLER = Caller(address="here", transport="none")
OPENING = PublishOpening("t", b"p" * 16, 1, "g")


class Values(Inbound):
    """`ports.transport.Inbound` of values instead of bytes: gives some, then ends."""

    def __init__(self, *given: Any) -> None:
        self._given = list(given)
        self.taken: list[Any] = []

    async def read(self) -> Any:
        await asyncio.sleep(0)
        return self._given.pop(0) if self._given else None

    async def write(self, message: Any) -> None:
        self.taken.append(message)


class Direct(Values):
    """The same, handed over in one step, and `free` answers are taken at once."""

    def __init__(self, *given: Any, free: int = 1000) -> None:
        super().__init__(*given)
        self.free = free
        self.handed = 0

    async def each(self, take: Take) -> None:
        for message in self._given:
            self.handed += 1
            if (waiting := take(message)) is not None:
                await waiting

    def try_write(self, message: Any) -> bool:
        self.free -= 1
        if self.free >= 0:
            self.taken.append(message)
        return self.free >= 0


class SettledPublisher:
    """Answers the batches with these outcomes, one after the other."""

    def __init__(self, outcomes: list[Any], *, has_credit: bool = False) -> None:
        self.fenced = asyncio.Event()
        self._outcomes = outcomes
        self._has_credit = has_credit

    def try_admit(self, size: int) -> bool:
        return self._has_credit

    async def admit(self, size: int) -> None:
        await asyncio.sleep(0)

    def publish(self, batch: PublishedBatch, answered: Callable[[Any], None]) -> None:
        answered(self._outcomes.pop(0))

    def close(self) -> None:
        """Nothing is held."""


class OnePage:
    """A fetcher that finds one page."""

    done = True

    def __init__(self, page: Fetched) -> None:
        self._pages = [page]

    async def next(self, credit: int, receiver: object = None) -> list[Fetched]:
        pages, self._pages = self._pages, []
        return pages

    def keeping_time(self) -> int:
        return 7

    def close(self) -> None:
        """Nothing is held."""


def gateway(settings: Settings | None = None, **methods: Any) -> Gateway:
    clock = FakeClock()
    broker: Any = SimpleNamespace(clock=clock, **methods)
    return Gateway(broker, settings or Settings(), clock, codec=AS_IT_IS)


def publishing(*outcomes: Any, has_credit: bool = False) -> Gateway:
    return publishing_by(SettledPublisher(list(outcomes), has_credit=has_credit))


def publishing_by(publisher: SettledPublisher, settings: Settings | None = None) -> Gateway:
    async def opened(*opening: Any) -> SettledPublisher:
        assert opening == ("t", b"p" * 16, 1, "g", CALLER)
        return publisher

    return gateway(settings, publisher=opened)


class PatientPublisher(SettledPublisher):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__([], has_credit=True)
        self.waiting: list[Callable[[Any], None]] = []

    def publish(self, batch: PublishedBatch, answered: Callable[[Any], None]) -> None:
        self.waiting.append(answered)


def batch(number: int) -> PublishedBatch:
    return PublishedBatch(0, number, number - 1, 0, 10**6, 1, 2, 1, b"rows")


@on_virtual_time
async def test_a_publish_session_gives_an_answer_for_each_batch():
    refusal = errors.Corrupt("damaged.")
    inbound = Values(OPENING, batch(1), batch(2), batch(3))
    await publishing(Stored(5, 1), ResendAfter(1), refusal).stream("Publish", inbound, CALLER)
    assert [type(answer) for answer in inbound.taken] == [BatchAnswer] * 3
    assert [(answer.number, answer.outcome) for answer in inbound.taken] == [(1, Stored(5, 1)), (2, ResendAfter(1)), (3, refusal)]


@pytest.mark.parametrize("free", [0, 1, 2, 1000])
@pytest.mark.parametrize("has_credit", [False, True])
@on_virtual_time
async def test_answers_keep_their_order_whether_or_not_the_transport_takes_them_at_once(free: int, has_credit: bool):
    inbound = Direct(OPENING, *[batch(number) for number in range(1, 6)], free=free)
    await publishing(*[Stored(5, 1)] * 5, has_credit=has_credit).stream("Publish", inbound, CALLER)
    assert [answer.number for answer in inbound.taken] == [1, 2, 3, 4, 5]


@on_virtual_time
async def test_a_full_window_holds_up_the_next_batch():
    publisher, inbound = PatientPublisher(), Direct(OPENING, batch(1), batch(2), batch(3))
    served = publishing_by(publisher, Settings(publish_window=BATCH_COST))
    stream = asyncio.create_task(served.stream("Publish", inbound, CALLER))
    for handed in (1, 2, 3):
        await asyncio.sleep(1)
        assert (inbound.handed, len(publisher.waiting), len(inbound.taken)) == (handed + 1, handed, handed - 1)
        publisher.waiting[-1](Stored(handed, 1))
    await stream
    assert [answer.number for answer in inbound.taken] == [1, 2, 3]


@on_virtual_time
async def test_an_answer_after_the_end_of_a_session_is_not_written():
    publisher, inbound = PatientPublisher(), Direct(OPENING, batch(1), batch(2))
    stream = asyncio.create_task(publishing_by(publisher).stream("Publish", inbound, CALLER))
    await asyncio.sleep(1)
    publisher.waiting[0](errors.Full("the disk is full."))
    with pytest.raises(errors.Full):
        await stream
    publisher.waiting[1](Stored(1, 1))
    assert not inbound.taken


@on_virtual_time
async def test_a_session_that_ends_answers_what_is_under_way():
    publisher, inbound = PatientPublisher(), Direct(OPENING, batch(1), batch(2))
    served = publishing_by(publisher)
    stream = asyncio.create_task(served.stream("Publish", inbound, CALLER))
    await asyncio.sleep(1)
    served.close(errors.Unavailable("the broker is stopping."))
    for answered in publisher.waiting:
        await asyncio.sleep(1)
        assert not stream.done()
        answered(Stored(1, 1))
    with pytest.raises(errors.Unavailable, match="stopping"):
        await stream
    assert [answer.number for answer in inbound.taken] == [1, 2]


@on_virtual_time
async def test_an_answer_that_cannot_be_written_ends_its_session_and_nothing_else():
    publisher, inbound = PatientPublisher(), Direct(OPENING, batch(1))
    inbound.try_write = failing  # type: ignore[method-assign]
    stream = asyncio.create_task(publishing_by(publisher).stream("Publish", inbound, CALLER))
    await asyncio.sleep(1)
    publisher.waiting[0](Stored(1, 1))
    with pytest.raises(ZeroDivisionError):
        await stream


def failing(message: Any) -> bool:
    return bool(1 // 0)


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
    page = Fetched(0, 2, 1, 1, 2, 1, np.array([(1, 1, 1)]), [], b"rows", 4)
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
