"""The services of the guide, as real processes: SIGTERM ends them well, and the next one goes on where they were."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

import bowstring
from tests.docs.test_guides import blocks
from tests.process.serving import LIMIT_SECONDS, environment

PROGRAMS = dict(zip(("threads", "asyncio", "forks"), blocks("services.md"), strict=True))
SERVICES = {name: PROGRAMS[name] for name in ("threads", "asyncio")}


def served(program: str, address: str, expected: list[str], number: signal.Signals) -> None:
    """Runs a service until it has said this, and ends it."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    line = [sys.executable, "-W", "error", "-c", program]
    with subprocess.Popen(line, env=environment({"BOWSTRING_SERVER": address}), **pipes) as service:
        assert service.stdout is not None
        assert [service.stdout.readline() for _ in expected] == [f"billed {text}\n" for text in expected]
        service.send_signal(number)
        said, complained = service.communicate(timeout=LIMIT_SECONDS)
        assert (service.returncode, said, complained) == (0, "ended well\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_ends_well_on_a_signal_and_goes_on_at_its_next_start(service: str, number: signal.Signals):
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client, client.producer("orders") as producer:
        producer.send_batch([b"%d" % order for order in range(250)]).result(LIMIT_SECONDS)
        served(SERVICES[service], broker.address, [str(order) for order in range(250)], number)
        assert client.position("billing", "orders").offsets == {0: 251}
        producer.send(b"250").result(LIMIT_SECONDS)
        served(SERVICES[service], broker.address, ["250"], number)
        assert client.position("billing", "orders").offsets == {0: 252}


def test_a_forking_program_sends_from_both_processes():
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client:
        line = [sys.executable, "-W", "ignore", "-c", PROGRAMS["forks"]]
        done = subprocess.run(
            line, env=environment({"BOWSTRING_SERVER": broker.address}), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "both have sent\n", "")
        assert client.topic("orders").messages == 2
