"""A small data directory of the release before a broker was a number among several: catalog format 2, frames of version 2, journal rows of
format 3. What `data_fixture` says of the first holds for this one, too.

`fixtures/data-2.tar.xz` was made by this program with the software of commit 1f1a494:

    git archive 1f1a494 | tar -x -C OLD
    PYTHONPATH=OLD/src python tests/process/data_fixture_2.py tests/process/fixtures/data-2.tar.xz

It has everything that this release keeps at rest: extents with and without ids, snapshots, chunks of deletions, rows that their due time
keeps below the floor, positions, a tombstone, and behind that a journal with inlined pages, pages in segments, deletions and positions
that are not sealed. It is never made again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bowstring

LONG = timedelta(days=36_500)
FAR = datetime(2090, 1, 1, tzinfo=UTC)
LARGE = 20 * 1024
SETTINGS: dict[str, Any] = {
    "segment_bytes_first": 64 * 1024,
    "segment_bytes_max": 128 * 1024,
    "topic_create": "on-request",
    "upkeep_seconds": 86_400.0,
    "flush_inline_bytes": 16 * 1024,
}


class Fixture:
    """Publishes, deletes and moves positions, and writes down what a reader gets at the end."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.deleted: list[dict[str, str]] = []

    def _broker(self) -> bowstring.Broker:
        return bowstring.Broker(data=self._data, **SETTINGS)

    def _publish(self, client: Any, topic: str, name: str, numbers: range, size: int = 0, **further: Any) -> None:
        with client.producer(topic, group="shop") as producer:
            for number in numbers:
                id = f"{name}-{number}"
                value = bytes([number]) * size or id.encode()
                producer.send(value, id=id, key=f"k{number % 5}", attributes={"id": id}, **further).result(30)

    def _delete(self, client: Any, topic: str, *ids: str) -> None:
        with client.producer(topic, group="shop") as producer:
            producer.delete(ids)
        self.deleted += [{"topic": topic, "id": id, "key": f"k{int(id.rpartition('-')[2]) % 5}"} for id in ids]

    def _upkeep(self, running: Any) -> Any:
        return running._broker._server.broker.live.upkeep

    def _seal(self, running: Any) -> None:
        running._thread.run(self._upkeep(running).sealer.seal())

    def first_life(self) -> None:
        with self._broker() as running, running.connect() as client:
            for name, partitions in (("orders", 3), ("large", 1), ("gone", 2)):
                client.create_topic(name, partitions=partitions, retention=LONG, deduplication=LONG)
            client.create_topic("kept", retention=2, deduplication=1)
            self._publish(client, "orders", "order", range(40))
            self._publish(client, "large", "large", range(3), LARGE)
            self._publish(client, "gone", "gone", range(3))
            self._publish(client, "kept", "due", range(3), at=FAR)
            self._publish(client, "kept", "old", range(20))
            self._delete(client, "orders", "order-3", "order-4", "order-17")
            client.set_position("mine", "orders", {0: 3, 1: 2, 2: 4})
            self._seal(running)
            running._thread.run(asyncio.sleep(3))  # what has no due time is too old then
            running._thread.run(self._upkeep(running).retention.turn())
            client.delete_topic("gone")

    def second_life(self, archive: Path) -> None:
        with self._broker() as running, running.connect() as client:
            self._publish(client, "orders", "order", range(40, 50))
            self._publish(client, "large", "large", range(3, 5), LARGE)
            self._seal(running)
            self._publish(client, "orders", "order", range(50, 60))
            self._publish(client, "large", "large", range(5, 6), LARGE)
            self._delete(client, "orders", "order-20", "order-55")
            client.set_position("yours", "large", {0: 2})
            self._keep(archive, client)

    def _keep(self, archive: Path, client: Any) -> None:
        stored = [
            {
                **{"topic": topic, "partition": message.partition, "offset": message.offset, "id": message.id},
                **{"key": message.key.decode(), "value": base64.b64encode(message.value).decode()},
                "recognised": topic != "kept",
            }
            for topic in ("orders", "large", "kept")
            for message in client.reader(topic, end="latest")
        ]
        positions = [
            {"name": position.name, "topic": position.topic, "offsets": {str(p): o for p, o in position.offsets.items()}}
            for position in client.positions()
        ]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(self._data, Path(folder, "data"), ignore=shutil.ignore_patterns("lock", "*.sock", "reserve", "free-*"))
            told = {"format": 2, "stored": stored, "refused": [], "deleted": self.deleted, "positions": positions}
            Path(folder, "expected.json").write_text(json.dumps(told))
            with tarfile.open(archive, "w:xz") as tar:
                for name in ("data", "expected.json"):
                    tar.add(Path(folder, name), name)


def make(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fixture = Fixture(Path(folder, "data"))
        fixture.first_life()
        fixture.second_life(archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
