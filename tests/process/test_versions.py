"""Kits and brokers of different versions: they speak the newest that both know, or part with a sentence that says what to renew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.client import connection
from bowstring.gateway import handshake
from bowstring.version import VERSION
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.protocol import Versions
from tests.process import strangers
from tests.process.commanding import Commander

KIT, BROKER = f"bowstring-python/{VERSION}", f"bowstring/{VERSION}"


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as started:
        yield started


@pytest.mark.parametrize(
    ("kit", "serving", "spoken"),
    [((1, 1), (1, 1), 1), ((1, 1), (1, 3), 1), ((1, 3), (1, 1), 1), ((2, 4), (1, 3), 3), ((1, 3), (3, 5), 3)],
    ids=["the same", "an old kit", "a new kit", "a kit ahead", "a broker ahead"],
)
def test_both_speak_the_newest_that_both_know(broker, monkeypatch: pytest.MonkeyPatch, kit, serving, spoken: int):
    monkeypatch.setattr(connection, "SPOKEN", Versions(*kit))
    monkeypatch.setattr(handshake, "SPOKEN", Versions(*serving))
    with bowstring.connect(broker.address) as client:
        assert client.info.brokers[0].protocol == spoken


@pytest.mark.parametrize(
    ("kit", "serving", "said"),
    [
        ((1, 1), (2, 2), f"this client ({KIT}) speaks version 1 of the protocol, this broker ({BROKER}) speaks 2. Use a newer client."),
        ((1, 2), (4, 6), f"this client ({KIT}) speaks version 1 to 2 of the protocol, this broker ({BROKER}) speaks 4 to 6. "
                         "Use a newer client."),
        ((2, 3), (1, 1), f"this client ({KIT}) speaks version 2 to 3 of the protocol, this broker ({BROKER}) speaks 1. "
                         "Use a newer broker, or an older client."),
    ],
    ids=["an old kit", "a very old kit", "a new kit"],
)  # fmt: skip
def test_who_has_no_version_in_common_is_told_at_once_what_to_renew(
    broker, monkeypatch: pytest.MonkeyPatch, tmp_path, kit, serving, said: str
):
    monkeypatch.setattr(connection, "SPOKEN", Versions(*kit))
    monkeypatch.setattr(handshake, "SPOKEN", Versions(*serving))
    with pytest.raises(errors.NotSupported) as caught:
        bowstring.connect(broker.address, timeout=60)
    assert str(caught.value) == said
    ended = Commander(broker.address, str(tmp_path))("topic", "list")
    assert (ended.code, ended.said) == (1, f"bowstring: {said}\n")


@pytest.mark.parametrize(
    ("kit", "spoken", "hint"), [((1, 1), 2, "Use a newer client."), ((2, 3), 1, "Use a newer broker, or an older client.")]
)
async def test_a_broker_that_does_not_look_at_the_kits_versions_is_refused_by_the_kit(
    monkeypatch: pytest.MonkeyPatch, kit, spoken: int, hint: str
):
    """A broker should refuse by itself; one that chooses a version that was not offered is not believed."""
    monkeypatch.setattr(connection, "SPOKEN", Versions(*kit))
    greeting = pb.HelloAnswer(software="bowstring/9.0", protocol=spoken, protocol_min=spoken, broker_time=1_790_000_000_000_000)
    async with strangers.answering(greeting.SerializeToString()) as address:
        with pytest.raises(errors.NotSupported) as caught:
            await bowstring.aio.connect(address, timeout=60)
    assert str(caught.value) == (
        f"the broker at {address} (bowstring/9.0) speaks version {spoken} of the protocol, "
        f"this client ({KIT}) speaks {Versions(*kit)}. {hint}"
    )


def test_a_broker_that_comes_back_in_a_version_of_its_own_is_told_to_producers_and_readers(tmp_path, monkeypatch: pytest.MonkeyPatch):
    with bowstring.Broker(data=tmp_path, listen="127.0.0.1:0") as broker, bowstring.connect(broker.address) as client:
        client.create_topic("orders")
        producer, messages = client.producer("orders"), iter(client.reader("orders"))
        stored = producer.send(b"before").result(10)
        assert next(messages).value == b"before"
        monkeypatch.setattr(handshake, "SPOKEN", Versions(2, 2))
        broker.restart()
        with pytest.raises(errors.NotSupported, match=r"this broker .* speaks 2\. Use a newer client\."):
            next(messages)
        with pytest.raises(errors.NotSupported, match=r"this broker .* speaks 2\. Use a newer client\."):
            producer.send(b"after").result(30)
        producer.close()
        monkeypatch.undo()
        with client.producer("orders") as again:
            assert again.send(b"after").result(30).offset == stored.offset + 1
