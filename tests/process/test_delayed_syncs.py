"""A broker whose syncs take long answers nothing early: no message is acknowledged, and none is read, before the disk has it."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from pathlib import Path

import psutil
import pytest

import bowstring.aio
from bowstring.host.disk import HostDisk
from bowstring.ports.disk import Buffer, File
from bowstring.server import open_broker
from bowstring.settings import Settings
from tests.process.serving import start

DELAY_SECONDS = 0.25
STRACE = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-e", f"inject=fsync,fdatasync:delay_enter={int(DELAY_SECONDS * 1e6)}"]


class HeldFile:
    """A file whose syncs wait until they are let go."""

    def __init__(self, file: File, gate: asyncio.Event, asked: asyncio.Event) -> None:
        self._file, self._gate, self._asked = file, gate, asked
        self.name = file.name

    def write(self, position: int, buffers: list[Buffer]) -> None:
        self._file.write(position, buffers)

    async def sync(self) -> None:
        self._asked.set()
        await self._gate.wait()
        await self._file.sync()

    async def read(self, position: int, length: int) -> Buffer:
        return await self._file.read(position, length)

    async def read_all(self, places: list[tuple[int, int]]) -> list[Buffer]:
        return await self._file.read_all(places)

    def close(self) -> None:
        self._file.close()


class HeldDisk(HostDisk):
    """The real disk; `gate` lets the syncs of its files through, `asked` tells that one has begun."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.gate, self.asked = asyncio.Event(), asyncio.Event()

    async def create(self, name: str, size: int) -> File:
        return HeldFile(await super().create(name, size), self.gate, self.asked)  # type: ignore[return-value]


async def test_a_large_batch_is_neither_answered_nor_read_before_its_segment_is_synced(tmp_path: Path) -> None:
    disk = HeldDisk(str(tmp_path))
    server = await open_broker(Settings(data=str(tmp_path), listen="127.0.0.1:0", topic_create="on-publish"), disk=disk)
    try:
        async with bowstring.aio.connect(server.address) as client:
            await client.create_topic("orders")
            producer = client.producer("orders")
            receipt = producer.send(b"x" * 100_000)
            await disk.asked.wait()
            assert (await client.topic("orders")).messages == 0
            assert not receipt.done()
            disk.gate.set()
            assert (await receipt).offset == 1
            await producer.close()
    finally:
        disk.gate.set()
        await server.stop()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not on this machine")
@pytest.mark.parametrize("size", [10, 100_000], ids=["inlined", "in a segment"])
async def test_every_acknowledgement_comes_after_a_sync_that_the_kernel_saw(tmp_path: Path, size: int) -> None:
    """Each sync is held up by the kernel's own tracing, so an answer that does not wait for one comes too soon."""
    trace = tmp_path / "trace"
    data = str(tmp_path / "data")
    served = await asyncio.to_thread(start, "--data", data, "--listen", "127.0.0.1:0", before=[*STRACE, "-o", str(trace)])
    try:
        async with bowstring.aio.connect(served.address) as client:
            await client.create_topic("orders")
            producer = client.producer("orders")
            await producer.send(b"the first, which makes connection and segment")
            for _ in range(5):
                seen, began = _syncs(trace), time.monotonic()
                await producer.send(b"x" * size)
                assert time.monotonic() - began >= DELAY_SECONDS
                assert _syncs(trace) > seen
            await producer.close()
    finally:
        for child in psutil.Process(served.process.pid).children():
            child.kill()
        served.process.communicate()


def _syncs(trace: Path) -> int:
    return len(re.findall(r"f(?:data)?sync.*= 0", trace.read_text()))
