"""A poison message kills every worker that gets it, with all that the worker holds. The storm ends with
exactly one dead letter: bystanders are spared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

import bowstring
from bowstring.core.condemned import EXPIRED
from tests.process import ephemeral
from tests.process.serving import environment
from tests.process.storm_worker import LEASE_SECONDS, POISON

ROOT = Path(__file__).parents[2]
TOPIC, SUBSCRIPTION, WORKERS, KEYS = "orders", "billing", 4, 97


class Storm(NamedTuple):
    crashes: int
    condemned: float
    """When the last lease of the poison message ended, in seconds since 1970, and up to a second earlier."""


def worker(address: str, file: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.process.storm_worker", address, TOPIC, SUBSCRIPTION, file]
    paths = {**environment(), "PYTHONPATH": f"{environment()['PYTHONPATH']}{os.pathsep}{ROOT}"}
    return subprocess.Popen(command, env=paths, cwd=ROOT, stderr=subprocess.DEVNULL)


def storm(messages: int, max_deliveries: int, seconds: float, mode: str = "shared", file: str = os.devnull) -> Storm:
    """Runs workers until the queue is empty."""
    for broker in ephemeral.with_topics({TOPIC: 2}):
        with broker.connect() as client:
            client.create_subscription(TOPIC, SUBSCRIPTION, mode=mode, lease=LEASE_SECONDS, max_deliveries=max_deliveries)
            with client.producer(TOPIC) as producer:
                for number in range(messages):
                    name = POISON if number == messages // 3 else f"order-{number}"
                    producer.send(str(number).encode(), key=f"customer-{number % KEYS}", id=name)
            return _storm(broker, client, seconds, file)
    raise AssertionError


def _storm(broker: bowstring.Broker, client: bowstring.Client, seconds: float, file: str) -> Storm:
    crashes, end = 0, time.monotonic() + seconds
    workers = [worker(broker.address, file) for _ in range(WORKERS)]
    try:
        while True:
            facts = client.subscription(TOPIC, SUBSCRIPTION)
            if not facts.backlog and facts.dead:
                break
            assert time.monotonic() < end, f"{facts.backlog} messages are left after {crashes} crashes"
            for number, each in enumerate(workers):
                try:
                    each.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                crashes += 1
                workers[number] = worker(broker.address, file)
    finally:
        for each in workers:
            each.kill()
            each.wait()
    (letter,) = client.dead_letters(TOPIC, SUBSCRIPTION)
    assert letter.id == POISON
    assert letter.attributes["bowstring-reason"] == EXPIRED
    return Storm(crashes, datetime.fromisoformat(letter.attributes["bowstring-ended"]).timestamp())


@pytest.mark.timeout(400)
def test_a_crash_storm_over_ten_thousand_messages_ends_with_one_dead_letter():
    assert storm(10_000, 10, 300).crashes >= 10


@pytest.mark.timeout(400)
def test_a_crash_storm_keeps_the_order_of_keys_and_ends_with_one_dead_letter(tmp_path: Path):
    """What was done of a key came in its order, and what is behind the poison message came after it
    was condemned; most of the others did not wait for that.
    """
    file, messages, first = tmp_path / "done", 3_000, dict[int, float]()
    crashes, condemned = storm(messages, 10, 300, "key_shared", str(file))
    assert crashes >= 10
    for line in file.read_text().splitlines():
        at, key, number = line.split()
        assert key == f"customer-{int(number) % KEYS}"
        first.setdefault(int(number), float(at))
    poison = messages // 3
    assert set(range(messages)) - first.keys() == {poison}
    for key in range(KEYS):
        mine = [number for number in first if number % KEYS == key]
        assert mine == sorted(mine)
    behind = {number for number in first if number > poison and number % KEYS == poison % KEYS}
    assert min(first[number] for number in behind) > condemned
    assert sum(first[number] < condemned for number in first.keys() - behind) > messages / 2
