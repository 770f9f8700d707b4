"""The worker of the guide to queues, as a real process: signals end it well, another one takes its place, and what it says of deliveries is
so."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bowstring
from tests.process.serving import LIMIT_SECONDS, environment

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "queues.md").read_text(encoding="utf-8")
(WORKER,) = re.findall(r"```py\n(# worker\.py\n.*?)```", GUIDE, flags=re.DOTALL)
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def worked(address: str, orders: set[int], number: signal.Signals) -> None:
    """Runs the worker until it has billed these orders, and ends it."""
    line = [sys.executable, "-W", "error", "-c", WORKER]
    with subprocess.Popen(line, env=environment({"BOWSTRING_SERVER": address}), **PIPES) as worker:
        assert worker.stdout is not None
        assert {int(worker.stdout.readline().removeprefix("billed ")) for _ in orders} == orders
        worker.send_signal(number)
        said, complained = worker.communicate(timeout=LIMIT_SECONDS)
        assert (worker.returncode, said, complained) == (0, "ended well\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_worker_ends_well_on_a_signal_and_the_next_goes_on(number: signal.Signals):
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
        client.create_topic("orders", partitions=4)
        with client.producer("orders") as producer:
            for order in range(100):
                producer.send(json={"order": order}, key=f"customer-{order % 7}")
            producer.flush()
            worked(broker.address, set(range(100)), number)
            assert client.subscription("orders", "billing").backlog == 0
            producer.send(json={"order": 100}).result(LIMIT_SECONDS)
            worked(broker.address, {100}, number)
        found = client.subscription("orders", "billing")
        assert (found.backlog, found.leased) == (0, 0)


@pytest.fixture
def scene() -> Any:
    with bowstring.Broker.ephemeral(clock="manual") as broker, broker.connect() as client:
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send_batch([b"a", b"b", b"c"]).result()
        yield broker, client


def next_count(client: bowstring.Client) -> int:
    """The retry count that the next consumer finds."""
    with client.consumer("orders", "billing", credit=1) as consumer:
        message = next(iter(consumer))
        assert message.offset == 1
        return message.retry_count


class Failed(Exception):
    """The work has failed."""


def failing(message: bowstring.LeasedMessage) -> None:
    raise Failed


@pytest.mark.parametrize("how", ["nack", "exception"])
def test_what_counts_as_a_delivery(scene: tuple[bowstring.Broker, bowstring.Client], how: str):
    _, client = scene
    with client.consumer("orders", "billing", credit=1) as consumer:
        message = next(iter(consumer))
        if how == "nack":
            message.nack()
        else:
            with pytest.raises(Failed), message:
                failing(message)
        again = next(iter(consumer))
        assert (again.offset, again.retry_count) == (1, 1)


def test_a_reject_counts_and_makes_a_dead_letter(scene: tuple[bowstring.Broker, bowstring.Client]):
    _, client = scene
    with client.consumer("orders", "billing", credit=1) as consumer:
        next(iter(consumer)).reject("no such customer")
        assert next(iter(consumer)).offset == 2
    letter = next(iter(client.reader("orders.billing.dead-letters")))
    assert letter.attributes["bowstring-reason"] == "no such customer"
    assert letter.attributes["bowstring-retry-count"] == "1"


def test_closing_counts_what_the_program_was_working_on(scene: tuple[bowstring.Broker, bowstring.Client]):
    _, client = scene
    with client.consumer("orders", "billing", credit=1) as consumer:
        next(iter(consumer))
    assert next_count(client) == 1


def test_the_end_of_a_lease_counts(scene: tuple[bowstring.Broker, bowstring.Client]):
    broker, client = scene
    with client.consumer("orders", "billing", credit=1, alive=lambda: False) as consumer:
        message = next(iter(consumer))
        consumer.pause()
        broker.clock.advance(31)
        assert next_count(client) == 1
        with pytest.raises(bowstring.LeaseLost):
            message.ack().result()


@pytest.mark.parametrize("how", ["closed unseen", "released by an operator"])
def test_what_does_not_count(scene: tuple[bowstring.Broker, bowstring.Client], how: str):
    _, client = scene
    with client.consumer("orders", "billing", credit=3, name="worker-7") as consumer:
        if how == "closed unseen":
            messages = iter(consumer)
            next(messages).ack().result()
        else:
            next(iter(consumer))
            consumer.pause()
            assert client.release_leases("orders", "billing", consumer="worker-7") == 1
    with client.consumer("orders", "billing") as consumer:
        assert next(iter(consumer)).retry_count == 0


def test_a_restart_of_the_broker_does_not_count(tmp_path: Path):
    with bowstring.Broker(data=tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send(b"a").result()
        with client.consumer("orders", "billing") as consumer:
            message = next(iter(consumer))
            end = message.lease_end
            broker.kill()
            broker.restart()
            (lease,) = client.leases("orders", "billing")
            assert (lease.consumer, lease.until) == (consumer.name, end)
            message.ack().result()
        assert client.subscription("orders", "billing").backlog == 0
