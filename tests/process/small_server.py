"""A small broker in this process, and a channel to it: fixtures of the tests that speak the protocol by hand.

A test file takes them by name: `server = small_server.server`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bowstring.ports.transport import Channel
from bowstring.server import Server, open_broker
from bowstring.wire.grpc_server import GrpcServer
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    opened = await open_broker(wire.settings(tmp_path))
    yield opened
    await opened.stop()


@pytest.fixture
async def channel(server: Server | GrpcServer) -> AsyncIterator[Channel]:
    dialled = NativeDialer().dial(server.address)
    yield dialled
    await dialled.close()
