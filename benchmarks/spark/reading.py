"""Spark reads a topic through the broker, and the same rows as Parquet by its own reader, which is the measure (P).

Everything runs on one machine: the broker, Spark with two threads (`local[2]`) and its Python workers share the cores. Rows go to Spark's
`noop` sink, which takes them all and keeps none. All columns are read. The Parquet files are written by Spark from the topic, so the rows
are the same; no two values are, or Parquet would keep them once. Each work runs once before it counts, because a JVM is slow at first; then
they take turns, and medians count. A round during which others used the machine is not believed and repeated. A stream's time is that of
the whole query, from `start()` to its end.

    python -m benchmarks.spark.reading --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import bowstring
from benchmarks import quiet, server

VALUE_BYTES = 100
PARTITIONS = 4
BATCH_ROWS = 10_000
ROUNDS = 5


def measure(folder: Path, rows: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Millions of rows a second of each work, by its name, and the broker's CPU seconds per million rows of a batch."""
    with server.running(folder) as broker:
        _publish(broker.address, rows)
        broker.restart()
        config = {"spark.driver.memory": "2g", "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        spark = bowstring.spark.session("local[2]", name="benchmark", config=config)
        spark.sparkContext.setLogLevel("OFF")
        try:
            return _rounds(spark, broker, folder, rows, rounds)
        finally:
            spark.stop()


def _publish(address: str, rows: int) -> None:
    with bowstring.connect(address) as client:
        client.create_topic("rows", partitions=PARTITIONS)
        with client.producer("rows", timeout=300) as producer:
            for _ in range(rows // BATCH_ROWS):
                producer.send_batch(pa.table({"value": different_values(BATCH_ROWS)}))


def different_values(rows: int) -> Any:
    """Random bytes, no two values the same: Parquet would keep repeated ones once, in a dictionary, and read next to nothing."""
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(VALUE_BYTES), rows, [None, pa.py_buffer(os.urandom(rows * VALUE_BYTES))]).cast(
        pa.binary()
    )


def _rounds(spark: Any, broker: server.Server, folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    works = _works(spark, broker.address, folder, rows)
    for work in works.values():
        work()
    runs, believed = quiet.rounds(works, rounds, broker.pid, [os.getpid()])
    of = {name: [each[name] for each in runs] for name in works}
    rates = {name: rows / statistics.median(run.seconds for run in each) / 1e6 for name, each in of.items()}
    broker_cpu = {name: statistics.median(run.server_cpu for run in each) / rows * 1e6 for name, each in of.items() if name != "parquet"}
    return {
        "rows": rows,
        "rates": rates,
        "broker_cpu": broker_cpu,
        "seconds": {name: [round(run.seconds, 3) for run in each] for name, each in of.items()},
        "foreign_cores": {name: [round(run.foreign_cores, 2) for run in each] for name, each in of.items()},
        "quiet": believed,
        "parquet_bytes": sum(file.stat().st_size for file in (folder / "parquet").glob("*.parquet")),
    }


def _works(spark: Any, address: str, folder: Path, rows: int) -> dict[str, Callable[[], None]]:
    options = {"server": address, "subscribe": "rows"}
    parquet, numbers = str(folder / "parquet"), count()
    topic = spark.read.format("bowstring").options(**options).load()
    topic.write.parquet(parquet)
    native = spark.read.parquet(parquet)
    if native.count() != rows:
        raise RuntimeError(f"{native.count()} rows instead of {rows}")
    values = spark.read.format("bowstring").options(**options, columns="value").load()
    stream = spark.readStream.format("bowstring").options(**options, startingOffsets="earliest").load()

    def streamed() -> None:
        checkpoint = str(folder / f"checkpoint-{next(numbers)}")
        stream.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    def taken(frame: Any) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    return {"parquet": taken(native), "batch": taken(topic), "stream": streamed, "value": taken(values)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.reading", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", type=Path, help="where data directories are made; on a real disk")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        found = measure(Path(folder), options.rows, options.rounds)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
