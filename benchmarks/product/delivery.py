"""Delivery: how long a message takes from its publisher to a reader that follows, at a thousand messages a second.

Two processes, as in the peers' harness: one publishes by the clock, whatever the answers do, and writes the moment at which each message
was to be sent into its value; the other follows the topic and looks at the clock for every message that it gets. What a message waits
because its publisher is late counts. The first two seconds do not. What a small sync costs here is measured before each round.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import bowstring
from benchmarks import limits, server
from benchmarks.peers.node import Node
from benchmarks.processes import percentiles
from benchmarks.turns import Setting, take_turns

RATE = 1000
SECONDS = 12
QUICK_SECONDS = 4
WARM_SECONDS = 2
SIZE = 100
SYNCS = 500
TOPIC = "delivery"
LINGER_MS = 5
"""Kafka's client by default. Without any wait, Kafka that syncs does not keep up with this rate here."""
WAIT_SECONDS_MAX = 60


def measure(setting: Setting) -> dict[str, Any]:
    seconds = QUICK_SECONDS if setting.quick else SECONDS
    syncs: list[float] = []

    def ours() -> dict[str, Any]:
        syncs.append(limits.small_sync(setting.folder, SYNCS)["median_ms"])
        return _ours(setting, seconds)

    with setting.beside("kafka", "fsync") as kafka:
        if kafka is not None:
            _theirs(kafka, WARM_SECONDS + 1)
        theirs = partial(_theirs, kafka, seconds) if kafka else None
        runs = take_turns(setting.rounds, {"bowstring": ours, "kafka": theirs})
    return {"sync_ms": statistics.median(syncs), "runs": runs}


def _theirs(kafka: Node, seconds: int) -> dict[str, Any]:
    return kafka.harness("W4", "confluent", SIZE, rate=RATE, seconds=seconds, linger=LINGER_MS)


def _ours(setting: Setting, seconds: int) -> dict[str, Any]:
    fresh = multiprocessing.get_context("spawn")
    with server.running(setting.folder) as broker:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
        ours, theirs = fresh.Pipe()
        reader = fresh.Process(target=follow, args=(broker.address, RATE * seconds, theirs))
        publisher = fresh.Process(target=publish, args=(broker.address, RATE * seconds))
        try:
            reader.start()
            received(ours)
            publisher.start()
            taken = received(ours, seconds)
        finally:
            for process in (publisher, reader):
                if process.pid is not None:
                    process.join(5)
                    process.kill()
    return percentiles(taken[RATE * WARM_SECONDS :])


def received(connection: Connection, seconds: int = 0) -> Any:
    if not connection.poll(WAIT_SECONDS_MAX + seconds):
        raise RuntimeError("the reader has not got everything in time")
    return connection.recv()


def publish(address: str, count: int) -> None:
    """The publisher's process."""
    rest, step = os.urandom(SIZE - 8), 1_000_000_000 // RATE
    with bowstring.connect(address) as client, client.producer(TOPIC) as producer:
        moment = time.monotonic_ns() + 10_000_000
        for _ in range(count):
            moment += step
            if (early := moment - time.monotonic_ns()) > 0:
                time.sleep(early / 1e9)
            producer.send(moment.to_bytes(8, "little") + rest)


def follow(address: str, count: int, connection: Connection) -> None:
    """The reader's process; gives the seconds that each message took."""
    taken: list[float] = []
    with bowstring.connect(address) as client, client.reader(TOPIC) as reader:
        reader.poll(0)
        connection.send("ready")
        for message in reader:
            taken.append((time.monotonic_ns() - int.from_bytes(message.value[:8], "little")) / 1e9)
            if len(taken) == count:
                break
    connection.send(taken)
