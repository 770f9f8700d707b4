"""The broker is away: it was stopped, it hangs, or something else listens in its place and says nothing. Every call says so within its
time, a reader that follows waits, and the kit logs when the broker goes and when it is back."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring import errors
from bowstring.ports import calls
from tests.process.serving import LIMIT_SECONDS, command, environment
from tests.process.test_closing import Work, until, waits
from tests.process.test_kit_restarts import Lives, lives

SECONDS = 1
"""The timeout of clients here."""


class Meeting:
    """A client that has met its broker, with a producer and readers, before the broker goes."""

    def __init__(self, address: str, seconds: float = SECONDS) -> None:
        self.client = client = bowstring.connect(address, timeout=seconds)
        client.create_topic("orders")
        self.producer = client.producer("orders", timeout=SECONDS)
        self.producer.send_batch([b"%d" % number for number in range(10)]).result(LIMIT_SECONDS)
        self.following = client.reader("orders", name="me")
        self.bounded = {name: client.reader("orders", start=11, end=20) for name in ("for", "batches", "poll")}
        until(lambda: all(reader.position for reader in self.bounded.values()) and self.following.statistics().bytes_ahead)


CALLS: dict[str, Callable[[Meeting], object]] = {
    "client.topic": lambda met: met.client.topic("orders"),
    "client.topics": lambda met: list(met.client.topics()),
    "client.create_topic": lambda met: met.client.create_topic("other"),
    "client.alter_topic": lambda met: met.client.alter_topic("orders", retention=3600),
    "client.delete_topic": lambda met: met.client.delete_topic("orders"),
    "client.offsets": lambda met: met.client.offsets("orders"),
    "client.positions": lambda met: list(met.client.positions()),
    "client.position": lambda met: met.client.position("me", "orders"),
    "client.set_position": lambda met: met.client.set_position("me", "orders", "beginning"),
    "client.delete_position": lambda met: met.client.delete_position("me", "orders"),
    "for message in bounded reader": lambda met: list(met.bounded["for"]),
    "bounded reader.batches": lambda met: list(met.bounded["batches"].batches()),
    "bounded reader.poll": lambda met: met.bounded["poll"].poll(10 * LIMIT_SECONDS),
    "a bounded reader that is made now": lambda met: list(met.client.reader("orders", end="latest")),
    "reader.seek": lambda met: met.client.reader("orders").seek("beginning"),
    "reader.lag": lambda met: met.following.lag(),
    "reader.lag of one that is made now": lambda met: met.client.reader("orders").lag(),
    "reader.commit": lambda met: met.following.commit({0: 5}),
    "receipt.result": lambda met: met.producer.send(b"x").result(),
    "receipt.result of a batch": lambda met: met.producer.send_batch([b"x"]).result().raise_for_refused(),
    "producer.flush": lambda met: (met.producer.send(b"x", timeout=3 * SECONDS), met.producer.flush(SECONDS)),
    "producer.find": lambda met: met.producer.find("x"),
    "producer.delete": lambda met: met.producer.delete(["x"]),
    "closing a producer": lambda met: (producer := met.client.producer("orders", timeout=SECONDS), producer.send(b"x"), producer.close()),
}
OF_A_PUBLISH = {"receipt.result", "receipt.result of a batch", "producer.flush", "closing a producer", "producer.delete"}
"""These say what became of messages, and not where the broker was looked for; before a delete goes what was sent."""
NOT_REPEATABLE = {"client." + re.sub(r"(?<!^)(?=[A-Z])", "_", call.name).lower() for call in calls.CALLS.values() if not call.repeatable}
CHANGING = NOT_REPEATABLE | OF_A_PUBLISH
"""Where an answer is lost, the outcome of these may be unknown."""


@contextmanager
def silence(address: str) -> Iterator[None]:
    """Something that takes connections there, and says nothing."""
    host, port = address.split(":")
    taken: list[socket.socket] = []
    with socket.create_server((host, int(port))) as listening:

        def take() -> None:
            while True:
                try:
                    taken.append(listening.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(LIMIT_SECONDS)
            for each in taken:
                each.close()


@contextmanager
def gone(way: str, running: Lives) -> Iterator[None]:
    if way == "it hangs":
        running.served.process.send_signal(signal.SIGSTOP)
        yield
        return
    running.served.end(signal.SIGKILL)
    if way == "it was stopped":
        yield
        return
    with silence(running.address):
        yield


WAYS = ["it was stopped", "it hangs", "what listens there says nothing"]


@pytest.mark.parametrize("way", WAYS)
def test_every_call_says_within_its_time_that_the_broker_is_away(tmp_path: Path, way: str):
    with lives(tmp_path) as running:
        met = Meeting(running.address)
        with gone(way, running):
            works = {name: Work(lambda call=call: call(met)) for name, call in CALLS.items()}
            raised = {name: work.ends().error for name, work in works.items()}
            for name, error in raised.items():
                allowed = (errors.Unavailable, errors.OutcomeUnknown) if name in CHANGING else errors.Unavailable
                assert isinstance(error, (*allowed, errors.PartlyRefused) if name in OF_A_PUBLISH else allowed), (name, error)
                assert not isinstance(error, TimeoutError), name
                if name not in OF_A_PUBLISH and not isinstance(error, errors.OutcomeUnknown):
                    assert running.address in str(error), name
                    assert f"within {SECONDS} s" in str(error), name
            assert len(met.following.poll(0.01)) == 10, "what had come in is handed out"
            assert len(met.following.poll(0.01)) == 0, "a reader that follows waits"
            close(met.client)


def close(client: bowstring.Client) -> None:
    """What was sent while the broker was away may be unknown."""
    try:
        client.close()
    except (errors.Unavailable, errors.OutcomeUnknown, errors.PartlyRefused):
        return


@pytest.mark.parametrize("way", ["nobody listens", "what listens there says nothing"])
def test_connecting_to_a_broker_that_never_was_there(way: str):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{found.getsockname()[1]}"
    with silence(address) if way != "nobody listens" else socket.socket(), pytest.raises(errors.Unavailable, match=re.escape(address)):
        bowstring.connect(address, timeout=SECONDS)


def test_a_bounded_reader_may_be_asked_again_when_the_broker_is_back(tmp_path: Path):
    with lives(tmp_path) as running:
        met = Meeting(running.address, 4)
        running.served.end(signal.SIGKILL)
        reader = met.bounded["for"]
        for _ in range(2):
            with pytest.raises(errors.Unavailable, match="nothing listens there"):
                next(iter(reader))
        running.start()
        met.producer.send_batch([b"%d" % number for number in range(10, 30)], timeout=LIMIT_SECONDS).result(LIMIT_SECONDS)
        assert [message.offset for message in reader] == list(range(11, 20))
        met.client.close()


def test_a_bounded_reader_waits_for_an_end_that_is_not_there_yet(tmp_path: Path):
    """The broker is there and has nothing to say: that is no absence, however long it takes."""
    with lives(tmp_path) as running:
        met = Meeting(running.address)
        reader = met.bounded["poll"]
        assert len(reader.poll(3 * SECONDS)) == 0
        met.producer.send_batch([b"x"] * 9).result(LIMIT_SECONDS)
        assert len(list(reader)) == 9
        met.client.close()


def test_going_and_coming_back_are_logged_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with lives(tmp_path) as running:
        met = Meeting(running.address)
        work = Work(lambda: [message.value for _, message in zip(range(11), met.following, strict=False)])
        until(lambda: waits(met.following))
        running.served.end(signal.SIGKILL)
        until(lambda: "the broker is away" in caplog.text)
        with pytest.raises(errors.Unavailable):
            met.following.lag()
        running.start()
        met.producer.send(b"after", timeout=LIMIT_SECONDS).result(LIMIT_SECONDS)
        assert work.ends().result[-1] == b"after"
        said = [record for record in caplog.records if record.name == "bowstring.client.connection"]
        away, back = [record.getMessage() for record in said]
        assert away == f"the broker is away ({running.address}: nothing listens there); it is looked for until it is back"
        assert re.fullmatch(rf"the broker is back at {running.address}, after \d+\.\d s", back)
        assert {record.levelno for record in said} == {logging.WARNING}
        met.client.close()


def test_a_reader_that_follows_says_on_stderr_that_the_broker_is_away(tmp_path: Path):
    with lives(tmp_path) as running:
        with bowstring.connect(running.address) as client:
            client.create_topic("orders")
            client.producer("orders").send(b"before").result(LIMIT_SECONDS)
        line = command("read", "orders", "--follow", "-o", "raw", "--server", running.address)
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(line, env=environment(), **pipes) as reading:
            assert reading.stdout is not None
            assert reading.stderr is not None
            assert reading.stdout.readline() == "before\n"
            running.served.end(signal.SIGKILL)
            assert "the broker is away" in reading.stderr.readline()
            running.start()
            assert "the broker is back" in reading.stderr.readline()
            with bowstring.connect(running.address) as client:
                client.producer("orders").send(b"after").result(LIMIT_SECONDS)
            assert reading.stdout.readline() == "after\n"
            reading.send_signal(signal.SIGINT)
            assert reading.wait(LIMIT_SECONDS) == 130
