"""A task at work: the offsets of one range, as the batches that Spark takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bowstring.errors import OutOfRange, TopicNotFound
from bowstring.spark.clients import client as client_of
from bowstring.spark.options import Options
from bowstring.spark.payloads import Rows
from bowstring.spark.places import LOST
from bowstring.spark.tasks import Task

if TYPE_CHECKING:
    from bowstring.client.sync import Client

BATCH_ROWS = 65536


def read(task: Task, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Every message of the range that is still there, in order. Raises `OutOfRange` if some are
    gone, unless the task is lenient. Passes over a deleted topic only with `failOnDataLoss=false`.
    """
    rows = Rows(options, schema, task.topic, task.partition)
    try:
        yield from _read(task, client_of(options), rows)
    except TopicNotFound as error:
        if options.fail_on_data_loss:
            raise TopicNotFound(error.message, hint=LOST) from None
    rows.report()


def _read(task: Task, client: Client, rows: Rows) -> Iterator[pa.RecordBatch]:
    columns, start = rows.wanted(), task.start
    while start < task.end:
        topic = client.topic(task.topic)
        if topic.id != task.topic_id:
            raise TopicNotFound(f"'{task.topic}' was deleted and made again while it was read.")
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
