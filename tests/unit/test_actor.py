"""The actor: one way in for every request, one loop that decides, one function when rows become visible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.broker.counters import Counters
from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.admission import Admission
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.log.publish_request import PublishBatch
from bowstring.broker.log.requests import AwaitCommit, DeleteMessages, FindNatural, MovePosition, Question, RaiseFloor
from bowstring.core.answers import Answer, ResendAfter, Stored
from bowstring.core.changes import Change, Delete, Floor, Position, Reason
from bowstring.core.decisions import BatchName, Decided, Decision, Found, Ids, Lookup, Publish, SealedBatch, Wait
from bowstring.core.natural_ids import NO_HITS
from bowstring.core.partition import Partition
from bowstring.ports.failures import Damaged, StorageFailed
from bowstring.ports.store import Page
from tests.unit.test_alarm import SECOND, Clock

ADA = b"a" * 16
NONE = np.empty(0, np.int64)
NAMED = Ids(np.array([7], np.uint64), None)


class Desk:
    """A flusher whose flushes are committed on demand."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.answers: list[Callable[[], None]] = []
        self.actors: list[PartitionActor] = []
        self.sequence = 0

    def add(self, change: Change, page: Page | None = None) -> None:
        self.changes.append(change)

    def answer(self, callback: Callable[[], None]) -> None:
        if self.changes:
            self.answers.append(callback)
        else:
            callback()

    def commit(self) -> None:
        changes, self.changes = self.changes, []
        answers, self.answers = self.answers, []
        self.sequence += 1
        touched = {change.partition: self.actors[change.partition] for change in changes}
        for change in changes:
            touched[change.partition].committed(change, self.sequence)
        for actor in touched.values():
            actor.flushed()
        for actor in touched.values():
            actor.answer_publishes()
        for answer in answers:
            answer()


class Library:
    """Lookups that are answered on demand."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Found]] = []

    def at_once(self, *_: Any) -> Found | None:
        return None

    async def look_up(self, *_: Any) -> Found:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]


class Shop:
    """Partitions with their actors, and everything around them."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock, self.desk, self.library = Clock(), Desk(), Library()
        self.admission = Admission(bytes_max=1, flusher=self.desk, counters=Counters())  # type: ignore[arg-type]
        self.numbers = dict.fromkeys(range(partitions), 0)
        self.alarm = Alarm(self.clock, pytest.fail)  # type: ignore[arg-type]
        around: Any = self.desk, self.clock, self.library, self.alarm
        self.actors = [PartitionActor(Partition(1, number, 600 * SECOND), *around) for number in range(partitions)]
        self.desk.actors = self.actors
        self.actor = self.actors[0]

    def publish(self, rows: int = 1, *, partition: int = 0, ids: Ids | None = None, timeout: int = 30 * SECOND) -> asyncio.Future[Answer]:
        before = self.numbers[partition]
        self.numbers[partition] += 1
        batch = pa.record_batch({"id": pa.array(["x"] * rows)})
        publish = Publish(ADA, before + 1, before, self.clock.now(), timeout, rows, 2, ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.actors[partition].receive(PublishBatch(publish, "shop", batch, b"", self.admission.outstanding(0, partial(settle, answer))))
        return answer

    def found(self) -> Found:
        return Found(self.actor.partition.moves, NO_HITS, NONE, {})

    def reader(self) -> asyncio.Event:
        self.actor.wake_when_readable(event := asyncio.Event())
        return event


def settle(answer: asyncio.Future[Any], outcome: Answer | Exception) -> None:
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class Scripted(Question[str]):
    """Decides what it is told to, one after the other, and counts."""

    def __init__(self, *decisions: Decision[str]) -> None:
        super().__init__()
        self.decisions = list(decisions)
        self.decided = 0

    def decide(self, partition: Partition, now: int, found: Found | None) -> Decision[str]:
        self.decided += 1
        return self.decisions.pop(0)


LOOKUP = Lookup(NO_HITS, sealed=True)


def move(name: str, offset: int) -> MovePosition:
    return MovePosition("orders", name, offset, forward=True)


async def test_an_answer_waits_for_the_flush_that_it_rests_on():
    shop = Shop()
    answer = shop.publish(3)
    again = shop.actor.ask(AwaitCommit())
    assert not answer.done()
    assert not again.done()
    shop.desk.commit()
    assert answer.result() == Stored(1, 3)
    assert again.done()


async def test_later_publishes_wait_behind_a_lookup_and_others_do_not():
    shop = Shop()
    first = shop.publish(1)
    shop.desk.commit()
    shop.actor.sealed(2, 0)
    named = shop.publish(1, ids=NAMED)
    plain = shop.publish(1)
    position = shop.actor.ask(move("reader", 1))
    assert [type(change) for change in shop.desk.changes] == [Position]
    await asyncio.sleep(0)
    shop.library.asked[0].set_result(shop.found())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shop.desk.commit()
    assert [answer.result() for answer in (first, named, plain)] == [Stored(1, 1), Stored(2, 1), Stored(3, 1)]
    assert position.done()


async def test_a_request_that_waits_is_decided_again_at_the_next_commit_and_taken_once():
    shop = Shop()
    change = Position(1, 0, "reader", 1, 5)
    request = Scripted(Wait(), Wait(), Decided((change,), "moved"))
    answer = shop.actor.ask(request)
    assert (request.decided, shop.desk.changes) == (1, [])
    for times in (2, 3):
        shop.publish()
        shop.desk.commit()
        assert request.decided == times
    assert shop.desk.changes == [change]
    assert not answer.done()
    shop.desk.commit()
    assert answer.result() == "moved"
    shop.publish()
    shop.desk.commit()
    assert request.decided == 3


async def test_a_lookup_that_was_read_after_something_had_moved_is_made_anew():
    """When it was decided on, memory knew a batch that a seal has moved to a section since: it did not ask for that."""
    shop = Shop()
    shop.publish(1)
    shop.desk.commit()
    shop.actor.sealed(2, 0)
    named = shop.publish(1, ids=NAMED)
    shop.actor.sealed(2, 0)
    await asyncio.sleep(0)
    shop.library.asked[0].set_result(shop.found())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(shop.library.asked), shop.desk.changes) == (2, [])
    shop.library.asked[1].set_result(shop.found())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    shop.desk.commit()
    assert named.result() == Stored(2, 1)


async def test_what_was_looked_up_is_decided_without_a_pause_between():
    shop = Shop()
    delete = Delete(1, 0, ((1, 1),), Reason.OWNER)
    floor = Floor(1, 0, 2)
    shop.publish(2)
    shop.desk.commit()
    answer = shop.actor.ask(Scripted(LOOKUP, Decided((delete, floor), "both")))
    await asyncio.sleep(0)
    shop.library.asked[0].set_result(shop.found())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert shop.desk.changes == [delete, floor]
    shop.desk.commit()
    assert answer.result() == "both"
    assert shop.actor.partition.retained.floor == 2


@pytest.mark.parametrize(("failure", "expected"), [(Damaged("bits"), errors.Corrupt), (StorageFailed("disk"), errors.Unavailable)])
async def test_what_cannot_be_read_refuses_its_request_and_lets_the_next_one_go_on(failure: Exception, expected: type[errors.Error]):
    shop = Shop()
    shop.publish(1)
    shop.desk.commit()
    shop.actor.sealed(2, 0)
    refused, behind = shop.publish(1, ids=NAMED), shop.publish(1)
    await asyncio.sleep(0)
    assert not behind.done()
    shop.library.asked[-1].set_exception(failure)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(expected):
        refused.result()
    assert behind.result() == ResendAfter(1)


async def test_a_commit_of_positions_wakes_no_reader_and_rows_wake_each_once():
    shop = Shop()
    shop.publish(2)
    shop.desk.commit()
    readers = [shop.reader() for _ in range(3)]
    for offset in (1, 2):
        shop.actor.ask(move("reader", offset))
        shop.desk.commit()
    assert not any(reader.is_set() for reader in readers)
    shop.publish(1)
    assert not any(reader.is_set() for reader in readers)
    shop.desk.commit()
    assert all(reader.is_set() for reader in readers)


async def test_readers_wake_when_a_deletion_or_the_floor_lets_them_pass_and_at_the_end():
    shop = Shop()
    shop.publish(3)
    shop.desk.commit()
    for ask in (
        lambda: shop.actor.ask(Scripted(Decided((Delete(1, 0, ((1, 1),), Reason.OWNER),), ""))),
        lambda: shop.actor.ask(RaiseFloor(lambda partition, _: (partition.raise_floor(3),))),
    ):
        reader = shop.reader()
        ask()
        assert not reader.is_set()
        shop.desk.commit()
        assert reader.is_set()
    reader = shop.reader()
    shop.actor.end_reading(errors.TopicNotFound("gone"))
    assert reader.is_set()


async def test_a_batch_that_was_committed_too_late_is_seen_by_nobody(monkeypatch: pytest.MonkeyPatch):
    shop = Shop()
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(shop.actor, "visible", lambda first, end: seen.append((first, end)))
    late, reader = shop.publish(2, timeout=SECOND), shop.reader()
    shop.clock.moment += 2 * SECOND
    shop.desk.commit()
    assert (seen, reader.is_set(), late.done()) == ([], False, False)
    assert shop.actor.partition.readable_offset == 1
    shop.desk.commit()
    assert reader.is_set(), "it may pass the hole"
    with pytest.raises(errors.DeadlinePassed):
        late.result()
    assert seen == []


async def test_rows_become_visible_in_one_place_once_a_flush(monkeypatch: pytest.MonkeyPatch):
    shop = Shop()
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(shop.actor, "visible", lambda first, end: seen.append((first, end)))
    for rows in (2, 3):
        shop.publish(rows)
    shop.desk.commit()
    shop.publish(1)
    shop.actor.ask(move("reader", 1))
    shop.desk.commit()
    assert seen == [(1, 6), (6, 7)]


async def test_several_partitions_are_asked_as_one():
    shop = Shop(partitions=3)
    for number in range(3):
        shop.publish(number + 1, partition=number)
    shop.desk.commit()
    answer = PartitionActor.ask_together([(actor, move("reader", 2)) for actor in shop.actors])
    assert len(shop.desk.changes) == 3
    shop.desk.commit()
    assert await answer == [None, None, None]
    with pytest.raises(errors.OutOfRange, match="orders/0: the log ends before offset 2"):
        await PartitionActor.ask_together([(actor, move("reader", 3)) for actor in reversed(shop.actors)])
    assert shop.desk.changes == []
    held = [actor.partition.positions.get("reader") for actor in shop.actors]
    assert [position.offset for position in held if position is not None] == [2, 2, 2]


async def test_the_end_of_an_actor_is_told_to_everybody_who_waits_for_it():
    shop = Shop()
    waiting, reading, decided = Scripted(Wait()), Scripted(LOOKUP), Scripted(Decided((Position(1, 0, "reader", 1, 5),), ""))
    answers: list[asyncio.Future[Any]] = [shop.actor.ask(request) for request in (waiting, reading)]
    answers += [shop.publish(1), shop.actor.ask(decided)]
    await asyncio.sleep(0)
    shop.actor.close(errors.TopicNotFound("deleted"))
    for answer in answers[:3]:
        with pytest.raises(errors.TopicNotFound):
            answer.result()
    assert not answers[3].done(), "it is decided, and its commit is on its way"
    with pytest.raises(errors.TopicNotFound):
        shop.actor.ask(AwaitCommit()).result()
    shop.actor.end(errors.Unavailable("over"))
    with pytest.raises(errors.Unavailable):
        answers[3].result()


async def test_nobody_decides_for_a_caller_who_has_left():
    shop = Shop()
    column = pa.array(["x"])
    for request in (
        FindNatural(NAMED, column, old=False),
        DeleteMessages(NAMED, "shop", column, old=False),
    ):
        shop.publish(1)
        shop.desk.commit()
        shop.actor.sealed(shop.actor.partition.committed_offset, 0)
        answer = shop.actor.ask(request)
        await asyncio.sleep(0)
        answer.cancel()
        shop.library.asked[-1].set_result(shop.found())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert shop.desk.changes == []


def with_a_sealed_batch() -> Shop:
    shop = Shop()
    shop.publish(1)
    shop.desk.commit()
    shop.actor.sealed(2, 0)
    return shop


async def test_a_publish_whose_time_is_over_while_it_waits_is_told_so_at_its_deadline():
    shop = with_a_sealed_batch()
    first = shop.publish(1, ids=NAMED, timeout=5 * SECOND)
    behind = [shop.publish(1, timeout=seconds * SECOND) for seconds in (2, 60)]
    await asyncio.sleep(0)
    await shop.clock.move(3)
    with pytest.raises(errors.DeadlinePassed):
        behind[0].result()
    assert not first.done(), "it has two seconds left"
    await shop.clock.move(3)
    with pytest.raises(errors.DeadlinePassed):
        first.result()
    assert behind[1].result() == ResendAfter(1), "it was its turn, and those before it are not stored"
    assert shop.library.asked[0].cancelled()
    assert shop.desk.changes == []


async def test_a_resend_that_waits_is_not_told_that_it_is_not_stored_because_it_may_be():
    shop = with_a_sealed_batch()
    shop.numbers[0] = 0
    resend = shop.publish(1, timeout=SECOND)
    await asyncio.sleep(0)
    await shop.clock.move(5)
    assert not resend.done()
    shop.library.asked[0].set_result(shop.found()._replace(batches={BatchName(ADA, 1): SealedBatch(1, 1)}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert resend.result() == Stored(1, 1, duplicate=True)
