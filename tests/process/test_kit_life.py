"""The life of a kit in its process: pickling, the end of a program that has closed nothing,
failures that the program did not look at.
"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from tests.process import ephemeral
from tests.process.serving import environment, start

LIMIT_SECONDS = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1}, topic_create="on-request")


def program(text: str, address: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, with `address` and a client that has published."""
    head = f"import bowstring, os, sys, warnings\nwarnings.simplefilter('ignore')\naddress = {address!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + text], env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )


def test_nothing_can_be_pickled_and_it_says_what_to_do(broker: bowstring.Broker):
    with broker.connect() as client, client.producer("orders") as producer:
        receipt = producer.send(b"a")
        for thing in (client, producer, client.reader("orders"), receipt):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(thing)
        receipt.result(20)


def test_a_program_that_closes_nothing_loses_nothing(broker: bowstring.Broker):
    with broker.connect() as client:
        client.create_topic("unclosed")
        ended = program(
            """
producer = bowstring.connect(address).producer("unclosed")
for number in range(1000):
    producer.send(b"%d" % number)
""",
            broker.address,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert client.topic("unclosed").messages == 1000


def test_what_could_not_be_stored_is_told_when_the_program_ends(broker: bowstring.Broker):
    ended = program(
        """
client = bowstring.connect(address)
client.create_topic("gone")
producer = client.producer("gone")
client.delete_topic("gone")
producer.send(b"a")
""",
        broker.address,
    )
    assert ended.returncode == 0
    assert "a producer of 'gone' was not closed" in ended.stderr
    assert "TopicNotFound" in ended.stderr


def test_a_program_ends_while_its_broker_hangs(tmp_path):
    """The broker is stopped (SIGSTOP), and with it every answer."""
    served = start("--data", str(tmp_path), "--listen", "127.0.0.1:0", "--topic-create", "on-publish")
    try:
        ended = program(
            f"""
import signal
producer = bowstring.connect(address).producer("orders")
producer.send(b"a").result()
os.kill({served.process.pid}, signal.SIGSTOP)
producer.send(b"b")
""",
            served.address,
        )
    finally:
        served.process.kill()
        served.process.communicate(timeout=LIMIT_SECONDS)
    assert ended.returncode == 0
    assert "a producer of 'orders' was not closed" in ended.stderr
    assert "no answer within 5 s" in ended.stderr


def test_an_ignored_failure_is_raised_by_flush_close_and_the_end_of_the_block(broker: bowstring.Broker):
    with broker.connect() as client:
        for end in ("flush", "close", "block", "client"):
            client.create_topic(end)
            producer = client.producer(end)
            client.delete_topic(end)
            if end == "block":
                with pytest.raises(errors.TopicNotFound), producer:
                    producer.send(b"a")
                continue
            producer.send(b"a")
            if end == "client":
                break
            with pytest.raises(errors.TopicNotFound):
                getattr(producer, end)()
            producer.close()
        with pytest.raises(errors.TopicNotFound):
            client.close()


def test_an_exception_in_the_block_is_not_replaced_by_what_failed(broker: bowstring.Broker):
    with broker.connect() as client:
        client.create_topic("brief")
        producer = client.producer("brief")
        client.delete_topic("brief")

        def work() -> None:
            with producer:
                producer.send(b"a")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            work()
        assert any("TopicNotFound" in note for note in caught.value.__notes__)


def test_both_faces_in_one_notebook(broker: bowstring.Broker):
    """A notebook's cell runs under a loop: sync calls work there, and so does the async face, on
    that very loop.
    """

    async def cell() -> None:
        with bowstring.connect(broker.address) as client, client.producer("orders") as producer:
            producer.send(b"sync").result(20)
            async with bowstring.aio.connect(broker.address) as other, other.producer("orders") as async_producer:
                assert (await async_producer.send(b"async")).topic == "orders"
            assert client.topic("orders").messages >= 2

    for _ in range(2):
        asyncio.run(cell())
