"""The ways to a broker side by side: native frames, gRPC at an address of its own, and gRPC through
the shared port; and what an idle connection costs.

One broker serves all three in turns, over the same topic. An idle connection is one that has said
the preface and nothing else; the memory is the broker's resident set before and after a thousand of
them, divided by nothing: the bar is for all.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

from benchmarks import processes, server
from benchmarks.clients import work
from benchmarks.server import Server
from benchmarks.turns import Runs, Setting, take_turns

BATCHED = {"publish-list": 2_000_000, "read-arrow": 4_000_000, "read-messages": 2_000_000}
"""The workloads that move batches, and how many messages of 100 B each takes."""
CROWD = 19_200
SINGLE = 2_000
IDLE = 1_000
PREFACE = b"\0BOWSTR\x01\r\n\r\n"


def measure(setting: Setting) -> dict[str, Any]:
    found: dict[str, Any] = {name: _batched(setting, name, setting.amount(count)) for name, count in BATCHED.items()}
    with _running(setting) as (broker, ways):
        for name, count in (("many-clients", CROWD), ("one-by-one", SINGLE)):
            found[name] = take_turns(
                setting.rounds, {way: partial(_work, name, broker, to, setting.amount(count)) for way, to in ways.items()}
            )
    with server.running(setting.folder) as broker:
        found["idle_bytes"] = _idle(broker)
    return found


@contextlib.contextmanager
def _running(setting: Setting) -> Generator[tuple[Server, dict[str, str]]]:
    """A broker, and its address for each way to it."""
    own = f"127.0.0.1:{processes.free_port()}"
    with server.running(setting.folder, settings={"grpc_listen": own}) as broker:
        yield broker, {"native": broker.address, "grpc": f"grpc://{own}", "shared": broker.address.replace("bowstring://", "grpc://")}


def _batched(setting: Setting, name: str, count: int) -> Runs:
    """Each turn has a broker of its own; what it reads was published before."""

    def turn(way: str) -> dict[str, Any]:
        with _running(setting) as (broker, ways):
            if name.startswith("read"):
                _work("publish-list", broker, ways["native"], count)
            return _work(name, broker, ways[way], count)

    return take_turns(setting.rounds, {way: partial(turn, way) for way in ("native", "grpc", "shared")})


def _work(name: str, broker: Server, address: str, count: int) -> dict[str, Any]:
    figures = work(name, broker, size=100, count=count, rows=_rows(name), server=address)
    figures.pop("windows", None)  # every single moment of `one-by-one`
    return figures


def _rows(name: str) -> int:
    return 1 if name == "one-by-one" else 10_000


def _idle(broker: Server) -> int:
    """By how many bytes the broker grows with a thousand idle connections."""
    before = processes.resident_bytes(broker.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            connection.sendall(PREFACE)
            if len(connection.recv(len(PREFACE), socket.MSG_WAITALL)) < len(PREFACE):
                raise RuntimeError("the broker has hung up")
        return processes.resident_bytes(broker.pid) - before
