"""Brokers that die and come back, as real processes: the application notices a pause, and nothing else.

Nothing is caught here and nothing is repeated: what the kit does by itself is all there is. Kills are not timed but counted, so each
hits a broker that works.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bowstring
from bowstring import errors
from tests.process.serving import LIMIT_SECONDS, Served, start

TOPIC = "orders"
KILLS = 3
PER_LIFE = 400


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Lives:
    """A broker on one directory and one port, in one process after the other."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.address = f"127.0.0.1:{free_port()}"
        self.served: Served = self.start()

    def start(self) -> Served:
        self.served = start("--data", str(self._data), "--listen", self.address)
        return self.served

    def again(self, number: int = signal.SIGKILL) -> None:
        """Ends this process by the signal, and starts the next one."""
        code, said = self.served.end(number)
        assert number == signal.SIGKILL or code == 0, said
        self.start()

    def end(self) -> None:
        if self.served.process.poll() is None:
            self.served.process.kill()
        self.served.process.communicate(timeout=LIMIT_SECONDS)


@contextmanager
def lives(data: Path) -> Iterator[Lives]:
    running = Lives(data)
    try:
        yield running
    finally:
        running.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_application_notices_only_a_pause(tmp_path: Path, number: int):
    """One thread sends, one reads, the broker dies in between. Every receipt is good, and the reader sees each message once, in order."""
    total = (KILLS + 1) * PER_LIFE
    acknowledged = [threading.Event() for _ in range(KILLS)]
    read: list[bytes | None] = []
    failures: list[BaseException] = []

    def produce() -> None:
        with bowstring.connect(running.address) as client, client.producer(TOPIC, timeout=60) as producer:
            for at in range(total):
                receipt = producer.send(b"%d" % at, id=f"order-{at}" if at % 3 == 0 else None)
                if at % 10 == 0:
                    stored = receipt.result(LIMIT_SECONDS)
                    assert (stored.offset, stored.duplicate) == (at + 1, False)
                if at % PER_LIFE == PER_LIFE // 2 and at // PER_LIFE < KILLS:
                    acknowledged[at // PER_LIFE].set()
            producer.flush(LIMIT_SECONDS)
            counted = producer.statistics()
            assert (counted.messages, counted.refused, counted.bytes_under_way) == (total, 0, 0)

    def consume() -> None:
        with bowstring.connect(running.address) as client, client.reader(TOPIC) as reader:
            for message in reader:
                read.append(message.value)
                assert message.offset == len(read)
                if len(read) == total:
                    return

    def guarded(work) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)
                for event in acknowledged:
                    event.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    with lives(tmp_path) as running, bowstring.connect(running.address) as client:
        client.create_topic(TOPIC)
        threads = [guarded(produce), guarded(consume)]
        for event in acknowledged:
            assert event.wait(LIMIT_SECONDS)
            running.again(number)
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        assert not failures
        assert read == [b"%d" % at for at in range(total)]
        topic = client.topic(TOPIC)
        assert (topic.messages, topic.ranges) == (total, (range(1, total + 1),))


def test_calls_about_topics_wait_for_a_broker_that_comes_back(tmp_path: Path):
    with lives(tmp_path) as running, bowstring.connect(running.address, timeout=LIMIT_SECONDS) as client:
        made: list[bowstring.Topic] = []
        running.served.end(signal.SIGKILL)
        thread = threading.Thread(target=lambda: made.append(client.create_topic(TOPIC, partitions=3)), daemon=True)
        thread.start()
        running.start()
        thread.join(LIMIT_SECONDS)
        assert [topic.partitions for topic in made] == [3]
        assert client.info.brokers[0].incarnation >= 1
        assert client.alter_topic(TOPIC, retention=3600).retention.total_seconds() == 3600


def test_the_three_outcomes_of_a_deadline(tmp_path: Path):
    """Stored, certainly not, unknown; what is unknown can be asked for by its id when a broker is there again."""
    with lives(tmp_path) as running, bowstring.connect(running.address, timeout=LIMIT_SECONDS) as client:
        client.create_topic(TOPIC)
        producer = client.producer(TOPIC, timeout=2)
        assert producer.send(b"stored", id="a").result(LIMIT_SECONDS).offset == 1
        running.served.process.send_signal(signal.SIGSTOP)
        unknown = producer.send(b"unknown", id="b")
        with pytest.raises(errors.OutcomeUnknown, match=r"Repeat with the same id, or ask producer.find\(id\)"):
            unknown.result(LIMIT_SECONDS)
        running.served.end(signal.SIGKILL)
        never = producer.send(b"never sent", id="c")
        with pytest.raises(errors.DeadlinePassed, match="it is not stored"):
            never.result(LIMIT_SECONDS)
        running.start()
        assert producer.find("a") == bowstring.Stored(TOPIC, 0, 1, "a", False)
        assert producer.find("c") is None
        asked = producer.find("b")
        again = producer.send(b"unknown", id="b", timeout=30).result(LIMIT_SECONDS)
        assert again.duplicate == (asked is not None)
        producer.close()


def test_producers_move_to_the_seed_that_answers(tmp_path: Path):
    """The broker of a directory comes back at another address, which is among the seeds."""
    with lives(tmp_path) as running:
        first, second = running.address, f"127.0.0.1:{free_port()}"
        with bowstring.connect([first, second]) as client:
            client.create_topic(TOPIC)
            with client.producer(TOPIC, timeout=60) as producer:
                producer.send(b"a").result(LIMIT_SECONDS)
                running.served.end(signal.SIGKILL)
                running.address = second
                running.start()
                assert producer.send(b"b").result(LIMIT_SECONDS).offset == 2
                assert client.topic(TOPIC).messages == 2
                assert client.info.brokers[0].address == second
