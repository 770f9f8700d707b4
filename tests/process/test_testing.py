"""The pytest plug-in, in real runs of pytest on test files as a user would write them."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]

SYNC = """
    import bowstring

    def test_a_client_and_a_topic(bowstring_client, bowstring_topic):
        with bowstring_client.producer(bowstring_topic) as producer:
            producer.send(b"one coffee")
        assert [m.text() for m in bowstring_client.reader(bowstring_topic, end="latest")] == ["one coffee"]

    def test_another_topic_for_another_test(bowstring_client, bowstring_topic):
        assert bowstring_topic.startswith("test_another_topic_for_another_test")
        assert bowstring_client.topic(bowstring_topic).messages == 0
        assert [topic.name for topic in bowstring_client.topics()] == [bowstring_topic]

    def test_topics_are_made_on_publish(bowstring_broker, bowstring_client):
        with bowstring_broker.connect() as other, other.producer("made") as producer:
            producer.send(b"x")
        assert bowstring_client.topic("made").messages == 1
        assert isinstance(bowstring_broker, bowstring.Broker)
        assert bowstring_broker.address == f"bowstring://{bowstring_client.info.brokers[0].address}"
"""
CLOCK = """
    from datetime import timedelta

    def test_messages_expire(bowstring_clock, bowstring_client, bowstring_topic):
        with bowstring_client.producer(bowstring_topic) as producer:
            producer.send(b"short", expires=30)
            producer.send(b"long", expires=timedelta(hours=1))
        def values():
            return [m.value for m in bowstring_client.reader(bowstring_topic, end="latest")]
        bowstring_clock.advance(29)
        assert values() == [b"short", b"long"]
        bowstring_clock.advance(1)
        assert values() == [b"long"]
        bowstring_clock.advance(timedelta(days=1))
        assert values() == []
        with bowstring_client.producer(bowstring_topic) as producer:
            assert producer.send(b"in time").result().offset == 3

    def test_each_test_has_its_own(bowstring_clock, bowstring_broker):
        assert bowstring_clock.broker is not bowstring_broker
        assert bowstring_clock.broker.statistics().topics == 0
"""
ASYNC = """
    async def test_an_async_client(bowstring_aio_client, bowstring_topic):
        async with bowstring_aio_client.producer(bowstring_topic) as producer:
            assert (await producer.send(b"one")).offset == 1
        assert [m.value async for m in bowstring_aio_client.reader(bowstring_topic, end="latest")] == [b"one"]

    async def test_with_a_clock(bowstring_aio_client, bowstring_clock, bowstring_topic):
        async with bowstring_aio_client.producer(bowstring_topic) as producer:
            await producer.send(b"one", expires=10)
        bowstring_clock.advance(11)
        assert [m.value async for m in bowstring_aio_client.reader(bowstring_topic, end="latest")] == []
"""


# pytest finds it by itself in an environment that was set up since it is there; in an older one it is named.
PLUGIN = () if entry_points(group="pytest11", name="bowstring") else ("-p", "bowstring.testing")


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    """pytest in a process of its own."""
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *PLUGIN, *arguments, timeout=120)


def test_the_plug_in_is_found_by_pytest_itself():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"bowstring": "bowstring.testing"}


def test_a_broker_a_client_and_a_topic(pytester: pytest.Pytester):
    run(pytester, SYNC, "-p", "no:asyncio").assert_outcomes(passed=3)


def test_a_clock_that_stands_still(pytester: pytest.Pytester):
    run(pytester, CLOCK).assert_outcomes(passed=2)


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_an_async_client(pytester: pytest.Pytester, mode: str):
    marked = ASYNC if mode == "auto" else "    import pytest\n    pytestmark = pytest.mark.asyncio\n" + ASYNC
    run(pytester, marked, "-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function").assert_outcomes(passed=2)


def test_without_a_plug_in_for_asyncio_it_says_which_there_are(pytester: pytest.Pytester):
    result = run(pytester, "def test_one(bowstring_aio_client): pass", "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*bowstring_aio_client needs pytest-asyncio, or anyio and its marker*"])


def test_what_failed_unseen_fails_the_test(pytester: pytest.Pytester):
    source = """
    def test_one(bowstring_client, bowstring_broker):
        producer = bowstring_client.producer("orders", timeout=0.2)
        bowstring_broker.kill()
        producer.send(b"x")
    """
    result = run(pytester, source)
    result.assert_outcomes(passed=1, errors=1)
    # The kit may have written the message before it saw that the broker was gone; then its outcome is unknown.
    result.stdout.re_match_lines([r"E +bowstring\.errors\.(DeadlinePassed|OutcomeUnknown): .*0\.2 s"])


def test_nothing_is_started_before_it_is_asked_for(pytester: pytest.Pytester):
    source = """
    import sys, threading
    def test_one():
        assert not {"grpc", "pyarrow", "bowstring.server"} & sys.modules.keys()
        assert threading.active_count() == 1
    """
    run(pytester, source, "-p", "no:asyncio").assert_outcomes(passed=1)
