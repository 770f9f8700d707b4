"""Leased delivery: how long a message takes from its publisher to a consumer that waits, at a
thousand messages a second, compared with the log's own delivery.

Two brokers take turns, one with a reader and one with a consumer, and a third has both at once. The
publisher and the clock are those of the log's measurement (`product/delivery`). The consumer acks
each message.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import bowstring
from benchmarks import server
from benchmarks.processes import percentiles
from benchmarks.product.delivery import QUICK_SECONDS, RATE, SECONDS, TOPIC, WARM_SECONDS, follow, publish, received
from benchmarks.turns import Setting, take_turns

SUBSCRIPTION = "delivery"


def consume(address: str, count: int, connection: Connection) -> None:
    """The consumer's process; gives the seconds that each message took."""
    taken: list[float] = []
    with bowstring.connect(address) as client, client.consumer(TOPIC, SUBSCRIPTION) as consumer:
        connection.send("ready")
        for message in consumer:
            taken.append((time.monotonic_ns() - int.from_bytes(message.value[:8], "little")) / 1e9)
            message.ack()
            if len(taken) == count:
                break
        consumer.flush()
    connection.send(taken)


FOLLOWERS = {"log": follow, "queue": consume}


def measure(setting: Setting) -> dict[str, Any]:
    """The runs of the log, of the queue, and of both together."""
    seconds = QUICK_SECONDS if setting.quick else SECONDS
    turns = {name: partial(_alone, setting, name, seconds) for name in FOLLOWERS}
    return dict(take_turns(setting.rounds, {**turns, "both": partial(_both, setting, seconds)}))


def _alone(setting: Setting, name: str, seconds: int) -> dict[str, Any]:
    return _run(setting, seconds, name)[name]


def _both(setting: Setting, seconds: int) -> dict[str, Any]:
    found = _run(setting, seconds, *FOLLOWERS)
    return {f"{name}_{figure}": value for name, figures in found.items() for figure, value in figures.items()}


def _run(setting: Setting, seconds: int, *names: str) -> dict[str, dict[str, float]]:
    fresh, count = multiprocessing.get_context("spawn"), RATE * seconds
    with server.running(setting.folder) as broker, contextlib.ExitStack() as stack:
        with bowstring.connect(broker.address) as client:
            client.create_topic(TOPIC)
            client.create_subscription(TOPIC, SUBSCRIPTION)
        pipes: dict[str, Connection] = {}
        for name in names:
            pipes[name], theirs = fresh.Pipe()
            follower = fresh.Process(target=FOLLOWERS[name], args=(broker.address, count, theirs))
            stack.callback(_ended, follower)
            follower.start()
            received(pipes[name])
        time.sleep(0.5)  # the consumer's stream is open by then
        publisher = fresh.Process(target=publish, args=(broker.address, count))
        stack.callback(_ended, publisher)
        publisher.start()
        return {name: percentiles(received(pipe, seconds)[RATE * WARM_SECONDS :]) for name, pipe in pipes.items()}


def _ended(process: Any) -> None:
    if process.pid is not None:
        process.join(5)
        process.kill()
