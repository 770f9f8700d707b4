"""What rows that are kept below the floor cost retention, each time that it looks at them.

`python -m benchmarks.years.kept serve …` is a broker that notes the CPU of its turns of retention, and looks at kept rows every second
or two instead of every minute. The figures go to the file that BENCH_WATCH names.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import bowstring
from benchmarks.server import running
from benchmarks.years.tables import Tables

RETENTION_SECONDS = 4.0
LOOK_SECONDS = 2.0
LOOKS = 10
DAY = 86_400_000_000
SETTINGS = {"seal_seconds": "2s", "upkeep_seconds": "500ms"}


def measure(folder: Path, kept: int) -> dict[str, Any]:
    """So many rows that are due in a day, each between two that are not, and some that are due one after the other."""
    told = folder / "kept.json"
    os.environ["BENCH_WATCH"] = str(told)
    with running(folder, settings=SETTINGS) as server:
        with bowstring.connect(server.address) as client:
            client.create_topic("kept", retention=RETENTION_SECONDS, deduplication=RETENTION_SECONDS)
            tables, rows = Tables(rows=5_000), 0
            with client.producer("kept", timeout=300) as producer:
                while rows < 2 * kept:
                    producer.send_batch(_delayed(tables.plain()))
                    rows += tables.rows
            until = time.monotonic() + 120.0
            while client.topic("kept").messages > kept and time.monotonic() < until:
                time.sleep(1.0)
            left = client.topic("kept").messages
        server.stop()
        server.run_as((sys.executable, "-m", "benchmarks.years.kept"))
        server.start()
        time.sleep((LOOKS + 2) * LOOK_SECONDS)
    looks = sorted(json.loads(told.read_text()))
    return {"kept": left, "looks": len(looks), "cpu_ms": looks[len(looks) // 2], "cpu_ms_max": looks[-1]}


def _delayed(table: pa.Table) -> pa.Table:
    """Every second row is due: a tenth of a percent within the next minute, the others in a day."""
    rows = table.num_rows
    numbers = np.arange(rows)
    soon = np.where(numbers % 1000 == 0, (numbers * 7919 % 60) * 1_000_000, DAY + numbers)
    due = np.int64(time.time() * 1e6) + soon
    return table.append_column("due", pa.array(due, pa.timestamp("us", "UTC"), mask=numbers % 2 == 1))


def _watch() -> None:
    """Notes the turns that looked at kept rows: those after which a look has been noted."""
    from bowstring.broker.upkeep.retention import Retention

    turn, looks = Retention.turn, []

    async def watched(self: Any) -> None:
        self._kept_seconds = LOOK_SECONDS
        before, burnt = dict(self._kept_at), time.process_time()
        await turn(self)
        if self._kept_at != before:
            looks.append(round((time.process_time() - burnt) * 1e3, 3))

    Retention.turn = watched
    atexit.register(lambda: Path(os.environ["BENCH_WATCH"]).write_text(json.dumps(looks[1:])))


if __name__ == "__main__":
    from bowstring.cli.main import main

    _watch()
    main()
