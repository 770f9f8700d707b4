"""How consumers end: closed by threads and signal handlers, forked away, interrupted, or with their program."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.forking import program

LIMIT_SECONDS = 60


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    yield from ephemeral.with_topics({"orders": 1}, topic_create="on-request")


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as client:
        yield client


def sent(client: bowstring.Client, rows: int) -> None:
    with client.producer("orders") as producer:
        producer.send_batch([b"%d" % number for number in range(rows)])


CONSUMING: dict[str, Callable[[bowstring.Consumer], object]] = {
    "for": lambda consumer: sum(1 for _ in consumer),
    "batches": lambda consumer: sum(len(batch) for batch in consumer.batches()),
    "run": lambda consumer: consumer.run(print, concurrency=3),
}
CLOSING: dict[str, Callable[[bowstring.Consumer, bowstring.Client, bowstring.Broker], object]] = {
    "consumer.close": lambda consumer, client, broker: consumer.close(),
    "client.close": lambda consumer, client, broker: client.close(),
    "broker.stop": lambda consumer, client, broker: broker.stop(),
}


@pytest.mark.parametrize("closing", CLOSING)
@pytest.mark.parametrize("consuming", CONSUMING)
def test_closing_ends_a_thread_that_waits_for_messages(broker: bowstring.Broker, consuming: str, closing: str):
    client = broker.connect()
    consumer = client.consumer("orders", "billing")
    ahead = consumer._consumer._read_ahead
    thread = threading.Thread(target=CONSUMING[consuming], args=(consumer,))
    thread.start()
    waiting = threading.Event()
    while not (ahead._changed._waiters or ahead.bells):
        waiting.wait(0.001)
    CLOSING[closing](consumer, client, broker)
    thread.join(LIMIT_SECONDS)
    assert not thread.is_alive()
    consumer.close()
    client.close()


@pytest.mark.parametrize("turn", range(12))
@pytest.mark.parametrize("closer", ["consumer", "client"])
@pytest.mark.parametrize("consuming", ["for", "batches", "run"])
def test_a_signal_handler_may_close_whatever_its_thread_is_doing(broker: bowstring.Broker, consuming: str, closer: str, turn: int):
    with broker.connect() as other:
        sent(other, 2000)
    client = broker.connect()
    consumer = client.consumer("orders", "billing", credit=500)
    before = signal.signal(signal.SIGUSR1, lambda *_: (consumer if closer == "consumer" else client).close())
    timer = threading.Timer(0.002 * turn, os.kill, (os.getpid(), signal.SIGUSR1))
    acked = 0
    timer.start()
    try:
        if consuming == "for":
            for message in consumer:
                with message:
                    acked += 1
        elif consuming == "batches":
            for batch in consumer.batches(max_rows=10):
                batch.ack()
                acked += len(batch)
        else:
            consumer.run(lambda message: None, concurrency=2)
        timer.join()
        consumer.close()
        client.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    with broker.connect() as other:
        facts = other.subscription("orders", "billing")
        assert facts.leased == 0, "everything is given back"
        if consuming != "run":
            assert 2000 - facts.backlog in range(acked - 10, acked + 1), "at most the one that was interrupted comes again"


def test_run_finishes_what_it_works_on_when_a_signal_handler_closes_it(client: bowstring.Client):
    sent(client, 10)
    consumer = client.consumer("orders", "billing", credit=10)
    before = signal.signal(signal.SIGUSR1, lambda *_: consumer.close())
    seen: list[bytes | None] = []

    def handler(message: bowstring.LeasedMessage) -> None:
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGUSR1)
        seen.append(message.value)

    try:
        consumer.run(handler)
    finally:
        signal.signal(signal.SIGUSR1, before)
    facts = client.subscription("orders", "billing")
    assert (len(seen), facts.backlog, facts.leased) == (4, 6, 0)
    with client.consumer("orders", "billing", credit=6) as again:
        assert {message.retry_count for _, message in zip(range(6), again, strict=False)} == {0}


def test_an_interrupt_ends_run_and_nacks_what_it_works_on(client: bowstring.Client):
    sent(client, 3)
    consumer = client.consumer("orders", "billing", credit=3)

    def handler(message: bowstring.LeasedMessage) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consumer.run(handler, concurrency=2)
    consumer.close()
    facts = client.subscription("orders", "billing")
    assert (facts.backlog, facts.leased) == (3, 0)


FORKED = """
    client = bowstring.connect(address)
    with client.producer("orders") as producer:
        producer.send_batch([b"%d" % number for number in range(6)])
    consumer = client.consumer("orders", "billing", credit=6)
    messages = consumer.batches(max_rows=3)
    batch = next(messages)
    first, second, third = batch
    held = next(iter(consumer))
    receipt = first.ack()

    def work():
        told({
            "consumer": lambda: client.consumer("orders", "billing"),
            "subscription": lambda: client.subscription("orders", "billing"),
            "ack": lambda: second.ack(),
            "again": lambda: first.ack(),
            "nack": lambda: second.nack(),
            "reject": lambda: second.reject("no"),
            "extend": lambda: second.extend(),
            "with": lambda: second.__enter__() and second.__exit__(None, None, None),
            "batch": lambda: batch.ack(),
            "mask": lambda: batch.extend([0]),
            "iteration": lambda: next(iter(consumer)),
            "batches": lambda: next(messages),
            "pause": lambda: consumer.pause(),
            "flush": lambda: consumer.flush(),
            "run": lambda: consumer.run(print),
        })
        consumer.close()
        client.close()

    print("exit", in_child(work))
    receipt.result(30)
    second.ack().result(30)
    third.ack().result(30)
    held.ack().result(30)
    consumer.close()
    print(client.subscription("orders", "billing").backlog)
    client.close()
"""


def test_what_was_made_before_a_fork_refuses_in_the_child_and_the_parent_goes_on(broker: bowstring.Broker):
    *told, exited, backlog = program(FORKED, broker.address)
    assert (exited, backlog) == ("exit 7", "2")
    names = "consumer subscription ack again nack reject extend with batch mask iteration batches pause flush run".split()
    assert [line.split()[0] for line in told] == names
    for line in told:
        assert "and connections do not survive a fork. Connect anew in this process: bowstring.connect()." in line, line


def test_a_program_that_ends_without_closing_settles_and_gives_back(broker: bowstring.Broker, client: bowstring.Client):
    text = """
        client = bowstring.connect(address)
        with client.producer("orders") as producer:
            producer.send_batch([b"%d" % number for number in range(10)])
        consumer = client.consumer("orders", "billing", credit=10)
        for message in consumer:
            message.ack()
            if message.value == b"4":
                break
        print(message.offset)
    """
    assert program(text, broker.address) == ["5"]
    facts = client.subscription("orders", "billing")
    assert (facts.backlog, facts.leased) == (5, 0)
