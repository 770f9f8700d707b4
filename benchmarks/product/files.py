"""Files: `bowstring produce` of a Parquet file and `bowstring read -o arrow` into one, compared
with programs that do the same with confluent-kafka.

The clock runs around whole processes, from their start to their end, with Python and imports: that
is what a shell waits for. The rows have a value of 100 random bytes and a key. Kafka's program is
the faster of what its users write (a large local queue); ours reads from a broker that was started
again, so that nothing is in its caches.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bowstring
from benchmarks import server
from benchmarks.orders import KEYS, keys
from benchmarks.peers.node import Node
from benchmarks.turns import Setting, take_turns

VALUE_BYTES = 100
GROUP_ROWS = 100_000
TOPIC = "orders"
SECONDS_MAX = 300


def measure(setting: Setting, rows: int) -> dict[str, Any]:
    source = setting.folder / "rows.parquet"
    try:
        _write(source, rows)
        with setting.beside("kafka", "default") as kafka:
            if kafka is not None:
                _theirs(kafka, source, rows)
            theirs = partial(_theirs, kafka, source, rows) if kafka else None
            return {"rows": rows, "runs": take_turns(setting.rounds, {"bowstring": partial(_ours, setting, source, rows), "kafka": theirs})}
    finally:
        source.unlink(missing_ok=True)


def _write(path: Path, rows: int) -> None:
    generator, names = np.random.Generator(np.random.PCG64(1)), keys()
    key = pa.array([names[number % KEYS] for number in range(GROUP_ROWS)])
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, GROUP_ROWS):
            some = min(GROUP_ROWS, rows - first)
            value = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(VALUE_BYTES), some, [None, pa.py_buffer(generator.bytes(some * VALUE_BYTES))]
            )
            writer.write_table(pa.table({"key": key[:some], "value": value.cast(pa.binary())}, schema=schema))


def _ours(setting: Setting, source: Path, rows: int) -> dict[str, Any]:
    target = source.with_name("ours.arrow")
    with server.running(setting.folder) as broker, bowstring.connect(broker.address) as client:
        client.create_topic(TOPIC)
        in_seconds = _seconds(lambda: _command(broker, "produce", TOPIC, "--input", "parquet", str(source)))
        if (found := client.topic(TOPIC).messages) != rows:
            raise RuntimeError(f"{rows} rows were published, the topic has {found}")
        broker.restart()
        try:
            with target.open("wb") as file:
                out_seconds = _seconds(lambda: _command(broker, "read", TOPIC, "-o", "arrow", output=file))
            _check(target, rows)
        finally:
            target.unlink(missing_ok=True)
    return {"in_seconds": in_seconds, "out_seconds": out_seconds}


def _command(broker: server.Server, *words: str, output: Any = subprocess.DEVNULL) -> None:
    command = [sys.executable, "-m", "bowstring.cli.main", *words, "--server", broker.address]
    done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, timeout=SECONDS_MAX, start_new_session=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.decode()[-2000:]}")


def _theirs(kafka: Node, source: Path, rows: int) -> dict[str, Any]:
    target = source.with_name("theirs.arrow")
    kafka.work("kafka_clients", "empty")
    try:
        in_seconds = _seconds(lambda: kafka.work("kafka_clients", "from-file", file=source))
        if (found := kafka.work("kafka_clients", "stored")["count"]) != rows:
            raise RuntimeError(f"{rows} rows were published, Kafka has {found}")
        out_seconds = _seconds(lambda: kafka.work("kafka_clients", "to-file", file=target))
        _check(target, rows)
    finally:
        target.unlink(missing_ok=True)
    return {"in_seconds": in_seconds, "out_seconds": out_seconds}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return round(time.perf_counter() - begun, 3)


def _check(path: Path, rows: int) -> None:
    """The file has all the rows, and all their bytes."""
    count = total = 0
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            count += batch.num_rows
            total += pa.compute.sum(pa.compute.binary_length(batch["value"])).as_py() or 0
    if (count, total) != (rows, rows * VALUE_BYTES):
        raise RuntimeError(f"{rows} rows were meant, {path.name} has {count} with {total} bytes")
