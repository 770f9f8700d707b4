"""A task at work: the offsets of one range, as the batches that Spark takes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from bowstring.errors import Conflict, OutOfRange
from bowstring.spark.clients import client as client_of
from bowstring.spark.options import Options
from bowstring.spark.payloads import Rows
from bowstring.spark.places import LOST
from bowstring.spark.tasks import Task

BATCH_ROWS = 65536


def read(task: Task, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Every message of the range that is still there, in order. If some are gone that is `OutOfRange`, unless the task is lenient."""
    client = client_of(options)
    rows = Rows(options, schema, task.topic, task.partition)
    columns, start = rows.wanted(), task.start
    while start < task.end:
        topic = client.topic(task.topic)
        if topic.id != task.topic_id:
            if task.lenient:
                return
            raise Conflict(f"'{task.topic}' was deleted and made again while it was read.", hint=LOST)
        if task.lenient:
            start = max(start, topic.ranges[task.partition].start)
        if start >= task.end:
            return
        place, end = {task.partition: start}, {task.partition: task.end}
        with client.reader(task.topic, start=place, end=end, partitions=[task.partition], columns=columns) as reader:
            try:
                for batch in reader.batches(max_rows=BATCH_ROWS):
                    yield from rows.make(batch)
                return
            except OutOfRange:
                if not task.lenient:
                    raise
                start = max(start, reader.position.get(task.partition, start))
