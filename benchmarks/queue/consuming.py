"""Consuming and acking everything that is there, compared with Kafka's share groups, Redis Streams,
NATS JetStream and RabbitMQ's quorum queues.

Each peer's client is the one that its users have in Python, and acks each message: Kafka's by
`acknowledge` and a `commit_async` for what a poll gave, Redis' by an XACK each in a pipeline, the
others by their `ack`. The peers run with their defaults, which sync less than ours. Slow peers get
fewer messages.

Ours reads what was published before: the broker is started again, so that nothing is in its caches.
Each way to consume has a subscription of its own on the same topic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

from benchmarks import processes, server
from benchmarks.clients import work
from benchmarks.peers.node import Node
from benchmarks.turns import Setting, Turn, take_turns

COUNTS = {100: 2_000_000, 1024: 400_000}
"""Messages, by the size of their values."""
ROWS = {100: 10_000, 1024: 4_000}
WAYS = ("consume-messages", "consume-blocks", "consume-asyncio", "consume-nacked", "consume-batches", "consume-nacked-batches")
BATCH_TIMES = 3
"""As batches a run has so many times the messages, because it is over too soon otherwise."""
WARM_SHARE = 4


class Peer(NamedTuple):
    """How a peer is measured: the harness's variants, and what part of our messages it gets."""

    fills: str
    consumes: str
    share: int
    is_emptied: bool = False
    """What it has consumed is gone: it is filled before each run."""


PEERS = {
    "kafka": Peer("confluent_batch", "share_explicit", 1),
    "redis": Peer("pipe500", "xreadgroup", 10),
    "nats": Peer("async", "pull_ack", 20),
    "rabbit": Peer("pika_quorum", "pika_quorum", 40, is_emptied=True),
}


def measure(setting: Setting) -> dict[str, Any]:
    """The runs by size."""
    with contextlib.ExitStack() as stack:
        nodes = [node for name in PEERS if (node := stack.enter_context(setting.beside(name, "default")))]
        return {str(size): _measure(setting, nodes, size, setting.amount(count)) for size, count in COUNTS.items()}


def _measure(setting: Setting, nodes: list[Node], size: int, count: int) -> dict[str, Any]:
    turns: dict[str, Turn] = {way: partial(_ours, setting, way, size, count) for way in WAYS}
    for node in nodes:
        peer = PEERS[node.name]
        some = count // peer.share
        node.harness("W1", peer.fills, size, count=some)
        node.harness("W3", peer.consumes, size, count=some // WARM_SHARE)
        turns[node.name] = partial(_theirs, node, size, some)
    return dict(take_turns(setting.rounds, turns))


def _ours(setting: Setting, way: str, size: int, count: int) -> dict[str, Any]:
    if way.endswith("batches"):
        count *= BATCH_TIMES
    with filled(setting, size, count) as broker:
        return {**work(way, broker, size=size, count=count), "peak_bytes": processes.peak_bytes(broker.pid)}


@contextlib.contextmanager
def filled(setting: Setting, size: int, count: int) -> Generator[server.Server]:
    """A broker that was started again over so many messages."""
    with server.running(setting.folder) as broker:
        work("publish-list", broker, size=size, count=count, rows=ROWS[size])
        broker.restart()
        yield broker


def _theirs(node: Node, size: int, count: int) -> dict[str, Any]:
    peer = PEERS[node.name]
    if peer.is_emptied:
        node.harness("W1", peer.fills, size, count=count)
    return node.harness("W3", peer.consumes, size, count=count)
