"""Ten million messages under lease: what the broker keeps for them, and how long it stands still
when all the leases end at once.

**Memory** is by how much the broker grows (its resident set), from after the same messages were
leased and acked once under another subscription, so that caches and buffers are as large as they
get. First all are leased, in order; then every tenth is nacked and the others are acked, and the
growth is told for each of those that came back. What the ledger takes by itself is measured in a
process of its own (`benchmarks.ledger`).

**Expiry**: a hundred consumers wait, the messages come in batches, so that each flush grants to all
of them: many thousand leases. The consumers are killed, and the broker is stopped (SIGSTOP) until
the last lease has ended. From the moment it may go on, a client asks it one thing after the other;
the longest time without an answer counts, beside the longest in as many seconds before.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import bowstring
from benchmarks import processes, server
from benchmarks.clients import ROOT
from benchmarks.queue.holder import TOPIC, holding
from benchmarks.turns import Setting
from benchmarks.years.tables import Tables, batches, publish

PENDING = 10_000_000
SIZE = 8
CONSUMERS = 100
LEASE_SECONDS = 60.0
PROBED_SECONDS = 6.0


def memory(setting: Setting) -> dict[str, Any]:
    """Bytes for each pending message, by the growth of the broker."""
    count = setting.amount(PENDING)
    with server.running(setting.folder) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
            _fill(client, count)
            for name in ("warm", "measured"):
                client.create_subscription(TOPIC, name)
        broker.restart()
        with holding(broker.address, "warm", consumers=CONSUMERS, count=count, lease=LEASE_SECONDS) as holder:
            holder.wait_for("ready")
            holder.wait_for("held")
            holder.tell("nack")
            holder.wait_for("nacked")
        with bowstring.connect(broker.address) as client:
            client.delete_subscription(TOPIC, "warm")
        before = processes.resident_bytes(broker.pid)
        with holding(broker.address, "measured", consumers=CONSUMERS, count=count, lease=LEASE_SECONDS) as holder:
            holder.wait_for("ready")
            holder.wait_for("held")
            leased = processes.resident_bytes(broker.pid)
            holder.tell("nack")
            holder.wait_for("nacked")
            retried = processes.resident_bytes(broker.pid)
    return {
        "pending": count,
        "resident_bytes": before,
        "in_order": round((leased - before) / count, 3),
        "with_retry": round((retried - before) / (count // 10), 3),
        "ledger": _of_the_ledger(),
    }


def _of_the_ledger() -> dict[str, float]:
    """Bytes that the ledger takes by itself, by what is in it."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.ledger", "--memory"], cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)


def expiry(setting: Setting) -> dict[str, Any]:
    """Milliseconds without an answer when all leases end at once."""
    count = setting.amount(PENDING)
    with server.running(setting.folder) as broker, bowstring.connect(broker.address) as client:
        client.create_topic(TOPIC)
        client.create_topic("probe")
        client.create_subscription(TOPIC, "expiring")
        with holding(broker.address, "expiring", consumers=CONSUMERS, count=count, lease=LEASE_SECONDS) as holder:
            holder.wait_for("ready")
            begun = time.monotonic()
            _fill(client, count)
            holder.wait_for("held")
            held_seconds = time.monotonic() - begun
            facts = client.subscription(TOPIC, "expiring")
            leases = sum(1 for _ in client.leases(TOPIC, "expiring"))
            holder.kill()
        with _probing(broker.address) as gaps:
            time.sleep(PROBED_SECONDS)
            usual = max(gaps)
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                time.sleep(LEASE_SECONDS + 1.0)
            finally:
                gaps.clear()
                gaps.began = time.perf_counter()
                os.kill(broker.pid, signal.SIGCONT)
            time.sleep(PROBED_SECONDS)
            longest = max(gaps)
        after = client.subscription(TOPIC, "expiring")
    if facts.leased != count or after.leased or after.backlog != count:
        raise RuntimeError(f"of {count} messages {facts.leased} were leased; afterwards {after.leased}, and {after.backlog} wait")
    return {
        "leased": count,
        "leases": leases,
        "held_seconds": round(held_seconds, 1),
        "longest_ms": round(longest * 1e3, 1),
        "usual_ms": round(usual * 1e3, 1),
    }


def _fill(client: Any, count: int) -> None:
    tables = Tables(size=SIZE, rows=10_000)
    publish(client, TOPIC, (tables.plain() for _ in batches(count, tables.rows)))


class Gaps(list[float]):
    """Seconds between two answers."""

    began = 0.0


@contextlib.contextmanager
def _probing(address: str) -> Generator[Gaps]:
    """Asks the broker for facts of a topic all the time, in a thread."""
    gaps, stopping = Gaps(), threading.Event()
    gaps.began = time.perf_counter()

    def ask() -> None:
        with bowstring.connect(address, timeout=300) as client:
            while not stopping.is_set():
                client.topic("probe")
                now = time.perf_counter()
                gaps.append(now - gaps.began)
                gaps.began = now

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield gaps
    finally:
        stopping.set()
        thread.join(30)
