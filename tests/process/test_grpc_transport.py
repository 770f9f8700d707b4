"""What only gRPC does as a transport. What it has in common with the native one is in tests/contract/test_transport.py."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from bowstring import errors
from bowstring.wire.grpc_server import GrpcServer
from bowstring.wire.stream_limits import StreamLimits
from tests.contract.wires import Echo
from tests.process.serving import environment


@pytest.fixture
async def server() -> AsyncIterator[GrpcServer]:
    started = bound("127.0.0.1:0")
    started.bind()
    await started.start()
    yield started
    await started.stop(0.0)


def bound(listen: str) -> GrpcServer:
    return GrpcServer(Echo(), StreamLimits(streams_max=10, connection_streams_max=10), listen=listen, batch_bytes_max=1 << 20)


async def test_a_server_that_could_not_bind_leaves_no_noise(server: GrpcServer, capfd: pytest.CaptureFixture[str]):
    second = bound(server.address)
    with pytest.raises(errors.Unavailable, match="is in use by another program"):
        second.bind()
    await second.stop(0.0)
    del second
    gc.collect()
    assert capfd.readouterr().err == ""


def test_two_loops_in_one_process_get_along():
    """A program with an embedded broker and a client of it has two: grpcio must not complain on stderr."""
    script = """
import asyncio
from bowstring.embedded import Broker
from bowstring.wire.grpc_client import GrpcDialer
from bowstring.wire.generated import bowstring_pb2 as pb

async def main(address):
    channel = GrpcDialer().dial(address)
    for _ in range(200):
        await channel.call("Hello", pb.HelloRequest(protocol=1).SerializeToString(), 10)
    await channel.close()

with Broker.ephemeral() as broker:
    asyncio.run(main(broker.address.removeprefix("bowstring://")))
    asyncio.run(main(broker.address.removeprefix("bowstring://")))
print("done")
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
