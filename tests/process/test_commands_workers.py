"""`bowstring consume` as a real process: pipes that close, signals, and the commands that it runs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from tests.process.serving import LIMIT_SECONDS, command, environment, run

INTERRUPTED = 130


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as running:
        yield running


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect() as connected:
        connected.create_topic("orders")
        yield connected


def publish(client: bowstring.Client, *values: bytes) -> None:
    with client.producer("orders") as producer:
        producer.send_batch(list(values)).result(LIMIT_SECONDS)


def begun(broker: bowstring.Broker, *arguments: str) -> subprocess.Popen[bytes]:
    variables = environment({"BOWSTRING_SERVER": broker.address})
    return subprocess.Popen(
        command("consume", "orders", "billing", *arguments),
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def drained(client: bowstring.Client, count: int) -> dict[int, int]:
    """The retry counts of so many messages, by offset; then nothing is left."""
    found: dict[int, int] = {}
    with client.consumer("orders", "billing") as consumer:
        for message in consumer:
            found[message.offset] = message.retry_count
            message.ack()
            if len(found) == count:
                break
    assert client.subscription("orders", "billing").backlog == 0
    return found


def test_ctrl_c_ends_it_and_what_was_printed_is_acked(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a", b"b")
    working = begun(broker, "-o", "raw")
    assert working.stdout is not None
    assert [working.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
    working.send_signal(signal.SIGINT)
    assert working.communicate(timeout=LIMIT_SECONDS) == (b"", b"2 messages printed and acked.\n")
    assert working.returncode == INTERRUPTED
    found = client.subscription("orders", "billing")
    assert (found.backlog, found.leased) == (0, 0)


def test_sigterm_ends_it_well(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    working = begun(broker, "-o", "raw")
    assert working.stdout is not None
    assert working.stdout.readline() == b"a\n"
    working.send_signal(signal.SIGTERM)
    assert working.communicate(timeout=LIMIT_SECONDS) == (b"", b"1 message printed and acked.\n")
    assert working.returncode == 0


def test_a_closed_pipe_acks_only_what_went_into_it(broker: bowstring.Broker, client: bowstring.Client):
    values = [b"%06d" % number + b"x" * 1000 for number in range(1000)]
    publish(client, *values)
    working = begun(broker, "-o", "raw", "--credit", "100")
    assert working.stdout is not None
    assert working.stdout.readline()[:6] == b"000000"
    working.stdout.close()
    assert working.stderr is not None
    assert (working.stderr.read(), working.wait(LIMIT_SECONDS)) == (b"", 0)
    working.communicate()
    found = client.subscription("orders", "billing")
    assert found.leased == 0
    assert found.backlog >= 1000 - 200
    assert set(drained(client, found.backlog).values()) == {0}


def test_it_ends_when_nobody_reads(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    working = begun(broker, "-o", "raw")
    assert working.stdout is not None
    assert working.stdout.readline() == b"a\n"
    working.stdout.close()
    assert working.wait(LIMIT_SECONDS) == 0
    working.communicate()
    assert client.subscription("orders", "billing").backlog == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 0)])
def test_a_signal_reaches_the_commands_and_they_are_waited_for(
    broker: bowstring.Broker, client: bowstring.Client, number: signal.Signals, code: int
):
    publish(client, b"a", b"b", b"c")
    name = number.name.removeprefix("SIG")
    line = f'trap "echo got {name}; exit 0" {name}; echo begun; while :; do sleep 0.01; done'
    working = begun(broker, "--exec", line, "--concurrency", "2")
    assert working.stdout is not None
    assert [working.stdout.readline() for _ in range(2)] == [b"begun\n"] * 2
    working.send_signal(number)
    out, said = working.communicate(timeout=LIMIT_SECONDS)
    assert (out, said.splitlines()[-1]) == (f"got {name}\n".encode() * 2, b"2 messages: 2 acked.")
    assert working.returncode == code
    found = client.subscription("orders", "billing")
    assert (found.backlog, found.leased) == (1, 0)
    assert drained(client, 1) == {3: 0}


def test_a_second_ctrl_c_kills_the_commands(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    working = begun(broker, "--exec", 'trap "echo ignored" INT; echo begun; while :; do sleep 0.01; done')
    assert working.stdout is not None
    assert working.stdout.readline() == b"begun\n"
    working.send_signal(signal.SIGINT)
    assert working.stdout.readline() == b"ignored\n"
    working.send_signal(signal.SIGINT)
    _, said = working.communicate(timeout=LIMIT_SECONDS)
    assert working.returncode == INTERRUPTED
    assert said.splitlines() == [b"0@1 is given back: the command was ended by SIGKILL.", b"1 message: 1 given back."]
    assert drained(client, 1) == {1: 1}


def test_a_deleted_subscription_ends_it(broker: bowstring.Broker, client: bowstring.Client):
    publish(client, b"a")
    working = begun(broker, "-o", "raw")
    assert working.stdout is not None
    assert working.stdout.readline() == b"a\n"
    client.delete_subscription("orders", "billing")
    _, said = working.communicate(timeout=LIMIT_SECONDS)
    assert working.returncode == 1
    summary, error = said.splitlines()
    assert summary.startswith(b"1 message printed")
    assert error.startswith(b"bowstring: the subscription")
    assert b"was deleted" in error


def test_a_worker_that_is_killed_loses_its_message_to_another(broker: bowstring.Broker, client: bowstring.Client, tmp_path: Path):
    publish(client, b"a")
    working = begun(broker, "--lease", "1s", "--exec", f'echo $$ > "{tmp_path}/pid"; echo begun; sleep 1000')
    assert working.stdout is not None
    assert working.stdout.readline() == b"begun\n"
    working.kill()
    working.wait()
    os.killpg(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    working.communicate(timeout=LIMIT_SECONDS)
    assert drained(client, 1) == {1: 1}


def test_names_of_subscriptions_and_consumers_are_completed(broker: bowstring.Broker, client: bowstring.Client):
    client.create_topic("clicks")
    for topic, name in (("orders", "billing"), ("orders", "audit"), ("clicks", "bots")):
        client.create_subscription(topic, name)

    def completed(*words: str) -> list[str]:
        given = {"_BOWSTRING_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return run(variables={**given, "BOWSTRING_SERVER": broker.address}).stdout.split()

    assert completed("bowstring", "consume", "orders", "b") == ["billing"]
    assert completed("bowstring", "subscription", "describe", "orders", "") == ["audit", "billing"]
    with client.consumer("orders", "billing", name="worker-7"):
        assert completed("bowstring", "lease", "list", "orders", "billing", "--consumer", "w") == ["worker-7"]
