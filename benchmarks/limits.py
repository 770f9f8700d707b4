"""What the machine can do at most: synced appends to its disk, and bytes over loopback.

The disk probe writes one block after the other into a file and syncs each with fdatasync, as a log has to that acknowledges only what
is durable. It does so in a file whose blocks were only allocated, and again in that same file, whose blocks are then written, as those
of prepared and recycled segments are; with blocks of 1 and of 4 MiB. The limit is the best of the four.

The loopback probe is two processes and one TCP connection, 1 MiB a call, and nothing is done with the bytes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

MIB = 1 << 20
SECONDS_WARM = 0.2


def disk(folder: Path, total_mib: int) -> dict[str, float]:
    """Synced MB/s by kind of file and size of block."""
    found: dict[str, float] = {}
    for block_mib in (1, 4):
        path = folder / f"probe-{block_mib}"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, total_mib * MIB)
                os.fsync(descriptor)
                found[f"allocated, {block_mib} MiB"] = _append(descriptor, block_mib * MIB, total_mib * MIB)
                found[f"recycled, {block_mib} MiB"] = _append(descriptor, block_mib * MIB, total_mib * MIB)
            finally:
                os.close(descriptor)
        finally:
            path.unlink(missing_ok=True)
    return found


def _append(descriptor: int, block_bytes: int, total_bytes: int) -> float:
    block = os.urandom(block_bytes)
    begun = time.perf_counter()
    for position in range(0, total_bytes, block_bytes):
        written = os.pwrite(descriptor, block, position)
        if written != block_bytes:
            raise OSError(f"only {written} of {block_bytes} bytes were written")
        os.fdatasync(descriptor)
    return round(total_bytes / (time.perf_counter() - begun) / 1e6, 1)


def small_sync(folder: Path, times: int) -> dict[str, float]:
    """Milliseconds of a 4 KiB append with its sync: what no durable answer can undercut."""
    path = folder / "probe-small"
    taken: list[float] = []
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, times * 4096)
            os.fsync(descriptor)
            for number in range(times):
                begun = time.perf_counter()
                os.pwrite(descriptor, bytes(4096), number * 4096)
                os.fdatasync(descriptor)
                taken.append((time.perf_counter() - begun) * 1e3)
        finally:
            os.close(descriptor)
    finally:
        path.unlink(missing_ok=True)
    taken.sort()
    return {"median_ms": round(taken[len(taken) // 2], 3), "p99_ms": round(taken[int(len(taken) * 0.99)], 3)}


def loopback(seconds: float) -> float:
    """MB/s of one TCP connection between two processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-m", "benchmarks.limits", str(server.getsockname()[1]), str(seconds + SECONDS_WARM)]
        sender = subprocess.Popen(command, start_new_session=True)
        try:
            server.settimeout(20)
            connection, _ = server.accept()
            with connection:
                return _receive(connection, seconds)
        finally:
            sender.kill()
            sender.wait()


def _receive(connection: socket.socket, seconds: float) -> float:
    buffer = bytearray(MIB)
    warm_until = time.perf_counter() + SECONDS_WARM
    while time.perf_counter() < warm_until:
        connection.recv_into(buffer)
    received = 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds and (length := connection.recv_into(buffer)):
        received += length
    return round(received / (time.perf_counter() - begun) / 1e6, 1)


def _send(port: int, seconds: float) -> None:
    """The sender's process."""
    block = os.urandom(MIB)
    until = time.perf_counter() + seconds + 1
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.perf_counter() < until:
            connection.sendall(block)


if __name__ == "__main__":
    _send(int(sys.argv[1]), float(sys.argv[2]))
