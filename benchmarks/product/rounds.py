"""The plan of the log in use, by the names that `--only` takes. A turn is short: under a minute for
us and the peers together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import server
from benchmarks.clients import work
from benchmarks.peers.node import Node
from benchmarks.product import delivery, files, startup, wire
from benchmarks.spark import reading
from benchmarks.turns import Setting, take_turns

SIZE = 100
SENDS = 2_000_000
READS = 2_000_000
FILE_ROWS = 5_000_000
CROWD = 19_200
SPARK_ROWS = 10_000_000
WARM_SHARE = 4
"""A Java program is slow at first: before it counts, Kafka gets this part of the messages."""


def keyed(setting: Setting) -> dict[str, Any]:
    """`send()` with key and attributes compared with `produce()` with key and headers, first
    without sync, then with.
    """
    count, found = setting.amount(SENDS), {}
    for durability in ("default", "fsync"):
        with setting.beside("kafka", durability) as kafka:
            if kafka is not None:
                kafka.work("kafka_clients", "send", size=SIZE, count=count // WARM_SHARE)
            theirs = partial(kafka.work, "kafka_clients", "send", size=SIZE, count=count) if kafka else None
            found[durability] = take_turns(setting.rounds, {"bowstring": partial(_send, setting, count), "kafka": theirs})
    return found


def _send(setting: Setting, count: int) -> dict[str, Any]:
    with server.running(setting.folder) as broker:
        return work("publish-keyed", broker, size=SIZE, count=count)


def messages(setting: Setting) -> dict[str, Any]:
    """`for message in reader` compared with rstream, RabbitMQ's client for streams.
    (`read-messages` compares it with Kafka.)
    """
    count = setting.amount(READS)
    with setting.beside("rabbit", "default") as rabbit:
        theirs = partial(_read_stream, rabbit, count) if rabbit else None
        return take_turns(setting.rounds, {"bowstring": partial(_read, setting, count), "rstream": theirs})


def _read(setting: Setting, count: int) -> dict[str, Any]:
    with server.running(setting.folder) as broker:
        work("publish-list", broker, size=SIZE, count=count)
        broker.restart()
        return work("read-messages", broker, size=SIZE, count=count)


def _read_stream(rabbit: Node, count: int) -> dict[str, Any]:
    rabbit.harness("W1", "rstream_stream", SIZE, count=count)
    return rabbit.harness("W2", "rstream_stream", SIZE, count=count)


def crowd(setting: Setting) -> dict[str, Any]:
    """64 clients with one message under way each; all of them sync."""
    count = setting.amount(CROWD)
    with server.running(setting.folder) as broker, setting.beside("nats", "fsync") as nats, setting.beside("redis", "fsync") as redis:
        turns = {"bowstring": partial(work, "many-clients", broker, size=SIZE, count=count)}
        turns |= {peer.name: partial(_crowd_of, peer, count) for peer in (nats, redis) if peer}
        return take_turns(setting.rounds, turns)


def _crowd_of(peer: Node, count: int) -> dict[str, Any]:
    return peer.work("crowd", peer.name, size=SIZE, count=count)


def spark(setting: Setting) -> dict[str, Any]:
    return reading.measure(setting.folder, setting.amount(SPARK_ROWS), setting.rounds)


WORKS: dict[str, Callable[[Setting], dict[str, Any]]] = {
    "keyed": keyed,
    "rstream": messages,
    "files": lambda setting: files.measure(setting, setting.amount(FILE_ROWS)),
    "delivery": delivery.measure,
    "crowd": crowd,
    "startup": startup.measure,
    "spark": spark,
    "wire": wire.measure,
}
NAMES = tuple(WORKS)
