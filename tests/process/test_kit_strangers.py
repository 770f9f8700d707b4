"""Nothing listens, a half-dead broker, or another kind of server: connecting says which, in time,
in one sentence, and tries the other seeds.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.process import strangers

HINT = "Is it running, and is the address right?"


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (strangers.silent, "something listens there but does not answer"),
        (strangers.half_dead, "there was no answer in time"),
        (strangers.garbage, "something listens there that is not a broker"),
        (strangers.http_2, "something listens there that is not a broker"),
        (strangers.web, "a web server listens there, not a broker"),
        (strangers.hangs_up, "something listens there but hangs up"),
    ],
)
def test_what_is_no_broker_is_told_in_words(behave: Callable[[socket.socket], None], reason: str):
    with strangers.listening(behave) as address, pytest.raises(errors.Unavailable) as caught:
        bowstring.connect(f"bowstring://{address}", timeout=4)
    assert str(caught.value) == f"no broker answers at {address}: {reason}. {HINT}"


def test_nobody_and_no_host():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(errors.Unavailable) as caught:
        bowstring.connect(address, timeout=1)
    assert str(caught.value) == f"no broker answers at {address}: nothing listens there. {HINT}"
    with pytest.raises(errors.Unavailable, match="unix:/nowhere/socket: there is no such socket"):
        bowstring.connect("unix:/nowhere/socket", timeout=1)


def test_the_next_seed_is_asked_when_one_does_not_answer():
    half_dead, web = strangers.listening(strangers.half_dead), strangers.listening(strangers.web)
    with half_dead as dead, web as other, bowstring.Broker.ephemeral() as broker:
        address = broker.address.removeprefix("bowstring://")
        with bowstring.connect(f"bowstring://{dead},{other},{address}", timeout=30) as client:
            assert client.info.brokers[0].address == address
        with bowstring.connect([dead, other, address], timeout=30) as client:
            client.create_topic("orders")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "Is it a Bowstring broker, of this version"),
        (b"\xff\xff\xffgarbage", "is not a Bowstring broker"),
        (b"", "is not a Bowstring broker"),
        (pb.Topic(name="orders").SerializeToString(), "is not a Bowstring broker"),
    ],
)
async def test_a_server_of_something_else_is_refused_at_once(answer: bytes | None, words: str):
    async with strangers.answering(answer) as address:
        with pytest.raises(errors.NotSupported, match=words):
            await bowstring.aio.connect(address, timeout=60)


def test_a_seed_that_serves_other_data_is_not_taken_for_the_same_broker():
    with (
        bowstring.Broker.ephemeral() as mine,
        bowstring.Broker.ephemeral() as other,
        bowstring.connect([mine.address, other.address], timeout=2) as client,
    ):
        client.create_topic("orders")
        address = mine.address
        mine.stop()
        with pytest.raises(errors.Unavailable, match=r"other data|nobody listens"):
            client.topic("orders")
        assert f"bowstring://{client.info.brokers[0].address}" == address
