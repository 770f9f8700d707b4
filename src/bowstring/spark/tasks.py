"""The ranges of offsets that Spark's tasks read, one for each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from bowstring.spark.options import Options


@dataclass(frozen=True)
class Task(InputPartition):
    """Consecutive offsets of one partition."""

    topic: str
    topic_id: int
    partition: int
    start: int
    end: int
    """Not included."""
    lenient: bool
    """Whether the task passes over messages that are gone by then."""

    @property
    def rows(self) -> int:
        return self.end - self.start


def split(tasks: list[Task], options: Options) -> list[Task]:
    """The same offsets in finer tasks, as `minPartitions` and `maxRecordsPerPartition` ask; empty
    tasks are left out.
    """
    tasks = [task for task in tasks if task.rows > 0]
    if options.task_rows_max is not None:
        tasks = [part for task in tasks for part in _parts(task, -(-task.rows // options.task_rows_max))]
    if options.tasks_min is not None and 0 < len(tasks) < options.tasks_min:
        total = sum(task.rows for task in tasks)
        tasks = [part for task in tasks for part in _parts(task, -(-options.tasks_min * task.rows // total))]
    return tasks


def _parts(task: Task, count: int) -> list[Task]:
    count = max(1, min(count, task.rows))
    bounds = [task.start + task.rows * number // count for number in range(count + 1)]
    return [replace(task, start=start, end=end) for start, end in pairwise(bounds)]
