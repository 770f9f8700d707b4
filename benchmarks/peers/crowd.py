"""64 clients of NATS JetStream or Redis Streams with a connection each, every one with one message under way; as `worker.many_clients`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.processes import Meter, percentiles

CLIENTS = 64
STREAM = "crowd"
Send = Callable[[bytes], Awaitable[Any]]
"""Publishes a value and returns when it is acknowledged."""


async def nats() -> tuple[list[Send], Callable[[], Awaitable[int]]]:
    """The clients' way to publish, and how many messages there are."""
    import nats as library
    from nats.js import api, errors

    clients = [await library.connect("nats://127.0.0.1:14222") for _ in range(CLIENTS)]
    streams = [client.jetstream(timeout=30) for client in clients]
    with contextlib.suppress(errors.NotFoundError):
        await streams[0].delete_stream(STREAM)
    await streams[0].add_stream(name=STREAM, subjects=[f"{STREAM}.x"], storage=api.StorageType.FILE)

    def sender(stream: Any) -> Send:
        return lambda value: stream.publish(f"{STREAM}.x", value)

    async def stored() -> int:
        count = (await streams[0].stream_info(STREAM)).state.messages
        await asyncio.gather(*(client.close() for client in clients))
        return count

    return [sender(stream) for stream in streams], stored


async def redis() -> tuple[list[Send], Callable[[], Awaitable[int]]]:
    from redis import asyncio as library

    clients = [library.Redis(host="127.0.0.1", port=16379, protocol=2, single_connection_client=True) for _ in range(CLIENTS)]

    def sender(client: Any) -> Send:
        return lambda value: client.xadd(STREAM, {"d": value})

    async def stored() -> int:
        count = await clients[0].xlen(STREAM)
        await asyncio.gather(*(client.aclose() for client in clients))
        return count

    await clients[0].delete(STREAM)
    return [sender(client) for client in clients], stored


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    senders, stored = await {"nats": nats, "redis": redis}[options.work]()
    value, each, taken = os.urandom(options.size), options.count // CLIENTS, list[float]()

    async def work(send: Send) -> None:
        for _ in range(each):
            begun = time.perf_counter()
            await send(value)
            taken.append(time.perf_counter() - begun)

    await asyncio.gather(*(send(value) for send in senders))
    meter = Meter(options.broker)
    meter.start()
    await asyncio.gather(*map(work, senders))
    figures = meter.stop(len(taken), len(taken) * options.size)
    if (count := await stored()) != len(taken) + CLIENTS:
        raise SystemExit(f"{len(taken) + CLIENTS} messages were acknowledged, there are {count}")
    return {**figures, **percentiles(taken)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.crowd", description=__doc__)
    parser.add_argument("work", choices=("nats", "redis"))
    parser.add_argument("--broker", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=6_400)
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
