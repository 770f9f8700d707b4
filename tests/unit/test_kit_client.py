"""Connecting, topics, addresses, the two faces, and what importing loads."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
from datetime import timedelta

import pytest

import bowstring
import bowstring.aio
from bowstring import contexts, errors
from bowstring.client import addresses
from bowstring.client.broker_time import BrokerTime
from bowstring.client.client import Client
from tests.unit.fake_broker import FakeBroker, FakeDialer, FakeRandomness
from tests.unit.virtual_time import FakeClock, on_virtual_time


def client_of(brokers: dict[str, FakeBroker], *seeds: str, timeout: float = 10.0) -> tuple[Client, FakeDialer]:
    dialer = FakeDialer(brokers)
    return Client(seeds or list(brokers), dialer=dialer, clock=FakeClock(), randomness=FakeRandomness(), timeout=timeout), dialer


@on_virtual_time
async def test_the_first_seed_that_answers_is_taken():
    client, dialer = client_of({"b:1": FakeBroker()}, "a:1", "b:1", "c:1")
    async with await client.open():
        assert client.info.brokers[0].address == "b:1"
        assert client.info.brokers[0].software == "fake"
        assert client.info.software.startswith("bowstring-python")
        assert dialer.dialled == ["a:1", "b:1"]


@on_virtual_time
async def test_without_a_broker_connecting_gives_up_in_time():
    client, _ = client_of({}, "a:1", "b:1", timeout=3)
    began = asyncio.get_running_loop().time()
    with pytest.raises(errors.Unavailable, match="a:1"):
        await client.open()
    assert 2.5 < asyncio.get_running_loop().time() - began < 4


@on_virtual_time
async def test_a_broker_that_starts_late_is_waited_for():
    broker = FakeBroker()
    broker.down = True
    client, _ = client_of({"a:1": broker})
    asyncio.get_running_loop().call_later(2, setattr, broker, "down", False)
    async with await client.open():
        assert client.info.brokers


@on_virtual_time
async def test_a_closed_client_says_so():
    client, _ = client_of({"a:1": FakeBroker()})
    async with await client.open():
        pass
    await client.close()
    for call in (client.topic("t"), client.create_topic("t"), client.delete_topic("t")):
        with pytest.raises(errors.Conflict, match="closed"):
            await call


@on_virtual_time
async def test_topics():
    broker = FakeBroker()
    client, _ = client_of({"a:1": broker})
    async with await client.open():
        made = await client.create_topic("t", partitions=3, retention=timedelta(days=1))
        assert (made.name, made.partitions, made.messages) == ("t", 3, 0)
        with pytest.raises(errors.TopicExists):
            await client.create_topic("t")
        assert (await client.create_topic("t", exists_ok=True)).partitions == 3
        for name in "uvwxyz":
            await client.create_topic(name)
        assert [topic.name async for topic in client.topics()] == list("tuvwxyz")
        await client.delete_topic("t")
        with pytest.raises(errors.TopicNotFound):
            await client.topic("t")
        with pytest.raises(errors.TopicNotFound):
            await client.delete_topic("t")
        await client.delete_topic("t", missing_ok=True)


@on_virtual_time
async def test_a_change_whose_answer_got_lost_is_recognised_when_repeated():
    broker = FakeBroker()
    client, _ = client_of({"a:1": broker})
    async with await client.open():
        broker.topic("t", 2)
        broker.call_errors = [errors.OutcomeUnknown("lost.")]
        assert (await client.create_topic("t", partitions=2)).partitions == 2
        broker.call_errors = [errors.Unavailable("lost.")]
        with pytest.raises(errors.TopicExists):
            await client.create_topic("t", partitions=3)
        broker.topics.clear()
        broker.call_errors = [errors.Unavailable("lost.")]
        await client.delete_topic("t")


NO_ANSWER = [errors.OutcomeUnknown("there was no answer."), errors.Unavailable("the connection broke.")]


@pytest.mark.parametrize("lost", NO_ANSWER, ids=lambda error: error.kind)
@on_virtual_time
async def test_the_repeat_of_a_change_is_told_of_its_own_work(lost: errors.Error):
    broker = FakeBroker()
    client, _ = client_of({"a:1": broker})
    async with await client.open():
        broker.lost_answers = [lost]
        assert (await client.create_topic("t", partitions=2)).partitions == 2
        broker.positions["t", "me"] = {0: 5}
        broker.lost_answers = [lost, lost]
        await client.delete_position("me", "t")
        assert not broker.positions
        broker.lost_answers = [lost]
        await client.delete_topic("t")
        assert not broker.topics


@on_virtual_time
async def test_a_change_that_was_answered_at_once_is_not_told_of_its_own_work():
    client, _ = client_of({"a:1": FakeBroker()})
    async with await client.open():
        with pytest.raises(errors.NotFound):
            await client.delete_position("me", "t")
        await client.delete_position("me", "t", missing_ok=True)


@on_virtual_time
async def test_the_repeat_of_a_delete_is_told_that_its_topic_is_gone():
    broker = FakeBroker()
    client, _ = client_of({"a:1": broker})
    async with await client.open():
        broker.call_errors = [NO_ANSWER[0], errors.TopicNotFound("there is no such topic.")]
        with pytest.raises(errors.TopicNotFound):
            await client.delete_position("me", "t")


@on_virtual_time
async def test_the_outcome_of_a_change_stays_unknown_when_later_attempts_reach_nobody():
    broker = FakeBroker()
    client, _ = client_of({"a:1": broker}, timeout=3)
    async with await client.open():
        broker.positions["t", "me"] = {0: 5}
        broker.lost_answers = [NO_ANSWER[0]]
        asyncio.get_running_loop().call_later(0.01, setattr, broker, "down", True)
        with pytest.raises(errors.OutcomeUnknown):
            await client.delete_position("me", "t")
        with pytest.raises(errors.Unavailable):
            await client.alter_topic("t", retention=5)


@on_virtual_time
async def test_a_call_that_is_not_repeatable_is_not_repeated_as_if_it_were():
    client, _ = client_of({"a:1": FakeBroker()})
    async with await client.open():
        with pytest.raises(AssertionError, match="DeletePosition is not repeatable"):
            await client._connection.call("DeletePosition", b"", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "no spaces"}, "not a topic name"),
        ({"name": ""}, "not a topic name"),
        ({"name": "x" * 250}, "249"),
        ({"name": 7}, "type int"),
        ({"name": "t", "partitions": 0}, "partitions=0"),
        ({"name": "t", "partitions": True}, "partitions=True"),
        ({"name": "t", "retention": -1}, "negative"),
        ({"name": "t", "retention": float("nan")}, "not a length of time"),
        ({"name": "t", "retention_bytes": -5}, "retention_bytes"),
    ],
)
@on_virtual_time
async def test_wrong_topics_are_refused_in_words(arguments, words):
    client, _ = client_of({"a:1": FakeBroker()})
    async with await client.open():
        with pytest.raises(errors.InvalidArgument, match=words):
            await client.create_topic(**arguments)
        for later in ({"payload": "reference"}, {"audited": True}, {"table_retention": 5}):
            with pytest.raises(errors.NotSupported):
                await client.create_topic("t", **later)


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        (None, {}, ["localhost:27769"]),
        (None, {"BOWSTRING_SERVER": "bowstring://far:1"}, ["far:1"]),
        ("bowstring://a", {"BOWSTRING_SERVER": "b"}, ["a:27769"]),
        ("bowstring://a:1,b, c:3/", {}, ["a:1", "b:27769", "c:3"]),
        (["bowstring://a", "b:2", "a"], {}, ["a:27769", "b:2"]),
        ("bowstring://[::1]:5", {}, ["[::1]:5"]),
        ("unix:/tmp/x", {}, ["unix:/tmp/x"]),
    ],
)
def test_addresses(server, environment, expected):
    assert addresses.seeds(contexts.choose(server, None, environment).server) == expected


@pytest.mark.parametrize("server", ["http://a", "bowstring://", "a:99999", "a:0", "a b", [], [7], 7, b"a", "bowstring://a:x"])
def test_wrong_addresses_are_refused(server):
    with pytest.raises(errors.InvalidArgument):
        addresses.seeds(server)


@on_virtual_time
async def test_drift_is_told_when_it_begins_and_measured_again_and_again():
    broker, told = FakeBroker(), []
    clock = FakeClock(ahead=100)
    dialer = FakeDialer({"a:1": broker})
    client = Client(["a:1"], dialer=dialer, clock=clock, randomness=FakeRandomness(), drift_limit=5, on_drift=told.append)
    async with await client.open():
        await asyncio.sleep(1)
        assert [round(drift) for drift in told] == [100]
        assert round(client.info.drift) == round(client.statistics().drift) == 100
        await asyncio.sleep(200)
        assert len(told) == 1, "it is known, and has not ended in between"
        assert broker.calls.count("Hello") > 3
        broker.clock = FakeClock(ahead=100)
        await asyncio.sleep(130)
        assert abs(client.info.drift) < 1
        broker.clock = FakeClock(ahead=130)
        await asyncio.sleep(130)
        assert [round(drift) for drift in told] == [100, -30]


def test_what_this_version_cannot_do_is_said():
    for arguments in ({"token": "x"}, {"user": "u"}, {"password": "p"}, {"server": "bowstrings://a"}):
        with pytest.raises(errors.NotSupported):
            bowstring.connect(**arguments)


@on_virtual_time
async def test_the_brokers_time_follows_what_it_tells():
    clock = FakeClock(ahead=100)
    time = BrokerTime(clock)
    assert time.now() == clock.now()
    time.measured(5_000_000, 10.0, 10.2)
    offset = 5_000_000 - 10_100_000
    assert time.now() == int(clock.monotonic() * 1e6) + offset
    time.heard(5_000_000 + 1_000_000, 11.0, 11.3)
    assert time.now() == int(clock.monotonic() * 1e6) + offset, "it is within what the answer allows"
    time.heard(9_000_000, 11.0, 11.3)
    assert time.now() == int(clock.monotonic() * 1e6) + 9_000_000 - 11_300_000, "the broker's clock is at least so far"
    time.heard(3_000_000, 11.0, 11.3)
    assert time.now() == int(clock.monotonic() * 1e6) + 3_000_000 - 11_000_000, "and at most so far"


def _parameters(call) -> list[tuple[str, object, object]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(call).parameters.values()]


def test_send_has_its_documented_signature():
    from bowstring.client.sender import Sender

    for documented in (bowstring.Producer.send, bowstring.aio.Producer.send):
        assert _parameters(documented) == _parameters(Sender.send)


def test_importing_loads_nothing_heavy():
    code = """
import sys, bowstring
heavy = {"pyarrow", "grpc", "apsw", "numpy", "uvloop", "msgspec"} & {name.split(".")[0] for name in sys.modules}
assert not heavy, heavy
assert not [name for name in sys.modules if name.startswith(("bowstring.broker", "bowstring.client"))]
bowstring.connect
assert not [name for name in sys.modules if name.startswith(("bowstring.broker", "bowstring.store", "bowstring.core", "apsw"))]
assert set(bowstring.__all__) <= set(dir(bowstring))
for name in bowstring.__all__:
    assert getattr(bowstring, name) is not None
try:
    bowstring.nothing
except AttributeError:
    pass
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_public_face_is_flat_and_sorted():
    for module in (bowstring, bowstring.aio):
        assert module.__all__ == sorted(module.__all__)


@on_virtual_time
async def test_nothing_of_the_kit_can_be_pickled_and_it_says_what_to_do():
    broker = FakeBroker()
    broker.topic("t")
    client, _ = client_of({"a:1": broker})
    async with await client.open(), client.producer("t") as producer, client.reader("t") as reader:
        receipt = producer.send(b"x")
        for thing in (client, producer, reader, receipt, producer.send_batch([b"x"])):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(thing)
            assert repr(thing)
        await receipt
        assert client.statistics().producers == 1
