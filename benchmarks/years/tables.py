"""The published data: Arrow tables of random values, optionally with ids or keys, made without a
loop over messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 9_000
"""Messages a call of send_batch: with 100 B each less than a megabyte."""
ID_BYTES = 16


class Tables:
    """Tables of `rows` values of `size` bytes; no two calls give the same ids."""

    def __init__(self, size: int = 100, rows: int = ROWS, *, seed: int = 1) -> None:
        self.size, self.rows = size, rows
        generator = np.random.Generator(np.random.PCG64(seed))
        self._values = [_fixed(pa.binary(), generator.bytes(size * rows), size, rows) for _ in range(4)]
        self._made = 0

    def plain(self) -> pa.Table:
        self._made += 1
        return pa.table({"value": self._values[self._made % 4]})

    def with_ids(self, stream: int = 0) -> pa.Table:
        """Every row has an id of its own, in no order that a sort could use."""
        first, table = self._made * self.rows, self.plain()
        numbers = (np.arange(first, first + self.rows, dtype=np.uint64) + np.uint64(stream << 48)) * np.uint64(0x9E3779B97F4A7C15)
        text = np.frombuffer(numbers.astype(">u8").tobytes().hex().encode(), np.uint8)
        return table.append_column("id", _fixed(pa.utf8(), text.tobytes(), ID_BYTES, self.rows))

    def with_keys(self, keys: int) -> pa.Table:
        """Rows go round all the keys."""
        text = "".join(f"{(self._made * self.rows + row) % keys:08d}" for row in range(self.rows)).encode()
        return self.plain().append_column("key", _fixed(pa.binary(), text, 8, self.rows))


def _fixed(kind: pa.DataType, data: bytes, width: int, rows: int) -> pa.Array:
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])


def publish(client: Any, topic: str, tables: Iterable[pa.Table]) -> float:
    """Publishes them all, and gives the seconds until the last one was durable."""
    with client.producer(topic, timeout=300) as producer:
        begun = time.perf_counter()
        for table in tables:
            producer.send_batch(table)
        producer.flush()
        return time.perf_counter() - begun


def batches(count: int, rows: int) -> range:
    """So many calls make so many messages, or a few more."""
    return range(-(-count // rows))


def publish_singles(client: Any, topic: str, lanes: int, each: int, size: int) -> int:
    """Single messages: each lane is a producer that awaits every one before the next. Gives the
    bytes of all values.
    """
    value = bytes(range(256)) * (size // 256 + 1)

    def lane(_: int) -> None:
        with client.producer(topic) as producer:
            for _ in range(each):
                producer.send(value[:size]).result(60)

    with ThreadPoolExecutor(lanes) as threads:
        list(threads.map(lane, range(lanes)))
    return lanes * each * size
