"""What may be given to send, and the words in which the rest is refused."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from bowstring import errors
from bowstring.client import arguments
from bowstring.client.broker_time import BrokerTime
from bowstring.client.rows import KNOWN_MAX
from bowstring.client.sender import Sender

NOW = 1_800_000_000_000_000


class StillClock:
    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 100.0

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Unique:
    def unit(self) -> float:
        return 0.5

    def unique(self) -> bytes:
        return bytes(16)


def sending(partitions: int = 1) -> Sender:
    clock = StillClock()
    made = Sender(
        "t", bytes(16), clock=clock, broker_time=BrokerTime(clock), randomness=Unique(), lock=threading.Lock(),
        timeout=30.0, compression=None, max_bytes=2**30, batch_bytes_max=2**24,
    )  # fmt: skip
    made.attach(lambda: None)
    made.know_partitions(partitions)
    return made


def rows(made: Sender) -> list[dict[str, object]]:
    made.seal_all()
    found = []
    for batch in made.inbox:
        from bowstring.messages import encoding

        encoded = batch.encoded(None).encoded()
        found += encoding.decode(encoded.mask, encoded.data).to_pylist()
    return found


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"at": datetime(2026, 11, 15, 9, 0)}, errors.InvalidArgument,
         r"^at=datetime\(2026, 11, 15, 9, 0\) has no time zone. Use datetime\(2026, 11, 15, 9, 0, tzinfo=UTC\), or delay= for a span"),
        ({"delay": 1794740400}, errors.InvalidArgument,
         r"delay=1794740400 is 56 years, which looks like a Unix time. Use at=datetime.fromtimestamp\(1794740400, UTC\)."),
        ({"delay": 5, "at": datetime(2027, 1, 1, tzinfo=UTC)}, errors.InvalidArgument, "Both delay= and at="),
        ({"delay": -1}, errors.InvalidArgument, "negative"),
        ({"delay": float("inf")}, errors.InvalidArgument, "not a length"),
        ({"delay": "5s"}, errors.InvalidArgument, "text"),
        ({"at": date(2027, 1, 1)}, errors.InvalidArgument, "date"),
        ({"at": datetime(2201, 1, 1, tzinfo=UTC)}, errors.InvalidArgument, "after 2200"),
        ({"expires": datetime(2027, 1, 1)}, errors.InvalidArgument, "no time zone"),
        ({"timeout": 0}, errors.InvalidArgument, "leaves no time"),
        ({"timeout": timedelta(days=2)}, errors.InvalidArgument, "longer than a day"),
        ({"timeout": datetime(2000, 1, 1, tzinfo=UTC)}, errors.InvalidArgument, "leaves no time"),
        ({"json": {"x": object()}}, errors.InvalidArgument, "JSON"),
        ({"value": b"x", "json": 1}, errors.InvalidArgument, "Both a value and json="),
        ({"value": "x", "json": 1}, errors.InvalidArgument, "Both a value and json="),
        ({"value": 7}, errors.InvalidArgument, "value=7 is of type int. Use bytes or text, or json="),
        ({"value": ["a"]}, errors.InvalidArgument, "type list"),
        ({"value": "\ud800"}, errors.InvalidArgument, "UTF-8"),
        ({"key": 7}, errors.InvalidArgument, "key=7 is of type int. Use bytes or text."),
        ({"attributes": {"a": 1}}, errors.InvalidArgument, "attributes has 'a': 1, and 1 is of type int. The names and values of"),
        ({"attributes": {1: "a"}}, errors.InvalidArgument, "1 is of type int"),
        ({"attributes": [("a", "b")]}, errors.InvalidArgument, "type list. Use a dict"),
        ({"attributes": {"bowstring-reason": "x"}}, errors.InvalidArgument, "written by the broker"),
        ({"attributes": {"a": "\ud800"}}, errors.InvalidArgument, "UTF-8"),
        ({"id": 7}, errors.InvalidArgument, "id=7 is of type int"),
        ({"id": ""}, errors.InvalidArgument, "is empty"),
        ({"id": "ü" * 129}, errors.InvalidArgument, "258 bytes"),
        ({"transaction": object()}, errors.NotSupported, "transaction"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_refused_where_it_was_sent_and_nothing_is_gathered(given, kind, words):
    made = sending()
    value = given.pop("value", None)
    with pytest.raises(kind, match=words):
        made.send(value, **given)
    assert rows(made) == []


def test_an_unknown_argument_is_pythons_own_error():
    with pytest.raises(TypeError, match="delya"):
        sending().send(b"x", delya=5)


def test_what_is_given_is_what_travels():
    made = sending()
    made.send(b"bytes")
    made.send("text", key="k")
    made.send(bytearray(b"changes"), key=b"k")
    made.send(json=[1, "ü"], attributes={"a": "b"})
    made.send(None)
    made.send()
    made.send(b"x", delay=timedelta(seconds=5), expires=10)
    made.send(b"x", at=datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    made.send(b"x", at=datetime(1990, 1, 1, tzinfo=UTC))
    found = rows(made)
    assert [row.get("value") for row in found] == [b"bytes", b"text", b"changes", '[1,"ü"]'.encode(), None, None, b"x", b"x", b"x"]
    assert [row.get("key") for row in found[:3]] == [None, b"k", b"k"]
    assert found[3]["attributes"] == [("a", "b")]
    now = datetime.fromtimestamp(NOW / 1e6, UTC)
    assert all(row["created"] == now for row in found)
    assert (found[6]["due"], found[6]["expires"]) == (now + timedelta(seconds=5), now + timedelta(seconds=10))
    assert found[7]["due"] == datetime(2030, 1, 1, tzinfo=UTC)
    assert found[8]["due"] == datetime(1990, 1, 1, tzinfo=UTC), "in the past means now, and the broker knows what that is"


def test_what_can_be_changed_afterwards_is_copied():
    made = sending()
    value, attributes = bytearray(b"before"), {"a": "before"}
    made.send(value, attributes=attributes)
    value[:] = b"after "
    attributes["a"] = "after"
    (row,) = rows(made)
    assert row["value"] == b"before"
    assert row["attributes"] == [("a", "before")]


@pytest.mark.parametrize(("size", "words"), [(43_200_000, "41.2 MiB"), (16 * 2**20, "16 MiB"), (1536, "1.5 KiB"), (10, "10 bytes")])
def test_sizes_for_people(size, words):
    assert arguments.in_mebibytes(size) == words


def test_a_size_is_never_shown_as_small_as_the_limit_that_it_is_above():
    assert "16777217 bytes" in str(arguments.too_large("value", 2**24 + 1, 2**24))


@pytest.mark.parametrize(
    ("name", "given"), [("group", ""), ("group", 7), ("group", "x" * 250), ("compression", "gzip"), ("compression", 1)]
)
def test_wrong_producers_are_refused(name, given):
    with pytest.raises(errors.InvalidArgument, match=name):
        getattr(arguments, name)(given)


def test_a_row_that_comes_too_late_for_its_batch_is_in_the_next():
    """The batch is sealed at the worst moment: when `send` has chosen it and has not appended yet."""
    made = sending()
    receipts = []
    kinds = [{}, {"key": b"k"}, {"attributes": {"country": "CH"}}, {"key": "k", "attributes": {"country": "CH"}}]
    for number in range(100):
        if number % 3:
            made._stamp = lambda: made.seal_all() or NOW * 1000
        else:
            made._stamp = lambda: NOW * 1000
        receipts.append(made.send(b"%d" % number, **kinds[number // 25]))
    stored = rows(made)
    assert [row["value"] for row in stored] == [b"%d" % number for number in range(100)]
    assert [row.get("attributes") for row in stored] == [None] * 50 + [[("country", "CH")]] * 50
    assert len({receipt.id for receipt in receipts}) == 100
    for number, receipt in enumerate(receipts):
        batch = receipt._batch
        (sent,) = [other for other in made.inbox if other.number == batch.number]
        assert batch.row_of(receipt._stamp) < sent.rows, number


def test_attributes_are_those_of_the_moment_of_sending_however_often_they_were_seen():
    made, given = sending(), {"country": "CH"}
    for number in range(20):
        made.send(b"", attributes=given)
        given["country"] = ("AT", "CH")[number % 2]
    made.send(b"", attributes={})
    assert [row["attributes"] for row in rows(made)] == [[("country", ("CH", "AT")[number % 2])] for number in range(20)] + [None]


def test_a_producer_of_ever_new_attributes_does_not_keep_them_all():
    made = sending()
    for number in range(3 * KNOWN_MAX):
        made.send(b"", attributes={"trace": str(number)})
    assert len(made._known_attributes) <= KNOWN_MAX
    assert [row["attributes"] for row in rows(made)] == [[("trace", str(number))] for number in range(3 * KNOWN_MAX)]


@pytest.mark.parametrize("wrong", [{"country": []}, {"country": 7}, {7: "CH"}, {"bowstring-x": "CH"}, [("country", "CH")], "CH"])
def test_wrong_attributes_are_refused_also_when_others_are_known(wrong):
    made = sending()
    made.send(b"", attributes={"country": "CH"})
    with pytest.raises(errors.InvalidArgument, match="attributes"):
        made.send(b"", attributes=wrong)
    assert len(rows(made)) == 1


@pytest.fixture
def _restless():
    """Threads take turns every microsecond instead of every 5 ms, so that they meet in the middle of things."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("_restless")
def test_threads_gather_side_by_side_without_losing_or_mixing_anything():
    made = sending(4)
    threads, each = 8, 4000
    receipts: list[list[object]] = [[] for _ in range(threads)]
    done = threading.Event()

    def hammer(number: int) -> None:
        for at in range(each):
            value = b"%d-%d" % (number, at)
            attributes = {"thread": str(number)} if number > 3 else None
            receipts[number].append(made.send(value, key=None if number % 2 else b"%d" % number, attributes=attributes))

    def seal() -> None:
        while not done.is_set():
            made.seal_all()

    sealer = threading.Thread(target=seal)
    workers = [threading.Thread(target=hammer, args=(number,)) for number in range(threads)]
    sealer.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    sealer.join()
    made.seal_all()
    batches = made.inbox
    assert sum(batch.rows for batch in batches) == threads * each
    stored = {}
    for batch in batches:
        values = batch.content.items[: batch.rows * batch.content.width : batch.content.width]
        for row, value in enumerate(values):
            stored[value] = (batch.number, row)
    assert len(stored) == threads * each
    for number in range(threads):
        for at, receipt in enumerate(receipts[number]):
            batch = receipt._batch
            assert stored[b"%d-%d" % (number, at)] == (batch.number, batch.row_of(receipt._stamp)), "a receipt names its own row"
        mine = [stored[b"%d-%d" % (number, at)] for at in range(each)]
        if not number % 2:
            assert mine == sorted(mine), "a thread's messages of one key keep their order"
